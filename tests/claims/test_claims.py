"""The claims: complete, in both languages, with verdicts computed from measured figures."""

import ast
import inspect
import re
import textwrap
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from glassformer.claims import GROUPS, PROPERTIES, Claim, VerdictRule, claims, find, outcomes
from glassformer.claims.claim import Figures, Seconds, Stored, Verdict, with_seconds
from glassformer.claims.claim_report import VERDICTS, claims_document
from glassformer.claims.classifier_claims import printed_code, read_text
from glassformer.documents import render_text
from glassformer.errors import DataError
from tests.claims.claim_runs import QUICK, outcome_of

ROOT = Path(__file__).parents[2]
IDS = [f"C{number:02}" for number in range(1, 99)]
every = pytest.mark.parametrize("claim", claims().values(), ids=lambda claim: claim.id)


def test_all_claims_are_there_in_order() -> None:
    assert list(claims()) == IDS
    for group in GROUPS:
        assert group.described == set(group.claims)


@every
def test_the_words_are_complete_in_both_languages(claim: Claim) -> None:
    timed = claim.seconds
    beside = () if timed is None else (timed.basis, timed.said, timed.against)
    for words in (claim.says, claim.found, claim.remark, *beside):
        if words is not None:
            assert words.en.strip() and words.zh.strip()
            assert re.search(r"[\u4e00-\u9fff]", words.zh)
            assert not re.search(r"[\u4e00-\u9fff]", words.en)
            assert set(_places(words.en)) == set(_places(words.zh))
    assert set(claim.texts) <= {"000", "001", "002", "003", "004"}


def _places(template: str) -> list[str]:
    return re.findall(r"\{(\w+)", template)


@pytest.mark.parametrize("id_", QUICK)
def test_a_claim_runs_and_says_what_it_measured(id_: str) -> None:
    outcome = outcome_of(id_)
    assert outcome.verdict in VERDICTS and outcome.verdict != "not measured yet"
    assert set(_places(outcome.claim.found.en)) <= set(outcome.figures)
    for language in ("en", "zh"):
        said = outcome.sentence("zh" if language == "zh" else "en")
        assert re.search(r"\d", said)
    assert all(isinstance(value, int | float) for value in outcome.figures.values())


@every
def test_an_experiment_computes_and_knows_no_verdict(claim: Claim) -> None:
    source = textwrap.dedent(inspect.getsource(claim.measure))
    tree = ast.parse(source)
    assert not any(
        isinstance(node, ast.Constant) and node.value in VERDICTS for node in ast.walk(tree)
    )
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    assert any(
        isinstance(part, ast.Name | ast.Call)
        for value in returned
        if value is not None
        for part in ast.walk(value)
    )
    module = inspect.getmodule(inspect.unwrap(claim.measure))
    assert module is not None
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used = [getattr(module, name) for name in named if hasattr(module, name)]
    homes = {
        str(getattr(thing, "__module__", None) or getattr(thing, "__name__", "")) for thing in used
    }
    assert any(home.startswith(("glassformer", "torch")) for home in homes)


@every
def test_a_rule_reads_the_figures(claim: Claim) -> None:
    """A rule that reads no figures could not judge anything."""
    asked: set[str] = set()

    class Asked(dict[str, float]):
        def __missing__(self, name: str) -> float:
            asked.add(name)
            return 1.0

        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return False

    claim.rule.judge(Asked())
    assert asked


def test_a_rule_takes_the_first_condition_that_is_met() -> None:
    rule = VerdictRule(
        lambda f: f["x"] > 2, partly=lambda f: f["x"] > 1, decidable=lambda f: f["x"] >= 0
    )
    verdicts = [rule.judge({"x": x}) for x in (3, 2, 1, -1)]
    assert verdicts == ["holds", "holds in part", "fails", "not decidable here"]


