"""Every result is data, a picture, a document, and its numbers open as cells."""

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from glassformer.documents import FORMATS, render
from glassformer.documents.trace_documents import experiment_document
from glassformer.errors import TraceError, UnknownNameError
from glassformer.experiments import (
    Result,
    average,
    compare,
    composition,
    contributions,
    difference,
    head_scores,
    logit_lens,
    sweep,
    words,
)
from glassformer.experiments.charts import heat_map
from glassformer.language import columns_of
from glassformer.picture import Picture, text_width
from glassformer.tracing import Cell, Trace, trace
from tests.experiments.conftest import IDS, OTHER, made

TOKENS = ["I", "am", "<not>", "so", "sad"]


def runs() -> tuple[Trace, Trace]:
    model = made("gpt2")
    one = trace(model, IDS, axis_labels={"input_ids": TOKENS})
    return one, trace(model, OTHER, axis_labels={"input_ids": TOKENS})


def cell_of(run: Trace) -> Cell:
    return run["logits"][0, -1, 5]


MAKE: dict[str, Callable[[Trace, Trace], Result]] = {
    "words": lambda one, _: words(cell_of(one)),
    "integrated": lambda one, _: words(cell_of(one), "integrated", steps=4),
    "sweep": lambda one, other: sweep(one, other, measure=cell_of(one)),
    "heads": lambda one, _: sweep(one, measure=cell_of(one), over="head"),
    "lens": lambda one, _: logit_lens(one),
    "contributions": lambda one, _: contributions(cell_of(one), heads=True),
    "difference": lambda one, _: words(difference(cell_of(one), one["logits"][0, 0, 6])),
    "scores": lambda one, other: head_scores([one, other], "previous"),
    "composition": lambda one, _: composition([one]),
    "average": lambda one, other: average([
        sweep(one, other, measure=cell_of(one)), sweep(other, one, measure=cell_of(other))
    ]),
    "average of parts": lambda one, other: average([
        contributions(cell_of(one)), contributions(cell_of(other))
    ]),
    "comparison": lambda one, other: compare(one, other),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MAKE))
def test_data_picture_and_documents(name: str, tmp_path: Path) -> None:
    result = MAKE[name](*runs())
    rows = result.rows()
    assert len({tuple(row) for row in rows}) == 1  # all with the same keys: a data frame's columns
    assert json.loads(json.dumps(result.to_dict()))["rows"] == rows
    assert result.to_dict()["note"]
    assert str(result).startswith(result.title())
    for language in ("en", "zh"):
        svg = result.plot(language).svg()
        drawn = ElementTree.fromstring(svg)
        assert drawn.tag.endswith("svg")
        assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) > 2
        assert result.title(language) in "".join(drawn.itertext())
        page = render(experiment_document(result, language), "html")
        assert escape(result.note(language)) in str(page)
    for to in FORMATS:
        file = tmp_path / f"{to}.{'html' if to == 'worksheet' else to}"
        made_file = render(experiment_document(result), path=file, to=to)
        assert isinstance(made_file, Path)
        assert made_file.stat().st_size > 300
    assert json.loads((tmp_path / "json.json").read_text())["rows"] == rows
    assert result.plot().save(tmp_path / "plot.svg").read_text() == result.plot().svg()
    assert result.plot()._repr_svg_() == result.plot().svg()


def test_a_number_of_each_result_opens_as_a_cell() -> None:
    one, other = runs()
    cell = cell_of(one)
    shares = words(cell)
    assert shares.cell() == cell
    assert shares.cell("<not>").value == pytest.approx(float(cell.value) - shares.scores[2])
    assert shares.cell(2).explain()
    with pytest.raises(UnknownNameError, match="unknown token"):
        shares.cell("happy")
    with pytest.raises(TraceError, match="leave one out"):
        words(cell, "gradient").cell("am")
    layers = logit_lens(one)
    assert float(layers.cell(1, 0, 2, 7).value) == float(layers.values[1, 0, 2, 7])
    parts = contributions(cell, heads=True)
    block = parts.cell("transformer.h.1.attn head 1")
    assert torch.equal(
        block.value,  # type: ignore[arg-type]
        one["transformer.h.1.attn.context"].value[:, 1],
    )
    with pytest.raises(TraceError, match="the biases are what is left"):
        parts.cell("biases")
    with pytest.raises(UnknownNameError, match="unknown part"):
        parts.cell("transformer.h.9")
    here, there = compare(one, other).cell(0)
    assert here.value != there.value


