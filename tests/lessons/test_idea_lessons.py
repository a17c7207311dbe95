"""The lessons on ideas: what they state, held against loops, numpy and torch.nn; every switch."""

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassformer.claims.claim import stored_results
from glassformer.claims.training_studies import (
    PROMPT_LENGTH,
    TEXT_LENGTH,
    NormPlace,
    SwitchedStack,
    learn_next_token,
    signals_at_depth,
)
from glassformer.documents import render_text
from glassformer.documents.data_charts import Axes, Series, bar_chart, line_chart
from glassformer.documents.parts import Paragraph, Table, plain
from glassformer.language import Language
from glassformer.lessons import LESSONS, Figure, Formula, HeatMap, Lesson, make_lesson
from glassformer.lessons import position_encodings as positions
from glassformer.lessons import score_scaling as scaling
from glassformer.lessons import several_heads as heads
from glassformer.lessons import stack_depth as depth
from glassformer.lessons import word_order as order
from glassformer.lessons.causal_masks import LETTERS, changes
from tests.lessons.test_figures import drawing_of, placed

LANGUAGES: tuple[Language, ...] = ("en", "zh")
IDEAS = ("order", "positions", "scaling", "mask", "depth", "heads")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def choices(name: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = import_module(
        f"glassformer.lessons.{LESSONS[name].module}"
    ).CHOICES
    return found


def switchings() -> Iterator[tuple[str, dict[str, str]]]:
    for name in IDEAS:
        switches = choices(name)
        for values in product(*switches.values()):
            yield name, dict(zip(switches, values, strict=True))


SWITCHINGS = list(switchings())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No training of seconds for every switch; the studies behind them have tests of their own."""
    monkeypatch.setattr(
        positions, "_learned_now", lambda kind: (0.5,) * (3 - 2 * (kind == "learned"))
    )
    monkeypatch.setattr(depth, "accuracy_at", lambda *_: 0.5)


@cache
def made(name: str, language: Language, switches: tuple[tuple[str, str], ...]) -> Lesson:
    return make_lesson(name, language, **dict(switches))


def switched(name: str, language: Language = "en", **switches: str) -> Lesson:
    return made(name, language, tuple(switches.items()))


def said(found: Lesson, role: str) -> str:
    parts = [part for step in found.steps if step.role == role for part in step.parts]
    return " ".join(plain(part.text) for part in parts if isinstance(part, Paragraph))


def tables(found: Lesson, role: str) -> list[Table]:
    return [
        part
        for step in found.steps
        if step.role == role
        for part in step.parts
        if isinstance(part, Table)
    ]


def maps(found: Lesson, role: str) -> list[HeatMap]:
    return [
        part
        for step in found.steps
        if step.role == role
        for part in step.parts
        if isinstance(part, HeatMap)
    ]


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


# --- every switch, both languages, all formats ---


@pytest.mark.parametrize(("name", "switches"), SWITCHINGS)
def test_every_switch_gives_a_whole_lesson_in_both_languages(
    name: str, switches: dict[str, str]
) -> None:
    english, chinese = (switched(name, language, **switches) for language in LANGUAGES)
    assert 4 <= len(english.steps) <= 8
    assert [step.role for step in english.steps] == [step.role for step in chinese.steps]
    for one, other in zip(english.steps, chinese.steps, strict=True):
        assert [type(part) for part in one.parts] == [type(part) for part in other.parts]
        for part in one.parts:
            assert not (isinstance(part, Paragraph) and CHINESE.search(plain(part.text)))
        for part in other.parts:
            assert not isinstance(part, Paragraph) or CHINESE.search(plain(part.text))
    for part in english.parts():
        if isinstance(part, Formula):
            value = float(part.cell.value)
            assert math.isinf(value) or part.cell.recomputed == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(("name", "switches"), SWITCHINGS)
def test_figures_stay_on_their_paper_and_no_text_covers_another(
    name: str, switches: dict[str, str]
) -> None:
    for language in LANGUAGES:
        found = switched(name, language, **switches).figures()
        assert found and len({figure.name for figure in found}) == len(found)
        for figure in found:
            assert_readable(figure)


def assert_readable(figure: Figure) -> None:
    drawing = drawing_of(figure)
    svg = drawing.svg()
    ElementTree.fromstring(svg)
    assert not re.search(r"href|url\(|<script|\bid=", svg)
    lines = placed(svg)
    for at, (one, size, a) in enumerate(lines):
        assert size >= 9, one
        assert a.left >= 0 and a.right <= drawing.width + 1, (figure.name, one)
        assert a.top >= 0 and a.bottom <= drawing.height, (figure.name, one)
        for other, _, b in lines[at + 1 :]:
            across = min(a.right, b.right) - max(a.left, b.left)
            down = min(a.bottom, b.bottom) - max(a.top, b.top)
            assert across <= 0.14 * min(a.width, b.width) or down <= 0, (figure.name, one, other)


@pytest.mark.parametrize("name", IDEAS)
def test_all_formats(name: str) -> None:
    for language in LANGUAGES:
        found = switched(name, language)
        document = found.document()
        for to in ("md", "tex", "html", "terminal"):
            text = render_text(document, to)
            assert all(step.title in text for step in found.steps) or to == "tex"
            if to == "terminal":
                assert max(map(_columns, text.splitlines())) <= 80
        json.dumps(found.to_dict(), allow_nan=False)


def _columns(line: str) -> int:
    plain_line = re.sub(r"\x1b\[[\d;]*m", "", line)
    return sum(2 if CHINESE.match(sign) else 1 for sign in plain_line)


@pytest.mark.parametrize("name", IDEAS)
def test_each_switch_and_value_has_a_label(name: str) -> None:
    from glassformer.language import words as prose

    table = prose(f"glassformer.lessons.{LESSONS[name].module}")
    for switch, values in choices(name).items():
        assert f"choice {switch}" in table
        assert all(f"choice {switch} {value}" in table for value in values)


# --- order ---


def turned(rows: Any, angles: Any) -> Any:
    """Each pair (i, i + E/2) as a complex number, turned by its angle."""
    half = rows.shape[1] // 2
    pairs = (rows[:, :half] + 1j * rows[:, half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], axis=1)


def attention_by_hand(model: order.OrderReader, words_: tuple[str, ...]) -> tuple[Any, Any]:
    """Weights and outputs in numpy, with positions from their own formulas."""
    parameters = {name: p.detach().numpy() for name, p in model.named_parameters()}
    ids = order.encoded(words_)[0].tolist()
    x = parameters["words"][ids]
    n, width = x.shape
    place = np.arange(n)[:, None]
    angles = place / 10_000 ** (2 * np.arange(width // 2) / width)
    if model.encoding == "learned":
        x = x + parameters["learned.table.weight"]
    elif model.encoding == "sinusoidal":
        x = x + np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, width)
    queries, keys, values = (
        x @ parameters[f"attention.to_{kind}.weight"].T for kind in ("queries", "keys", "values")
    )
    if model.encoding == "rotary":
        queries, keys = (turned(rows, angles) for rows in (queries, keys))
    weights = softmax(queries @ keys.T / math.sqrt(width))
    return weights, weights @ values


@pytest.mark.parametrize("encoding", order.CHOICES["encoding"])
def test_order_shows_the_weights_and_outputs_of_both_sentences(encoding: str) -> None:
    found, model = switched("order", encoding=encoding), order.OrderReader(encoding)
    for place, sentence in enumerate((order.SENTENCE, order.OTHER)):
        weights, outputs = attention_by_hand(model, sentence)
        # sines and cosines are float32 tables
        np.testing.assert_allclose(maps(found, "weights")[place].matrix.values, weights, atol=2e-7)
        np.testing.assert_allclose(maps(found, "outputs")[place].matrix.values, outputs, atol=1e-6)
    assert tuple(order.SENTENCE[at] for at in order.MOVED) == order.OTHER


def test_without_positions_the_mean_is_the_same_up_to_rounding() -> None:
    model = order.OrderReader("none")
    means = [attention_by_hand(model, words_)[1].mean(axis=0) for words_ in order.orders()]
    assert len(means) == math.factorial(5) // 2
    assert np.ptp(np.array(means), axis=0).max() < 1e-15
    (table,) = tables(switched("order"), "mean")
    # The five addends come in another order, and an entry below one half has ulps of 5.6e-17: all
    # but the sixteenth digit agree, and on most processors that one too.
    for _, *pair in table.rows:
        one, other = (float(plain(value).replace("−", "-")) for value in pair)
        assert abs(one - other) < 1e-15
    assert "cannot tell who bites whom" in said(switched("order"), "mean")


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal", "rotary"])
def test_with_positions_the_two_sentences_differ(encoding: str) -> None:
    found = switched("order", encoding=encoding)
    (table,) = tables(found, "mean")
    assert any(one != other for _, one, other in table.rows)
    for role, phrase in (
        ("weights", "before the verb"),
        ("outputs", "differ between"),
        ("mean", "can tell"),
    ):
        assert phrase in said(found, role)
    means = {tuple(attention_by_hand(order.OrderReader(encoding), words_)[1].mean(axis=0).round(9))
             for words_ in order.orders()}  # fmt: skip
    assert f"they have {len(means)} different means" in said(found, "orders")


# --- positions ---


def test_products_of_sinusoids_are_sums_of_cosines_of_the_distance() -> None:
    frequencies = 10_000 ** (-2 * np.arange(16) / 32)
    expected = [float(np.cos(frequencies * k).sum()) for k in range(16)]
    for start in (0, 7):
        found = positions.products_by_distance("sinusoidal", start)
        assert found == pytest.approx(expected, abs=1e-5)
    assert "depends on the distance alone" in said(switched("positions"), "distances")


def test_products_of_turned_words_depend_on_the_distance_alone() -> None:
    word = positions.PlaceProducts("rotary", 16, 32).word.detach().double().numpy()
    pairs = word[:16] + 1j * word[16:]
    angles = 10_000 ** (-2 * np.arange(16) / 32)
    expected = [float((np.abs(pairs) ** 2 * np.cos(angles * k)).sum()) for k in range(16)]
    for start in (0, 11):
        # the same word, drawn first, whatever the number of places
        assert positions.products_by_distance("rotary", start) == pytest.approx(expected, abs=1e-4)
    assert "depends on the distance alone" in said(
        switched("positions", encoding="rotary"), "distances"
    )
    assert "know nothing of distance" in said(
        switched("positions", encoding="learned"), "distances"
    )
    assert "the line is level" in said(switched("positions", encoding="none"), "distances")


def test_the_four_products_add_up_to_the_score() -> None:
    vectors, table = tables(switched("positions"), "adding")
    *four, whole = (float(plain(value).replace("−", "-")) for _, value in table.rows)
    assert sum(four) == pytest.approx(whole, abs=2e-3)
    shown = {
        plain(name): np.array([float(plain(value).replace("−", "-")) for value in row])
        for name, *row in vectors.rows
    }
    assert shown["x + p"] @ shown["y + r"] == pytest.approx(whole, abs=2e-3)
    x, p, y, r = np.random.default_rng(0).normal(size=(4, 4))
    products = positions.FourProducts()(*(torch.from_numpy(v) for v in (x, p, y, r)))
    np.testing.assert_allclose(products, [x @ y, x @ r, p @ y, p @ r, (x + p) @ (y + r)])


@pytest.mark.parametrize("width", [4, 16, 64])
def test_words_and_positions_are_read_from_their_sums_as_numpy_reads_them(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(50, width, generator=generator, dtype=torch.float64).numpy()
    angles = np.arange(20)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
    places = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(20, width)
    right = []
    sums = [(i, j, np.append(vectors[i] + places[j], 1.0)) for i in range(50) for j in range(20)]
    features = np.array([row for _, _, row in sums])
    for at in (0, 1):
        answers = np.array([row[at] for row in sums])
        wanted = np.eye(answers.max() + 1)[answers]
        solution = np.linalg.lstsq(features, wanted, rcond=None)[0]
        right.append((features @ solution).argmax(axis=1) == answers)
    expected = (right[0].mean(), right[1].mean(), (right[0] & right[1]).mean())
    assert positions.read_from_sums(width) == pytest.approx(expected, abs=0.005)


def test_positions_tells_what_is_stored() -> None:
    (stored,) = stored_results("left neighbour")
    (claim,) = stored_results("C63")  # the same study
    for kind, length in product(("sinusoidal", "rotary"), positions.LENGTHS):
        assert stored.figures[f"{kind} {length}"] == pytest.approx(
            claim.figures[f"{kind}_{length}"], abs=1e-4
        )
    assert not [key for key in stored.figures if key.startswith("learned") and "8" not in key]
    found = switched("positions")
    assert stored.command in said(found, "experiment")
    shown = [[plain(cell) for cell in row[1:]] for row in tables(found, "experiment")[1].rows]
    assert shown == [
        [f"{stored.figures[key]:.1%}" if (key := f"{kind} {length}") in stored.figures
         else "cannot read it" for length in positions.LENGTHS]
        for kind in ("none", "learned", "sinusoidal", "rotary")
    ]  # fmt: skip
    assert stored_results("depth")[0].command in said(switched("depth"), "training")


# --- scaling ---


@pytest.mark.parametrize("divisor", scaling.CHOICES["divisor"])
def test_scaling_shows_scores_divided_and_their_softmax(divisor: str) -> None:
    found = switched("scaling", divisor=divisor)
    for place, width in enumerate((4, 256)):
        keys = scaling.OneQuery(width, 1.0).keys.detach().numpy()
        query = torch.randn(width, generator=torch.Generator().manual_seed(4)).double().numpy()
        scaled = keys @ query / {"root": width**0.5, "none": 1, "width": width}[divisor]
        np.testing.assert_allclose(maps(found, "scaled")[place].matrix.values[0], scaled)
        np.testing.assert_allclose(maps(found, "weights")[place].matrix.values[0], softmax(scaled))
    phrase = {"root": "stay a mixture", "none": "saturated", "width": "nearly even"}[divisor]
    assert phrase in said(found, "weights")


def test_the_variance_of_a_score_is_the_width() -> None:
    table = tables(switched("scaling"), "growth")[0]
    for row in table.rows:
        width, variance, deviation, root = (float(plain(cell)) for cell in row)
        assert root == pytest.approx(width**0.5, rel=1e-3)
        # 4,096 scores: a standard error is √(2/4096), 2.2 %, and more where tails are heavy
        assert variance == pytest.approx(width, rel=0.12)
        assert deviation**2 == pytest.approx(variance, rel=0.01)


def test_the_derivative_of_a_weight_is_w_less_its_square() -> None:
    scores = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), scores)
    weights = torch.softmax(scores, dim=0)
    torch.testing.assert_close(jacobian.diagonal(), weights - weights.square())
    (rows, _) = tables(switched("scaling"), "gradient")
    for row in rows.rows:
        share, derivative = (float(plain(cell)) for cell in row)
        assert derivative == pytest.approx(share - share * share, rel=1e-3)
    assert "falls from" in said(switched("scaling", divisor="none"), "gradient")
    assert "falls from" not in said(switched("scaling", divisor="root"), "gradient")


# --- mask ---


@pytest.mark.parametrize("masked", [True, False])
def test_teacher_forced_and_free_running_are_counted_token_by_token(masked: bool) -> None:
    result = learn_next_token("counting", masked=masked, steps=40)
    texts = result.texts[:60]
    forced = free = 0
    for text in texts:
        logits = result.model(text[None, :-1])[0]
        forced += int((logits.argmax(dim=-1) == text[1:]).sum())
        own = text[:PROMPT_LENGTH].tolist()
        for place in range(PROMPT_LENGTH, TEXT_LENGTH):
            own.append(int(result.model(torch.tensor([own]))[0, -1].argmax()))
            free += own[-1] == int(text[place])
    # the shares are of 500 texts, these 60 are the first of them
    assert forced / (60 * (TEXT_LENGTH - 1)) == pytest.approx(result.teacher_forced, abs=0.12)
    assert free / (60 * (TEXT_LENGTH - PROMPT_LENGTH)) == pytest.approx(
        result.free_running, abs=0.2
    )


def test_texts_that_count_go_up_by_one_step() -> None:
    for text in learn_next_token("counting", masked=True, steps=1).texts[:50]:
        (step,) = {(b - a) % 8 for a, b in pairwise(text.tolist())}
        assert step in (1, 2, 3)


@pytest.mark.parametrize("mask", ["on", "off"])
def test_the_mask_hides_the_future_and_its_absence_is_found(mask: str) -> None:
    found = switched("mask", mask=mask)
    weights = maps(found, "weights")[-1].matrix.values
    ahead = np.triu(np.ones_like(weights, dtype=bool), k=1)
    assert (weights[ahead] == 0).all() == (mask == "on")
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    ticks = re.findall(r' d="M\S+ \S+ L\S+ \S+ L\S+ \S+"', found.figures()[0].drawing.svg())
    assert len(ticks) == (21 if mask == "on" else 36)
    assert ("the future leaks in" in said(found, "change")) == (mask == "off")
    result = learn_next_token("noise", masked=mask == "on", steps=5)
    before_last = changes(result, result.texts[:1, :6])[:-1]
    assert all(change == 0 for change in before_last) == (mask == "on")


def test_without_the_mask_training_looks_better_and_generation_fails() -> None:
    found = switched("mask")
    (noise,), (counting,) = tables(found, "noise"), tables(found, "counting")
    shares = [
        [float(plain(cell).removesuffix("%")) for cell in row[1:]]
        for table in (noise, counting)
        for row in table.rows
    ]
    (noise_on, noise_off), (on, off) = shares[:2], shares[2:]
    assert noise_on[0] > 0.9 * math.log(8) and noise_off[0] < 0.5 * math.log(8)
    assert max(noise_on[2], noise_off[2]) < 25  # nobody foresees noise
    assert off[0] < on[0] and off[1] > on[1] and off[2] < on[2] - 20
    assert "nothing to copy" in said(found, "counting")
    (written,) = tables(found, "generated")
    for prompt, right, _ in written.rows:
        ids = [LETTERS.index(sign) for sign in f"{plain(prompt)} {plain(right)}".split()]
        assert len({(b - a) % 8 for a, b in pairwise(ids)}) == 1


# --- depth ---


def test_a_pre_norm_block_is_that_of_torch() -> None:
    block = depth.switched_block("on", "pre")
    theirs = torch.nn.TransformerEncoderLayer(16, 2, 64, 0.0, batch_first=True, norm_first=True)
    with torch.no_grad():
        attention = block.attention
        assert attention.to_output is not None
        maps_ = [m.weight for m in (attention.to_queries, attention.to_keys, attention.to_values)]
        theirs.self_attn.in_proj_weight.copy_(torch.cat(maps_))
        theirs.self_attn.in_proj_bias.zero_()
        theirs.self_attn.out_proj.weight.copy_(attention.to_output.weight)
        theirs.self_attn.out_proj.bias.zero_()
        fed = block.feed_forward
        assert fed.contract is not None
        for ours, other in ((fed.expand, theirs.linear1), (fed.contract, theirs.linear2)):
            other.weight.copy_(ours.weight)
            other.bias.copy_(ours.bias)
        x = torch.randn(2, 5, 16)
        torch.testing.assert_close(
            block(x), theirs.double()(x.double()).float(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(("residual", "norm"), depth.VARIANTS)
def test_signals_are_those_of_the_stack_and_of_its_loss(residual: str, norm: NormPlace) -> None:
    found = signals_at_depth(3, residual=residual == "on", norm=norm)
    torch.manual_seed(0)
    model = SwitchedStack(3, residual=residual == "on", norm=norm)
    torch.manual_seed(1)
    ids = torch.randint(8, (32, 6))
    kept: list[torch.Tensor] = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _module, args: kept.append(args[0]))
    (gradient,) = torch.autograd.grad(model.loss(ids), kept[:1])
    kept = [x.detach() for x in kept]
    assert found.sizes[:3] == pytest.approx([float(x.pow(2).mean() ** 0.5) for x in kept[:3]])
    assert found.gradients[0] == pytest.approx(float(gradient.pow(2).mean() ** 0.5), rel=1e-4)
    alike = F.cosine_similarity(kept[2][:, :, None], kept[2][:, None], dim=-1)
    beside = (alike.sum(dim=(1, 2)) - 6).mean() / 30
    assert found.similarities[2] == pytest.approx(float(beside), abs=1e-5)


def test_depth_says_what_its_signals_show() -> None:
    assert "vanishes" in said(switched("depth", residual="off", norm="none"), "backwards")
    assert "explodes" in said(switched("depth", residual="on", norm="none"), "backwards")
    assert "the same order of magnitude" in said(
        switched("depth", residual="on", norm="pre"), "backwards"
    )
    for norm in depth.CHOICES["norm"]:
        assert "soon the same everywhere" in said(
            switched("depth", residual="off", norm=norm), "alike"
        )


def test_the_stored_depths_are_complete_and_only_residuals_go_deep() -> None:
    (stored,) = stored_results("depth")
    keys = {depth._key(variant, layers) for variant in depth.VARIANTS for layers in depth.DEPTHS}
    assert set(stored.figures) == keys
    assert stored.figures["on pre 16"] > 0.9
    assert max(stored.figures[f"off {norm} 16"] for norm in ("pre", "post", "none")) < 0.3


def test_a_norm_centres_and_scales() -> None:
    for norm in ("pre", "post"):
        (table,) = tables(switched("depth", residual="on", norm=norm), "block")
        assert [float(plain(cell)) for cell in table.rows[1][1:]] == pytest.approx([0, 1], abs=1e-3)


# --- heads ---


def test_what_one_head_loses_is_what_regression_cannot_explain() -> None:
    numbers = np.random.default_rng(0).normal(size=(2, 200_000))
    for a in (0.0, 0.3, 2 / 3, 1.0):
        mixture = a * numbers[0] + (1 - a) * numbers[1]
        left = [1 - np.corrcoef(mixture, side)[0, 1] ** 2 for side in numbers]
        assert heads.unexplained(a, 1 - a) == pytest.approx(left, abs=0.01)
        assert sum(heads.unexplained(a, 1 - a)) == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_folded_heads_are_torchs_attention_head_by_head(count: int) -> None:
    queries, keys, values = heads.drawn()
    split = [x.unflatten(-1, (count, -1)).transpose(1, 2) for x in (queries, keys, values)]
    expected = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(heads.head_by_head(count), expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(
        heads.FoldedHeads(count)(queries, keys, values), expected, rtol=0, atol=1e-14
    )
    found = switched("heads", heads=str(count))
    assert "gives the same numbers" in said(found, "product")
    shapes = [plain(shape) for _, shape in tables(found, "folding")[0].rows]
    each = 8 // count
    assert shapes == [
        "2×3×8",
        f"2×3×{count}×{each}",
        f"2×{count}×3×{each}",
        f"{2 * count}×3×{each}",
    ]


def test_heads_says_what_the_weights_show() -> None:
    for count in (1, 2, 4):
        found = switched("heads", heads=str(count))
        shown = np.stack([one.matrix.values for one in maps(found, "weights")])
        apart = shown[:, 2, 1].max() > 0.9 and shown[:, 2, 3].max() > 0.9
        assert ("divide the work" in said(found, "weights")) == (apart and count > 1)
        assert ("share one mixture" in said(found, "weights")) == (count == 1)


# --- charts ---


def test_a_chart_puts_larger_numbers_higher_and_leaves_gaps() -> None:
    axes = Axes("x", "y")
    for log in (False, True):
        drawing = line_chart("t", [1, 2, 3, 4], [Series("s", [1.0, 10.0, math.nan, 1000.0])], axes,
                             log_up=log)  # fmt: skip
        places = [
            (float(x), float(y))
            for x, y in re.findall(
                r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', drawing.svg()
            )
        ][1:]  # the first is the legend's
        assert len(places) == 3
        assert [x for x, _ in places] == sorted(x for x, _ in places)
        assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    if log:
        first, second, last = (y for _, y in places)
        assert (first - last) == pytest.approx(3 * (first - second), abs=0.5)


def test_the_height_of_a_bar_is_its_number() -> None:
    series = [Series("a", [10.0, 40.0], "query"), Series("b", [20.0, math.nan], "score")]
    drawing = bar_chart("t", ["one", "two"], series, Axes("x", "y"))
    bars = re.findall(r'<rect class="head"[^>]*height="([\d.]+)"[^>]*', drawing.svg())
    heights = [float(height) for height in bars][2:]  # after the legend
    assert len(heights) == 3
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2, 4], rel=0.02)
    assert_readable(Figure("bars", drawing))
