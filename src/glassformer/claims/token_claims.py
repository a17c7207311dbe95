"""Tokens and data: vocabularies, words in a token, and what BERT and its relatives share."""

import torch

from glassformer.audit.example_file import load_example
from glassformer.audit.formulas.bounds import WordList
from glassformer.claims.claim import Figures, Group, VerdictRule
from glassformer.nn import Block, MultiHeadAttention, build, presets
from glassformer.tasks import load
from glassformer.text import CharacterTokenizer, WordTokenizer, split_words, tokens_per_word
from glassformer.training import RECIPES

group = Group("token_claims")


def three_sentences() -> list[str]:
    """The three sentences of the by-hand text, as its worked example has them."""
    printed = load_example("thrones")["corpus"].printed
    assert isinstance(printed, WordList)
    return [text for text in printed.items if text is not None]


@group.claim("C95", VerdictRule(lambda f: f["kept"] == 23, partly=lambda f: f["ignored"] == 23))
def the_vocabulary_has_23_words() -> Figures:
    """Distinct words of the corpus, case-sensitive and not."""
    corpus = three_sentences()
    return {
        "words": sum(len(split_words(text, "drop")) for text in corpus),
        "kept": len(WordTokenizer.build(corpus, case="keep").words),
        "ignored": len(WordTokenizer.build(corpus, case="ignore").words),
    }


_EVERYDAY = (
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Two children are playing with a dog in the park.",
)
_LEARNED = (
    "The committee postponed its decision because nobody had read the appendix.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
)


@group.claim(
    "C96",
    VerdictRule(
        lambda f: all(0.7 <= f[kind] <= 0.8 for kind in ("everyday", "learned", "letters")),
        partly=lambda f: f["letters"] < f["learned"] < 0.75 < f["everyday"],
    ),
)
def a_token_is_three_quarters_of_a_word() -> Figures:
    """Words per token: everyday and learned English in subwords, and in letters."""
    shipped = load("en-de").reader
    letters = CharacterTokenizer.build(_EVERYDAY)
    return {
        "vocabulary": shipped.vocab_size,
        "everyday": 1 / tokens_per_word(shipped, _EVERYDAY),
        "learned": 1 / tokens_per_word(shipped, _LEARNED),
        "letters": 1 / tokens_per_word(letters, _EVERYDAY),
    }


@group.claim(
    "C97", VerdictRule(lambda f: f["gigabytes"] == 570, decidable=lambda f: f["copies"] > 0)
)
def the_data_set_has_570_gigabytes() -> Figures:
    """Recipes that read such a data set, and what 570 GB would be in tokens."""
    shipped = load("en-de").reader
    n_bytes = sum(len(text.encode()) for text in _EVERYDAY)
    n_tokens = sum(map(len, shipped.encode_batch(_EVERYDAY)))
    copies = [name for name in RECIPES if "chatgpt" in name]
    return {"copies": len(copies), "billions": 570 * n_tokens / n_bytes}


@group.claim("C98", lambda f: f["attending"] == f["blocks"] > 0)
def relatives_share_self_attention() -> Figures:
    """Blocks of five models, shrunk, that have self-attention."""
    sizes = {"vocab_size": 8, "d_model": 8, "n_heads": 2, "n_layers": 2, "max_len": 8}
    names = ("bert", "gpt2", "llama", "bloem_2024", "vaswani_2017_base")
    with torch.device("meta"):
        models = [build(presets.preset(name, **sizes)) for name in names]
    blocks = [part for model in models for part in model.modules() if isinstance(part, Block)]
    return {
        "models": len(models),
        "blocks": len(blocks),
        "attending": sum(isinstance(part.attention, MultiHeadAttention) for part in blocks),
    }
