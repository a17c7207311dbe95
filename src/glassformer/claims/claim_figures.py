"""A chart for each claim that can have one, from the figures that its experiment measured.

Most are bars, described in claim_figures.toml; a stored result is drawn like a fresh one. Where a
curve says more than two bars, the numbers are computed here with the functions that the claim
itself measures with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glassformer.claims import Outcome
from glassformer.claims.claim import with_power_of_ten
from glassformer.claims.properties import ScoreSpread, spread_by_width
from glassformer.claims.query_claims import WIDTHS
from glassformer.colours import Scale, hex_colour
from glassformer.documents.data_charts import ROLES, Axes, Series, bar_chart, line_chart
from glassformer.language import Language, words
from glassformer.nn.positions import sinusoidal_table
from glassformer.picture import Box, Canvas, Picture, Role, text_width

_WORDS = words(__name__)


def claim_figure(outcome: Outcome, language: Language) -> Picture | None:
    """The chart of a claim; None if it has none or was not measured."""
    id_ = outcome.claim.id
    is_curve = id_ in _CURVES
    if is_curve and not outcome.settings:
        return _CURVES[id_](id_, language)
    if id_ not in _WORDS.data or not outcome.figures:
        return None
    spec: dict[str, Any] = _WORDS.data[id_]

    def say(key: str) -> str:
        return _WORDS[key].say(language, **outcome.figures)

    if "bars" in spec:
        groups = [say(f"{id_} bars {key}") for key in spec["bars"]]
        series = [Series("", [outcome.figures[name] for name in spec["bars"]])]
    else:
        groups = [say(f"{id_} groups {key}") for key in spec["groups"]]
        names = [say(f"{id_} series {key}") for key in spec["series"]]
        series = [
            Series(name, [outcome.figures[row[place]] for row in spec["cells"]], ROLES[place])
            for place, name in enumerate(names)
        ]
    is_share = bool(spec.get("percent"))
    write, most = (_percent, 1.0) if is_share else (_number, None)
    title = say(f"{id_} turned" if is_curve else f"{id_} title")
    axes = Axes("", say(f"{id_} axis"))
    size = _chart_size(groups, len(series))
    return bar_chart(title, groups, series, axes, write=write, most=most, **size)


def _chart_size(groups: Sequence[str], n_series: int) -> dict[str, float]:
    """No wider than the bars and their names need, so that a small chart fits a card or a phone."""
    room = max(*(text_width(name, 12.5) + 16 for name in groups), 46.0 * n_series + 24)
    width = min(640.0, max(340.0, 92 + room * len(groups)))
    return {"width": width, "height": max(240.0, 0.55 * width)}


def _say(key: str, language: Language) -> str:
    return _WORDS[key].say(language)


def _title(id_: str, language: Language) -> str:
    return _say(f"{id_} title", language)


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _number(value: float) -> str:
    """Thousands with commas, small numbers as a power of ten, others with three digits."""
    if value and abs(value) < 1e-3:
        return with_power_of_ten(f"{value:.0e}").replace("-", "−")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")


# --- curves ----------------------------------------------------------------------------------


def _by_width(measure: Callable[[ScoreSpread], float], *, log_up: bool) -> _Curve:
    """With and without the division by √k, over the widths of the claim."""

    def draw(id_: str, language: Language) -> Picture:
        lines: Sequence[tuple[str, bool, Role]] = (
            ("raw", False, "query"),
            ("scaled", True, "output"),
        )
        series = [
            Series(
                _say(f"lines {name}", language),
                [float(measure(spread)) for spread in spread_by_width(WIDTHS, scaled=scaled)],
                role,
            )
            for name, scaled, role in lines
        ]
        axes = Axes(_say("lines width", language), _say(f"{id_} axis", language))
        return line_chart(
            _title(id_, language), WIDTHS, series, axes, log_across=True, log_up=log_up,
            width=440, height=300,
        )  # fmt: skip

    return draw


def _sinusoids(id_: str, language: Language) -> Picture:
    """The table of sinusoidal positions, a coloured field for each number."""
    table = sinusoidal_table(48, 32).double().numpy()
    scale, cell = Scale("signed"), (17.0, 7.0)
    n_rows, n_columns = table.shape
    inside = Box(52, 20, cell[0] * n_columns, cell[1] * n_rows)
    canvas = Canvas(inside.right + 20, inside.bottom + 40, _title(id_, language))
    for (row, column), number in np.ndenumerate(table):
        colour = scale.colour(float(number))
        assert colour is not None
        place = Box(inside.left + cell[0] * column, inside.top + cell[1] * row, *cell)
        canvas.fill(place, hex_colour(colour), corner=0)
    canvas.text(inside.x, inside.bottom + 20, f"{_say('lines dimension', language)} →", size=13,
                role="quiet")  # fmt: skip
    canvas.turned(28, inside.y, f"← {_say('lines position', language)}", size=13)
    return canvas.done()


_Curve = Callable[[str, Language], Picture]
_CURVES: dict[str, _Curve] = {
    "C30": _by_width(lambda spread: spread.gradient_size, log_up=False),
    "C31": _by_width(lambda spread: spread.deviation, log_up=True),
    "C32": _by_width(lambda spread: spread.deviation, log_up=True),
    "C66": _sinusoids,
}
DRAWN = sorted({*_CURVES, *_WORDS.data} - {"lines"})
"""Ids of the claims that have a chart."""
