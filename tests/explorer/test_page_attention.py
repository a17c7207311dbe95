"""Attention on the page, against the weights that the model's own recording gives."""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

import glassformer
from glassformer.colours import Scale
from glassformer.decoding import Greedy
from tests.explorer.conftest import Visit
from tests.explorer.reading import pixels_of

TEXT = "A dog runs across the street."
LINK = f"#/en-de?text={quote(TEXT)}&view=attention"


@cache
def recorded() -> dict[str, NDArray[np.float32]]:
    """The weights of one pass, by layer, (H, Q, K); recorded by the fused path, not by a trace."""
    found = glassformer.load("en-de").translate([TEXT], search=Greedy(), attention=True)[0]
    assert found.attention is not None
    return {name: weights.numpy().squeeze(0) for name, weights in found.attention.items()}


def layers(part: str) -> list[NDArray[np.float32]]:
    """The layers of one part, in order."""
    ends = {
        "Encoder": ("encoder.", ".attention"),
        "Decoder": ("decoder.", ".attention"),
        "Cross-attention": ("decoder.", ".cross_attention"),
    }[part]
    return [
        weights
        for name, weights in recorded().items()
        if name.startswith(ends[0]) and name.endswith(ends[1])
    ]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def pick(page: Page, part: str, layer: int, head: int) -> None:
    name = re.compile(rf"^{part}.*, layer {layer + 1}, head {head + 1}$")
    page.get_by_role("gridcell", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".shown")).to_have_attribute("aria-busy", "false")


def test_every_head_has_its_picture(visit: Visit) -> None:
    page = visit(LINK)
    for part in ("Encoder", "Decoder", "Cross-attention"):
        for number_, weights in enumerate(layers(part)):
            for head, rows in enumerate(weights):
                name = re.compile(rf"^{part}.*, layer {number_ + 1}, head {head + 1}$")
                picture = page.get_by_role("gridcell", name=name).locator("canvas")
                expect(picture).to_have_attribute("width", str(rows.shape[1]))
                expect(picture).to_have_attribute("height", str(rows.shape[0]))


def test_the_pixels_of_a_picture_are_the_weights(visit: Visit) -> None:
    page = visit(LINK)
    weights = layers("Cross-attention")[1][2]
    cell = page.get_by_role("gridcell", name=re.compile("^Cross.*layer 2, head 3$"))
    expect(cell.locator("canvas")).to_have_attribute("height", str(weights.shape[0]))
    shown = pixels_of(cell.locator("canvas"))[..., :3]
    scale = Scale("probability")
    most = float(weights.max())  # each head has a scale of its own
    shares = [[scale.colour(float(x) / most) for x in row] for row in weights]
    expected = np.array(shares, dtype=int)
    # The page has 253 colours; the widest step between two neighbours is 3.
    assert np.abs(shown - expected).max() <= 3


@pytest.mark.parametrize(("part", "layer", "head"), [("Encoder", 1, 0), ("Cross-attention", 2, 3)])
def test_a_held_token_shows_its_weights_and_each_opens_its_card(
    visit: Visit, part: str, layer: int, head: int
) -> None:
    page = visit(LINK)
    pick(page, part, layer, head)
    weights = layers(part)[layer][head]
    query = 3
    page.locator(f"[data-side=query][data-place='{query}']").click()
    buttons = page.locator("[data-weight]")
    expect(buttons).to_have_count(weights.shape[1])
    for key in range(weights.shape[1]):
        shown = number(page.locator(f"[data-weight='{query},{key}']").inner_text())
        assert shown == pytest.approx(float(weights[query, key]), rel=5e-3, abs=1e-7)
    key = int(weights[query].argmax())
    page.locator(f"[data-weight='{query},{key}']").click()
    card = page.get_by_role("complementary", name="The selected number")
    expect(card).to_contain_text(f"A[{head}, {query}, {key}]")
    exact = re.search(r"0\.\d{6,}", card.inner_text())
    assert exact is not None
    assert float(exact[0]) == pytest.approx(float(weights[query, key]), abs=1e-6)


def test_a_key_shows_who_looks_at_it(visit: Visit) -> None:
    page = visit(LINK)
    pick(page, "Encoder", 0, 1)
    weights = layers("Encoder")[0][1]
    page.locator("[data-side=key][data-place='2']").click()
    for query in range(weights.shape[0]):
        shown = number(page.locator(f"[data-weight='{query},2']").inner_text())
        assert shown == pytest.approx(float(weights[query, 2]), rel=5e-3, abs=1e-7)


