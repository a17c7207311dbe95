"""A trace without its numbers: steps, tree, labels, attention; computed once per trace."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from glassformer.decoding import Greedy
from glassformer.documents.heat_maps import scale_of, shape_text
from glassformer.documents.renderer import words_in
from glassformer.documents.step_meaning import operation_title, title_of
from glassformer.documents.trace_data import note_in
from glassformer.errors import TraceError
from glassformer.experiments.attribution import token_steps
from glassformer.explorer import schemas
from glassformer.explorer.cell_cards import cell_ref, source_info
from glassformer.explorer.open_traces import OpenTrace
from glassformer.language import Bilingual
from glassformer.tasks import Model
from glassformer.tasks.answers import Classified
from glassformer.text import Tokenizer
from glassformer.tracing import Branch, Operand, Step, Trace
from glassformer.tracing.capture.memory import Index
from glassformer.tracing.formula import symbol_to_tex
from glassformer.tracing.notes import Note

# --- answering ---
# The model's answer, computed from the trace's outputs, so that an edit changes it.
#
# A classifier's probabilities are those that `run` makes of the recorded logits. For a generating
# model, each position has those of the logits recorded there, given the tokens before it: for a
# translator, those of the recorded target.


MOST_CHOICES = 5
MOST_CLASSES = 20
MOST_UNKNOWN = 8
"""Unknown words that are named."""
MOST_CONTINUED = 40
"""Tokens of a continuation."""
NO_ANSWER = "—"
"""Shown when an edit leaves no probabilities: NaN and infinite logits have no argmax."""


def answer_of(opened: OpenTrace) -> schemas.Answer:
    """The answer of a trace, cached."""
    if opened.answer is None:
        before = opened.trace if opened.reran else opened.root.trace
        said = _Output(opened, opened.trace, before).answer()
        if opened.task == "generate" and opened.loaded is not None and not opened.edits:
            written = opened.loaded.generate(opened.text, max_new=MOST_CONTINUED, search=Greedy())
            said = said.model_copy(update={"continuation": written.text})
        opened.answer = said
    return opened.answer


def answer_after(opened: OpenTrace, edited: Trace) -> schemas.Answer:
    """The answer of an edited run, which is not opened."""
    return _Output(opened, edited, opened.trace).answer()


class _Output:
    """The first output of a trace, which holds the answer.

    Its cells are named as in the trace before an edit, if that has an output like it: naming a cell
    takes the labels of all steps before it, which takes longer than the replay.
    """

    def __init__(self, opened: OpenTrace, trace: Trace, before: Trace) -> None:
        self._opened = opened
        self._trace = trace
        self._step, named = (next(iter(one.outputs.values())) for one in (trace, before))
        alike = (named.name, named.shape) == (self._step.name, self._step.shape)
        self._named = named if alike else self._step

    def answer(self) -> schemas.Answer:
        """What the model says, and which of the words that it read it does not know."""
        model, text = self._opened.loaded, self._opened.text
        said = None if model is None else self._in_words(model)
        if model is None or said is None:
            return self._shapes()
        if model.image_of(text) is not None:
            return said  # an image has no tokens to be unknown
        unknown, total = model.count_unknown(text)
        named = model.unknown_words(text)[:MOST_UNKNOWN] if unknown else []
        return said.model_copy(update={"n_tokens": total, "n_unknown": unknown, "unknown": named})

    def _in_words(self, model: Model) -> schemas.Answer | None:
        match next(iter(model.tasks), None):
            case "classify":
                return self._class(model)
            case "fill":
                return self._filled(model.reader)
            case "tag":
                return self._shapes(self._tagged(model))
            case "score":
                return self._shapes(f"{self._ref(0).value:.6g}")
            case "translate" | "generate":
                return self._written(model.writer)
        return None

    def _shapes(self, text: str | None = None) -> schemas.Answer:
        """What a module gives: the shapes of its outputs, unless they can be put into words."""
        shapes = ", ".join(shape_text(step.shape) for step in self._trace.outputs.values())
        return self._said("module", text or shapes)

    def _said(self, task: schemas.Task, text: str, **more: object) -> schemas.Answer:
        return schemas.Answer(task=task, text=text, output=self._step.number, **more)  # type: ignore[arg-type]

    def _class(self, model: Model) -> schemas.Answer:
        names = model.class_names(len(self.probabilities))
        if not self.probabilities.any():
            return self._said("classify", NO_ANSWER)
        classes = self._choices((), lambda places: [names[at] for at in places], MOST_CLASSES)
        best = classes[0]
        shares = dict(zip(names, self.probabilities.tolist(), strict=True))
        found = Classified(self._opened.text, best.text, best.probability, shares)
        return self._said("classify", best.text, classes=classes, undecided=found.undecided)

    def _filled(self, tokenizer: Tokenizer) -> schemas.Answer | None:
        """The likeliest word of each gap, and candidates for the first; None without a gap."""
        gaps = [at for at, id_ in enumerate(self._ids) if id_ == tokenizer.special.mask]
        if not gaps:
            return None
        if not self.probabilities[gaps].any(axis=-1).all():
            return self._said("classify", NO_ANSWER)
        best = tokenizer.display_tokens(self.probabilities[gaps].argmax(-1))
        choices = self._choices((gaps[0],), tokenizer.display_tokens, MOST_CHOICES)
        return self._said("classify", " … ".join(best), classes=choices)

    def _tagged(self, model: Model) -> str:
        """The class of each token that is not special."""
        names = model.class_names(self.probabilities.shape[-1])
        shown = model.reader.display_tokens(self._ids)
        return " ".join(
            f"{token}/{names[int(row.argmax())] if row.any() else NO_ANSWER}"
            for id_, token, row in zip(self._ids, shown, self.probabilities, strict=True)
            if id_ not in model.reader.special.silent
        )

    def _written(self, tokenizer: Tokenizer) -> schemas.Answer:
        """One position per token read; the last one is the prediction."""
        task, end = self._opened.task, tokenizer.special.end
        read = tokenizer.display_tokens(self._ids)
        positions = [
            schemas.AnswerPosition(
                after=after,
                chosen=chosen,
                choices=self._choices((place,), tokenizer.display_tokens, MOST_CHOICES, id_),
            )
            for place, (after, chosen, id_) in enumerate(zip_longest(read, read[1:], self._ids[1:]))
        ]
        told = self.probabilities[-1:] if task == "generate" else self.probabilities
        best = told.argmax(-1).tolist()
        if task == "translate" and end in best:
            best = best[: best.index(end)]
        text = tokenizer.decode(best) if told.any(axis=-1).all() else NO_ANSWER
        return self._said(task, text, positions=positions)

    @cached_property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """The probabilities of the one text's logits; zeros where an edit left none."""
        assert self._opened.loaded is not None
        logits = torch.from_numpy(np.array(self._step.view.array[0], dtype=np.float64))
        probabilities: npt.NDArray[np.float64] = self._opened.loaded.probabilities(logits).numpy()
        return np.nan_to_num(probabilities, nan=0.0)

    @property
    def _ids(self) -> tuple[int, ...]:
        assert self._opened.reading is not None
        return self._opened.reading.ids

    def _choices(
        self,
        place: Index,
        names: Callable[[list[int]], Sequence[str]],
        most: int,
        chosen: int | None = None,
    ) -> list[schemas.Choice]:
        """The likeliest answers at a place, best first; then `chosen`, if it is none of these."""
        probabilities = self.probabilities[place]
        best = np.argsort(-probabilities, kind="stable")[:most].tolist()
        if chosen is not None and chosen not in best:
            best.append(chosen)
        return [
            schemas.Choice(
                text=name, probability=float(probabilities[at]), cell=self._ref(*place, at)
            )
            for at, name in zip(best, names(best), strict=True)
        ]

    def _ref(self, *place: int) -> schemas.CellRef:
        ref = cell_ref(self._named[(0, *place)])
        return ref.model_copy(update={"value": float(self._step.view.array[(0, *place)])})


