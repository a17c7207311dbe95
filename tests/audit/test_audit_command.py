"""`glassformer audit`: exit codes, JSON, tables in both languages and three formats."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from glassformer.audit.audit_report import audit_document
from glassformer.audit.example_file import example_names
from glassformer.audit.judgement import audit
from glassformer.cli import run
from glassformer.documents import render_text
from tests.audit.audits import audit_of

RIGHT = {
    "steps": [
        {"id": "a", "printed": [1, 2]},
        {"id": "b", "formula": "a * 2", "printed": [2, 4], "decimals": 0},
    ]
}


@pytest.fixture
def right_file(tmp_path: Path) -> Path:
    file = tmp_path / "right.json"
    file.write_text(json.dumps(RIGHT), encoding="utf-8")
    return file


def test_nothing_wrong_ends_with_0(right_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(right_file)]) == 0
    out, err = capsys.readouterr()
    assert "✓ agrees" in out
    assert err == ""


def test_something_wrong_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "masked"]) == 1
    out, err = capsys.readouterr()
    assert "✗ wrong" in out
    assert err == "glassformer: wrong steps: 4 in masked\n"


def test_json_is_as_designed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "masked", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["example", "steps"]
    assert data["example"] == "masked"
    for step in data["steps"]:
        assert list(step) == ["id", "verdict", "slip", "right", "note", "reason"]
    by_id = {step["id"]: step for step in data["steps"]}
    assert by_id["masked_a1"]["right"] == [[14, 32, 50], [32, 77, 122], [50, 122, 194]]
    assert by_id["masked_a1_masked"]["right"][0] == [1, "-inf", "-inf"]
    assert by_id["masked_input"] == {
        "id": "masked_input", "verdict": "given", "slip": None, "right": None, "note": None,
        "reason": None,
    }  # fmt: skip


def test_without_a_name_all_examples_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["example"] for line in lines] == example_names()


def test_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "thrones", "--lang", "zh"]) == 1
    out = capsys.readouterr().out
    assert "有误" in out
    assert "漏掉了词元" in out


@pytest.mark.parametrize(
    "arguments",
    [["--json", "--to", "md"], ["--to", "html"], ["masked", "--to", "pdf"], ["nothing"]],
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_crash_ends_with_70_and_not_with_1(
    right_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 means that something is wrong with the article."""

    def crash(*_: object) -> None:
        raise TypeError("not supported")

    monkeypatch.setattr("glassformer.audit.judgement.audit", crash)
    assert run(["audit", str(right_file)]) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert "TypeError: not supported" in err
    assert err.splitlines()[-1] == (
        "glassformer: a fault of Glassformer itself; please report the lines above"
    )


def test_the_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 the example cannot be read, 70 a fault of Glassformer itself" in said


@pytest.mark.parametrize("form", ["terminal", "md", "html"])
def test_a_report_goes_to_a_file(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report"
    assert run(["audit", "illustrated", "--to", form, "-o", str(file)]) == 1
    assert capsys.readouterr().out == ""
    assert "softmax_rounded" in file.read_text(encoding="utf-8")
    assert run(["audit", "illustrated", "-o", str(tmp_path / "no" / "report")]) == 2


class Balanced(HTMLParser):
    """Fails on a closing tag without an opening one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_whole_and_needs_nothing_else(language: str) -> None:
    result = audit_of("masked")
    page = render_text(audit_document(result, "zh" if language == "zh" else "en"), "html")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"(src|href)=|url\(|@import", page)
    for step in result.results:
        assert step.step.id in page


def test_text_of_a_file_never_becomes_html_or_a_table() -> None:
    from glassformer.audit.example_file import read_example

    data = {"title": "<b>x</b>", "steps": [{"id": "a", "title": "<i>|", "printed": 1}]}
    result = audit(read_example(json.dumps(data), "n", "n"))
    page, text = (render_text(audit_document(result, "en"), to) for to in ("html", "md"))
    assert "<b>" not in page and "<i>" not in page
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_every_wrong_number_is_shown_with_the_right_one() -> None:
    report = render_text(audit_document(audit_of("by-hand"), "en"), "md")
    for pair in ("~~0.0464~~ **0.5403**", "~~9.26~~ **9.39**", "~~1.103534~~ **1.132632**"):
        assert pair in report
