"""What heads do over a data set: where they look, what they copy, and how they work together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments.attribution import token_steps
from glassformer.experiments.charts import heat_map
from glassformer.experiments.differentiation import DirectPaths, linear_parts
from glassformer.experiments.intervention import StepPart, heads_of
from glassformer.experiments.lens import (
    ONE_ROW,
    residual_stream,
    tower_of,
    written_parts,
)
from glassformer.experiments.result import Result, name_in, say
from glassformer.language import as_language
from glassformer.picture import Picture
from glassformer.tracing import Step, Trace
from glassformer.tracing.capture.module_stack import join
from glassformer.tracing.cell_block import CellBlock
from glassformer.tracing.stages import attention_name, stage_called, stages_called
from glassformer.tracing.step_graph import writer_of

ScoreKind = Literal["previous", "induction", "duplicate", "copy"]
Side = Literal["queries", "keys", "values"]
_TOP = 5
"""Among how many raised tokens a copied one has to be."""


@dataclass(frozen=True, slots=True, repr=False)
class HeadScores(Result):
    """One score for each head, a mean over the positions of all runs for which it is defined."""

    kind: ClassVar[str] = "head scores"
    measured: None = field(default=None, init=False, repr=False)

    score: ScoreKind
    layers: tuple[str, ...]
    """The attentions, by their paths."""
    values: Tensor
    """(layers, heads), float64."""
    runs: tuple[Trace, ...] = field(repr=False, compare=False)

    def cell(self, layer: int, head: int, run: int = 0) -> CellBlock:
        """The weights of a head in one of the runs (queries × keys), each of them a cell."""
        block = self.runs[run][_named(self.layers[layer], "weights")][..., head, :, :]
        assert isinstance(block, CellBlock)
        return block

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"layer": layer, "head": head, "score": float(self.values[at, head])}
            for at, layer in enumerate(self.layers)
            for head in range(self.values.shape[1])
        ]

    def facts(self) -> dict[str, Any]:
        return {"score": self.score, "runs": len(self.runs)}

    def note(self, language: str = "en") -> str:
        return say[f"score {self.score}"].say(as_language(language))

    @property
    def _heads(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.values.shape[1])))

    def plot(self, language: str = "en") -> Picture:
        return heat_map(self.title(language), self.layers, self._heads, self.values)

    def text(self, language: str = "en", width: int | None = None) -> str:
        return self._grid(self.layers, self._heads, self.values, language, width)


def head_scores(runs: Sequence[Trace], score: ScoreKind = "induction") -> HeadScores:
    """How much each head of self-attention does one thing, over the runs of a data set.

    `previous`: it looks at the token before. `induction`: at the one that came after the last
    occurrence of the present token (give it texts that repeat themselves). `duplicate`: at earlier
    occurrences of the present token. `copy`: it raises the logit of what it looks at.
    """
    if score not in get_args(ScoreKind):
        raise UnknownNameError("score", score, get_args(ScoreKind))
    layers = _shared_attentions(runs)
    total: Tensor | None = None
    count = 0
    for run in runs:
        ids = _token_ids(run, run[_named(layers[-1], "weights")].shape[-1])
        weights = torch.stack([run[_named(layer, "weights")].value.double() for layer in layers])
        weights = weights.reshape(len(layers), -1, *weights.shape[-2:])
        if score == "copy":
            found, places = _copied(run, layers, weights, ids)
        else:
            found, places = _looked(weights, _WHERE[score](ids))
        total = found if total is None else total + found
        count += places
    assert total is not None
    if not count:
        raise TraceError(
            "no position of these texts can be scored for {score}: give texts in which tokens "
            "repeat",
            score=score,
        )
    return HeadScores(score, tuple(layers), total / count, tuple(runs))


def _shared_attentions(runs: Sequence[Trace]) -> list[str]:
    """The self-attentions that all runs have; refuses runs of several models."""
    if not runs:
        raise TraceError("a score over a data set needs runs: give a list of traces")
    layers = _attentions(runs[0])
    if any(_attentions(run) != layers for run in runs[1:]):
        raise TraceError("the runs have different attentions: give runs of one model")
    return layers


def _attentions(run: Trace) -> list[str]:
    """The self-attentions by path, as many keys as queries; of an encoder-decoder the decoder's."""
    weights = stages_called(run, "weights")
    tower = ""
    if stages_called(run, "resid_post"):
        tower = tower_of(residual_stream(run)[-1][0])
    crossing = {id(one.weights) for one in run.found_stages.attentions if one.is_cross}
    found = {
        name: step
        for name, step in weights.items()
        if len(step.shape) >= 3
        and step.shape[-1] == step.shape[-2]
        and id(step) not in crossing
        and (not tower or name.startswith(f"{tower}."))
    }
    if not found:
        raise TraceError("this trace has no self-attention whose heads could be scored")
    for name, step in found.items():
        if math.prod(step.shape[:-3]) != 1:
            raise TraceError(ONE_ROW, name=name, shape=tuple(step.shape))
    shape = list(found.values())[-1].shape
    chosen = [stage_called(name) for name, step in found.items() if step.shape == shape]
    return [attention_name(path, call) for path, _, call in chosen]