# --- attention ---
# Where a trace's attention weights are, in our models and in others.


def attention_layers(trace: Trace) -> list[schemas.AttentionInfo]:
    """Every attention of a run, counted by kind."""
    found: list[schemas.AttentionInfo] = []
    seen: Counter[str] = Counter()
    for one in trace.found_stages.attentions:
        step = one.weights
        if len(step.shape) in (3, 4):
            causal = one.is_causal if step.shape[-1] > 1 else "decoder" in step.module
            part = "cross" if one.is_cross else "decoder" if causal else "encoder"
            found.append(
                schemas.AttentionInfo.copy_of(
                    step, part=part, layer=seen[part], n_heads=step.shape[-3], weights=step.number
                )
            )
            seen[part] += 1
    return found


# --- tree ---
# The modules of a trace as a tree, collapsed to what matters.
#
# A module without steps of its own (a linear layer, whose product is a step of the attention around
# it) passes its parameters to the enclosing module; a list of blocks passes its name to each block.


def tree_of(trace: Trace, steps: list[Step], first: int) -> schemas.BranchInfo:
    """The tree; its upper levels and the path to the first step shown are expanded."""
    made = [s for s in steps if s.role != "parameter" and (_is_computed(s) or s.role == "input")]
    root = trace.tree(made)
    known = {step.module for step in made}
    parameters: dict[str, list[int]] = defaultdict(list)
    for step in steps:
        if step.role != "input" and not _is_computed(step):
            path = step.module
            while path and path not in known:  # the nearest module with steps around it
                path = path.rpartition(".")[0]
            parameters[path].append(step.number)
    function = trace.recording.program.function
    module = function if isinstance(function, nn.Module) else None
    return _branch_info(root, parameters, module, f"{steps[first].module}.", 0)


def _is_computed(step: Step) -> bool:
    return step.call is not None or step.is_view


def _branch_info(
    branch: Branch,
    parameters: dict[str, list[int]],
    module: nn.Module | None,
    way: str,
    depth: int,
) -> schemas.BranchInfo:
    inner = [part for below in branch.branches for part in _unfolded(below)]
    on_the_way = not branch.path or way.startswith(f"{branch.path}.")
    return schemas.BranchInfo(
        name=branch.name,
        path=branch.path,
        kind=_kind(module, branch.path),
        steps=[step.number for step in branch.steps],
        parameters=parameters[branch.path],
        branches=[_branch_info(below, parameters, module, way, depth + 1) for below in inner],
        is_open=on_the_way or depth < 2,
    )


