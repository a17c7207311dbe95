"""Text to words and words to text, for every script we could think of.

A word is a run of letters, marks, digits and underscores; an apostrophe inside it belongs to it
(`won't`), and so do the points and commas inside a number (`3.14`). Chinese puts no spaces between
words, so each Han character is a word by itself; runs of kana, Hangul and other scripts stay
whole. All that is left, other than spaces, is punctuation, one character at a time.

Nothing is normalised: é and e + U+0301 stay two spellings. This file does not know ids or case.
"""

import re
from functools import cache
from itertools import chain
from typing import Literal, get_args
from unicodedata import category

from glassformer.errors import ConfigError, did_you_mean

Punctuation = Literal["drop", "split"]

# 々 and 〇 are written among Han characters and read as such; then the Han blocks in order.
_HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff"
_CJK_PUNCTUATION = "\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"

_BEYOND_WESTERN = re.compile("[^\x00-\u02ff]")
_UNSPACED = re.compile(f"[{_HAN}{_KANA}]")
_UNSPACED_MARK = re.compile(f"[{_CJK_PUNCTUATION}]")
_LEANS_LEFT = frozenset(".,;:!?)]}%…’”'")
_LEANS_RIGHT = frozenset("([{“‘")
_LEANS_BOTH = frozenset("-/")


def split_words(text: str, punctuation: Punctuation) -> list[str]:
    """The words of a text in order; with "split", punctuation marks among them."""
    return _pattern(punctuation, _is_western(text)).findall(text)


def word_spans(text: str, punctuation: Punctuation) -> list[tuple[int, int]]:
    """Where each word that `split_words` returns stands in the text."""
    return [match.span() for match in _pattern(punctuation, _is_western(text)).finditer(text)]


def gap(left: str, right: str) -> str:
    """What to write between two words: a space, or nothing where a reader expects none."""
    last, first = left[-1], right[0]
    if left in _LEANS_RIGHT or right in _LEANS_LEFT or left in _LEANS_BOTH or right in _LEANS_BOTH:
        return ""
    if _UNSPACED_MARK.match(last) or _UNSPACED_MARK.match(first):
        return ""
    return "" if _UNSPACED.match(last) and _UNSPACED.match(first) else " "


def _is_western(text: str) -> bool:
    """Whether a text has neither Han characters nor marks: all of those come after U+02FF."""
    return _BEYOND_WESTERN.search(text) is None


@cache
def _pattern(punctuation: Punctuation, western: bool) -> re.Pattern[str]:
    """What a word is. The western pattern gives the same words where it applies, far faster."""
    if punctuation not in get_args(Punctuation):
        near = did_you_mean(str(punctuation), get_args(Punctuation))
        raise ConfigError(f"unknown punctuation rule {punctuation!r}{near}")
    # Possessive repeats (++) never give back what they took, so a long text costs linear time. Only
    # of single characters: those of groups take one too many in Python 3.11.2, which Debian has.
    if western:
        han, letters, mark = "", r"\w++", ""
    else:
        mark = f"[{_marks()}]"
        han = f"[{_HAN}]{mark}*+|"
        letters = rf"[^\W{_HAN}]++(?:{mark}++[^\W{_HAN}]*+)*"
    word = rf"{han}\d++(?:[.,]\d++)+|{letters}(?:['’]{letters})*"
    symbol = r"[^\w\s]" + (mark and f"{mark}*+")
    return re.compile(word if punctuation == "drop" else f"{word}|{symbol}")


@cache
def _marks() -> str:
    """A character class of what belongs to the character before it.

    Python's `\\w` leaves out combining marks, which would break words of Hindi or Arabic apart.
    The joiners U+200C and U+200D stand inside words of Persian and Sinhala.
    """
    # Planes 2 and 3 are Han; of those beyond, only the variation selectors are assigned marks.
    planes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = [character for character in map(chr, planes) if category(character)[0] == "M"]
    return "".join(marks) + "\u200c\u200d"
