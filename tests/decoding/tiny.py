"""Small models with peaked distributions, and slow steppers that are simple enough to be right.

`Uncached` runs the whole model on every beam at every step: no cache, no batch, no padding. What
the fast stepper gives is compared with it.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import torch
from torch import Tensor, nn

from glassformer.nn import LanguageModel, Seq2Seq, build, presets

START, END = 1, 2


def sharpen(model: nn.Module, factor: float = 6.0) -> None:
    """Fresh weights give nearly flat probabilities, in which every search finds ties."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name:
                parameter.mul_(factor if "to_vocabulary" in name else 1.5)


def translator(vocab_size: int = 11, seed: int = 0, **changes: object) -> Seq2Seq:
    torch.manual_seed(seed)
    config = presets.vaswani_2017_base(
        vocab_size=vocab_size, d_model=16, n_heads=2, n_layers=2, d_ff=24, max_len=40
    ).with_(output__tied="none", **changes)
    model = build(config).eval().double()  # rounding must not decide between candidates
    assert isinstance(model, Seq2Seq)
    sharpen(model)
    return model


def language_model(vocab_size: int = 11, seed: int = 0, kind: str = "gpt2") -> LanguageModel:
    torch.manual_seed(seed)
    sizes = {"vocab_size": vocab_size, "d_model": 16, "n_heads": 2, "n_layers": 2, "max_len": 32}
    if kind == "llama":
        sizes |= {"n_kv_heads": 1, "d_ff": 24}
    model = build(presets.preset(kind, **sizes)).eval().double()
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(12)
    return model


def sources(n: int = 6, vocab_size: int = 11, seed: int = 0) -> list[list[int]]:
    """Sequences of different lengths, without special ids."""
    torch.manual_seed(seed)
    return [torch.randint(3, vocab_size, (2 + (5 * i) % 7,)).tolist() for i in range(n)]


class Uncached:
    """A `Stepper` without any memory but the tokens themselves."""

    def __init__(
        self,
        model: LanguageModel | Seq2Seq,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.model = model
        self.sources = sources
        self.beams = [[list(prefix)] for prefix in prefixes]

    def start(self) -> Tensor:
        return self._logits()

    def step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        for text, beams in enumerate(self.beams):
            chosen = tokens[text].tolist()
            from_ = range(len(chosen)) if parents is None else parents[text].tolist()
            self.beams[text] = [
                [*beams[parent], token] for parent, token in zip(from_, chosen, strict=True)
            ]
        return self._logits()

    def worth_leaving(self, n_left: int) -> bool:
        return n_left < len(self.beams)

    def keep(self, texts: Tensor) -> None:
        self.beams = [self.beams[i] for i in texts.tolist()]
        if self.sources is not None:
            self.sources = [self.sources[i] for i in texts.tolist()]

    def _logits(self) -> Tensor:
        rows = []
        for text, beams in enumerate(self.beams):
            source = None if self.sources is None else self.sources[text]
            rows.append(torch.stack([last_logits(self.model, ids, source) for ids in beams]))
        return torch.stack(rows)


@torch.no_grad()
def last_logits(
    model: LanguageModel | Seq2Seq, ids: Sequence[int], source: Sequence[int] | None
) -> Tensor:
    target = torch.tensor([list(ids)])
    if isinstance(model, Seq2Seq):
        assert source is not None
        all_logits: Tensor = model(torch.tensor([list(source)]), target)
    else:
        all_logits = model(target)
    return all_logits[0, -1]


def total_of(
    model: LanguageModel | Seq2Seq,
    prefix: Sequence[int],
    tokens: Sequence[int],
    source: Sequence[int] | None = None,
) -> float:
    """Sum of log-probabilities of tokens after a prefix, in one pass over all of them."""
    ids = torch.tensor([[*prefix, *tokens]])
    with torch.no_grad():
        if isinstance(model, Seq2Seq):
            assert source is not None
            logits: Tensor = model(torch.tensor([list(source)]), ids[:, :-1])
        else:
            logits = model(ids[:, :-1])
    log_probabilities = logits[0].log_softmax(-1)[len(prefix) - 1 :]
    return float(log_probabilities.gather(1, torch.tensor(tokens)[:, None]).sum())


def all_texts(vocab_size: int, end: int, max_new: int) -> Iterator[tuple[int, ...]]:
    """Every sequence that ends within max_new tokens, and every one that is cut there."""
    others = [token for token in range(vocab_size) if token != end]
    for length in range(max_new):
        for body in product(others, repeat=length):
            yield (*body, end)
    yield from product(others, repeat=max_new)
