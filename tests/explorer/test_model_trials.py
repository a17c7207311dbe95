"""What the cards of the start page promise: texts that a model gets right and wrong, run."""

import math

import pytest

from glassformer.documents.meaning_phrases import digits, percent
from glassformer.explorer.model_list import (
    DecodeRequest,
    ModelInfo,
    Models,
    TrialInfo,
    decode,
    open_text,
)
from glassformer.explorer.overview import answer_of
from glassformer.explorer.schemas import Answer
from glassformer.tasks import load

CARDS = {card.name: card for card in Models().cards}


def answer(model: str, trial: TrialInfo | None) -> Answer:
    assert trial is not None
    return answer_of(open_text(load(model, attention="written"), model, trial.text, None))


def said(found: Answer) -> str:
    return "undecided" if found.undecided else found.text


@pytest.mark.parametrize("card", [CARDS[name] for name in ("toy", "imdb", "en-de", "en-zh")])
def test_each_trial_ends_as_its_card_says(card: ModelInfo) -> None:
    assert card.works is not None and card.fails is not None
    assert said(answer(card.name, card.works)) == card.works.right
    assert said(answer(card.name, card.fails)) != card.fails.right
    assert card.fails.why is not None and card.domain is not None


def test_the_reasons_are_true() -> None:
    toy = load("toy")
    assert CARDS["toy"].words == ["I", "you", "we", "am", "are", "very", "not", "happy", "sad"]
    assert toy.unknown_words("I am not glad") == ["glad"]
    assert load("shakespeare").unknown_words("In 1999 we") == ["1", "9"]
    imdb = load("imdb")
    assert [one.label for one in imdb.classify(["bad", "not bad"])] == ["negative", "negative"]
    for name, words, pieces in (
        ("en-de", "neural network", "ne ur al ␣n etw ork"),
        ("en-zh", "My grandmother bakes", "My ␣grand m other ␣b akes"),
    ):
        reader = load(name).reader
        assert reader.display_tokens(reader.encode(words)) == pieces.split()


def test_a_tie_and_the_unknown_are_named() -> None:
    found = answer("toy", CARDS["toy"].fails)
    assert found.undecided and found.unknown == ["glad"] and found.n_unknown == 1
    assert not answer("toy", CARDS["toy"].works).undecided


def test_a_search_says_what_it_does_and_how_sure_it_was() -> None:
    models = Models()
    found = decode(models, DecodeRequest(model="en-de", text="A dog runs.", search="beam"))
    assert found.meaning is not None and "Beam search (size 4)" in found.meaning.en
    (_, first), (other, second) = found.results[:2]
    assert digits(first) in found.meaning.en and f"“{other}”，得分 {digits(second)}" in (
        found.meaning.zh
    )
    greedy = decode(models, DecodeRequest(model="en-de", text="A dog runs.", search="greedy"))
    taken = [one for step in greedy.steps for one in step.candidates if one.fate != "dropped"]
    weakest = min(taken, key=lambda one: one.log_probability)
    assert greedy.meaning is not None
    share = percent(math.exp(weakest.log_probability))
    assert f"“{weakest.text.strip('␣')}”, which had {share}" in greedy.meaning.en


def test_only_a_small_vocabulary_is_listed() -> None:
    assert {name for name, card in CARDS.items() if card.words} == {"toy"}
    assert next(iter(CARDS)) == "en-de"
