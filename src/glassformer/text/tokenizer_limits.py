"""Limits on an untrusted `tokenizer.json`, checked before the library runs it.

The library does whatever the file says: eight replacements of one letter by fifty fill any memory,
and a regular expression such as `(x+x+)+y` takes exponential time. So only known kinds of steps are
allowed, the growth of a text is bounded, and patterns may not nest repetition. This module knows
the format and runs nothing.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import Fragment, InputError

MAX_CHARACTERS = 2**20
"""The longest text, times the factor by which the file's steps may lengthen it. The library needs
about 30 bytes per character."""

_MAX_GROWTH = 64
_MAX_STEPS = 32
_MAX_PATTERN = 2_000
_MAX_REPLACED = 36  # bytes per character; Unicode's longest compatibility form has 33
_MAX_ID = 2**22  # the library walks from 0 to the largest id, whichever exist
_MAX_WORD = 10_000  # characters; WordPiece is quadratic in a word's length
_WIDE = 64  # a repetition of more than this counts as unbounded
_MAX_WAYS = 1_000  # of matching the bounded parts of a pattern at one place

_INSIDE = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "decoder": "decoders",
    "post_processor": "processors",
}
_KINDS = {
    "normalizer": {
        "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt",
        "Precompiled", "Prepend", "Replace", "Strip", "StripAccents",
    },
    "pre_tokenizer": {
        "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength",
        "Metaspace", "Punctuation", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit",
    },
    "decoder": {
        "BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Strip",
        "WordPiece",
    },
    "post_processor": {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"},
}  # fmt: skip


@dataclass(frozen=True)
class TokenizerLimits:
    """How long texts may be, given a file's steps."""

    growth: float = 1
    """The factor by which the steps may lengthen a text, beyond what every tokenizer does."""
    is_bounded: bool = False
    """Whether texts must be bounded, because the file controls a step's time or memory."""

    def check(self, text: str) -> None:
        """Refuse a text that would take too much time or memory."""
        if self.is_bounded and len(text) * self.growth > MAX_CHARACTERS:
            longest = int(MAX_CHARACTERS / self.growth)
            raise InputError(
                "the text has {n_text:,} characters; this tokenizer accepts at most {longest:,}: "
                "shorten the text",
                n_text=len(text),
                longest=longest,
            )


def limits_of(data: Mapping[str, Any]) -> TokenizerLimits:
    """The limits of a parsed `tokenizer.json`; anything unbounded in it is an error."""
    steps = {part: list(_steps(data.get(part), part)) for part in _KINDS}
    growth = _growth([*steps["normalizer"], *steps["pre_tokenizer"]])
    for total in (growth, _growth(steps["decoder"])):
        if total > _MAX_GROWTH:
            raise InputError(
                "its steps lengthen a text up to {total:,.0f} times, expected at most {most} times",
                total=total,
                most=_MAX_GROWTH,
            )
    for step in steps["post_processor"]:
        _check_template(step)
    patterns = [found for part in steps.values() for step in part if (found := _regex(step))]
    for pattern in patterns:
        check_pattern(pattern)
    for step in steps["pre_tokenizer"]:
        length = step.get("length", 1)
        if step["type"] == "FixedLength" and (type(length) is not int or length < 1):
            raise InputError(
                "the length of FixedLength must be at least 1, got {length!r:.40}", length=length
            )
    given = data.get("model")
    model: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    _check_ids(model.get("vocab"), data.get("added_tokens"))
    longest_word = model.get("max_input_chars_per_word")
    if isinstance(longest_word, int) and longest_word > _MAX_WORD:
        raise InputError(
            "{name} must be at most {most:,}, got {value}",
            name="max_input_chars_per_word",
            most=_MAX_WORD,
            value=f"{longest_word:,}",
        )
    return TokenizerLimits(growth, is_bounded=bool(steps["normalizer"] or patterns))


def _check_ids(vocabulary: Any, added: Any) -> None:
    ids = [*vocabulary.values()] if isinstance(vocabulary, Mapping) else []
    ids += [token.get("id") for token in added or () if isinstance(token, Mapping)]
    largest = max((id_ for id_ in ids if isinstance(id_, int)), default=0)
    if largest > _MAX_ID:
        raise InputError(
            "ids of tokens must be at most {most:,}, got {largest:,}", most=_MAX_ID, largest=largest
        )


