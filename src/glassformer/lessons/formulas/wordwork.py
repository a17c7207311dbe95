"""Functions on words: splitting, counting, looking up."""

import numpy as np

from glassformer.errors import did_you_mean
from glassformer.lessons.formulas.shaping import move
from glassformer.lessons.formulas.terms import FormulaError
from glassformer.lessons.formulas.values import Numbers, Value, Words, check_size, exactly
from glassformer.text import split_words

__all__ = ["count", "distinct", "lookup", "lower", "pick", "words"]


def words(text: Words) -> Words:
    """The words of one text or of several, in order, without punctuation."""
    return Words(tuple(word for line in _known(text) for word in split_words(line, "drop")))


def lower(items: Words) -> Words:
    """In small letters."""
    return Words(tuple(item.lower() for item in _known(items)), items.single)


def distinct(items: Words) -> Words:
    """Each word once, in order of appearance."""
    return Words(tuple(dict.fromkeys(_known(items))))


def count(items: Value) -> Numbers:
    """How many words, or rows."""
    if isinstance(items, Words):
        return exactly(len(items.items))
    if not items.shape:
        raise FormulaError("expected a list, got one number")
    return exactly(items.shape[0])


def lookup(items: Words, keys: Words, numbers: Numbers) -> Numbers:
    """The numbers beside the words; a capital letter makes no difference."""
    known = _known(keys)
    if not items.items:
        raise FormulaError("expected at least one word to look up")
    if numbers.shape[:1] != (len(known),):
        raise FormulaError(f"expected one number for each of {len(known)} words")
    check_size((len(items.items), *numbers.shape[1:]))
    place = {key.lower(): at for at, key in enumerate(known)}
    missing = [item for item in _known(items) if item.lower() not in place]
    if missing:
        near = did_you_mean(missing[0], known)
        raise FormulaError(f"expected words of the list, got {missing[0]!r}{near}")
    chosen = np.array([place[item.lower()] for item in _known(items)], dtype=int)
    return move(lambda part: part[chosen], numbers)


def pick(items: Words, at: Numbers) -> Words:
    """The word at a place; unknown where the place is not certain."""
    if at.shape:
        raise FormulaError("expected one place")
    place = float(at.mid)
    if at.low != at.high or np.isnan(place):
        return Words((None,), single=True)
    if not 0 <= place < len(items.items):
        raise FormulaError(f"expected a place from 0 to {len(items.items) - 1}, got {place:g}")
    return Words((items.items[int(place)],), single=True)


def _known(items: Words) -> list[str]:
    known = [item for item in items.items if item is not None]
    if len(known) != len(items.items):
        raise FormulaError("expected words that are all known")
    return known
