"""What the steps of every lesson say, in English and Chinese, by the role of the step.

`{row}` and `{column}` are labels of the chosen cell (tokens where there are some), `{value}` its
number. A test holds both languages to the same placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from glassformer.language import Language, Words, words

# Chinese quotation marks bring their own space.
_QUOTED = re.compile(r" *(“[^”]*”) *")
# Nor do Chinese characters have a space between them, where a label brings one along.
_BETWEEN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) +(?=[\u3000-\u9fff\uff00-\uffef])")
# A label such as `position 1` may begin an English sentence.
_BEGINNING = re.compile(r"(?:^|[.!?]\)? )[a-z]")

ROLES = words(__name__)


class Speaker:
    """Fills templates in one language."""

    def __init__(self, language: Language, *tables: Words) -> None:
        self.language = language
        self._tables = (*tables, ROLES)

    def __call__(self, key: str, **values: object) -> str:
        """The sentence of a key, with its values in place."""
        table = next(table for table in self._tables if key in table)
        said = table[key].say(self.language).format(**values)
        if self.language == "zh":
            return _BETWEEN.sub("", _QUOTED.sub(r"\1", said))
        is_prose = said.endswith((".", ")"))
        return _BEGINNING.sub(lambda found: found[0].upper(), said) if is_prose else said

    def title(self, role: str) -> str:
        """The usual title of a role."""
        return ROLES[f"title {role}"].say(self.language)

    def quoted(self, token: str) -> str:
        """A token inside a sentence; what ends in a number (`input 2`) needs no marks."""
        return token if token[-1:].isdigit() else self("quoted", text=token)

    def listed(self, items: Sequence[str]) -> str:
        """Several things in a row: a, b and c."""
        if len(items) < 2:
            return "".join(items)
        return self("and").join((self("comma").join(items[:-1]), items[-1]))
