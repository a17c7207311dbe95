"""What the figures say: words.toml beside this file."""

from glassformer.language import words

FIGURE_WORDS = words(__name__)