def _named(layer: str, stage: str) -> str:
    """The stage of an attention as the trace has it: `path.weights`, or `path.weights.2`."""
    path, called, number = layer.rpartition(" call ")
    return join(join(path, stage), number) if called else join(layer, stage)


def _token_ids(run: Trace, size: int) -> Tensor:
    """The ids that the attention is over: of an encoder-decoder, those that the decoder read."""
    given = {
        name: step
        for name, step in run.inputs.items()
        if not step.dtype.is_floating_point and step.shape[-1:] == (size,)
    }
    names = _lookups(run)
    if stages_called(run, "cross_out"):  # the encoder's are looked up first
        names = names[-1:] if len(names) > 1 else ["–"]
    texts = [given[name] for name in names or given if name in given]
    if not texts:
        raise TraceError("no input of this trace holds the tokens that its attention is over")
    return texts[0].value.reshape(-1, size)[0]


def _lookups(run: Trace) -> list[str]:
    """The inputs that are looked up as words, in order."""
    if not any(step.op == "embedding" for step in run.steps):
        return []
    calls = [step.call for step in token_steps(run) if step.call is not None]
    return list(dict.fromkeys(writer_of(call.view("indices")).name for call in calls))


def _looked(weights: Tensor, wanted: Tensor) -> tuple[Tensor, int]:
    """The weight on wanted keys (queries × keys), summed over the queries that have any."""
    queries = wanted.any(-1)
    on_wanted = (weights * wanted).sum(-1)
    return on_wanted[..., queries].sum(-1), int(queries.sum())


def _previous(ids: Tensor) -> Tensor:
    return torch.diag(torch.ones(len(ids) - 1, dtype=torch.bool), -1)


def _duplicate(ids: Tensor) -> Tensor:
    return (ids[:, None] == ids[None, :]).tril(-1)


def _after_the_last(ids: Tensor) -> Tensor:
    """Of each query, the key after the last earlier occurrence of its token."""
    wanted = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    last: dict[int, int] = {}
    for at, token in enumerate(ids.tolist()):
        if token in last:
            wanted[at, last[token] + 1] = True
        last[token] = at
    return wanted.tril()


_WHERE: dict[str, Callable[[Tensor], Tensor]] = {
    "previous": _previous,
    "induction": _after_the_last,
    "duplicate": _duplicate,
}


def _copied(run: Trace, layers: list[str], weights: Tensor, ids: Tensor) -> tuple[Tensor, int]:
    """At how many positions the token most looked at is one that the head raises most."""
    (output,) = list(run.outputs.values())[:1]
    if len(output.shape) != 3 or output.shape[-2] != len(ids):
        raise TraceError(
            "{name} {shape} has no logits for each token, so nothing is copied to them",
            name=output.name,
            shape=tuple(output.shape),
        )
    parts = written_parts(run, heads=True)
    best = int(output.value[0, -1].argmax())
    linear_parts(output[0, -1, best], [step for _, step in parts])  # refuses what is not linear
    paths = DirectPaths([step for _, step in parts], [output])
    by_name = dict(parts)
    found = torch.zeros(weights.shape[:2], dtype=torch.float64)
    for at, layer in enumerate(layers):
        step = by_name[_named(layer, "context")]
        for head in range(weights.shape[1]):
            (logits,) = paths.effects(step, _only(step, head))
            raised = logits.reshape(-1, *logits.shape[-2:])[0].topk(_TOP).indices
            looked_at = ids[weights[at, head].argmax(-1)]
            found[at, head] = (raised == looked_at[:, None]).any(-1).sum()
    return found, len(ids)


