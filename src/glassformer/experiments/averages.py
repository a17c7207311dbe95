"""The same experiment on many texts: means, and how far the texts are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from glassformer.errors import TraceError
from glassformer.experiments.charts import Picture, bars, heat_map
from glassformer.experiments.lens import Contributions
from glassformer.experiments.result import Result
from glassformer.experiments.sweeps import Sweep

Averaged = TypeVar("Averaged", Sweep, Contributions)


@dataclass(frozen=True, slots=True, repr=False)
class Average(Result):
    """Means over sweeps (of their effects) or contributions, each of another text."""

    kind: ClassVar[str] = "average"
    measured: None = field(default=None, init=False, repr=False)

    results: tuple[Sweep, ...] | tuple[Contributions, ...] = field(repr=False)
    names: tuple[str, ...]
    """The layers, or the parts."""
    places: tuple[str, ...]
    """The positions or heads of sweeps; empty for contributions."""
    values: Tensor
    """Means: (layers, places) or (parts), float64."""
    deviations: Tensor
    """Standard deviations between the texts, in the same shape; NaN for a single text."""

    def rows(self) -> list[dict[str, Any]]:
        first = self.results[0]
        found = []
        for at, name in enumerate(self.names):
            if isinstance(first, Contributions):
                found.append({"part": name, **self._said(at)})
                continue
            for place in range(len(self.places)):
                if not bool(self.values[at, place].isnan()):
                    found.append({"layer": name, first.over: place, **self._said(at, place)})
        return found

    def _said(self, *at: int) -> dict[str, float]:
        return {"mean": float(self.values[at]), "deviation": float(self.deviations[at])}

    def facts(self) -> dict[str, Any]:
        return {"runs": len(self.results)}

    def cell(self, run: int, *place: Any) -> Any:
        """A number behind a mean: the cell of that text's own result."""
        return self.results[run].cell(*place)

    def plot(self, language: str = "en") -> Picture:
        if self.values.ndim == 1:
            return bars(self.title(language), self.names, self.values.tolist())
        return heat_map(self.title(language), self.names, self.places, self.values)

    def text(self, language: str = "en", width: int | None = None) -> str:
        if self.values.ndim == 1:
            return Result.text(self, language, width)
        return self._grid(self.names, self.places, self.values, language, width)


def average(results: Sequence[Averaged]) -> Average:
    """The mean of sweeps, or of contributions, over texts of the same length."""
    given = tuple(results)
    kinds = {type(one) for one in given}
    if len(kinds) != 1 or not kinds <= {Sweep, Contributions}:
        raise TraceError(
            "an average is over sweeps, or over contributions, one for each text; got {kinds}",
            kinds=", ".join(sorted(kind.__name__ for kind in kinds)) or "–",
        )
    alike = {_shape(one) for one in given}
    if len(alike) != 1:
        raise TraceError(
            "the results have different layers, places or parts: take texts of the same number of "
            "tokens, and the same questions"
        )
    numbers = torch.stack([_numbers(one) for one in given])
    spread = numbers.std(0) if len(given) > 1 else torch.full_like(numbers[0], torch.nan)
    first = given[0]
    if isinstance(first, Contributions):
        return Average(given, first.parts, (), numbers.mean(0), spread)
    same = {one.places for one in given if isinstance(one, Sweep)}
    places = first.places if len(same) == 1 else tuple(map(str, range(len(first.places))))
    return Average(given, first.layers, places, numbers.mean(0), spread)


def _shape(result: Sweep | Contributions) -> tuple[Any, ...]:
    if isinstance(result, Contributions):
        return result.parts
    return result.layers, len(result.places), result.over


def _numbers(result: Sweep | Contributions) -> Tensor:
    if isinstance(result, Sweep):
        return result.effects
    return torch.tensor(result.values, dtype=torch.float64)
