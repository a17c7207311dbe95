"""Which words made this number: its value shared out among the tokens, by four methods.

- `leave one out`: what changes when a word's embedding is zero.
- `gradient`: gradient × embedding, the change to first order.
- `integrated`: gradients along the straight way from zero embeddings to these.
- `rollout`: attention weights multiplied through the layers, with a half for the residual stream.

What each assumes is said by the `note` of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glassformer.colours import signed_colour
from glassformer.errors import TraceError, UnknownNameError, expect_whole
from glassformer.experiments.charts import colour, coloured_words, heat_map, limit_of
from glassformer.experiments.differentiation import gradients
from glassformer.experiments.intervention import place_of
from glassformer.experiments.lens import ONE_ROW
from glassformer.experiments.measure import Measured, label_of, same_in, trace_of, value_in
from glassformer.experiments.result import Result, aligned, heading, say
from glassformer.language import as_language
from glassformer.picture import Picture
from glassformer.tracing import Cell, Step, Trace
from glassformer.tracing.stages import stages_called
from glassformer.tracing.step_graph import writer_of

Method = Literal["leave one out", "gradient", "integrated", "rollout"]
_DECIDES = 0.05
"""A word that changes a number by a smaller share of it does not decide it."""
_MAX_POINTS = 1000  # a gradient each; finding the points takes time with their cube


@dataclass(frozen=True, slots=True, repr=False)
class WordScores(Result):
    """A share for each token of the input."""

    kind: ClassVar[str] = "words"

    measured: Measured
    method: Method
    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    whole: float | None = None
    """What the shares add up to where the method promises it: the number less its baseline."""
    baseline: int | str | None = None
    """The token that stands for no word, or "vector"; None where that is an embedding of zeros."""
    _without: Callable[[int], Trace] | None = field(default=None, repr=False, compare=False)

    def trace(self, token: int | str) -> Trace:
        """Of `leave one out`, the run without a token, computed again."""
        if self._without is None:
            raise TraceError(
                "{method} makes no run without a word: the method that does is leave one out",
                method=self.method,
            )
        return self._without(self._place(token))

    def cell(self, token: int | str | None = None) -> Measured:
        """The number itself; with a token of `leave one out`, the number in the run without it."""
        return self.measured if token is None else same_in(self.measured, self.trace(token))

    def _place(self, token: int | str) -> int:
        if isinstance(token, int):
            return range(len(self.tokens))[token]
        if token not in self.tokens:
            raise UnknownNameError("token", token, self.tokens)
        return place_of(token, self.tokens)

    def rows(self) -> list[dict[str, Any]]:
        pairs = enumerate(zip(self.tokens, self.scores, strict=True))
        return [{"position": at, "token": token, "score": score} for at, (token, score) in pairs]

    def facts(self) -> dict[str, Any]:
        given = {} if self.baseline is None else {"baseline": self.baseline}
        return {**Result.facts(self), "method": self.method, **given}

    def note(self, language: str = "en") -> str:
        spoken = as_language(language)
        key = f"method {self.method}" + ("" if self.baseline is None else ", baseline")
        most, value = max(map(abs, self.scores)), abs(float(self.measured.value))
        if self.method != "leave one out" or most >= _DECIDES * value:
            return say[key].say(spoken)
        none = say["no word decides"].say(
            spoken, token=self.strongest.strip(), share=f"{100 * most / value:.2g}%"
        )
        return f"{none}{'' if spoken == 'zh' else ' '}{say[key].say(spoken)}"

    @property
    def strongest(self) -> str:
        """The token with the largest share, whichever its sign."""
        return self.tokens[int(np.argmax(np.abs(self.scores)))]

    def plot(self, language: str = "en") -> Picture:
        return coloured_words(self.title(language), self.tokens, self.scores)

    def text(self, language: str = "en", width: int | None = None) -> str:
        longest = max(map(abs, self.scores)) or 1.0
        lines = []
        for token, score in zip(self.tokens, self.scores, strict=True):
            bar = "█" * round(20 * abs(score) / longest)
            lines.append([token, f"{score:+.4g}", f"-{bar}" if bar and score < 0 else bar])
        return "\n".join([self.title(language), "", *aligned(lines, width)])

    def coloured(self) -> str:
        """The text for a terminal of 24-bit colours: orange raises the number, blue lowers it."""
        limit = limit_of(self.scores)
        shown = []
        for token, score in zip(self.tokens, self.scores, strict=True):
            rgb = ";".join(map(str, signed_colour(score, limit)))
            shown.append(f"\x1b[48;2;{rgb}m\x1b[38;2;29;36;48m {token} \x1b[0m")
        return " ".join(shown)

    def html(self) -> str:
        """The text as HTML, each word on the colour of its score."""
        limit = limit_of(self.scores)
        shown = [
            f'<span style="background:{colour(score, limit)};color:#1d2430;padding:2px 4px;'
            f'border-radius:3px" title="{score:+.4g}">{escape(token)}</span>'
            for token, score in zip(self.tokens, self.scores, strict=True)
        ]
        return f'<p class="gf-words">{" ".join(shown)}</p>'

    def _repr_html_(self) -> str:
        said = f"<p>{escape(self.title())}<br><small>{escape(self.note())}</small></p>"
        return self.html() + said


@dataclass(frozen=True, slots=True, repr=False)
class WordTable(Result):
    """Several numbers of one run, such as the logit of each token of a translation, in words."""

    kind: ClassVar[str] = "word table"
    measured: None = field(default=None, init=False, repr=False)

    of_each: tuple[WordScores, ...]
    """The shares of the same tokens in each number."""
    n_source: int
    """How many tokens come from the first input: of an encoder-decoder, the source."""

    @property
    def names(self) -> tuple[str, ...]:
        """The word or class that each number is about."""
        return tuple(label_of(one.measured) or one.measured.name for one in self.of_each)

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.of_each[0].tokens

    def cell(self, number: int, token: int | str | None = None) -> Measured:
        """One of the numbers, or the same number in the run without a token."""
        return self.of_each[number].cell(token)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"answer": name, "cell": one.measured.name, **row}
            for name, one in zip(self.names, self.of_each, strict=True)
            for row in one.rows()
        ]

    def facts(self) -> dict[str, Any]:
        return {"method": self.of_each[0].method, "answers": list(self.names)}

    def note(self, language: str = "en") -> str:
        return self.of_each[0].note(language)

    def text(self, language: str = "en", width: int | None = None) -> str:
        """The words that count most for each number, one line per number."""
        lang = as_language(language)
        parts = [slice(0, self.n_source), slice(self.n_source, None)]
        heads = ["token", "logit", "source", "written"]
        lines = [[heading(head, lang) for head in heads]]
        for name, one in zip(self.names, self.of_each, strict=True):
            most = [_strongest(one.tokens[part], one.scores[part]) for part in parts]
            lines.append([name, f"{float(one.measured.value):.4g}", *most])
        return "\n".join([self.title(lang), "", *aligned(lines, width)])

    def plot(self, language: str = "en") -> Picture:
        scores = torch.tensor([one.scores for one in self.of_each])
        return heat_map(self.title(language), self.names, self.tokens, scores)


def _strongest(tokens: Sequence[str], scores: Sequence[float]) -> str:
    """The words that count most, at most two, and only those that count at all."""
    order = sorted(range(len(scores)), key=lambda at: -abs(scores[at]))[:2]
    return "  ".join(f"{tokens[at]} {scores[at]:+.3g}" for at in order if scores[at])


def words(
    cell: Measured,
    method: Method = "leave one out",
    *,
    steps: int = 50,
    baseline: int | Tensor | None = None,
) -> WordScores:
    """Share a number out among the tokens; `steps` points on the way for `integrated`.

    `baseline` stands for no word: an embedding of zeros, that of a token (the id of a mask or
    padding token), or a vector as wide as the embedding.
    """
    return _shared_out([cell], method, steps, baseline)[0]


def word_table(
    cells: Sequence[Measured],
    method: Method = "leave one out",
    *,
    steps: int = 50,
    baseline: int | Tensor | None = None,
) -> WordTable:
    """Share several numbers of one run out among the same tokens.

    By `leave one out` this costs no more than one number: each run without a word has them all.
    """
    if not cells:
        raise TraceError("a table of words needs at least one number")
    found = _shared_out(cells, method, steps, baseline)
    return WordTable(tuple(found), len(_tokens(token_steps(trace_of(cells[0]))[0])))


def _shared_out(
    cells: Sequence[Measured], method: Method, steps: int, baseline: int | Tensor | None
) -> list[WordScores]:
    if method not in get_args(Method):
        raise UnknownNameError("method", method, get_args(Method))
    embedded = token_steps(trace_of(cells[0]))
    tokens = tuple(token for step in embedded for token in _tokens(step))
    if method == "rollout":
        if baseline is not None:
            raise TraceError("rollout takes no baseline: it replaces nothing")
        return [WordScores(c, method, tokens, tuple(_rollout(c, len(tokens)))) for c in cells]
    none = [_no_word(step, baseline) for step in embedded]
    named = baseline if baseline is None or isinstance(baseline, int) else "vector"
    if method == "leave one out":
        shares, without = _leave_one_out(cells, embedded, none)
        return [
            WordScores(cell, method, tokens, share, None, named, without)
            for cell, share in zip(cells, shares, strict=True)
        ]
    found = []
    for cell in cells:
        whole = None
        if method == "gradient":
            moves = [step.value - zero for step, zero in zip(embedded, none, strict=True)]
            parts = [g * move for g, move in zip(gradients(cell, embedded), moves, strict=True)]
        else:
            parts, whole = _integrated(cell, embedded, none, steps)
        scores = tuple(float(row) for part in parts for row in _by_token(part))
        found.append(WordScores(cell, method, tokens, scores, whole, named))
    return found


def _no_word(step: Step, baseline: int | Tensor | None) -> Tensor:
    """The embedding that stands for no word, where a step looks tokens up."""
    width = step.shape[-1]
    if baseline is None:
        return torch.zeros(width, dtype=step.dtype)
    if isinstance(baseline, Tensor):
        if tuple(baseline.shape) != (width,):
            raise TraceError(
                "the baseline is a vector of {width} numbers, as wide as the embedding; got "
                "{shape}",
                width=width,
                shape=tuple(baseline.shape),
            )
        return baseline.detach().cpu().to(step.dtype)
    assert step.call is not None
    table = step.call.view("weight")
    known = table.shape[0]
    token = expect_whole(baseline, "baseline", least=0, most=known - 1)
    return table.tensor_on_cpu()[token]


def token_steps(trace: Trace) -> list[Step]:
    """The embeddings of the tokens: what the token ids among the inputs were looked up as.

    Segments (`token_type_ids`) and positions are inputs that are looked up, too, but are no words.
    """
    trace.check_open()
    looked_up = []
    for step in trace.steps:
        if step.call is None or step.op != "embedding":
            continue
        owner = writer_of(step.call.view("indices"))
        if owner.role == "input":
            looked_up.append((owner.name, step))
    named = [(name, step) for name, step in looked_up if name.endswith("input_ids")]
    found = named or [(name, step) for name, step in looked_up if not name.endswith(_NO_WORDS)]
    if not found:
        raise TraceError(
            "no input of this trace is looked up in an embedding, so there are no words to ask for"
        )
    _check_one_text(trace, found)
    return [step for _, step in found]


_NO_WORDS = ("token_type_ids", "position_ids")


def _check_one_text(trace: Trace, found: list[tuple[str, Step]]) -> None:
    """Refuse two inputs whose embeddings are added: only one of them holds the words."""
    inputs = {id(step): name for name, step in found}
    for step in trace.steps:
        if step.call is None or step.op != "add":
            continue
        owners = [id(writer_of(view)) for view in step.call.inputs() if view.numel]
        added = {inputs[owner] for owner in owners if owner in inputs}
        if len(added) > 1:
            raise TraceError(
                "{names} are looked up and added, and which of them holds the words cannot be "
                "told: call that input input_ids",
                names=", ".join(sorted(added)),
            )


def _tokens(step: Step) -> list[str]:
    assert step.call is not None
    # Labels follow positions that move, so those of a single token stay at the ids.
    labels = step.labels[-2] or writer_of(step.call.view("indices")).labels[-1] or ()
    count = step.shape[-2]
    return list(labels) if len(labels) == count else [str(at) for at in range(count)]


def _by_token(share: Tensor) -> Tensor:
    """Shares of cells (…, position, width) summed to one for each position."""
    return share.double().sum(-1).reshape(-1, share.shape[-2]).sum(0)


def _leave_one_out(
    cells: Sequence[Measured], embedded: list[Step], none: list[Tensor]
) -> tuple[list[tuple[float, ...]], Callable[[int], Trace]]:
    """What changes in each number without each token, and the run without one of them."""
    trace, values = trace_of(cells[0]), [float(cell.value) for cell in cells]
    places = [
        (step, position, zero)
        for step, zero in zip(embedded, none, strict=True)
        for position in range(step.shape[-2])
    ]

    def without(token: int) -> Trace:
        step, position, zero = places[token]
        return trace.edit({step[..., position, :]: zero})

    changes = []
    for token in range(len(places)):
        with without(token) as run:  # one at a time: a run per token would fill the memory
            changes.append([v - value_in(c, run) for c, v in zip(cells, values, strict=True)])
    return list(zip(*changes, strict=True)), without


def _integrated(
    cell: Measured, embedded: list[Step], none: list[Tensor], steps: int
) -> tuple[list[Tensor], float]:
    """Gauss-Legendre points on the way from embeddings that stand for no word to these."""
    trace = trace_of(cell)
    n_points = expect_whole(steps, "steps", most=_MAX_POINTS)
    places, weights = np.polynomial.legendre.leggauss(n_points)
    moves = [step.value - zero for step, zero in zip(embedded, none, strict=True)]
    ways = list(zip(embedded, none, moves, strict=True))
    sums = [torch.zeros_like(move, dtype=torch.float64) for move in moves]
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        edits = {step[...]: zero + move * place for step, zero, move in ways}
        with trace.edit(edits) as there:
            found = gradients(same_in(cell, there), [there[step.name] for step in embedded])
        for total, grad in zip(sums, found, strict=True):
            total += weight * grad
    with trace.edit({step[...]: zero.expand(step.shape) for step, zero, _ in ways}) as empty:
        whole = float(cell.value) - value_in(cell, empty)
    return [total * move for total, move in zip(sums, moves, strict=True)], whole


def _rollout(measured: Measured, n_tokens: int) -> list[float]:
    """Attention of all heads, averaged, a half for the residual, multiplied through the layers."""
    if not isinstance(measured, Cell):
        raise TraceError(
            "rollout is about one position and not about a difference of two numbers: take another "
            "method"
        )
    weights = list(stages_called(trace_of(measured), "weights").values())
    if not weights:
        raise TraceError("this trace has no attention weights to roll out")
    joint = torch.eye(n_tokens, dtype=torch.float64)
    for step in weights:
        if step.shape[-2:] != (n_tokens, n_tokens):
            raise TraceError(
                "rollout needs self-attention over all {count} tokens, and {name} is {shape}: take "
                "another method",
                count=n_tokens,
                name=step.name,
                shape=tuple(step.shape),
            )
        if math.prod(step.shape[:-3]) != 1:
            raise TraceError(ONE_ROW, name=step.name, shape=tuple(step.shape))
        mean = step.value.double().reshape(-1, n_tokens, n_tokens).mean(0)
        joint = (mean + torch.eye(n_tokens, dtype=torch.float64)) / 2 @ joint
    has_positions = len(measured.index) > 1 and measured.step.shape[-2] == n_tokens
    row = joint[measured.index[-2]] if has_positions else joint.mean(0)
    return [float(share) for share in row]
