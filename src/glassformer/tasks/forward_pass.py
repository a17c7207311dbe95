"""One forward pass over a text: what a model is given, and what its positions are called.

`explain`, `trace` and the explorer all look at a model through one pass: the ids of a text, and
for an encoder-decoder the target that it produces (or one that is given). This module knows how
to make those; it knows nothing of traces.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Greedy, translate
from glassformer.errors import InputError
from glassformer.nn import ImageClassifier, MultiHeadAttention, Seq2Seq
from glassformer.text import Tokenizer


class EmptyTextError(InputError):
    """A text without a token that the model could read."""


class TooLongError(InputError):
    """A text of more tokens than the model has positions for."""

    def __init__(self, tokens: int, most: int) -> None:
        super().__init__(
            "the text has {tokens} tokens, the model reads at most {most}; take a shorter one",
            tokens=tokens,
            most=most,
        )
        self.tokens = tokens
        self.most = most


@dataclass(frozen=True)
class Pass:
    """The arguments of one call of a model, and the texts of their positions."""

    model: nn.Module
    arguments: tuple[Tensor, ...]
    labels: dict[str, list[str]]


def forward_pass(checkpoint: Checkpoint, text: str, target: str | None = None) -> Pass:
    """The pass that a model makes over a text.

    An encoder-decoder also needs a target: the one given, else the one that greedy search finds.
    A text longer than the model's positions is an error here, since a shortened one would show
    other numbers than the reader asked for.
    """
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    if isinstance(model, ImageClassifier | MultiHeadAttention) or tokenizer is None:
        raise InputError("this {kind} does not read text", kind=type(model).__name__)
    if isinstance(model, Seq2Seq):
        return _pair(model, checkpoint, tokenizer, text, target)
    if target is not None:
        raise InputError(
            "a {kind} has no target: only a translator takes one", kind=type(model).__name__
        )
    ids = _encode(checkpoint, tokenizer, text)
    return Pass(model, (torch.tensor([ids]),), {"ids": tokenizer.display_tokens(ids)})


def _pair(
    model: Seq2Seq, checkpoint: Checkpoint, tokenizer: Tokenizer, text: str, target: str | None
) -> Pass:
    out = checkpoint.target_tokenizer or tokenizer
    start, end = out.special.start, out.special.end
    if start is None:
        raise InputError("the model's tokenizer has no start token, which a translator needs")
    source = _encode(checkpoint, tokenizer, text, end=tokenizer.special.end is not None)
    if target is None:
        decoded = translate(model, [source], start=start, end=end, search=Greedy())
        said = list(decoded[0].best.tokens)
        said = said[:-1] if said and said[-1] == end else said
    else:
        said = _encode(checkpoint, out, target, before=1)
    read = [start, *said]
    return Pass(
        model,
        (torch.tensor([source]), torch.tensor([read])),
        {"source": tokenizer.display_tokens(source), "target": out.display_tokens(read)},
    )


def _encode(
    checkpoint: Checkpoint, tokenizer: Tokenizer, text: str, *, end: bool = False, before: int = 0
) -> list[int]:
    """The ids of a text that must leave room for `before` tokens in front of it."""
    words = tokenizer.encode(text)
    if not words:
        raise EmptyTextError("the text is empty: a model needs at least one token")
    ids = tokenizer.wrap(words, end=end)
    longest = checkpoint.config.max_len - before
    if len(ids) > longest:
        raise TooLongError(len(ids), longest)
    return ids
