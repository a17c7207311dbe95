"""`claims --to html`: charts of what was measured, and the code of the experiments."""

from __future__ import annotations

import inspect
import re
from html import unescape
from pathlib import Path

import pytest

from glassformer.claims import claims
from glassformer.claims.claim_figures import claim_figure
from glassformer.claims.claim_report import claims_page
from glassformer.cli import run
from glassformer.documents import render_text
from glassformer.language import Language, words
from tests.claims.claim_runs import outcome_of

SPECS = {
    id_: spec
    for id_, spec in words("glassformer.claims.claim_figures").data.items()
    if id_ != "lines"
}
FRESH = ("C10", "C18", "C34", "C66", "C67", "C79")
STORED = ("C37", "C63", "C70", "C71")


def named_in(spec: dict[str, object]) -> list[str]:
    cells, bars = spec.get("cells", []), spec.get("bars", {})
    assert isinstance(cells, list) and isinstance(bars, dict)
    return [*bars, *(name for row in cells for name in row)]


@pytest.mark.parametrize("id_", SPECS)
def test_a_chart_shows_figures_that_its_claim_measures(id_: str) -> None:
    """A stored result has them; otherwise the experiment's code or the report names them."""
    claim = claims()[id_]
    if claim.stored is not None:
        assert set(named_in(SPECS[id_])) <= set(claim.stored.figures)
    else:
        source = inspect.getsource(claim.measure) + claim.found.en
        for name in named_in(SPECS[id_]):
            assert re.search(rf"\b{name}\b", source), name


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("id_", [*FRESH, *STORED])
def test_a_chart_is_titled_in_words(id_: str, language: Language) -> None:
    outcome = claims()[id_].recall() if id_ in STORED else outcome_of(id_)
    drawing = claim_figure(outcome, language)
    assert drawing is not None
    assert id_ not in drawing.svg()
    assert bool(re.search("[\u4e00-\u9fff]", drawing.title)) == (language == "zh")


def test_bars_carry_the_numbers_measured() -> None:
    stored = claims()["C63"].recall()
    drawing = claim_figure(stored, "en")
    assert drawing is not None
    said = re.findall(r">([^<>]+)</text>", drawing.svg())
    for value in stored.figures.values():
        assert f"{value:.0%}" in said


@pytest.mark.parametrize("id_", ["C05", "C06"])
def test_small_numbers_over_bars_are_written_as_in_the_sentence(id_: str) -> None:
    """`6 × 10⁻⁸`, not `6e−08`."""
    drawing = claim_figure(outcome_of(id_), "en")
    assert drawing is not None
    said = re.findall(r">([^<>]+)</text>", drawing.svg())
    assert not [text for text in said if re.search(r"\de[-−+]?\d", text)]


def test_a_claim_that_was_not_measured_has_no_chart() -> None:
    assert claim_figure(outcome_of("C33"), "en") is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_has_verdict_chart_and_code(language: Language) -> None:
    outcomes = [outcome_of("C18"), claims()["C63"].recall()]
    page = render_text(claims_page(outcomes, language), "html")
    said = unescape(page)
    for outcome in outcomes:
        assert f"<h3>{outcome.claim.id}  {outcome.claim.says.say(language)}</h3>" in said
        assert inspect.getsource(outcome.claim.measure).strip() in said
    assert page.count("<details>") == 2 and page.count("<svg") == 2
    assert "glassformer claims C63 --slow" in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    file = tmp_path / "claims.html"
    assert run(["claims", "C18", "C37", "--to", "html", "-o", str(file), "--lang", "zh"]) == 0
    page = file.read_text(encoding="utf-8")
    assert page.count("<details>") == 2 and page.count("<svg") == 2 and "实验代码" in page