def _steps(part: Any, what: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a part in order, including those inside sequences."""
    pending, n_steps = [part], 0
    while pending:
        step = pending.pop()
        if step is None:
            continue
        n_steps += 1
        kind = step.get("type") if isinstance(step, Mapping) else None
        if n_steps > _MAX_STEPS:
            raise InputError("its {part} has more than {most} steps", part=what, most=_MAX_STEPS)
        if kind == "Sequence":
            inside = step.get(_INSIDE[what])
            pending += reversed(inside if isinstance(inside, list) else [0])
        elif isinstance(kind, str) and kind in _KINDS[what]:
            yield step
        else:
            raise InputError(
                "unknown {part} {kind!r:.40}; expected {known}",
                part=what,
                kind=kind,
                known=", ".join(_KINDS[what]),
            )


def _growth(steps: list[Mapping[str, Any]]) -> float:
    """The factor by which the steps together may lengthen a text.

    What every tokenizer does once (spell bytes, mark spaces, normalise Unicode) is not counted the
    first time.
    """
    growth, seen = 1.0, set()
    for step in steps:
        kind = step["type"]
        factor = _factor(step)
        if kind in ("ByteLevel", "Metaspace", "Precompiled", "Prepend") and kind not in seen:
            factor = 1.0
        seen.add(kind)
        growth = min(growth * max(1.0, factor), 1e12)
    return growth


def _factor(step: Mapping[str, Any]) -> float:
    kind = step["type"]
    if kind in ("ByteLevel", "Metaspace"):
        return 4.0
    if kind == "Precompiled":
        return float(_longest_replacement(step.get("precompiled_charsmap")))
    if kind == "Prepend":
        added = str(step.get("prepend", ""))
        if len(added) > _MAX_REPLACED:
            raise InputError("Prepend adds {n:,} characters, expected a short mark", n=len(added))
        return 1.0 + len(added)
    if kind == "Replace":
        pattern, content = step.get("pattern"), str(step.get("content", ""))
        plain = pattern.get("String") if isinstance(pattern, Mapping) else None
        if isinstance(plain, str) and plain:
            return len(content) / len(plain)
        # A regular expression may match one character; an empty match only adds text.
        return max(1.0, len(content)) if _regex(step) else 1.0 + len(content)
    return 1.0


def _longest_replacement(charsmap: Any) -> int:
    """The longest replacement, in bytes, in a normalisation table of sentencepiece."""
    try:
        table = base64.b64decode(str(charsmap), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("its Precompiled table is not base64") from None
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    longest = max(map(len, texts.split(b"\0")))
    if longest > _MAX_REPLACED:
        raise InputError(
            "its Precompiled table has a replacement of {longest:,} bytes, expected at most {most}",
            longest=longest,
            most=_MAX_REPLACED,
        )
    return longest


def _check_template(step: Mapping[str, Any]) -> None:
    """Refuse a template that contains the text several times: it would multiply every text."""
    if step["type"] != "TemplateProcessing":
        return
    for name, most in (("single", 1), ("pair", 2)):
        pieces = step.get(name)
        if isinstance(pieces, list):
            texts = [
                piece for piece in pieces if isinstance(piece, Mapping) and "Sequence" in piece
            ]
            if len(texts) > most:
                raise InputError(
                    "its template {name!r} repeats the text {n:,} times", name=name, n=len(texts)
                )


def _regex(step: Mapping[str, Any]) -> str | None:
    pattern = step.get("pattern")
    found = pattern.get("Regex") if isinstance(pattern, Mapping) else None
    return found if isinstance(found, str) else None


# --- regular expressions ---
# The part of Oniguruma's syntax that tokenizers use.

_ESCAPE = re.compile(
    r"\\(?:[pP]\{\^?\w+\}|x\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.S
)
_GROUP = re.compile(r"\((?:\?(?:[imsadu-]*:|<?[=!]|>|<\w+>))?")
# At the start only: elsewhere, a switch makes a group of all that follows. Without x, which changes
# the meaning of the rest.
_SWITCH = re.compile(r"\(\?[imsadu-]+\)")
_REPEAT = re.compile(r"[*+?]([?+]?)|\{(\d*)(,?)(\d*)\}\??")


@dataclass
class _Item:
    """An atom of a pattern with its repetition."""

    alternatives: list[list["_Item"]] = field(default_factory=list)
    """If it is a group."""
    is_look: bool = False
    """Lookahead or lookbehind: matches nothing, and may fail."""
    least: int = 1
    most: float = 1
    backtracks: bool = True
    """Whether it tries fewer repetitions when the rest fails."""

    @property
    def is_wide(self) -> bool:
        return self.most > _WIDE and self.backtracks

    @property
    def is_variable(self) -> bool:
        """Whether it can match the same place in several ways."""
        inside = [item for items in self.alternatives for item in items]
        return (
            (self.least != self.most and self.backtracks)
            or len(self.alternatives) > 1
            or any(item.is_variable for item in inside)
        )


def check_pattern(pattern: str) -> None:
    """Refuse a regular expression whose time is not known to be bounded.

    A repeated group may contain neither repetitions nor alternatives, and on any path through the
    pattern only one wide repetition may be followed by something that can fail: then, from each
    start, there are at most as many attempts as the text is long.
    """
    if len(pattern) > _MAX_PATTERN:
        raise InputError("its pattern has {n:,} characters, expected a short one", n=len(pattern))
    switch = _SWITCH.match(pattern)
    alternatives, end = _parse(pattern, switch.end() if switch else 0, 0)
    if end != len(pattern):
        raise _unbounded(pattern, "has an unmatched bracket")
    for item in _all(alternatives):
        if item.most > _WIDE and any(
            len(item.alternatives) > 1 or inner.is_variable
            for items in item.alternatives
            for inner in items
        ):
            raise _unbounded(pattern, "repeats something that matches in several ways")
    if _n_narrow(alternatives) > _MAX_WAYS:
        raise _unbounded(pattern, "repeats something that matches in several ways")
    if _n_ways(alternatives, can_fail=False) > 1:
        raise _unbounded(pattern, "has several wide repetitions in a row")


def _unbounded(pattern: str, why: str) -> InputError:
    return InputError(
        "its pattern {pattern!r:.60} {reason}, which may take unbounded time",
        pattern=pattern,
        reason=why,
    )


def _parse(pattern: str, at: int, depth: int) -> tuple[list[list[_Item]], int]:
    """The alternatives of a pattern from a position on, and their end."""
    if depth > 20:
        raise _unbounded(pattern, "nests groups too deeply")
    alternatives: list[list[_Item]] = [[]]
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            alternatives.append([])
            at += 1
            continue
        item, at = _parse_item(pattern, at, depth)
        repeat = _REPEAT.match(pattern, at)
        while repeat:
            item = _repeated(pattern, item, repeat)
            at = repeat.end()
            repeat = _REPEAT.match(pattern, at)
            if repeat:  # `{2}+` repeats the repetition
                item = _Item([[item]])
        alternatives[-1].append(item)
    return alternatives, at


def _parse_item(pattern: str, at: int, depth: int) -> tuple[_Item, int]:
    character = pattern[at]
    if character == "\\":
        escape = _ESCAPE.match(pattern, at)
        if escape is None or escape[0][1] in "kg123456789RX":
            raise _unbounded(pattern, "has a backreference")
        return _Item(is_look=escape[0][1] in "bBAzZG"), escape.end()
    if character == "[":
        return _Item(), _end_of_class(pattern, at)
    if character in "^$":
        return _Item(is_look=True), at + 1
    if character != "(":
        return _Item(), at + 1
    group = _GROUP.match(pattern, at)
    if group is None or (group[0] == "(" and pattern[at + 1 : at + 2] in ("?", "*")):
        raise _unbounded(
            pattern, Fragment.of("has an unknown group {group!r}", group=pattern[at : at + 4])
        )
    inside, at = _parse(pattern, group.end(), depth + 1)
    if at >= len(pattern):
        raise _unbounded(pattern, "lacks a closing bracket")
    kind = group[0][2:]
    item = _Item(inside, is_look=kind in ("=", "!", "<=", "<!"))
    item.backtracks = kind != ">"
    return item, at + 1


def _repeated(pattern: str, item: _Item, repeat: re.Match[str]) -> _Item:
    sign, (suffix, low, comma, high) = repeat[0][0], repeat.groups()
    if sign == "{":
        if not low and not high:
            raise _unbounded(pattern, "has empty braces")
        item.least = int(low[:6] or 0)
        item.most = int(high[:6]) if high else float("inf") if comma else item.least
    else:
        item.least = 1 if sign == "+" else 0
        item.most = 1 if sign == "?" else float("inf")
    if suffix == "+":
        item.backtracks = False
    return item


def _end_of_class(pattern: str, at: int) -> int:
    depth, start = 0, at
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":
            depth += 1
        elif character == "]" and at > start + 1 and pattern[start + 1 : at] != "^":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    raise _unbounded(pattern, "lacks a closing bracket")


def _all(alternatives: list[list[_Item]]) -> Iterator[_Item]:
    for items in alternatives:
        for item in items:
            yield item
            yield from _all(item.alternatives)


def _n_narrow(alternatives: list[list[_Item]]) -> float:
    """The number of ways to match the bounded repetitions and alternatives at one place.

    Wide repetitions count once: they depend on the text's length, which `_n_ways` bounds.
    """
    total = 0.0
    for items in alternatives:
        ways = 1.0
        for item in items:
            inside = _n_narrow(item.alternatives) if item.alternatives else 1.0
            if item.most > _WIDE:
                ways *= inside
                continue
            if inside > 1:
                ways *= min(inside, _MAX_WAYS + 1) ** max(1, int(item.most))
            if item.backtracks:
                ways *= item.most - item.least + 1
            ways = min(ways, _MAX_WAYS + 1)
        total += ways
    return total


def _n_ways(alternatives: list[list[_Item]], *, can_fail: bool) -> int:
    """The most wide repetitions on one path that are followed by something that can fail."""
    most = 0
    for items in alternatives:
        fails, found = can_fail, 0
        for item in reversed(items):
            found += item.is_wide and fails
            found += _n_ways(item.alternatives, can_fail=fails and not item.is_look)
            fails = fails or item.least > 0 or item.is_look
        most = max(most, found)
    return most