def _only(step: Step, head: int) -> Tensor:
    """A context in which all other heads are zero."""
    alone = torch.zeros_like(step.view.tensor())
    alone[..., head, :, :] = step.view.tensor()[..., head, :, :]
    return alone


@dataclass(frozen=True, slots=True, repr=False)
class Composition(Result):
    """For each pair of an earlier and a later head, how much the one makes of the other."""

    kind: ClassVar[str] = "composition"
    measured: None = field(default=None, init=False, repr=False)

    side: Side
    heads: tuple[str, ...]
    """`path head number`, in order."""
    values: Tensor
    """(earlier heads, later heads), float64; NaN where the first is not before the second."""
    runs: tuple[Trace, ...] = field(repr=False, compare=False)

    def cell(self, earlier: int, later: int, run: int = 0) -> tuple[CellBlock, CellBlock]:
        """The context of the earlier head and the queries (keys, values) of the later one."""
        return self._part(earlier, "context", run), self._part(later, self.side, run)

    def _part(self, head: int, stage: str, run: int) -> CellBlock:
        path, _, number = self.heads[head].rpartition(" head ")
        name = _named(path, stage)
        step = self.runs[run].stages[name]
        n_heads = heads_of(self.runs[run].stages[_named(path, "context")])[1]
        own = int(number) * heads_of(step)[1] // n_heads  # heads may share keys and values
        (block,) = StepPart(name, own).find(self.runs[run])
        return block

    def rows(self) -> list[dict[str, Any]]:
        """Pairs, the closest first."""
        found = [
            {"earlier": self.heads[i], "later": self.heads[j], "share": float(self.values[i, j])}
            for i, j in (~self.values.isnan()).nonzero().tolist()
        ]
        return sorted(found, key=lambda row: -float(row["share"]))

    def facts(self) -> dict[str, Any]:
        return {"side": self.side, "runs": len(self.runs)}

    def note(self, language: str = "en") -> str:
        lang = as_language(language)
        return say["note composition"].say(lang, side=name_in(lang, self.side))

    def plot(self, language: str = "en") -> Picture:
        return heat_map(self.title(language), self.heads, self.heads, self.values)


def composition(runs: Sequence[Trace], side: Side = "queries") -> Composition:
    """How much of each head's queries (keys, values) comes straight from each earlier head.

    A ratio of lengths over all runs: what the earlier head writes, read by the later one through
    its norm (held at its scale) and its matrix, over all that the later one reads there.
    """
    if side not in get_args(Side):
        raise UnknownNameError("side", side, get_args(Side))
    layers = _shared_attentions(runs)
    n_heads = runs[0][_named(layers[0], "weights")].shape[-3]
    size = len(layers) * n_heads
    added, whole = (torch.zeros(size, size, dtype=torch.float64) for _ in range(2))
    for run in runs:
        parts = dict(written_parts(run, heads=True))
        targets = [run.stages[_named(layer, side)] for layer in layers]
        paths = DirectPaths(list(parts.values()), targets)
        for source, layer in enumerate(layers):
            step = parts[_named(layer, "context")]
            for head in range(n_heads):
                effects = paths.effects(step, _only(step, head))
                for later in range(source + 1, len(layers)):
                    columns = slice(later * n_heads, (later + 1) * n_heads)
                    row = source * n_heads + head
                    target = targets[later]
                    read = target.view.tensor_on_cpu()
                    added[row, columns] += _squares(target, effects[later], n_heads)
                    whole[row, columns] += _squares(target, read, n_heads)
    heads = tuple(f"{layer} head {head}" for layer in layers for head in range(n_heads))
    return Composition(side, heads, (added / whole).sqrt(), tuple(runs))


def _squares(step: Step, numbers: Tensor, n_heads: int) -> Tensor:
    """The squared length of each head's part of a step; heads that share keys have the same."""
    axis, count = heads_of(step)
    squared = numbers.double().square()
    own: Tensor = squared.unflatten(axis, (count, -1)).movedim(axis, 0).flatten(1).sum(1)
    return own.repeat_interleave(n_heads // count)