def test_slow_claims_are_recalled_and_judged_like_fresh_ones() -> None:
    slow = [claim for claim in claims().values() if claim.slow]
    assert slow
    for outcome in outcomes(slow):
        assert outcome.claim.command is not None and outcome.seconds is None
        stored = outcome.claim.stored
        assert stored is not None
        assert outcome.verdict == outcome.claim.rule.judge(stored.figures)
        assert stored.command in outcome.sentence("en") and stored.date in outcome.sentence("zh")


def test_a_slow_claim_without_a_result_says_how_to_get_one() -> None:
    (outcome,) = outcomes([replace(claims()["C70"], stored=None)])
    assert outcome.verdict == "not measured yet" and outcome.figures == {}
    assert outcome.claim.command is not None and outcome.claim.command in outcome.sentence("zh")


def test_other_stored_figures_give_another_verdict() -> None:
    claim = claims()["C69"]
    assert claim.stored is not None
    worse = replace(claim, stored=replace(claim.stored, figures={"accuracy": 0.5}))
    assert (claim.recall().verdict, worse.recall().verdict) == ("holds", "fails")


def test_with_slow_a_slow_claim_is_run() -> None:
    claim = replace(claims()["C63"], measure=lambda: {"sinusoidal_32": 0.1, "rotary_32": 0.1})
    (outcome,) = outcomes([claim], slow=True)
    assert outcome.verdict == "holds" and outcome.seconds is not None


# --- what is counted, and what a stopwatch says ---

TIMED = [claim.id for claim in claims().values() if claim.seconds is not None]
QUIET, BUSY = 0.05, 0.8


def _seconds(id_: str) -> Seconds:
    seconds = claims()[id_].seconds
    assert seconds is not None
    return seconds


# Made-up seconds: what the machine did must not decide whether a test passes.
HEADS = {
    "shortest": 64, "longest": 4096, "wide_least": 3.4, "wide_most": 4.1, "narrow_least": 0.9,
    "narrow_most": 1.2, "spread": QUIET,
}  # fmt: skip
STEPS = {
    "shortest": 64, "longest": 4096, "blocks_first": 2.0, "blocks_last": 5.0, "blocks_growth": 0.2,
    "lstm_first": 2.0, "lstm_last": 90.0, "lstm_growth": 0.9, "spread": QUIET,
}  # fmt: skip


@pytest.mark.parametrize(
    ("id_", "timing", "wanted"),
    [
        ("C40", HEADS, "holds"),
        ("C40", HEADS | {"narrow_most": 3.8}, "holds in part"),
        ("C40", HEADS | {"wide_least": 1.0}, "holds in part"),
        ("C40", HEADS | {"wide_least": 2.0, "spread": BUSY}, "holds"),
        ("C40", HEADS | {"wide_least": 1.0, "spread": BUSY}, "holds in part"),
        ("C91", STEPS, "holds"),
        ("C91", STEPS | {"blocks_last": 600.0}, "holds in part"),
        ("C91", STEPS | {"blocks_last": 100.0, "spread": BUSY}, "holds"),
        ("C91", STEPS | {"blocks_last": 600.0, "spread": BUSY}, "holds in part"),
    ],
)
def test_seconds_that_say_the_opposite_take_a_holds_back(
    id_: str, timing: Figures, wanted: Verdict
) -> None:
    assert with_seconds("holds", _seconds(id_), [timing]) == wanted
    assert with_seconds("fails", _seconds(id_), [timing]) == "fails"


def test_every_machine_must_agree() -> None:
    slow = STEPS | {"blocks_last": 600.0}
    assert with_seconds("holds", _seconds("C91"), [STEPS, slow]) == "holds in part"
    assert with_seconds("holds", _seconds("C91"), []) == "holds"


