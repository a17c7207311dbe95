"""How finely a tokenizer cuts a text, whichever kind of tokenizer it is."""

from collections.abc import Iterable

from glassformer.errors import InputError
from glassformer.text.splitting import split_words
from glassformer.text.tokenizer import Tokenizer, as_texts

__all__ = ["tokens_per_word"]


def tokens_per_word(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """How many tokens a tokenizer spends on a word; 4/3 is "one token is 0.75 words".

    Tokens of punctuation and spaces count as tokens, not as words. A Han character is a word.
    """
    texts = list(as_texts(texts))
    words = sum(len(split_words(text, "drop")) for text in texts)
    if not words:
        raise InputError("cannot count tokens per word: the texts hold no word")
    return sum(map(len, tokenizer.encode_batch(texts))) / words
