"""English and Chinese: which one to use, and where their text is.

All text that users read is data: a TOML file beside the module that prints it, with one entry per
sentence and both languages in each,

    steps = {en = "{count} steps", zh = "{count} 个步骤"}

and `say = words(__name__)` in the module. Where a key is itself the English sentence, as with
errors, `en` is left out. A test checks that both languages have the same placeholders and that the
keys are those that the code uses. A file is parsed on first use.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from unicodedata import east_asian_width

from glassformer.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

Language: TypeAlias = Literal["en", "zh"]

LANGUAGES: dict[str, Language] = {"en": "en", "zh": "zh"}
_LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts, as POSIX has it
_SENTENCES = ("what", "kind", "reason")  # error fields that hold text of ours or the system's
_ROOT = Path(__file__).parent
_WIDE = "⺀-鿿가-힣豈-﫿！-｠"


def as_language(name: str) -> Language:
    """Check that a name is `en` or `zh`."""
    if name not in LANGUAGES:
        raise UnknownNameError("language", name, LANGUAGES)
    return LANGUAGES[name]


def chosen_language(option: str | None = None) -> Language:
    """The language of `--lang`, else of $GLASSFORMER_LANG, else of the locale, else English."""
    if option is not None:
        return as_language(option)
    if named := os.environ.get("GLASSFORMER_LANG"):
        if named not in LANGUAGES:
            raise ConfigError("$GLASSFORMER_LANG must be en or zh, got {named!r}", named=named)
        return LANGUAGES[named]
    return language_of_locale()


def language_of_locale() -> Language:
    """The language of the locale, English unless it is Chinese."""
    locale = next(filter(None, map(os.environ.get, _LOCALES)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


_spoken: Language = "en"


def speak(language: Language) -> None:
    """Set the language of this process: that of commands, progress and errors."""
    global _spoken
    _spoken = language


def spoken() -> Language:
    """The language of this process, English by default."""
    return _spoken


@dataclass(frozen=True)
class Bilingual:
    """A text in both languages."""

    en: str
    zh: str

    def say(self, language: Language, /, **fields: object) -> str:
        """The text in one of the two languages, with its placeholders filled.

        A field may be bilingual itself. Without fields nothing is a placeholder: braces stand for
        themselves.
        """
        text = self.zh if language == "zh" else self.en
        if not fields:
            return text
        return text.format(**{
            name: value.say(language) if isinstance(value, Bilingual) else value
            for name, value in fields.items()
        })  # fmt: skip

    def format(self, **fields: object) -> "Bilingual":
        """Both texts with their placeholders filled."""
        return Bilingual(self.say("en", **fields), self.say("zh", **fields))

    def __add__(self, other: "Bilingual") -> "Bilingual":
        return Bilingual(self.en + other.en, self.zh + other.zh)

    @staticmethod
    def joined(parts: Iterable["Bilingual"], en: str, zh: str) -> "Bilingual":
        """Several texts with a separator, which each language has of its own."""
        parts = list(parts)
        return Bilingual(en.join(part.en for part in parts), zh.join(part.zh for part in parts))


class Words(Mapping[str, Bilingual]):
    """The text of one TOML file by key; a key in a table is `table key`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @cached_property
    def data(self) -> dict[str, Any]:
        """The parsed file, which may hold other data besides text."""
        import tomllib

        return tomllib.loads(self.file.read_text(encoding="utf-8"))

    @cached_property
    def _texts(self) -> dict[str, Bilingual]:
        return dict(_leaves(self.data))

    def __getitem__(self, key: str) -> Bilingual:
        return self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __call__(self, key: str, **fields: object) -> str:
        """A sentence in the language of this process."""
        return self._texts[key].say(_spoken, **fields)

    def of(self, english: str, key: str | None = None) -> str:
        """An English sentence from the code, in the language of this process.

        Its translation is stored under the sentence itself, unless a key is given.
        """
        key = english if key is None else key
        return english if _spoken == "en" or key not in self else self[key].zh

    def both(self, key: str, **fields: object) -> Bilingual:
        """A sentence in both languages."""
        return self[key].format(**fields)


class Sentences(Mapping[str, str]):
    """The text of some files in one language; of files with the same key, the first counts.

    `sentences(key, name=…)` is a text with its placeholders filled, `sentences[key]` the text as
    the file has it.
    """

    def __init__(self, language: Language, *tables: Words) -> None:
        self.language = language
        self._tables = tables

    def __getitem__(self, key: str) -> str:
        for table in self._tables:
            if key in table:
                return table[key].say(self.language)
        raise KeyError(f"{self._tables[0].file.name} lacks {key!r}, or its Chinese")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for table in self._tables for key in table))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __call__(self, key: str, **fields: object) -> str:
        return self.filled(key, fields)

    def filled(self, key: str, fields: Mapping[str, object]) -> str:
        """The same; only the fields that the text names are looked up."""
        return as_prose(self[key].format_map(fields), self.language)

    def listed(self, items: Sequence[str]) -> str:
        """`a, b and c`, with the `comma` and the `and` of the files."""
        if len(items) < 2:
            return "".join(items)
        return self["and"].join((self["comma"].join(items[:-1]), items[-1]))


