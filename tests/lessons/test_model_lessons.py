"""The lessons on decoding, attention, training, recurrence, tasks, images and masked words.

What they state is held against computations that share no code with them.
"""

import copy
import inspect
import math
import re
import runpy
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.claims.claim import stored_results
from glassformer.claims.properties import (
    RecurrentLayer,
    layer_cost,
    make_layer,
    path_length,
    path_lengths,
)
from glassformer.claims.specimens import seeded, vectors
from glassformer.data.readers import read_digits, split_digits
from glassformer.decoding import Sampling
from glassformer.documents import render, render_text
from glassformer.documents.parts import Paragraph, Table, plain
from glassformer.language import Language, words
from glassformer.lessons import LESSONS, Formula, Lesson, make_lesson, recurrence, several_tasks
from glassformer.lessons import attention_limits as limits
from glassformer.lessons import decoding_methods as decoding
from glassformer.lessons import image_patches as images
from glassformer.lessons import learning_curves as curves
from glassformer.lessons import masked_words as masked
from glassformer.lessons.training_step import two_steps
from glassformer.tasks import load
from glassformer.tracing import trace
from tests.lessons.shared_lessons import lesson

NAMES = ("decoding", "attention", "training", "recurrence", "tasks", "images", "masked-words")
HAN = re.compile("[\u4e00-\u9fff]")
ROOT = Path(__file__).parents[2]


