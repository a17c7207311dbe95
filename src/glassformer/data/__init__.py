"""Corpora to batches: finding data, splitting them, tokenising them once, batching them.

Read in this order: `corpora` (names, checksums, where files are looked for), the readers (`imdb`,
`readers`), `token_store` (ids on disk), `batches` (what a model reads), `loader` (the batches of
each step). This package knows no model.
"""