# Chinese sets a space between Han and Latin letters or digits, but none between Han characters nor
# around quotation marks. What stands in quotes, such as a token, is left as it is.
_HAN = "\u4e00-\u9fff"
_HAN_OR_SIGN = "\u3000-\u9fff\uff00-\uffef"
_QUOTED = re.compile(" *(“[^”]*”) *")
_BEFORE_HAN = re.compile(rf"(?<=[A-Za-z0-9_%])(?=[{_HAN}])")
_AFTER_HAN = re.compile(rf"(?<=[{_HAN}])(?=[A-Za-z0-9])")
_BETWEEN_HAN = re.compile(rf"(?<=[{_HAN_OR_SIGN}]) +(?=[{_HAN_OR_SIGN}])")
# A label such as `position 1` may begin an English sentence.
_SENTENCE_START = re.compile(r"(?:^|[.!?]\)? )[a-z]")


def as_prose(said: str, language: Language) -> str:
    """A filled text with the spaces of Chinese, or with the capitals of English sentences."""
    if language == "zh":
        parts = _QUOTED.split(said)
        for place in range(0, len(parts), 2):
            part = _AFTER_HAN.sub(" ", _BEFORE_HAN.sub(" ", parts[place]))
            parts[place] = _BETWEEN_HAN.sub("", part)
        return "".join(parts)
    if not said.endswith((".", ".)")):
        return said
    return _SENTENCE_START.sub(lambda found: found[0].upper(), said)


@cache
def words(module: str) -> Words:
    """The text of a module, given as its `__name__`: the TOML file beside it."""
    return Words(_ROOT.joinpath(*module.split(".")[1:]).with_suffix(".toml"))


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Bilingual]]:
    for key, entry in table.items():
        if not isinstance(entry, dict):
            continue
        if isinstance(entry.get("zh"), str):
            yield prefix + key, Bilingual(entry.get("en", prefix + key), entry["zh"])
        else:
            yield from _leaves(entry, f"{prefix}{key} ")


def message_of(error: BaseException) -> str:
    """An error's message in the language of this process, on one line.

    One that errors.toml lacks stays English, with a Chinese prefix.
    """
    whole: object = error if hasattr(error, "template") or not error.args else error.args[0]
    said = str(error)
    if _spoken == "zh" and said:
        known = words("glassformer.errors")
        translated = getattr(whole, "template", said) in known
        said = in_language(whole) if translated else known["{message}"].zh.format(message=said)
    return " ".join(said.split())


def chinese_of(error: BaseException) -> str | None:
    """An error's message in Chinese, on one line; None if errors.toml lacks it."""
    known = getattr(error, "template", str(error)) in words("glassformer.errors")
    return " ".join(in_language(error, "zh").split()) if known else None


# A space before or after a part that has become Chinese, where no Latin word begins or ends.
_AROUND_CHINESE = re.compile(f"(?<=[{_WIDE}]) (?=\0[{_WIDE}])|(?<=[{_WIDE}]\0) (?=[{_WIDE}])")


def in_language(part: object, language: Language | None = None) -> str:
    """Translate an error, or part of its message such as a suggestion or the system's reason.

    Without a language, into that of this process.
    """
    known = words("glassformer.errors")
    template = getattr(part, "template", str(part))
    if (language or _spoken) == "en" or template not in known:
        return str(part)
    fields: dict[str, object] = getattr(part, "fields", {})
    said = known[template].zh.format(**{
        name: f"\0{in_language(value, language)}\0"
        if name in _SENTENCES or hasattr(value, "template")
        else value
        for name, value in fields.items()
    })  # fmt: skip
    return _AROUND_CHINESE.sub("", said).replace("\0", "")


# --- lines of Chinese in a terminal ----------------------------------------------------------

_OPENING = "（《“‘「『【［"
_CLOSING = "，。、；：？！）》”’」』】］…"
# What stays on one line: a wide letter or a word, with the punctuation that belongs to it.
_UNIT = rf"(?:[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}]+|\s)[{_CLOSING}]*|[{_OPENING}]+)\s*"


@dataclass(frozen=True)
class Prose:
    """Text for rich's console that wraps Chinese too; rich itself breaks lines at spaces only."""

    text: str
    style: str = ""

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        lines = broken_lines(self.text, options.max_width)
        yield Text("\n".join(lines), self.style, overflow="fold")

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.text import Text

        return Text(self.text).__rich_measure__(console, options)


def columns_of(text: str) -> int:
    """Width in columns of a terminal: Chinese characters take two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def padded(text: str, width: int) -> str:
    """Text padded with spaces to `width` columns of a terminal."""
    return text + " " * (width - columns_of(text))


def broken_lines(text: str, width: int) -> Iterator[str]:
    """Lines of at most `width` columns; those without wide characters are left to rich."""
    from rich.cells import cell_len

    for line in text.split("\n"):
        if not re.search(f"[{_WIDE}]", line):
            yield line
            continue
        begun = ""
        for unit in re.findall(_UNIT, line):
            if begun and cell_len((begun + unit).rstrip()) > width:
                yield begun.rstrip()
                begun = ""
            begun += unit
        yield begun.rstrip()
