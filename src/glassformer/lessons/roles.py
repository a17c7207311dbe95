"""One vector in its three roles: as query, as key, as value."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from glassformer.claims.basic_claims import DECAY, DECAY_STEPS
from glassformer.claims.studies import NOUNS, PLACES, SENTENCE, VERBS, Relatedness
from glassformer.claims.studies import learn_relatedness as train_embeddings
from glassformer.documents.parts import Figure, Paragraph, Part, Table, with_code
from glassformer.lessons.figures.attention_figures import (
    basic_figure,
    key_query_value_figure,
    roles_figure,
)
from glassformer.lessons.illustrated import illustrated_trace
from glassformer.lessons.lesson import LessonStep, Speaker, cell_name, formula, number
from glassformer.lessons.lesson_steps import heat_map, percent
from glassformer.nn.attention import basic_self_attention
from glassformer.tracing import Step, Trace, trace

_CHOSEN, _ENTRY = 1, 1


def steps(say: Speaker) -> Iterator[LessonStep]:
    run, _ = illustrated_trace(say)
    names = run["scores"].labels[-1]
    assert names is not None
    name = names[_CHOSEN]
    yield _basic(run, name, say)
    yield _related(say)
    maps = [
        heat_map(run[step], say, run[step][_CHOSEN, 0])
        for step in ("projected_queries", "projected_keys", "projected_values")
    ]
    parts: list[Part] = [Paragraph(say("vector", name=name)), heat_map(run["x"], say), *maps]
    parts.append(Figure("key-query-value", key_query_value_figure(run, say.language)))
    yield LessonStep("inputs", say("vector title"), tuple(parts))
    yield _scores_step("query", run["projected_queries"], run, name, say)
    yield _scores_step("key", run["projected_keys"], run, name, say)
    yield _value_step(run, names, say).with_(Figure("roles", roles_figure(run, say.language)))


def _basic(run: Trace, name: str, say: Speaker) -> LessonStep:
    """The same inputs through attention without parameters."""
    labels = run["x"].labels[-2]
    assert labels is not None
    basic = trace(basic_self_attention, run["x"].value[0], axis_labels={"x": list(labels)})
    own = basic["scores"][_CHOSEN, _CHOSEN]
    parts: list[Part] = [
        Paragraph(say("basic", name=name, score=number(own.value))),
        formula(own),
        heat_map(basic["scores"], say, own, rows=labels, columns=labels),
        heat_map(basic["weights"], say, rows=labels, columns=labels),
        Figure("basic", basic_figure(basic, say.language)),
    ]
    return LessonStep("basic", say("basic title"), tuple(parts))


@lru_cache(maxsize=1)
def _trained() -> Relatedness:
    return train_embeddings("who", decay=DECAY, steps=DECAY_STEPS)


def _related(say: Speaker) -> LessonStep:
    """Embeddings trained so that a verb finds its subject: their products are the scores."""
    learnt = _trained()
    words = tuple(dict.fromkeys(SENTENCE))
    chosen = learnt.vectors[[learnt.words.index(word) for word in words]]
    basic = trace(basic_self_attention, chosen, axis_labels={"x": list(words)})
    own = basic["scores"][words.index("walks"), words.index("cat")]
    facts = {
        "value": number(own.value, 3),
        "right": percent(learnt.accuracy),
        "least": number(min(learnt.products_between(NOUNS, VERBS)), 3),
        "place": number(max(learnt.products_between(NOUNS, PLACES)), 3),
        "the": number(max(learnt.products_between(("the",), (*NOUNS, *VERBS, *PLACES))), 3),
    }
    parts: list[Part] = [
        Paragraph(say("related", **facts)),
        formula(own),
        heat_map(basic["scores"], say, own, rows=words, columns=words),
        Paragraph(with_code(say("related pairs", **facts))),
    ]
    return LessonStep("basic", say("related title"), tuple(parts))


def _scores_step(role: str, projected: Step, run: Trace, name: str, say: Speaker) -> LessonStep:
    """The scores that depend on the vector's query or key, as found by the trace."""
    scores = run["scores"]
    touched = [
        cell
        for found in projected[_CHOSEN, 0].dependents()
        if found.step is scores
        for cell in found.cells()
    ]
    listed = say.listed([cell_name(cell) for cell in touched])
    parts: list[Part] = [Paragraph(say(role, name=name, cells=listed))]
    parts += [formula(cell) for cell in touched]
    if role == "key":
        own = cell_name(scores[0, 0, _CHOSEN, _CHOSEN])
        parts.append(Paragraph(say("both", cell=own, name=name)))
    parts.append(heat_map(scores, say, scores[0, 0, _CHOSEN, _CHOSEN]))
    return LessonStep(role, say(f"{role} title"), tuple(parts))


def _value_step(run: Trace, names: tuple[str, ...], say: Speaker) -> LessonStep:
    rows = []
    for place, label in enumerate(names):
        cell = run["context"][0, 0, place, _ENTRY]
        weight = run["weights"][0, 0, place, _CHOSEN]
        share = cell.terms[_CHOSEN].value
        rows.append((label, number(weight.value), number(share), number(cell.value)))
    heads = (say("output"), say("weight"), say("part"), say("whole"))
    parts: list[Part] = [Paragraph(say("value", entry=_ENTRY + 1, name=names[_CHOSEN]))]
    parts += [formula(run["context"][0, 0, 0, _ENTRY]), Table("", heads, tuple(rows))]
    return LessonStep("value", say("value title"), tuple(parts))