def _unfolded(branch: Branch) -> list[Branch]:
    """The branch, or its children if it only groups numbered modules."""
    if branch.steps or not branch.branches:
        return [branch]
    inside = [part for below in branch.branches for part in _unfolded(below)]
    if not all(part.name.split(".")[0].isdigit() for part in inside):
        return [branch]
    for part in inside:
        part.name = f"{branch.name}.{part.name}"
    return inside


def _kind(module: nn.Module | None, path: str) -> str:
    try:
        return "" if module is None else type(module.get_submodule(path)).__name__
    except AttributeError:
        return ""


def described(opened: OpenTrace) -> bytes:
    """The description as compressed JSON; both are cached."""
    with opened.lock:
        if opened.packed is None:
            body = describe(opened).model_dump_json().encode()
            opened.packed = gzip.compress(body, compresslevel=3, mtime=0)
        return opened.packed


def describe(opened: OpenTrace) -> schemas.TraceInfo:
    """Everything about a trace but its numbers."""
    if opened.info is None:
        trace, first = opened.trace, opened.first
        # An edit leaves the steps as they are, unless the model was rerun.
        is_new = first is None or opened.reran
        layout = _layout(opened) if is_new else _layout_after(opened.root, opened)
        opened.info = schemas.TraceInfo.copy_of(
            opened,
            answer=answer_of(opened),
            before=None if first is None else answer_of(first),
            root=opened.root.id,
            outputs=[step.number for step in trace.outputs.values()],
            inputs=[step.number for step in trace.inputs.values()],
            notes=_notes(trace),
            **layout,
        )
    return opened.info


def _notes(trace: Trace) -> list[Bilingual]:
    """The trace's distinct notes, except those the edit bar shows."""
    notes = [note for note in trace.notes if not (isinstance(note, Note) and note.kind == "edited")]
    english, chinese = words_in("en"), words_in("zh")
    return [
        Bilingual(note_in(english, note), note_in(chinese, note)) for note in dict.fromkeys(notes)
    ]


def _layout(opened: OpenTrace) -> dict[str, Any]:
    """What an edit leaves unchanged, apart from the colour scales: by the fields of `TraceInfo`."""
    trace, steps, first = opened.trace, opened.steps, _first(opened.trace).number
    operands = {step.number: step.operands for step in steps}
    readers, labels = _readers(operands), dict[tuple[str, ...], int]()
    source = cache(source_info)  # equal layers share their lines
    return {
        "steps": [
            _step(step, operands[step.number], labels, readers, source(step.line)) for step in steps
        ],
        "labels": list(labels),
        "tree": tree_of(trace, steps, first),
        "attention": attention_layers(trace),
        "first": first,
        "has_words": _has_words(trace),
    }


def _has_words(trace: Trace) -> bool:
    try:
        return bool(token_steps(trace))
    except TraceError:
        return False


def _layout_after(first: OpenTrace, opened: OpenTrace) -> dict[str, Any]:
    """The same after an edit."""
    known = describe(first)
    steps = [
        told
        if old.view.version.shares_numbers(new.view.version)
        else told.model_copy(update={"scale": scale_of(new)})
        for told, old, new in zip(known.steps, first.steps, opened.steps, strict=True)
    ]
    same = ("labels", "tree", "attention", "first", "has_words")
    return {"steps": steps} | {name: getattr(known, name) for name in same}


def _step(
    step: Step,
    operands: tuple[Operand, ...],
    labels: dict[tuple[str, ...], int],
    readers: dict[int, list[int]],
    source: schemas.SourceInfo | None,
) -> schemas.StepInfo:
    """A step; each list of labels gets a place in `labels` where it has none yet."""
    names = step.trace.naming
    symbol = names.symbol(step)
    return schemas.StepInfo.copy_of(
        step,
        short=names.short(step),
        symbol=None if str(symbol) == names.word(step) else symbol_to_tex(symbol),
        dtype=str(step.dtype).removeprefix("torch."),
        labels=[
            None if axis is None else labels.setdefault(axis, len(labels)) for axis in step.labels
        ],
        scale=scale_of(step),
        operands=operands,
        readers=readers[step.number],
        source=source,
        is_expanded=step.expanded,
        title=title_of(step),
        operation=operation_title(step),
    )


def _readers(operands: dict[int, tuple[Operand, ...]]) -> dict[int, list[int]]:
    """For each step, the numbers of the steps that read it."""
    readers: dict[int, list[int]] = defaultdict(list)
    for number, given in operands.items():
        for writer in dict.fromkeys(o.step.number for o in given if o.step is not None):
            readers[writer].append(number)
    return readers


def _first(trace: Trace) -> Step:
    """The first attention scores; without attention, the output."""
    found = [one.scores for one in trace.found_stages.attentions]
    return next(iter(found or trace.outputs.values()))