def test_a_head_in_words_names_its_strongest_keys(visit: Visit) -> None:
    page = visit(LINK)
    pick(page, "Encoder", 1, 3)
    page.get_by_text("In words").click()
    weights = layers("Encoder")[1][3]
    tokens = page.locator("[data-side=key]").all_inner_texts()
    told = page.locator("details dd")
    expect(told).to_have_count(weights.shape[0])
    for query, row in enumerate(weights):
        strongest = np.argsort(-row)[:3]
        said = told.nth(query).get_by_role("button").all_inner_texts()
        for key, text in zip(strongest, said, strict=True):
            token, _, weight = text.rpartition(" ")
            assert token.strip() == tokens[key]
            assert number(weight) == pytest.approx(float(row[key]), rel=1e-3)


def test_the_summary_is_computed_from_the_weights(visit: Visit) -> None:
    page = visit(LINK)
    pick(page, "Decoder", 2, 0)
    weights = layers("Decoder")[2][0].astype(np.float64)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    spread = float(np.exp(-(weights * logs).sum(axis=-1)).mean())
    summary = page.locator("[data-summary]")
    expect(summary).to_contain_text(f"about {round(spread)} tokens at once")
    said = re.search(r"Looks mostly at (.+): (\d+)%", summary.inner_text())
    n = len(weights)
    means = {
        "each token itself": np.diag(weights)[1:].mean(),
        "the token before": np.diag(weights, -1).mean(),
        "the first token": weights[1:, 0].mean(),
        "the last token": weights[1:, n - 1].mean(),
    }
    best = max(means, key=lambda name: means[name])
    if means[best] < 0.5:
        assert said is None
    else:
        assert said is not None and said[1] == best
        assert float(said[2]) == pytest.approx(100 * means[best], abs=0.51)


def test_arrows_move_through_the_heads(visit: Visit) -> None:
    page = visit(LINK)
    pick(page, "Encoder", 0, 0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    chosen = page.get_by_role("grid", name="Encoder: heads by layer").get_by_role(
        "gridcell", selected=True
    )
    expect(chosen).to_have_accessible_name("Encoder, layer 2, head 2")
    expect(chosen).to_be_focused()
    expect(page.get_by_role("heading", name="Encoder, layer 2, head 2")).to_be_visible()
    expect(page).to_have_url(re.compile(r"step=encoder\.blocks\.1\.attention\.weights"))


def test_a_scale_for_all_heads_and_masked_cells_without_colour(visit: Visit) -> None:
    page = visit(LINK)
    weights = layers("Decoder")[0][0]
    cell = page.get_by_role("gridcell", name=re.compile("^Decoder, layer 1, head 1$"))

    def pixels() -> NDArray[np.int64]:
        expect(cell.locator("canvas")).to_have_attribute("height", str(weights.shape[0]))
        return pixels_of(cell.locator("canvas"))

    own = pixels()
    assert ((own[..., 3] == 0) == (weights == 0)).all()  # hatched: the ground shows through
    page.get_by_label("all from 0 to 1").check()
    scale = Scale("probability")
    expected = np.array([[scale.colour(float(x)) for x in row] for row in weights], dtype=int)
    seen = weights > 0
    assert np.abs(pixels()[..., :3] - expected)[seen].max() <= 3


def test_the_head_of_an_open_card_is_the_head_of_the_view(visit: Visit) -> None:
    page = visit(LINK.replace("view=attention", "") + "&step=encoder.blocks.1.attention.scores")
    page.get_by_role("button", name="Attention", exact=True).click()
    expect(page.get_by_role("heading", name="Encoder, layer 2, head 1")).to_be_visible()


def test_what_a_decoder_position_writes(visit: Visit) -> None:
    page = visit(LINK)
    pick(page, "Cross-attention", 0, 0)
    tokens = page.locator("[data-side=query]").all_inner_texts()
    written = page.locator(".written").all_inner_texts()
    assert [text.removeprefix("writes ") for text in written] == tokens[1:]


def test_a_head_that_is_off_says_so_and_others_do_not(visit: Visit) -> None:
    context = "decoder.blocks.1.cross_attention.context"
    page = visit(f"{LINK}&edits={context}[*,0,*,*]=0")
    heads = page.get_by_role("gridcell", name=re.compile("off$"))
    expect(heads).to_have_count(1)
    heads.click()
    detail = page.get_by_role("region", name="weights, layer 2, head 1")
    expect(detail).to_contain_text("You switched this head off")
    pick(page, "Cross-attention", 2, 2)
    expect(page.get_by_text("You switched this head off")).to_have_count(0)


def test_a_head_that_looks_at_one_token_names_it(visit: Visit) -> None:
    page = visit("#/toy?text=I am not very sad&view=attention")
    expect(page.locator("[data-summary]")).to_contain_text("Looks mostly at “not”: 99%")