def choices(name: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = import_module(
        f"glassformer.lessons.{LESSONS[name].module}"
    ).CHOICES
    return found


def switched() -> Iterator[tuple[str, str, str]]:
    for name in NAMES:
        for switch, values in choices(name).items():
            for value in values[1:]:
                yield name, switch, value


def prose(made: Lesson) -> str:
    return " ".join(plain(part.text) for part in made.parts() if isinstance(part, Paragraph))


def tables(made: Lesson, role: str) -> list[Table]:
    steps = (step for step in made.steps if step.role == role)
    return [part for step in steps for part in step.parts if isinstance(part, Table)]


# --- all of them -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "switch", "value"), list(switched()))
def test_every_position_of_a_switch_makes_a_lesson(name: str, switch: str, value: str) -> None:
    english, chinese = (make_lesson(name, lang, **{switch: value}) for lang in ("en", "zh"))
    assert [step.role for step in english.steps] == [step.role for step in chinese.steps]
    assert not HAN.search(prose(english)) and HAN.search(prose(chinese))
    assert prose(english) != prose(lesson(name)), "the switch changes nothing that is said"
    for part in english.parts():
        if isinstance(part, Formula):
            assert part.cell.recomputed == pytest.approx(float(part.cell.value), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_switch_has_its_default_first_and_names_in_both_languages(name: str) -> None:
    module = f"glassformer.lessons.{LESSONS[name].module}"
    table, parameters = words(module), inspect.signature(import_module(module).steps).parameters
    for switch, values in choices(name).items():
        assert parameters[switch].default == values[0]
        for key in (f"choice {switch}", *(f"choice {switch} {value}" for value in values)):
            assert table[key].en and table[key].zh


@pytest.mark.parametrize("to", ["terminal", "html", "md", "tex", "json"])
@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_written_in_every_format(name: str, to: str) -> None:
    language: Language = "zh" if to in ("html", "tex") else "en"
    made = lesson(name, language)
    text = render_text(made.document(), to)
    assert made.title in text
    if to == "terminal":
        assert not re.search(r"\{\w*\}", prose(made))


@pytest.mark.parametrize(
    "name",  # that of the images has 78,000 formulas
    [pytest.param(name, marks=pytest.mark.slow if name == "images" else ()) for name in NAMES],
)
def test_a_lesson_becomes_a_workbook(name: str, tmp_path: Path) -> None:
    """Of a model with millions of numbers, the steps shown and what they read."""
    render(lesson(name).document(), path=tmp_path / "lesson.xlsx")
    assert (tmp_path / "lesson.xlsx").stat().st_size > 4000


# --- decoding --------------------------------------------------------------------------------


def every_sentence() -> dict[tuple[str, ...], float]:
    """All sentences of the table with their probabilities, by brute force."""
    found = {}
    for middle in product(decoding.WORDS, repeat=3):
        path = ("<start>", *middle, "<end>")
        shares = [decoding.NEXT.get(a, {}).get(b, 0.0) for a, b in pairwise(path)]
        if math.prod(shares):
            found[middle] = math.prod(shares)
    return found


def test_the_beam_finds_the_best_sentence_and_greedy_does_not() -> None:
    known = every_sentence()
    assert sum(known.values()) == pytest.approx(1)
    best = max(known, key=known.__getitem__)
    beam, greedy = (decoding.search(method).best for method in ("beam", "greedy"))
    assert decoding.said(beam.tokens).split() == list(best)
    assert beam.log_probability == pytest.approx(math.log(known[best]), abs=1e-5)
    word, path = "<start>", []
    while word != "<end>":
        word = max(decoding.NEXT[word], key=decoding.NEXT[word].__getitem__)
        path.append(word)
    assert decoding.said(greedy.tokens).split() == path[:-1]
    said = prose(lesson("decoding"))
    ranked = sorted(known.values(), reverse=True)
    assert f"number {ranked.index(known[tuple(path[:-1])]) + 1}:" in said
    assert f"all {len(known)} sentences" in said


@pytest.mark.parametrize("method", ["beam", "greedy"])
def test_a_candidate_has_the_sum_of_its_words(method: str) -> None:
    ledger = decoding.search(method).ledger
    assert ledger is not None
    found = list(decoding.beginnings(decoding.tree_steps(ledger)))
    assert len({text for text, _ in found}) == len(found)
    for text, candidate in found:
        path = ["<start>", *text.split()]
        total = sum(math.log(decoding.NEXT[a][b]) for a, b in pairwise(path))
        assert candidate.total == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_is_a_power_of_the_probabilities(temperature: float) -> None:
    shares = np.array(list(decoding.NEXT["the"].values())) ** (1 / temperature)
    found = decoding.chances("the", Sampling(temperature=temperature))
    np.testing.assert_allclose(found, shares / shares.sum(), rtol=1e-5)
    total = sum(one.probability for one in decoding.all_sentences(temperature))
    assert total == pytest.approx(1)


def test_draws_come_as_often_as_they_should() -> None:
    """Within five standard deviations of a binomial distribution."""
    for sentence, share in every_sentence().items():
        drawn = decoding.drawn(1.0).get(" ".join(sentence), 0)
        assert abs(drawn - 1000 * share) < 5 * math.sqrt(1000 * share * (1 - share)) + 1


def test_the_translations_have_the_log_probabilities_that_the_model_gives_them() -> None:
    model, found = load("en-de"), decoding._translated()
    source = torch.tensor([model.read([found[0].input])[0].ids])
    special = model.writer.special
    for one in found:
        target = torch.tensor([[special.start, *one.alternatives[0].ids, special.end]])
        with torch.no_grad():
            logits = model.module(source, target[:, :-1])
        logs = torch.log_softmax(logits.double(), dim=-1)[0].gather(-1, target[0, 1:, None])
        assert float(logs.sum()) == pytest.approx(one.alternatives[0].log_probability, abs=1e-3)
    logs_of = [one.alternatives[0].log_probability for one in found]
    assert f"{math.exp(logs_of[1] - logs_of[0]):.0f} times" in prose(lesson("decoding"))


# --- attention -------------------------------------------------------------------------------


def test_equal_weights_are_those_of_a_model_without_queries() -> None:
    """With W_Q = 0 all scores are 0, and every weight is the same."""
    reading = limits.read(limits.SENTENCES["asleep"])
    model = load("imdb")
    module = copy.deepcopy(model.module)
    for name, parameter in module.named_parameters():
        if name.endswith("to_queries.weight"):
            torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        logits = module(torch.tensor([model.read([reading.sentence])[0].ids]))
    share = float(torch.softmax(logits[0].double(), dim=-1)[reading.answer.index[-1]])
    assert reading.probability_if(range(len(reading.weights))) == pytest.approx(share, abs=1e-5)


def test_evenness_is_entropy_over_that_of_equal_weights() -> None:
    for step in limits.read(limits.SENTENCES["story"]).weights:
        values = step.value[0].double().numpy()
        rows = [[-sum(a * math.log(a) for a in row if a > 0) for row in head] for head in values]
        wanted = np.mean(rows, axis=1) / math.log(values.shape[-1])
        np.testing.assert_allclose(limits.evenness(step), wanted, rtol=1e-9)


def test_the_decisive_word_is_the_one_whose_deletion_changes_most() -> None:
    sentence = limits.SENTENCES["asleep"]
    reading, changes = limits.read(sentence), {}
    for token in reading.tokens:
        (said,) = load("imdb").classify([" ".join(t for t in reading.tokens if t != token)])
        changes[token] = abs(said.probabilities[reading.label] - reading.probability)
    most = max(changes, key=changes.__getitem__)
    assert f"Without “{most}”" in prose(lesson("attention"))


def test_agreement_counts_pairs() -> None:
    assert limits.agreement([3, 2, 1], [30, 20, 10]) == (3, 3)
    assert limits.agreement([3, 2, 1], [-30, 20, 10]) == (3, 3)
    assert limits.agreement([3, 2, 1], [10, 20, 30]) == (0, 3)


# --- training --------------------------------------------------------------------------------


def stepped_by_hand(rate: float) -> tuple[float, float]:
    """Loss before and after one step, with the derivatives written out."""
    x, wanted = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    first = np.array([[0.5, 0.2], [-0.4, -0.1], [0.1, 0.3]])
    second = np.array([[0.3, -0.2, 0.4], [0.1, 0.5, -0.3]])
    hidden = first @ x
    active = np.maximum(hidden, 0)
    error = second @ active - wanted
    slope = error  # of the mean of two squares
    back = (second.T @ slope) * (hidden > 0)
    new_first, first_bias = first - rate * np.outer(back, x), -rate * back
    new_second, second_bias = second - rate * np.outer(slope, active), -rate * slope
    output = new_second @ np.maximum(new_first @ x + first_bias, 0) + second_bias
    return float(np.mean(error**2)), float(np.mean((output - wanted) ** 2))


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 1.0])
def test_a_step_does_what_the_derivatives_say(rate: float) -> None:
    before, after = stepped_by_hand(rate)
    assert curves.loss_after(rate) == pytest.approx(after, rel=1e-4)
    found = two_steps(rate).first
    assert float(found["loss"].value) == pytest.approx(before, rel=1e-5)


