"""Matrices on the page: the trace's numbers at every zoom, by mouse and by keyboard."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import Tensor, nn

import glassformer
from glassformer.colours import DIVERGING
from glassformer.documents.heat_maps import scale_of
from glassformer.tracing import Step, trace
from tests.explorer.conftest import Visit
from tests.explorer.reading import (
    agree,
    grid,
    panel,
    recorded,
    show_exact,
    shown,
    stand_still,
    wait_for_numbers,
)

TOY = "I am not happy"
SENTENCE = "A man is sleeping on a bench."
SCORES = "encoder.blocks.0.attention.scores"


def link(model: str, text: str, step: str, more: str = "") -> str:
    return f"#/{model}?text={text.replace(' ', '+')}&step={step}{more}"


def test_all_panels_of_the_toys_scores_are_the_traces_numbers(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES))
    trace = recorded("toy", TOY)
    step = trace[SCORES]
    queries, keys = (operand.view.array[0, 0] for operand in step.operands)
    assert agree(grid(page, "scores"), step.view.array[0, 0]) == 16
    assert agree(grid(page, "projected_queries"), queries) == queries.size
    assert agree(grid(page, "projected_keys"), keys) == keys.size


@pytest.mark.parametrize("head", [0, 3])
def test_each_head_has_its_own_numbers(visit: Visit, head: int) -> None:
    page = visit(link("en-de", SENTENCE, "decoder.blocks.1.cross_attention.weights"))
    step = recorded("en-de", SENTENCE)["decoder.blocks.1.cross_attention.weights"]
    stepper = page.get_by_role("group", name="head", exact=True)
    expect(stepper).to_contain_text("head 1 of 6")
    for _ in range(head):
        stepper.get_by_role("button", name="next head").click()
    expect(stepper).to_contain_text(f"head {head + 1} of 6")
    assert agree(show_exact(page, "weights"), step.view.array[0, head]) >= 20


def test_a_weight_is_drawn_turned_over_as_the_formula_has_it(visit: Visit) -> None:
    name = "encoder.blocks.0.attention.projected_queries"
    page = visit(link("en-de", SENTENCE, name))
    step = recorded("en-de", SENTENCE)[name]
    weight = next(part.view.array for part in step.operands if part.argument == "weight")
    assert agree(show_exact(page, "to_queries.weight"), weight.T) > 20
    bias = next(part.view.array for part in step.operands if part.argument == "bias")
    assert agree(show_exact(page, "to_queries.bias"), bias[None]) >= 2


def test_the_far_end_of_a_large_table_is_fetched_and_right(visit: Visit) -> None:
    trace = recorded("en-de", SENTENCE)
    table = next(step for name, step in trace.parameters.items() if "embedding" in name)
    values = table.view.array
    page = visit(link("en-de", SENTENCE, table.name))
    cells = show_exact(page, "embedding.weight")
    assert (cells.get_attribute("aria-rowcount"), cells.get_attribute("aria-colcount")) == tuple(
        map(str, values.shape)
    )
    last = (values.shape[0] - 1, values.shape[1] - 1)
    cells.locator("[tabindex='0']").press("Control+End")
    corner = cells.locator("[tabindex='0']")
    expect(corner).to_have_attribute("aria-colindex", str(last[1] + 1))
    wait_for_numbers(cells)
    assert last in shown(cells)
    assert agree(cells, values) > 20


def test_masked_scores_are_minus_infinity_and_hatched(visit: Visit) -> None:
    name = "decoder.blocks.0.attention.masked"
    page = visit(link("en-de", SENTENCE, name))
    cells = show_exact(page, "masked")
    values = recorded("en-de", SENTENCE)[name].view.array[0, 0]
    assert np.isneginf(values[0, 1])
    agree(cells, values)
    hatched = cells.locator("[role=gridcell].infinite")
    expect(hatched.first).to_have_text("−∞")


def pixels(page: Page, name: str, rows: int, columns: int) -> list[list[list[int]]]:
    """The colour in the middle of each cell of a heat map that fits its box."""
    found: list[list[list[int]]] = grid(page, name).evaluate(
        """(matrix, [rows, columns]) => {
          const {width, height} = matrix.querySelector('canvas');
          const context = matrix.querySelector('canvas').getContext('2d');
          const {data} = context.getImageData(0, 0, width, height);
          const at = (row, column) => {
            const x = Math.floor((column + 0.5) * width / columns);
            const y = Math.floor((row + 0.5) * height / rows);
            return [...data.slice((y * width + x) * 4, (y * width + x) * 4 + 3)];
          };
          return Array.from({length: rows}, (_, row) =>
            Array.from({length: columns}, (_, column) => at(row, column)));
        }""",
        [rows, columns],
    )
    return found


def expected_colours(
    step: Step, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    scale = scale_of(step)
    assert scale is not None
    return np.array([[scale.colour(float(value)) for value in row] for row in values])


@pytest.mark.parametrize("short", ["scores", "weights"])
def test_the_colours_of_a_heat_map_are_those_of_its_numbers(visit: Visit, short: str) -> None:
    name = f"encoder.blocks.0.attention.{short}"
    text = "A man in a red shirt is sleeping on a bench beside a small brown dog."
    page = visit(link("en-de", text, name, "&cell=0,0,0,0"))
    step = recorded("en-de", text)[name]
    values = step.view.array[0, 0]
    expect(page.get_by_role("complementary", name="The selected number")).to_be_visible()
    wait_for_numbers(grid(page, short))
    stand_still(page)  # the card takes some of the room, one frame after it is there
    expect(panel(page, short).get_by_role("button", name="Show the numbers")).to_be_visible()
    drawn = np.array(pixels(page, short, *values.shape))
    # The page's table has 253 entries where the scale is continuous.
    assert np.abs(drawn - expected_colours(step, values)).max() <= 2


class Table(nn.Module):
    """Many numbers, a few of each kind that has no place on a scale."""

    def __init__(self) -> None:
        super().__init__()
        numbers = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
        numbers[7, 7:10] = torch.tensor([torch.nan, torch.inf, -torch.inf])
        numbers[8, 7:9] = torch.tensor([1e30, -1e30])
        self.numbers = nn.Parameter(numbers)

    def forward(self, given: Tensor) -> Tensor:
        added = given + self.numbers
        return added


def test_a_large_heat_map_has_the_colour_of_each_of_its_numbers(
    page: Page, origins: set[str]
) -> None:
    module, given = Table().eval(), torch.zeros(())
    step = trace(module, given)["numbers"]
    scale = scale_of(step)
    assert scale is not None and scale.kind == "signed"
    values = step.view.array.astype(np.float64)
    place = np.nan_to_num((np.clip(values / scale.limit, -1, 1) + 1) / 2)
    expected = np.stack([np.interp(place, (0, 0.5, 1), c) for c in np.transpose(DIVERGING)], -1)
    expected[np.isinf(values)] = (205, 207, 212)
    expected[np.isnan(values)] = (214, 51, 158)
    with glassformer.explore(module, given, open_page=False, wait=False) as opened:
        origins.add(urlsplit(opened.address).netloc)
        page.goto(f"{opened.address}?step=numbers")
        wait_for_numbers(grid(page, "numbers"))
        drawn = np.array(pixels(page, "numbers", *values.shape))
    assert np.abs(drawn - expected).max() <= 2
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 200


def test_one_tab_stop_arrows_and_the_live_region(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES))
    scores = grid(page, "scores")
    active = scores.locator("[tabindex='0']")
    expect(active).to_have_count(1)
    active.focus()
    said = panel(page, "scores").get_by_role("status")
    for keys, place, words in [
        ("ArrowRight", (1, 2), "scores, row 'I', column 'am', 0"),
        ("ArrowDown", (2, 2), "scores, row 'am', column 'am', 0"),
        ("End", (2, 4), "scores, row 'am', column 'happy', 0"),
        ("Control+Home", (1, 1), "scores, row 'I', column 'I', 0"),
        ("Control+End", (4, 4), "scores, row 'happy', column 'happy', 0"),
        ("PageUp", (1, 4), "scores, row 'I', column 'happy', 0"),
        ("ArrowLeft", (1, 3), "scores, row 'I', column 'not', 6"),
    ]:
        page.keyboard.press(keys)
        expect(said).to_have_text(words)
        focused = scores.locator(f"[aria-rowindex='{place[0]}'] > :focus")
        expect(focused).to_have_attribute("aria-colindex", str(place[1]))
        expect(active).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="S[0, 2]")).to_be_visible()


def test_a_heat_map_has_one_focusable_cell_too(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE, "encoder.blocks.0.attention.projected_queries"))
    matrix = grid(page, "projected_queries")
    expect(matrix.get_by_role("gridcell")).to_have_count(1)
    matrix.get_by_role("gridcell").focus()
    for key in ("Control+Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(matrix.get_by_role("gridcell")).to_have_count(1)
    expect(matrix.locator(":focus")).to_have_attribute("aria-colindex", "2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Q[1, 1]")).to_be_visible()


def test_zoom_by_button_key_and_wheel(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE, "encoder.blocks.0.attention.projected_queries"))
    matrix = grid(page, "to_queries.weight")
    frame = panel(page, "to_queries.weight")
    wait_for_numbers(matrix)
    stand_still(page)
    width = "(matrix) => matrix.querySelector('[role=gridcell]').getBoundingClientRect().width"
    widths: list[float] = []
    frame.get_by_role("button", name="Zoom in").click()
    widths.append(matrix.evaluate(width))
    matrix.locator("[tabindex='0']").press("+")
    widths.append(matrix.evaluate(width))
    frame.get_by_role("button", name="Show the numbers").click()
    wait_for_numbers(matrix)
    widths.append(matrix.evaluate(width))
    assert widths == sorted(widths) and widths[-1] >= 40
    matrix.hover()
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, 120)
    expect(frame.get_by_role("button", name="Show the numbers")).to_be_visible()
    page.keyboard.up("Control")
    assert matrix.evaluate(width) < widths[-1]
    frame.get_by_role("button", name="Fit").click()
    expect(matrix.get_by_role("gridcell")).to_have_count(1)


def test_hovering_reads_the_number(visit: Visit) -> None:
    page = visit(link("en-de", SENTENCE, SCORES))
    values = recorded("en-de", SENTENCE)[SCORES].view.array[0, 0]
    matrix = grid(page, "scores")
    wait_for_numbers(matrix)
    stand_still(page)
    box = matrix.bounding_box()
    assert box is not None
    rows, columns = values.shape
    x, y = box["width"] * 2.5 / columns, box["height"] * 1.5 / rows
    matrix.hover(position={"x": x, "y": y})  # once it stands still
    reading = panel(page, "scores").locator(".reading .number")
    expect(reading).to_have_text(f"{values[1, 2]:.9g}".replace("-", "−"))


def test_a_title_leads_to_its_step_and_the_source_line_is_there(visit: Visit) -> None:
    page = visit(link("toy", TOY, SCORES))
    expect(page.get_by_text("scores = queries @ shared_keys.mT").first).to_be_visible()
    page.get_by_role("button", name="projected_queries").click()
    expect(page.get_by_role("heading", name="projected_queries")).to_be_visible()
    expect(grid(page, "to_queries.weight")).to_be_visible()


def test_a_step_without_matrices_is_shown_too(visit: Visit) -> None:
    page = visit(link("imdb", "A waste of time.", "logits"))
    trace = recorded("imdb", "A waste of time.")
    assert agree(show_exact(page, "logits"), trace["logits"].view.array.reshape(1, -1)) == 2
