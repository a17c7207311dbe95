"""The renderers' words in English and Chinese, from trace_words.toml."""

from __future__ import annotations

from functools import cache

from glassformer.language import Language, as_language, words
from glassformer.tracing.notes import NOTES, Note
from glassformer.tracing.steps import Head


class TraceWords(dict[str, str]):
    """The words of one language by their keys."""

    language: Language


@cache
def words_in(lang: str) -> TraceWords:
    """The words of a language; a note of a trace has the key `note: KIND`."""
    language = as_language(lang)
    notes = {f"note: {kind}": note.say(language) for kind, note in NOTES.items()}
    found = TraceWords({key: said.say(language) for key, said in words(__name__).items()} | notes)
    found.language = language
    return found


def note_in(words: TraceWords, note: str) -> str:
    """A trace's note in a language; a free-form note is returned unchanged."""
    return words[f"note: {note.kind}"].format(**note.values) if isinstance(note, Note) else note


def label_in(words: TraceWords, label: str) -> str:
    """The label of a position: heads are translated, tokens are not."""
    return words["head"].format(number=label.number) if isinstance(label, Head) else label


def meaning(words: TraceWords, name: str) -> str:
    """What a common name of a step or operator means; empty for other names."""
    parts = [part for part in name.split(".") if not part.isdigit()]
    bare = parts[-1].lstrip("_") if parts else ""
    said = words.get(f"term: {bare}", "")
    return "" if said == bare else said