def test_the_three_rates_are_called_what_they_are() -> None:
    said = {rate: prose(make_lesson("training", rate=rate)) for rate in curves.RATES}
    assert "A good step." in said["good"]
    assert "very many such steps" in said["small"]
    assert "it has become larger" in said["large"]


def test_the_stored_curves_show_overfitting_and_come_from_the_script() -> None:
    script = runpy.run_path(str(ROOT / "examples" / "record_curves.py"), run_name="script")
    stored = curves.stored_curves()
    assert {name: curve.rate for name, curve in stored.curves.items()} == script["RATES"]
    good = stored.curves["good"]
    assert good.steps[-1] == script["STEPS"] and good.steps[0] == script["EVERY"]
    lowest = int(np.argmin(good.validation))
    assert 0 < lowest < len(good.steps) - 1, "the validation loss turns round"
    assert good.training[-1] == min(good.training)
    said = prose(lesson("training"))
    assert f"least at step {good.steps[lowest]}" in said and "That is overfitting." in said


@pytest.mark.slow
def test_the_script_finds_the_first_points_of_the_curve_again() -> None:
    script = runpy.run_path(str(ROOT / "examples" / "record_curves.py"), run_name="script")
    found = script["curves"](script["RATES"]["good"], steps=2 * script["EVERY"])
    stored = curves.stored_curves().curves["good"]
    np.testing.assert_allclose(found["training"], stored.training[:2], rtol=0.01)
    np.testing.assert_allclose(found["validation"], stored.validation[:2], rtol=0.01)


