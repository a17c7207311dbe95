"""What a text printed where a lesson stands, from its audit: verdict, slip, printed and right."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from glassformer.lessons.auditing import Audit, StepResult, audit
from glassformer.lessons.example import Digits
from glassformer.lessons.reading import load_example
from glassformer.lessons.walks.lesson import Remark
from glassformer.lessons.walks.phrases import Speaker
from glassformer.lessons.walks.textbook import number
from glassformer.lessons.wording import LOOKS, MARKS, VERDICT_NAMES
from glassformer.trace import Cell

__all__ = ["Remarker"]


@lru_cache(maxsize=4)
def _audited(example: str) -> Audit:
    """The search for slips takes seconds, and both languages share it."""
    return audit(load_example(example))


class Remarker:
    """Remarks on one text: `ids` says which step of its example belongs to which place."""

    def __init__(self, example: str, say: Speaker, ids: Mapping[str, str] | None = None) -> None:
        self._say = say
        self._audit = _audited(example)
        self._ids = ids or {}

    def at(self, place: str, cell: Cell) -> tuple[Remark, ...]:
        """The remark on a place, about the cell shown there; none where the text has nothing."""
        if place not in self._ids:
            return ()
        return self.on(self._ids[place], cell)

    def on(self, id_: str, cell: Cell, *, transposed: bool = False) -> tuple[Remark, ...]:
        """The remark on a step of the example."""
        result = self._audit[id_]
        verdict = self._verdict(result)
        printed = _printed(result, cell, transposed)
        if result.verdict == "agrees":
            said = self._say("printed agrees", verdict=verdict, what=self._say("numbers"))
        elif printed is None or result.verdict not in ("wrong", "follows"):
            return self.verdict(id_)
        else:
            said = self._say(
                f"printed {result.verdict}",
                verdict=verdict,
                slip=self._slip(result),
                printed=printed,
                right=number(cell.value),
            )
        return (self._remark(result, said),)

    def verdict(self, id_: str) -> tuple[Remark, ...]:
        """Verdict and slip alone, for what is no number; nothing where nothing is found."""
        result = self._audit[id_]
        if result.verdict not in ("wrong", "follows") or not self._slip(result):
            return ()
        verdict = self._verdict(result)
        said = self._say("verdict only", verdict=verdict, slip=self._slip(result))
        return (self._remark(result, said),)

    def _remark(self, result: StepResult, said: str) -> Remark:
        lead = f"{MARKS[result.verdict]} {self._say('in the text')}"
        return Remark(result.verdict, said, lead, LOOKS[result.verdict])

    def _slip(self, result: StepResult) -> str:
        return _capital(result.slip(self._say.language) or "")

    def _verdict(self, result: StepResult) -> str:
        return _capital(VERDICT_NAMES[result.verdict].say(self._say.language))


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def _printed(result: StepResult, cell: Cell, transposed: bool) -> str | None:
    """What the text prints for a cell; None where it prints nothing there."""
    digits = result.step.printed
    if not isinstance(digits, Digits):
        return None
    index = cell.index[len(cell.index) - digits.values.ndim :]
    at = tuple(reversed(index)) if transposed else index
    if any(place >= size for place, size in zip(at, digits.values.shape, strict=True)):
        return None
    printed = float(digits.values[at])
    return None if printed != printed else number(printed, 6)
