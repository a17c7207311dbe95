"""Numbers as JSON can say them, and positions as a query string says them."""

from __future__ import annotations

import math

from glassformer.errors import InputError
from glassformer.explorer.schemas import Number

__all__ = ["parse_index", "parse_numbers", "parse_range", "plain", "unplain"]


def plain(number: float) -> Number:
    """A number; the three that JSON lacks as strings."""
    value = float(number)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unplain(number: Number) -> float:
    """The number behind `plain`."""
    return float(number)


def parse_numbers(text: str, what: str) -> list[int]:
    """`1,2,3`; nothing is no number."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{what} is whole numbers with commas between, got {text!r:.40}") from None


def parse_index(text: str) -> tuple[int, ...]:
    """A place on each axis; negative ones do not count from the end here."""
    index = tuple(parse_numbers(text, "an index"))
    if any(place < 0 for place in index):
        raise InputError(f"an index counts from 0, got {text!r:.40}")
    return index


def parse_range(text: str | None, size: int, what: str) -> slice:
    """`0:64`, as far as there is something; without it, all."""
    if text is None:
        return slice(0, size)
    first, colon, last = text.partition(":")
    if not (colon and first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise InputError(f"{what} is a range such as 0:64, got {text!r:.40}")
    start, stop = min(int(first[:18]), size), min(int(last[:18]), size)
    if stop < start:
        raise InputError(f"{what} ends before it begins: {text!r:.40}")
    return slice(start, stop)