# --- recurrence ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["recurrence", "attention", "convolution"])
def test_the_steps_between_words_are_measured_by_derivatives(kind: str) -> None:
    n = len(recurrence.WORDS)
    with seeded(0):
        layer = make_layer(recurrence._kind(kind), n, 4)
    step = layer.step if isinstance(layer, RecurrentLayer) else layer
    measured = int(path_lengths(step, vectors(n, 4), n)[5, 1])
    assert measured == path_length(recurrence._kind(kind), 4)
    drawn = next(f for f in make_lesson("recurrence", model=kind).figures() if f.name == "path")
    hops = re.findall(r'font-weight="650"[^>]*>(\d)<', drawn.drawing.svg())
    assert hops == [str(hop + 1) for hop in range(measured)]


def test_what_one_layer_recalls() -> None:
    """A convolution cannot see the first of 16 tokens; attention sees it from any other seed."""
    assert recurrence.recall("convolution", 16) < 0.25
    assert all(recurrence.recall("attention", 16, seed) > 0.95 for seed in (0, 1))
    assert all(recurrence.recall("recurrence", 16, seed) < 0.6 for seed in (0, 1))
    assert recurrence.recall("recurrence", 2) > 0.95


def test_the_multiplications_are_those_of_the_products() -> None:
    length, width = 1024, 512
    attention = 3 * length * width**2 + 2 * length**2 * width
    assert layer_cost("attention", length, width).multiply_adds == attention
    assert layer_cost("recurrence", length, width).multiply_adds == 2 * length * width**2
    (table,) = tables(lesson("recurrence"), "growth")
    row = next(row for row in table.rows if row[0] == f"{length:,}")
    assert row[2] == f"{attention / 1e6:,.0f}"


def test_the_stored_translators_are_those_of_the_results() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for one in stored_results("multi30k"):
        bleu = " / ".join(f"{one.figures[f'bleu_{s}']:.2f}" for s in ("2016", "2017", "mscoco"))
        recipe = one.command.removeprefix("glassformer ")
        line = next(line for line in text.splitlines() if line.startswith(f"| `{recipe}` "))
        assert f"cased BLEU {bleu}" in line and f"| {one.figures['seconds']} s |" in line


# --- tasks -----------------------------------------------------------------------------------


def test_the_pairs_follow_their_rules_and_the_held_out_ones_are_new() -> None:
    assert several_tasks.answer("translate", ("two", "cat", "sits")) == ("zwei", "Katze", "sitzt")
    assert several_tasks.answer("reverse", ("a", "b", "c")) == ("c", "b", "a")
    for letters in product("abcdefgh", repeat=3):
        late = sum(letter >= "e" for letter in letters) >= 2
        assert several_tasks.answer("classify", letters) == (("early", "late")[late],)
    for task in several_tasks.TASKS:
        train, held_out = several_tasks.split(task)
        assert not {pair.source for pair in train} & {pair.source for pair in held_out}
        assert several_tasks.EXAMPLES[task] in {pair.source for pair in held_out}


def test_one_model_answers_three_tasks_that_it_was_not_trained_on() -> None:
    learned = several_tasks.learn_all()
    assert min(learned.right.values()) > 0.9
    for task, source in several_tasks.EXAMPLES.items():
        read = torch.tensor([several_tasks.ids((task, *source))])
        written = [several_tasks._START]
        while written[-1] != several_tasks._END and len(written) < 6:
            with torch.no_grad():
                written.append(int(learned.model(read, torch.tensor([written]))[0, -1].argmax()))
        said = tuple(several_tasks.VOCABULARY[id_] for id_ in written[1:-1])
        assert learned.answers([(task, *source)]) == [said]
        assert f"writes “{' '.join(said)}”" in prose(make_lesson("tasks", task=task))


