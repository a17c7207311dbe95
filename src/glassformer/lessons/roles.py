"""One vector in its three roles: as query, as key, as value."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from glassformer.claims.attention_studies import NOUNS, PLACES, SENTENCE, VERBS, Relatedness
from glassformer.claims.attention_studies import learn_relatedness as train_embeddings
from glassformer.claims.basic_claims import DECAY, DECAY_STEPS
from glassformer.documents.parts import Figure
from glassformer.lessons.figures.attention_figures import (
    basic_figure,
    key_query_value_figure,
    roles_figure,
)
from glassformer.lessons.illustrated import illustrated_trace
from glassformer.lessons.lesson import (
    LessonStep,
    Parts,
    Speaker,
    cell_name,
    formula,
    number,
    percent,
)
from glassformer.lessons.lesson_steps import heat_map
from glassformer.nn.attention import basic_self_attention
from glassformer.tracing import Step, Trace, trace

_CHOSEN, _ENTRY = 1, 1


def steps(say: Speaker) -> Iterator[LessonStep]:
    run, _ = illustrated_trace(say)
    names = run["scores"].labels[-1]
    assert names is not None
    name = names[_CHOSEN]
    yield say.step("basic", "basic", _basic(run, name, say))
    yield say.step("basic", "related", _related(say))
    yield say.step("inputs", "vector", _vector(run, name, say))
    for role, step in (("query", "projected_queries"), ("key", "projected_keys")):
        yield say.step(role, role, _scores(role, run[step], run, name, say))
    yield say.step("value", "value", _value_step(run, names, say))


def _basic(run: Trace, name: str, say: Speaker) -> Parts:
    """The same inputs through attention without parameters."""
    labels = run["x"].labels[-2]
    assert labels is not None
    basic = trace(basic_self_attention, run["x"].value[0], axis_labels={"x": list(labels)})
    own = basic["scores"][_CHOSEN, _CHOSEN]
    yield say("basic", name=name, score=own)
    yield heat_map(run["x"], say)
    yield formula(own)
    yield heat_map(basic["scores"], say, own, rows=labels, columns=labels)
    yield heat_map(basic["weights"], say, rows=labels, columns=labels)
    yield Figure("basic", basic_figure(basic, say.language))


@lru_cache(maxsize=1)
def _trained() -> Relatedness:
    return train_embeddings("who", decay=DECAY, steps=DECAY_STEPS)


def _related(say: Speaker) -> Parts:
    """Embeddings trained so that a verb finds its subject: their products are the scores."""
    learnt = _trained()
    words = tuple(dict.fromkeys(SENTENCE))
    chosen = learnt.vectors[[learnt.words.index(word) for word in words]]
    basic = trace(basic_self_attention, chosen, axis_labels={"x": list(words)})
    own = basic["scores"][words.index("walks"), words.index("cat")]
    facts = {
        "value": number(own, 3),
        "right": percent(learnt.accuracy),
        "least": number(min(learnt.products_between(NOUNS, VERBS)), 3),
        "place": number(max(learnt.products_between(NOUNS, PLACES)), 3),
        "the": number(max(learnt.products_between(("the",), (*NOUNS, *VERBS, *PLACES))), 3),
    }
    yield say("related", **facts)
    yield formula(own)
    yield heat_map(basic["scores"], say, own, rows=words, columns=words)
    yield say("related pairs", **facts)


def _vector(run: Trace, name: str, say: Speaker) -> Parts:
    yield say("vector", name=name)
    yield heat_map(run["x"], say)
    for step in ("projected_queries", "projected_keys", "projected_values"):
        yield heat_map(run[step], say, run[step][_CHOSEN, 0])
    yield Figure("key-query-value", key_query_value_figure(run, say.language))


def _scores(role: str, projected: Step, run: Trace, name: str, say: Speaker) -> Parts:
    """The scores that depend on the vector's query or key, as found by the trace."""
    scores = run["scores"]
    touched = [
        cell
        for found in projected[_CHOSEN, 0].dependents()
        if found.step is scores
        for cell in found.cells()
    ]
    own = scores[0, 0, _CHOSEN, _CHOSEN]
    yield say(role, name=name, cells=say.listed([cell_name(cell) for cell in touched]))
    yield from map(formula, touched)
    if role == "key":
        yield say("both", cell=cell_name(own), name=name)
    yield heat_map(scores, say, own)


def _value_step(run: Trace, names: tuple[str, ...], say: Speaker) -> Parts:
    outputs = [run["context"][0, 0, place, _ENTRY] for place in range(len(names))]
    weights = run["weights"].value[0, 0, :, _CHOSEN]
    rows = (
        (label, number(weight), number(cell.terms[_CHOSEN].value), number(cell))
        for label, weight, cell in zip(names, weights, outputs, strict=True)
    )
    yield say("value", entry=_ENTRY + 1, name=names[_CHOSEN])
    yield formula(outputs[0])
    yield say.table(rows, "output", "weight", "part", "whole")
    yield Figure("roles", roles_figure(run, say.language))
