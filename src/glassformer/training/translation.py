"""Texts to translations, for scoring: the tokenizer around `decoding.translate`."""

from collections.abc import Sequence

from torch import nn

from glassformer.decoding import Beam, Greedy, Search
from glassformer.decoding import translate as translate_ids
from glassformer.nn import Seq2Seq
from glassformer.text import Tokenizer

__all__ = ["translate"]

_AT_ONCE = 512  # sentences: enough to fill a GPU, few enough for the caches of a beam


def translate(
    model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], *, beam: int = 1
) -> list[str]:
    """One translation for each text, in their order; 1 beam is greedy."""
    assert isinstance(model, Seq2Seq)
    start, end = tokenizer.special.start, tokenizer.special.end
    assert start is not None
    search: Search = Greedy() if beam == 1 else Beam(size=beam)
    decoded = translate_ids(
        model,
        tokenizer.encode_batch(texts, end=True, max_len=model.config.max_len),
        start=start,
        end=end,
        search=search,
        batch_size=_AT_ONCE,
    )
    return [tokenizer.decode(result.best.tokens) for result in decoded]
