"""A sheet on paper: A4, its whole width on a page, and no matrix torn that fits on one.

The scale is given, not left to the program as "one page wide": Excel would then ignore the breaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

_A4 = 9
"""The number that spreadsheet programs have for it."""
_SIDES, _ABOVE, _BELOW = 0.4, 0.5, 0.7
"""Margins in inches; below stands the page number."""
_WIDTH, _HEIGHT, _INCH = 595, 842, 72  # points
_ROW = 15.0
"""The height of a line in points, unless it is set."""
_UPRIGHT = 0.75
"""The smallest scale at which a sheet stands upright."""
_SURE = 0.75
"""How much of a page's width is filled: in other fonts than Calibri columns are wider, in DejaVu
Sans by a third."""
_SMALLEST = 10
"""The smallest scale that spreadsheet programs have, in per cent."""


def points(width: float) -> float:
    """The width of a column of so many characters."""
    return 0.75 * (7 * width + 5)


def fit_paper(
    sheet: Worksheet, width: float, starts: Sequence[int], end: int, heights: Mapping[int, float]
) -> None:
    """Prepare a sheet for printing.

    `width` is that of its columns in points. A page may begin at one of the rows in `starts`, which
    go up to the row `end`; `heights` are those of the rows whose height is set.
    """
    sides, ends = 2 * _SIDES * _INCH, (_ABOVE + _BELOW) * _INCH
    upright, across = (min(1.0, (side - sides) / width) for side in (_WIDTH, _HEIGHT))
    is_upright = upright >= _UPRIGHT
    share, length = (upright, _HEIGHT) if is_upright else (across, _WIDTH)
    scale = max(_SMALLEST, int(100 * _SURE * share))
    room = (length - ends) * 100 / scale
    sheet.set_paper(_A4)
    sheet.set_margins(left=_SIDES, right=_SIDES, top=_ABOVE, bottom=_BELOW)
    sheet.set_footer("&L&A&R&P / &N")
    if not is_upright:
        sheet.set_landscape()
    sheet.set_print_scale(scale)
    breaks, used = [], 0.0
    for start, after in pairwise([*starts, end]):
        height = sum(heights.get(row, _ROW) for row in range(start, after))
        if height > room:  # it is torn anyway
            used = (used + height) % room
            continue
        if used and used + height > room:
            breaks.append(start)
            used = 0.0
        used += height
    sheet.set_h_pagebreaks(breaks)
