"""A module defined here, opened by `glassformer.explore` on the same page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import torch
from playwright.sync_api import Page, expect
from torch import Tensor, nn

import glassformer
from tests.tasks.foreign_folders import FOLDERS, byte_level


class Mixer(nn.Module):
    """Two lines of arithmetic of our own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 2, bias=False)

    def forward(self, given: Tensor) -> Tensor:
        mixed: Tensor = self.mix(given)
        bent = torch.tanh(mixed)
        return bent


def test_a_module_of_the_users_opens_on_the_page(page: Page, origins: set[str]) -> None:
    torch.manual_seed(0)
    module, given = Mixer().eval(), torch.tensor([[1.0, 2.0, 3.0]])
    expected = module(given)[0, 1].item()
    with glassformer.explore(module, given, open_page=False, wait=False) as opened:
        origins.add(urlsplit(opened.address).netloc)
        page.goto(opened.address)
        tree = page.get_by_role("tree", name="Steps")
        expect(tree).to_be_visible()
        tree.get_by_text("bent").click()
        expect(page).to_have_url(re.compile(r"#/trace/[\w-]+\?step=bent"))
        page.reload()
        expect(page.locator("main h2")).to_contain_text("bent")
        cell = page.get_by_role("grid", name="bent").get_by_role("gridcell").last
        cell.click()
        card = page.get_by_role("complementary", name="The selected number")
        expect(card).to_contain_text("bent[1]")
        shown = card.get_by_text(re.compile(r"^[−-]?0\.\d{6,}$")).first.inner_text()
        assert abs(float(shown.replace("−", "-")) - expected) < 1e-8


class Counts(nn.Module):
    """A module that knows nothing of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(byte_level()), 4)

    def forward(self, ids: Tensor) -> Tensor:
        looked_up: Tensor = self.table(ids)
        return looked_up.sum(dim=1)


def test_a_module_with_a_tokenizer_has_a_field_for_texts(page: Page, origins: set[str]) -> None:
    with glassformer.explore(
        Counts(), tokenizer=byte_level(), open_page=False, wait=False
    ) as opened:
        origins.add(urlsplit(opened.address).netloc)
        page.goto(opened.address)
        field = page.get_by_role("textbox", name="Text", exact=True).first
        field.fill("the cat")
        field.press("Enter")
        expect(page).to_have_url(re.compile(r"#/Counts\?text=the\+cat"))
        expect(page.get_by_role("tree", name="Steps")).to_contain_text("looked_up")
        expect(page.get_by_role("textbox", name="Text", exact=True)).to_have_value("the cat")


def test_a_masked_language_model_says_which_words_fill_the_gap(
    page: Page, origins: set[str], tmp_path: Path
) -> None:
    folder = FOLDERS["bert_masked"].write(tmp_path / "bert")
    model = glassformer.load(folder)
    (filled,) = model.fill(["a [MASK] film"])
    with model.explore("a [MASK] film", open_page=False, wait=False) as opened:
        origins.add(urlsplit(opened.address).netloc)
        page.goto(opened.address)
        answer = page.get_by_role("region", name="Answer")
        expect(answer.get_by_role("status")).to_contain_text(filled.gaps[0][0].text)
        answer.get_by_role("button", name="Which words made it say").click()
        expect(answer).to_contain_text("[MASK]")
