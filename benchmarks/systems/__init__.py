"""The 109 things that the texts describe, each checked by a run: the page docs/systems.md.

    python -m benchmarks.systems                 # every row: what is asked, what came out
    python -m benchmarks.systems A09 G11         # some rows
    python -m benchmarks.systems --slow          # also what takes minutes or needs data; stored
    python -m benchmarks.systems -o docs/systems.md

The rows themselves (names, lessons, claims, commands) are those of `glassformer lesson --row`;
a check states what must come out, computes it, and judges. Slow ones keep their last result, with
its date, in stored_rows.json; the claims keep theirs in `glassformer/claims/stored.json`.
"""
