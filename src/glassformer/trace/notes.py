"""What a reader should know about how a trace was made.

A note is its English sentence. It keeps its kind and its numbers, so that others can say it in
another language.
"""

from __future__ import annotations

from typing import Self

__all__ = ["NOTES", "Note"]

NOTES = {
    "expanded": (
        "fused attention was written out as scores, scaled, masked, weights, context: "
        "its result may differ from the fused kernel's in the last digits"
    ),
    "evaluation": "the module was in training mode; it was traced in evaluation mode",
    "fast path": (
        "{count} of {all} cells of {name} differ from what torch gives in evaluation without "
        "gradients, at {places} (by up to {gap}, at {worst}): it then takes a fast path, which "
        "leaves zeros at padded positions; with the fast path switched off both agree"
    ),
    "other numbers": (
        "{count} of {all} cells of {name} differ from what the module gives without the trace, "
        "at {places} (by up to {gap}, at {worst}): it may take another way by its own state, "
        "under autocast, or by a kernel of its own"
    ),
    "other shape": (
        "{name} has the shape {shown} in the trace, and without it {own}: "
        "the module takes another way by its own state"
    ),
    "fails alone": "without the trace the module fails: {error}",
    "edited": "edited: {count} of {all} operators recomputed",
    "another number": (
        "the edit changes the model's own control flow ({place} read {before}, now {after}): "
        "the model was rerun"
    ),
    "another shape": (
        "the edit changes the model's own control flow ({place} made {before}, now {after}): "
        "the model was rerun"
    ),
    "same gradients": "gradients equal autograd's to the bit",
    "close gradients": "gradients equal autograd's to {worst} of the tensor's largest ({name})",
    "same weights": "new weights equal the optimiser's to the bit",
    "close weights": (
        "new weights equal the optimiser's to {worst} of the tensor's largest change ({name})"
    ),
    "rounding": (
        "some gradients of {names} lose digits to rounding: at most {size}, where others reach "
        "{largest}; autograd rounds in another order and gets other digits"
    ),
    "rounding steps": (
        "some gradients of {names} lose digits to rounding: at most {size}, where others reach "
        "{largest}; {optimiser} still makes whole steps of them, which another order of summing "
        "turns round, so these new weights differ from the optimiser's by up to {gap}"
    ),
}


class Note(str):
    """One of `NOTES`, filled in."""

    __slots__ = ("kind", "values")

    kind: str
    values: dict[str, object]

    def __new__(cls, kind: str, **values: object) -> Self:
        """The sentence of that kind, with these values in it."""
        note = super().__new__(cls, NOTES[kind].format(**values))
        note.kind, note.values = kind, values
        return note

    def __reduce__(self) -> tuple[object, ...]:
        return _note, (self.kind, self.values)


def _note(kind: str, values: dict[str, object]) -> Note:
    return Note(kind, **values)