@pytest.mark.parametrize(("id_", "timing"), [("C40", HEADS), ("C91", STEPS)])
def test_a_timed_claim_says_what_its_verdict_rests_on(id_: str, timing: dict[str, float]) -> None:
    stored = Stored(timing | {"spread": BUSY}, "command", "2026-01-01", "a machine")
    claim = claims()[id_]
    (outcome,) = outcomes([replace(claim, seconds=replace(_seconds(id_), stored=(stored,)))])
    said = outcome.sentence("en")
    assert "The verdict is based on the" in said and "a machine" in said
    assert "Timing disturbed: the median measurement took 80% longer" in said
    assert "计时受到干扰" in outcome.sentence("zh")
    assert _seconds(id_).against.en not in said
    assert f"({_seconds(id_).basis.en})" in render_text(claims_document([outcome], "en"), "md")


@pytest.mark.parametrize("id_", TIMED)
def test_stored_timings_are_judged_like_fresh_ones(id_: str) -> None:
    seconds = _seconds(id_)
    assert seconds.stored
    for stored in seconds.stored:
        assert set(_places(seconds.said.en)) <= set(stored.figures)
        assert stored.command == f"glassformer claims {id_} --slow"
    measured = replace(seconds, measure=lambda: HEADS | STEPS)
    (fresh,) = outcomes([replace(claims()[id_], seconds=measured)], slow=True)
    assert fresh.timings == (HEADS | STEPS,)
    assert fresh.to_dict()["timings"] == [HEADS | STEPS]


# --- printed code ---


def test_printed_code_is_compiled_as_it_stands() -> None:
    text = """
# A text
```python
class Right(object):
    def __init__(self, size, flag=False):
        self.size = size
```
goes on
 ```
 def double(self):  # flag
     size = 2 * self.size
 ```
and
```
return size
```
then
```
class Wrong(object):
    def __init__(self):
    self.size = 1
```
"""
    code = printed_code(text)
    assert (len(code.blocks), code.compiled) == (4, 3)
    assert (len(code.classes), code.compiled_classes) == (2, 1)
    assert (code.mentions("flag"), code.parameters("flag")) == (1, 1)
    assert (code.mentions("size"), code.parameters("size")) == (7, 1)


def test_texts_are_read_from_the_folder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLASSFORMER_TEXTS", raising=False)
    with pytest.raises(DataError, match="GLASSFORMER_TEXTS; it is not set"):
        read_text("000")
    monkeypatch.setenv("GLASSFORMER_TEXTS", str(tmp_path))
    with pytest.raises(DataError, match="a file that begins with 000, found none"):
        read_text("000")
    (tmp_path / "000_text.txt").write_text("```\nx = (1\n```\n", encoding="utf-8")
    assert claims()["C72"].command is not None
    assert printed_code(read_text("000")).compiled == 0


def test_a_claim_is_found_in_any_case() -> None:
    assert [claim.id for claim in find(["c02", "C01"])] == ["C02", "C01"]
    assert len(find([])) == len(IDS)


def test_a_property_stands_for_its_claims() -> None:
    assert [claim.id for claim in find(["b09", "B06", "C39"])] == ["C46", "C38", "C39"]
    assert list(PROPERTIES) == ["A06", *(f"B{number:02}" for number in range(1, 17))]
    assert {id_ for ids in PROPERTIES.values() for id_ in ids} <= set(IDS)


def test_markdown_keeps_its_columns() -> None:
    page = render_text(
        claims_document([outcome_of(id_) for id_ in ("C01", "C22", "C85")], "en"), "md"
    )
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert "<end>" not in page


def test_the_page_lists_every_claim_as_the_command_writes_it() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (C\d\d) \|(.*)$", page, flags=re.MULTILINE))
    assert list(rows) == IDS
    for claim in claims().values():
        assert escape(claim.says.en, quote=False) in rows[claim.id]


def test_small_numbers_are_written_as_a_person_would() -> None:
    assert "differ by 0, their" in outcome_of("C12").sentence("en")
    for language in ("en", "zh"):
        for id_ in ("C01", "C12", "C22"):
            assert not re.search(r"\de[+-]\d", outcome_of(id_).sentence(language))
    assert re.search(r"at most \d × 10⁻[⁷⁸]", outcome_of("C01").sentence("en"))
