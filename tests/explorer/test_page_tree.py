"""The map: a tree that unfolds, is searched, and is used by keyboard alone."""

from __future__ import annotations

import base64
import re

from playwright.sync_api import Page, expect

from tests.explorer.conftest import Visit

DE = "#/en-de?text=A dog runs."


def active(page: Page) -> str:
    """The name of the row that the keyboard is on."""
    found: str = page.evaluate(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        ".querySelector('.name').textContent.trim()"
    )
    return found


def test_it_is_folded_to_what_matters_and_unfolds_by_a_click(visit: Visit) -> None:
    page = visit(DE)
    tree = page.get_by_role("tree", name="Steps")
    expect(tree.get_by_role("treeitem", name="encoder Stack")).to_have_attribute(
        "aria-expanded", "true"
    )
    expect(tree.get_by_text("projected_queries")).to_have_count(1)
    second = tree.get_by_role("treeitem", name="blocks.1 Block").first
    expect(second).to_have_attribute("aria-expanded", "false")
    second.click()
    expect(second).to_have_attribute("aria-expanded", "true")


PIXELS = """async (image) => {
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  return [...new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer)];
}"""


def test_every_visible_step_gets_its_picture(visit: Visit, page: Page) -> None:
    with page.expect_response("**/thumbnails?*") as answer:
        visit(DE)
    row = page.get_by_role("treeitem", selected=True)
    expect(row.locator("img")).to_be_visible()
    pixels: list[int] = row.locator("img").evaluate(PIXELS)
    blocks = [base64.b64decode(picture["data"]) for picture in answer.value.json()]
    matching = [found for found in blocks if len(found) == len(pixels) and is_drawn(pixels, found)]
    assert matching
    assert len(set(pixels)) > 4  # scores of a trained model differ from place to place


def is_drawn(pixels: list[int], blocks: bytes) -> bool:
    """Whether equal blocks have equal colours and very different ones have not, place by place."""
    colours = dict(zip(blocks, pixels, strict=True))
    is_one_each = all(colours[block] == pixel for block, pixel in zip(blocks, pixels, strict=True))
    return is_one_each and colours[min(blocks)] != colours[max(blocks)]


def test_search_finds_steps_wherever_they_are(visit: Visit) -> None:
    page = visit(DE)
    expect(page.get_by_role("treeitem", selected=True)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("cross_attention.weights")
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(3)
    expect(page.get_by_role("status").filter(has_text="3 steps found")).to_be_attached()
    rows.nth(1).click()
    expect(page.get_by_role("heading", name="weights")).to_be_visible()
    expect(page.get_by_role("button", name="Cross")).to_have_attribute("aria-pressed", "true")


def test_the_keys_of_a_tree(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy")
    tree = page.get_by_role("tree", name="Steps")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("scores")
    tree.focus()
    assert active(page) == "scores"
    page.keyboard.press("ArrowDown")
    assert active(page) == "scaled"
    page.keyboard.press("ArrowLeft")
    assert active(page) == "attention"
    page.keyboard.press("ArrowLeft")
    expect(tree.get_by_text("projected_queries")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(tree.get_by_text("projected_queries")).to_have_count(1)
    page.keyboard.press("End")
    assert active(page) == "logits"
    page.keyboard.press("Enter")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("logits")
    page.keyboard.press("Home")
    assert active(page) == "Parameters (1)"
    page.keyboard.press("ArrowDown")
    assert active(page) == "ids"


def test_layers_and_parts_are_a_step_apart(visit: Visit) -> None:
    page = visit(f"{DE}&step=encoder.blocks.0.attention.weights&lead=0,3")
    main = page.get_by_role("main")
    expect(main).to_contain_text("encoder.blocks.0.attention")
    page.get_by_role("button", name="Next layer").click()
    expect(main).to_contain_text("encoder.blocks.1.attention")
    page.get_by_role("button", name="Cross").click()
    expect(main).to_contain_text("decoder.blocks.1.cross_attention")
    expect(page).to_have_url(re.compile("lead=0,3"))  # the head stays


def test_all_steps_can_be_shown(visit: Visit) -> None:
    page = visit("#/toy?text=I am not happy")
    tree = page.get_by_role("tree", name="Steps")
    expect(tree.get_by_text("scores")).to_be_visible()
    expect(tree.get_by_text("cumsum")).to_have_count(0)
    page.get_by_label("All").check()
    expect(tree.get_by_text("cumsum")).to_have_count(1)
