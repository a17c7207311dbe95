"""Which words made this number: its value shared out among the tokens, by four methods.

What each assumes:

- `leave one out`: a word counts for what changes when its embedding is zero. Exact for one word;
  two words that say the same cover for each other.
- `gradient`: gradient × embedding, the change to first order. Quick, and blind to saturation.
- `integrated`: gradients along the straight way from zero embeddings to these. The shares add up to
  the difference between the number and what it is with no word at all.
- `rollout`: attention weights multiplied through the layers, with a half for the residual stream.
  About where a position could look, not about this number; for encoders and decoders alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.experiments.differentiation import gradients
from glassformer.tracing import Cell, Step, Trace

Method = Literal["leave one out", "gradient", "integrated", "rollout"]


@dataclass(frozen=True, slots=True)
class WordScores:
    """A share for each token of the input."""

    cell: Cell
    method: Method
    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    whole: float | None = None
    """What the shares add up to where the method promises it: the number less its baseline."""
    traces: tuple[Trace, ...] = field(default=(), repr=False, compare=False)
    """Of `leave one out`, the run without each token: its numbers open as cells."""

    def rows(self) -> list[dict[str, Any]]:
        """One row for each token."""
        pairs = zip(self.tokens, self.scores, strict=True)
        return [{"token": token, "score": score} for token, score in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "cell": self.cell.name,
            "value": self.cell.value,
            "method": self.method,
            "rows": self.rows(),
        }

    @property
    def strongest(self) -> str:
        """The token with the largest share, whichever its sign."""
        return self.tokens[int(np.argmax(np.abs(self.scores)))]

    def __str__(self) -> str:
        width = max(map(len, self.tokens))
        longest = max(map(abs, self.scores)) or 1.0
        lines = [f"{self.cell.name} = {self.cell.value:.4g}, by {self.method}"]
        for token, score in zip(self.tokens, self.scores, strict=True):
            bar = "█" * round(20 * abs(score) / longest)
            lines.append(f"{token:<{width}}  {score:+.4g}  {'-' if score < 0 else ''}{bar}")
        return "\n".join(lines)


def words(cell: Cell, method: Method = "leave one out", *, steps: int = 50) -> WordScores:
    """Share a number out among the tokens; `steps` points on the way for `integrated`."""
    if method not in get_args(Method):
        raise TraceError(f"the methods are {', '.join(get_args(Method))}, got {method!r}")
    embedded = token_steps(cell.step.trace)
    tokens = [token for step in embedded for token in _tokens(step)]
    if method == "leave one out":
        scores, traces = _leave_one_out(cell, embedded)
        return WordScores(cell, method, tuple(tokens), tuple(scores), traces=tuple(traces))
    if method == "rollout":
        return WordScores(cell, method, tuple(tokens), tuple(_rollout(cell, len(tokens))))
    whole = None
    if method == "gradient":
        shares = [g * s.value for g, s in zip(gradients(cell, embedded), embedded, strict=True)]
    else:
        shares, whole = _integrated(cell, embedded, steps)
    scores = [float(row) for share in shares for row in _by_token(share)]
    return WordScores(cell, method, tuple(tokens), tuple(scores), whole)


def token_steps(trace: Trace) -> list[Step]:
    """The embeddings of the tokens: what an input of whole numbers was looked up as."""
    found = []
    for step in trace.steps:
        if step.call is None or step.op != "embedding":
            continue
        owner, _ = step.call.view("indices").owner((0,) * step.call.view("indices").ndim)
        if owner.role == "input":
            found.append(step)
    if not found:
        raise TraceError(
            "no input of this trace is looked up in an embedding, so there are no words to ask for"
        )
    return found


def _tokens(step: Step) -> list[str]:
    labels = step.labels[-2]
    return list(labels) if labels is not None else [str(at) for at in range(step.shape[-2])]


def _by_token(share: Tensor) -> Tensor:
    """Shares of cells (…, position, width) summed to one for each position."""
    return share.double().sum(-1).reshape(-1, share.shape[-2]).sum(0)


def _leave_one_out(cell: Cell, embedded: list[Step]) -> tuple[list[float], list[Trace]]:
    trace = cell.step.trace
    scores, traces = [], []
    for step in embedded:
        for position in range(step.shape[-2]):
            without = trace.edit({step[..., position, :]: 0.0})
            scores.append(float(cell.value) - float(without[cell.step.name][cell.index].value))
            traces.append(without)
    return scores, traces


def _integrated(cell: Cell, embedded: list[Step], steps: int) -> tuple[list[Tensor], float]:
    """Gauss-Legendre points on the way from zero embeddings to these."""
    trace = cell.step.trace
    places, weights = np.polynomial.legendre.leggauss(steps)
    values = [step.value for step in embedded]
    sums = [torch.zeros_like(value, dtype=torch.float64) for value in values]
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        edits = {step[...]: value * place for step, value in zip(embedded, values, strict=True)}
        there = trace.edit(edits)
        found = gradients(there[cell.step.name][cell.index], [there[s.name] for s in embedded])
        for total, grad in zip(sums, found, strict=True):
            total += weight * grad
    empty = trace.edit({step[...]: 0.0 for step in embedded})
    whole = float(cell.value) - float(empty[cell.step.name][cell.index].value)
    return [total * value for total, value in zip(sums, values, strict=True)], whole


def _rollout(cell: Cell, n_tokens: int) -> list[float]:
    """Attention of all heads, averaged, a half for the residual, multiplied through the layers."""
    trace = cell.step.trace
    weights = [step for name, step in trace.stages.items() if name.endswith(".weights")]
    joint = torch.eye(n_tokens, dtype=torch.float64)
    for step in weights:
        if step.shape[-2:] != (n_tokens, n_tokens):
            raise TraceError(
                f"rollout needs self-attention over all {n_tokens} tokens, and {step.name} is "
                f"{tuple(step.shape)}: take another method"
            )
        mean = step.value.double().reshape(-1, n_tokens, n_tokens).mean(0)
        joint = (mean + torch.eye(n_tokens, dtype=torch.float64)) / 2 @ joint
    if not weights:
        raise TraceError("this trace has no attention weights to roll out")
    at = cell.index[-2] if len(cell.index) > 1 and cell.step.shape[-2] == n_tokens else None
    row = joint.mean(0) if at is None else joint[at]
    return [float(share) for share in row]
