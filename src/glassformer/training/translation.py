"""Texts to translations, for scoring: the tokenizer around `decoding.translate`."""

from collections.abc import Sequence

from torch import nn

from glassformer.decoding import Beam, Greedy, Search
from glassformer.decoding import translate as translate_ids
from glassformer.nn import Seq2Seq
from glassformer.nn.baselines import Translator
from glassformer.text import Tokenizer

__all__ = ["GREEDY", "translate"]

GREEDY = Beam(size=1)

_AT_ONCE = 512  # sentences: enough to fill a GPU, few enough for the caches of a beam


def translate(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    max_len: int,
    beam: Beam = GREEDY,
) -> list[str]:
    """One translation for each text, in their order."""
    start, end = tokenizer.special.start, tokenizer.special.end
    assert start is not None
    sources = tokenizer.encode_batch(texts, end=True, max_len=max_len)
    assert isinstance(model, Seq2Seq | Translator)
    search: Search = Greedy() if beam.size == 1 else beam
    decoded = translate_ids(
        model, sources, start=start, end=end, search=search, batch_size=_AT_ONCE
    )
    return [tokenizer.decode(result.best.tokens) for result in decoded]
