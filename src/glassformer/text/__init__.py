"""Strings to ids and back: words, characters and subwords with one interface, `Tokenizer`.

    tokenizer = SubwordTokenizer.train(texts, vocab_size=8000)
    ids = tokenizer.encode("You win or you die.", start=True, end=True, max_len=512)
    tokenizer.decode(ids)
    tokenizer.save("tokenizer.json")
    tokenizer = load_tokenizer("tokenizer.json")

This package does not know models, data sets or torch.
"""

from glassformer.text.bpe_by_hand import Merge, apply_merges, learn_merges
from glassformer.text.subwords import SubwordTokenizer, load_tokenizer
from glassformer.text.tokenizer import TextStream, Tokenizer, TokenPiece, cut_ids
from glassformer.text.vocabulary import DEFAULT_SPECIAL, SpecialTokens
from glassformer.text.words import CharacterTokenizer, WordTokenizer, split_words, tokens_per_word

__all__ = [
    "DEFAULT_SPECIAL",
    "CharacterTokenizer",
    "Merge",
    "SpecialTokens",
    "SubwordTokenizer",
    "TextStream",
    "TokenPiece",
    "Tokenizer",
    "WordTokenizer",
    "apply_merges",
    "cut_ids",
    "learn_merges",
    "load_tokenizer",
    "split_words",
    "tokens_per_word",
]
