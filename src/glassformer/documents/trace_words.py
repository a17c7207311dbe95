"""The renderers' words in English and Chinese, from trace_words.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from glassformer.language import as_language, words
from glassformer.tracing.formula import Phrases
from glassformer.tracing.notes import NOTES, Note
from glassformer.tracing.steps import Head

Words = Mapping[str, str]


@cache
def words_in(lang: str) -> Words:
    """The words of a language; a note of a trace has the key `note: KIND`."""
    language = as_language(lang)
    notes = {f"note: {kind}": note.say(language) for kind, note in NOTES.items()}
    return {key: said.say(language) for key, said in words(__name__).items()} | notes


def note_in(words: Words, note: str) -> str:
    """A trace's note in a language; a free-form note is returned unchanged."""
    return words[f"note: {note.kind}"].format(**note.values) if isinstance(note, Note) else note


def label_in(words: Words, label: str) -> str:
    """The label of a position: heads are translated, tokens are not."""
    return words["head"].format(number=label.number) if isinstance(label, Head) else label


def phrases_in(words: Words) -> Phrases:
    """The words that stand inside formulas."""
    return Phrases(words["others"], words["choice"], words["otherwise"])


def meaning(words: Words, name: str) -> str:
    """What a common name of a step or operator means; empty for other names."""
    parts = [part for part in name.split(".") if not part.isdigit()]
    bare = parts[-1].lstrip("_") if parts else ""
    said = words.get(f"term: {bare}", "")
    return "" if said == bare else said