# --- images ----------------------------------------------------------------------------------


def test_the_stored_images_are_test_images_and_the_model_recognises_the_others_too() -> None:
    _, _, test = split_digits(read_digits())
    for digit, one in images._stored()["samples"].items():
        assert test.labels[one["test_image"]] == int(digit)
        pixels = torch.from_numpy(test.images[one["test_image"]]).unsqueeze(0)
        assert torch.equal(images.image(digit), pixels)
    answers = images.shares(torch.from_numpy(test.images)).argmax(dim=-1).numpy()
    accuracy = float((answers == test.labels).mean())
    assert accuracy == pytest.approx(images.stored_scores()["test"]["accuracy"], abs=0.006)
    assert f"Of {len(test.labels)} test images" in prose(lesson("images"))


def test_patches_are_cut_in_reading_order() -> None:
    pixels = images.image("3")
    run = trace(images.classifier(), pixels)
    cut = pixels[0, 0].unfold(0, 2, 2).unfold(1, 2, 2).reshape(16, 4)
    assert torch.equal(run["model.encoder.embedding.patches"].value.reshape(16, 4), cut)
    mixed = images.shuffled(pixels)[0, 0].unfold(0, 2, 2).unfold(1, 2, 2).reshape(16, 4)
    assert sorted(mixed.tolist()) == sorted(cut.tolist()) and not torch.equal(mixed, cut)


def test_without_positions_shuffled_patches_would_be_the_same_picture() -> None:
    model = copy.deepcopy(images.classifier())
    torch.nn.init.zeros_(model.get_parameter("model.encoder.positions.table.weight"))
    pixels = images.image("3")
    with torch.no_grad():
        one, other = model(pixels), model(images.shuffled(pixels))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    assert (images.shares(pixels) - images.shares(images.shuffled(pixels))).abs().max() > 0.5


def test_covering_blanks_one_patch() -> None:
    pixels = images.image("0")
    read = images.ReadDigit("0", pixels, trace(images.classifier(), pixels))
    blank = pixels.clone()
    blank[0, 0, 2:4, 4:6] = 0
    wanted = float(images.shares(blank)[0, read.answer])
    assert images.covered(read)[6] == pytest.approx(wanted, abs=1e-5)


# --- masked words ----------------------------------------------------------------------------


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("word", ["great", "book", "loved"])
def test_the_models_learn_what_the_sentences_say(word: str, right: bool) -> None:
    """Compared with a count that looks at the words' kinds instead of the sentences."""
    kinds = (("great", "lovely"), ("bad", "dull"), ("book", "novel"), ("loved", "praised"))
    possible: tuple[str, ...] = next(kind for kind in kinds if word in kind)
    if word == "great" and not right:
        possible = (*kinds[0], *kinds[1])
    place = masked.SENTENCE.index(word)
    wanted = dict.fromkeys(possible, 1 / len(possible))
    assert masked.counted(masked.SENTENCE, place, right=right) == wanted
    found = masked.guesses(masked.SENTENCE, place, right=right)
    for candidate in masked.VOCABULARY:
        assert found[candidate] == pytest.approx(wanted.get(candidate, 0.0), abs=0.05)


def test_reading_left_to_right_does_not_see_the_verdict() -> None:
    place = masked.SENTENCE.index("great")
    sentences = masked.SENTENCE, masked.other_verdict()
    left = [masked.guesses(words, place, right=False) for words in sentences]
    both = [masked.guesses(words, place, right=True)["great"] for words in sentences]
    assert left[0] == left[1] and both[0] - both[1] > 0.4
    assert "exactly the same answer as before" in prose(lesson("masked-words"))