def test_words_in_colour() -> None:
    one, _ = runs()
    found = words(cell_of(one))
    shown = found.coloured()
    assert shown.count("\x1b[0m") == 5
    assert " <not> " in shown
    page = found._repr_html_()
    assert "&lt;not&gt;" in page
    assert escape(found.note()) in page
    strongest = found.scores[found.tokens.index(found.strongest)]
    ground = "#E67E22" if strongest > 0 else "#3B7DBF"  # the house's orange and blue, in full
    assert f"background:{ground}" in page


def test_neurons_add_up_to_what_their_layer_writes() -> None:
    one, _ = runs()
    cell = cell_of(one)
    name = "transformer.h.1.mlp.act"
    whole = dict(zip(*_pairs(contributions(cell)), strict=True))
    found = contributions(cell, neurons=name)
    split = dict(zip(*_pairs(found), strict=True))
    neurons = [value for part, value in split.items() if " neuron " in part]
    assert len(neurons) == 32
    bias = split["biases"] - whole["biases"]  # of the layer's second matrix
    assert sum(neurons) + bias == pytest.approx(whole["transformer.h.1.mlp_out"], rel=1e-9)
    assert found.total == pytest.approx(float(cell.value), rel=1e-9)
    with pytest.raises(TraceError, match="does not lead to what a feed-forward layer writes"):
        contributions(cell, neurons="logits")


def _pairs(found: object) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return found.parts, found.values  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", MAKE)
def test_a_result_fits_a_narrow_terminal(kind: str) -> None:
    result = MAKE[kind](*runs())
    lines = result.text(width=80).splitlines()[1:]
    assert max(map(columns_of, lines)) <= 80
    words_of = [sorted(text.split()) for text in (result.text(), result.text(width=80))]
    heads = len(words_of[1]) - len(words_of[0])  # a grid in several parts repeats its rows' names
    assert heads >= 0 and {*words_of[0]} == {*words_of[1]}


def drawn_texts(picture: Picture) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture.svg()).iter("{http://www.w3.org/2000/svg}text"))


def test_upright_labels_begin_below_the_title() -> None:
    one, _ = runs()
    texts = drawn_texts(composition([one], "keys").plot())
    (title,) = [float(text.attrib["y"]) for text in texts if text.get("font-weight")]
    upright = [text for text in texts if "rotate" in text.get("transform", "")]
    assert {text.text for text in upright} == {
        f"transformer.h.{at}.attn head {h}" for at in range(3) for h in (0, 1)
    }
    for text in upright:
        _, y = text.attrib["transform"].partition("(")[2].partition(")")[0].split()
        assert float(y) - text_width(text.text or "", 12) > title
    (long,) = drawn_texts(heat_map("t", ["a"], ["b" * 40 + "c" * 40], torch.ones(1, 1)))[1:2]
    assert (long.text or "").startswith("bb") and (long.text or "").endswith("cc")
    assert text_width(long.text or "", 12) <= 320


def test_the_picture_of_the_lens_shows_what_each_layer_says() -> None:
    one, _ = runs()
    found = logit_lens(one)
    inside = [text.text for text in drawn_texts(found.plot()) if "fill:" in text.get("style", "")]
    assert inside == [row["answer 1"] for row in found.rows()]


def test_the_scale_of_a_map_begins_at_its_least_sign() -> None:
    signed = heat_map("t", ["a"], ["b", "c"], torch.tensor([[1.26, -0.002]]))
    texts = [text.text for text in drawn_texts(signed)]
    assert "1.26" in texts and "0.00" in texts and "-1.3" in texts and "1.3" in texts
    shares = [text.text for text in drawn_texts(heat_map("t", ["a"], ["b"], torch.ones(1, 1)))]
    assert shares[-2:] == ["0", "1"]
