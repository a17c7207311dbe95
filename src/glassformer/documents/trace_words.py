"""The renderers' words in English and Chinese, from trace_words.toml."""

from __future__ import annotations

from functools import cache

from glassformer.language import Language, as_language, words


class TraceWords(dict[str, str]):
    """The words of one language by their keys."""

    language: Language


@cache
def words_in(lang: str) -> TraceWords:
    language = as_language(lang)
    found = TraceWords({key: said.say(language) for key, said in words(__name__).items()})
    found.language = language
    return found


def meaning(words: TraceWords, name: str) -> str:
    """What a common name of a step or operator means; empty for other names."""
    parts = [part for part in name.split(".") if not part.isdigit()]
    bare = parts[-1].lstrip("_") if parts else ""
    said = words.get(f"term: {bare}", "")
    return "" if said == bare else said
