"""mary gave roses to susan: why several heads help, and what positions have to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from glassformer.claims.attention_studies import (
    ROLE_NAMES,
    ROLE_SENTENCE,
    Positions,
    RoleReading,
    learn_roles,
)
from glassformer.documents.parts import Figure, Formula, HeatMap, Paragraph, Part
from glassformer.lessons.figures.head_figures import gave_figure
from glassformer.lessons.lesson import LessonStep, Parts, Speaker, formula, number, percent
from glassformer.lessons.lesson_steps import heat_map
from glassformer.tracing import Trace, trace

_GAVE = ROLE_SENTENCE.index("gave")
_ROLES = _GIVER, _GIFT, _RECEIVER = 0, 2, 4
_STARTS = 3


@lru_cache(maxsize=8)
def _reading(n_heads: int, positions: Positions, seed: int = 0) -> RoleReading:
    return learn_roles(n_heads, positions, seed=seed)


def steps(say: Speaker) -> Iterator[LessonStep]:
    one, two = _reading(1, "in scores"), _reading(2, "in scores")
    both = {"one": percent(one.giver_and_receiver), "two": percent(two.giver_and_receiver)}
    yield say.step("question", "question", [say("question", **both)])
    bags = [_reading(1, "none"), _reading(2, "none")]
    change = number(max(found.change_when_swapped for found in bags), 2)
    yield _step("none", say("none", change=change), bags, say)
    yield _step("one", _one_head(one, say), [one], say).with_(*_starts(say))
    yield _step("two", _two_heads(two, say), [two], say)
    added = _reading(1, "added")
    said = say("added", both=percent(added.giver_and_receiver))
    yield _step("added", said, [added], say).with_(*_code(added, say))


def _one_head(found: RoleReading, say: Speaker) -> str:
    """What one head did with giver and receiver, according to its weights."""
    giver, receiver = (float(found.weights[0, at]) for at in (_GIVER, _RECEIVER))
    facts = {
        "giver_weight": _weight(giver), "receiver_weight": _weight(receiver),
        "both": percent(found.giver_and_receiver),
    }  # fmt: skip
    if _mixes(found):
        return say("one mixes", **facts)
    people = [(say("the giver"), found.giver), (say("the receiver"), found.receiver)]
    (kept, kept_right), (lost, lost_right) = people if giver > receiver else reversed(people)
    return say(
        "one keeps", kept=kept, lost=lost, kept_right=percent(kept_right),
        lost_right=percent(lost_right), **facts,
    )  # fmt: skip


def _mixes(found: RoleReading) -> bool:
    """Whether a head attends to both, neither ten times as much as the other."""
    giver, receiver = (float(found.weights[0, at]) for at in (_GIVER, _RECEIVER))
    return min(giver, receiver) > 0.1 * max(giver, receiver)


def _starts(say: Speaker) -> list[Part]:
    """One head, trained from several random initialisations."""
    readings = [_reading(1, "in scores", seed) for seed in range(_STARTS)]
    rows = (
        (str(start), *map(_weight, found.weights[0, [_GIVER, _RECEIVER]].tolist()),
         *map(percent, _shares(found)))
        for start, found in enumerate(readings, start=1)
    )  # fmt: skip
    names = ("start", "giver weight", "receiver weight", "giver", "gift", "receiver", "both")
    mixing = sum(map(_mixes, readings))
    said = say(
        "starts", starts=_STARTS, losing=_STARTS - mixing, mixing=mixing,
        most=percent(max(found.giver_and_receiver for found in readings)),
    )  # fmt: skip
    return [Paragraph(said), say.table(rows, *names)]


def _two_heads(found: RoleReading, say: Speaker) -> str:
    giver, receiver = (found.weights[:, at] for at in (_GIVER, _RECEIVER))
    return say(
        "two", giver_head=int(giver.argmax()) + 1, giver_weight=_weight(float(giver.max())),
        receiver_head=int(receiver.argmax()) + 1,
        receiver_weight=_weight(float(receiver.max())), both=percent(found.giver_and_receiver),
    )  # fmt: skip


def _code(found: RoleReading, say: Speaker) -> list[Part]:
    """How one head can tell giver from receiver: its weights in sentences about susan."""
    mary, gave, gift, to, susan = ROLE_SENTENCE
    other_gift = (mary, gave, "books", to, susan)
    others = [name for name in ROLE_NAMES if name != susan]
    given = [(name, gave, gift, to, susan) for name in others]
    sentences = [*given, other_gift, *((susan, gave, gift, to, name) for name in others)]
    rows = (
        (" ".join(words), *(_weight(found.weights_in(words)[at]) for at in _ROLES))
        for words in sentences
    )
    shares = [found.weights_in(words)[_RECEIVER] for words in given]
    top_weight, top = max(zip(found.weights_in(ROLE_SENTENCE), ROLE_SENTENCE, strict=True))
    said = say(
        "code", top=top, top_weight=_weight(top_weight),
        least=_weight(min(shares)), most=_weight(max(shares)),
        gift=gift, gift_weight=_weight(found.weights_in(ROLE_SENTENCE)[_GIFT]), other_gift="books",
        other_weight=_weight(found.weights_in(other_gift)[_GIFT]),
        giver_by_average=percent(found.giver_by_average),
        receiver_by_average=percent(found.receiver_by_average),
    )  # fmt: skip
    heads = ("sentence", "the giver", "the gift", "the receiver")
    return [Paragraph(said), say.table(rows, *heads, caption=say("weights of gave"))]


def _weight(share: float) -> str:
    """A weight in a column of weights."""
    return f"{share:.3f}"


def _step(key: str, said: str, readings: list[RoleReading], say: Speaker) -> LessonStep:
    return say.step(key, key, _parts(key, said, readings, say))


def _parts(key: str, said: str, readings: list[RoleReading], say: Speaker) -> Parts:
    rows = ((str(found.n_heads), *map(percent, _shares(found))) for found in readings)
    yield said
    yield say.table(rows, "heads", "giver", "gift", "receiver", "both")
    runs = [_trace(found) for found in readings]
    if key == "two":
        yield Figure("gave", gave_figure(runs[0], ROLE_SENTENCE, _GAVE, say.language))
    yield say("matrices")
    for run in runs:
        yield from _weights(run, say)


def _shares(found: RoleReading) -> tuple[float, ...]:
    return found.giver, found.gift, found.receiver, found.giver_and_receiver


def _trace(found: RoleReading) -> Trace:
    """The trained model on “mary gave roses to susan”."""
    return trace(found.model, found.ids, axis_labels={"ids": list(ROLE_SENTENCE)})


def _weights(run: Trace, say: Speaker) -> list[Formula | HeatMap]:
    """Every head's weights; the largest weight of “gave” in the first head is written out."""
    weights = run["weights"]
    chosen = weights[0, 0, _GAVE, int(weights.value[0, 0, _GAVE].argmax())]
    maps = [
        heat_map(
            weights, say, chosen if head == 0 else None, head=head, rows=ROLE_SENTENCE,
            columns=ROLE_SENTENCE,
        )
        for head in range(weights.shape[1])
    ]  # fmt: skip
    return [formula(chosen), *maps]
