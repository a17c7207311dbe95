"""“What is this?” for review: the sentences of every role, on several models, in both languages.

    python -m benchmarks.meanings                       # toy, imdb, en-de, shakespeare
    python -m benchmarks.meanings --role weights --cells 3
    python -m benchmarks.meanings --model path/to/folder --text "The cat sat"

For each role the first step of each model that has it: what is said of the step, and of some of its
numbers, spread evenly over it. `beam` is what the page says about a search.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np

from glassformer.documents.step_meaning import meaning, title_of
from glassformer.documents.step_roles import attention_of, role_of
from glassformer.explorer.model_list import DecodeRequest, decode
from glassformer.explorer.state import State
from glassformer.language import Language
from glassformer.tasks import load
from glassformer.tracing import Step, Trace

_TEXTS = {
    "toy": "I am not happy",
    "imdb": "The plot is thin, but I did not regret a single minute.",
    "en-de": "A dog runs through the snow.",
    "shakespeare": "KING HENRY:\nWhat say you, my",
}
_SEARCHED = ("en-de", "shakespeare")


def steps_by_role(trace: Trace) -> dict[str, Step]:
    """The first step of each role; that of cross-attention apart."""
    found: dict[str, Step] = {}
    for step in (*trace.parameters.values(), *trace.inputs.values(), *trace.steps):
        attention = attention_of(step)
        is_cross = attention is not None and attention.is_cross
        found.setdefault(f"{role_of(step)} (cross)" if is_cross else role_of(step), step)
    return found


def sentences(step: Step, cells: int, language: Language) -> Iterator[tuple[str, str]]:
    """Of the step, then of some of its numbers: where, and what is said."""
    yield step.name, meaning(step, language).text
    for flat in np.linspace(0, step.view.numel - 1, cells, dtype=int) if cells else ():
        index = tuple(int(place) for place in np.unravel_index(flat, step.shape))
        yield f"{list(index)} = {step[index].value:.6g}", meaning(step[index], language).text


def searches() -> Iterator[tuple[str, Language, str]]:
    """What is said about each way to search."""
    models = State().models
    for name in _SEARCHED:
        ask = partial(DecodeRequest, model=name, text=_TEXTS[name], max_new=12)
        for wanted in (ask(search="beam"), ask(search="greedy"), ask(search="sampling")):
            said = decode(models, wanted).meaning
            assert said is not None
            yield name, "en", said.say("en")
            yield name, "zh", said.say("zh")


def main() -> None:
    parser = argparse.ArgumentParser(description="The sentences of every role, for review.")
    parser.add_argument("--role", action="append", help="this one only; may be repeated")
    parser.add_argument("--cells", type=int, default=1, help="numbers of each step")
    parser.add_argument("--model", help="a shipped name or a folder, instead of the four")
    parser.add_argument("--text", help="what it reads")
    wanted = parser.parse_args()
    texts = _TEXTS if wanted.model is None else {wanted.model: wanted.text or "Hello"}
    found = {
        name: steps_by_role(load(name, attention="written").trace(text))
        for name, text in texts.items()
    }
    languages: tuple[Language, ...] = ("en", "zh")
    for role in dict.fromkeys(role for steps in found.values() for role in steps):
        if wanted.role and role.removesuffix(" (cross)") not in wanted.role:
            continue
        title = title_of(next(steps[role] for steps in found.values() if role in steps))
        print(f"\n## {role}" + (f": {title.en} / {title.zh}" if title is not None else ""))
        for name, steps in found.items():
            for language in languages if role in steps else ():
                for place, said in sentences(steps[role], wanted.cells, language):
                    print(f"- {name}, {language}, {place}: {said}")
    if wanted.model is None and (not wanted.role or "beam" in wanted.role):
        print("\n## beam, greedy, sampling")
        for name, language, said in searches():
            print(f"- {name}, {language}: {said}")


if __name__ == "__main__":
    main()
