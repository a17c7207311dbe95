"""A trace without its numbers: steps, tree, labels, attention; worked out once for each trace."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass

from glassformer.explorer.answering import answer_of
from glassformer.explorer.attention import attention_layers
from glassformer.explorer.opened import OpenTrace
from glassformer.explorer.references import source_info
from glassformer.explorer.scales import scale_info
from glassformer.explorer.schemas import (
    AttentionInfo,
    Bilingual,
    BranchInfo,
    OperandInfo,
    StepInfo,
    TraceInfo,
)
from glassformer.explorer.tree import tree_of
from glassformer.trace import Operand, Step, Trace
from glassformer.trace.formula import symbol_to_tex
from glassformer.trace.notes import Note
from glassformer.trace.render.words import note_in, words_in

__all__ = ["describe", "described"]

_COPIES = frozenset(
    ["clone", "contiguous", "to", "_to_copy", "type_as", "copy", "reshape", "flatten"]
)


def described(opened: OpenTrace) -> bytes:
    """The description as JSON, compressed; both are kept."""
    with opened.lock:
        if opened.packed is None:
            body = describe(opened).model_dump_json().encode()
            opened.packed = gzip.compress(body, compresslevel=3, mtime=0)
        return opened.packed


def describe(opened: OpenTrace) -> TraceInfo:
    """Everything about a trace but its numbers."""
    if opened.info is None:
        opened.info = _describe(opened)
    return opened.info


def _describe(opened: OpenTrace) -> TraceInfo:
    trace, steps, first = opened.trace, opened.steps, opened.first
    layout = _Layout.like(first, opened) if _has_layout_of(opened) else _Layout.of(trace, steps)
    return TraceInfo(
        id=opened.id,
        model=opened.model,
        text=opened.text,
        target=opened.target,
        task=opened.task,
        answer=answer_of(opened),
        before=None if first is None else answer_of(first),
        edits=list(opened.edits),
        parent=opened.parent,
        root=opened.root.id,
        reran=opened.reran,
        steps=layout.steps,
        labels=layout.labels,
        tree=layout.tree,
        outputs=[step.number for step in trace.outputs.values()],
        inputs=[step.number for step in trace.inputs.values()],
        attention=layout.attention,
        first=layout.first,
        notes=_notes(trace),
        n_bytes=opened.n_bytes,
    )


def _notes(trace: Trace) -> list[Bilingual]:
    """The trace's notes, each once; how much an edit recomputed is the edit bar's to tell."""
    told = [note for note in trace.notes if not (isinstance(note, Note) and note.kind == "edited")]
    english, chinese = words_in("en"), words_in("zh")
    return [
        Bilingual(note_in(english, note), note_in(chinese, note)) for note in dict.fromkeys(told)
    ]


def _has_layout_of(opened: OpenTrace) -> bool:
    """Whether an edited trace has the very steps of the first one: the model was not rerun."""
    return opened.first is not None and not opened.reran


@dataclass(frozen=True)
class _Layout:
    """What an edit leaves as it is, but for the colour scales."""

    steps: list[StepInfo]
    labels: list[list[str]]
    tree: BranchInfo
    attention: list[AttentionInfo]
    first: int

    @classmethod
    def of(cls, trace: Trace, steps: list[Step]) -> _Layout:
        operands = {step.number: step.operands for step in steps}
        attention = attention_layers(trace, operands)
        labels, readers = _Labels(), _readers(operands)
        first = _first(steps, attention, trace)
        told = [_step(step, operands[step.number], labels, readers) for step in steps]
        return cls(told, labels.lists, tree_of(trace, steps, first), attention, first)

    @classmethod
    def like(cls, first: OpenTrace | None, opened: OpenTrace) -> _Layout:
        assert first is not None
        known = describe(first)
        steps = [
            told if _shares(old, new) else told.model_copy(update={"scale": scale_info(new)})
            for told, old, new in zip(known.steps, first.steps, opened.steps, strict=True)
        ]
        return cls(steps, known.labels, known.tree, known.attention, known.first)


def _shares(old: Step, new: Step) -> bool:
    """Whether two steps hold the very same numbers."""
    return old.view.version.storage.data_ptr() == new.view.version.storage.data_ptr()


class _Labels:
    """Every list of labels once, by place."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self._places: dict[tuple[str, ...], int] = {}

    def place(self, labels: tuple[str, ...] | None) -> int | None:
        if labels is None:
            return None
        if labels not in self._places:
            self._places[labels] = len(self.lists)
            self.lists.append(list(labels))
        return self._places[labels]


def _step(
    step: Step, operands: tuple[Operand, ...], labels: _Labels, readers: dict[int, list[int]]
) -> StepInfo:
    names = step.trace.naming
    symbol = names.symbol(step)
    return StepInfo(
        number=step.number,
        name=step.name,
        short=names.short(step),
        symbol=None if str(symbol) == names.word(step) else symbol_to_tex(symbol),
        role=step.role,
        op=step.op,
        module=step.module,
        shape=list(step.shape),
        dtype=str(step.dtype).removeprefix("torch."),
        labels=[labels.place(axis) for axis in step.labels],
        scale=scale_info(step),
        operands=[
            OperandInfo(
                argument=operand.argument,
                step=None if operand.step is None else operand.step.number,
                shape=list(operand.view.shape),
            )
            for operand in operands
        ],
        readers=readers[step.number],
        source=source_info(step.line),
        is_view=step.is_view,
        is_expanded=step.expanded,
        is_opaque=step.is_opaque,
        is_main=_is_main(step),
    )


def _is_main(step: Step) -> bool:
    """Whether it is part of the story: no copy, no other shape, no mask or position being made."""
    if step.role in ("parameter", "input"):
        return True
    counts = step.dtype.is_floating_point and not step.is_view and step.op not in _COPIES
    return counts and not step.trace.is_fixed(step)


def _readers(operands: dict[int, tuple[Operand, ...]]) -> dict[int, list[int]]:
    """For each step the numbers of those that were made from it."""
    readers: dict[int, list[int]] = defaultdict(list)
    for number, given in operands.items():
        for writer in dict.fromkeys(o.step.number for o in given if o.step is not None):
            readers[writer].append(number)
    return readers


def _first(steps: list[Step], attention: list[AttentionInfo], trace: Trace) -> int:
    """The first scores, where attention begins; otherwise the output."""
    if attention:
        module = attention[0].module
        for step in steps:
            if (
                step.module == module
                and step.call is not None
                and trace.naming.short(step) == "scores"
            ):
                return step.number
        return attention[0].weights
    return next(iter(trace.outputs.values())).number
