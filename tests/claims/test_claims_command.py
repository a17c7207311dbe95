"""`glassformer claims`: formats, languages, exit codes, plots."""

import json
from pathlib import Path

import pytest

from glassformer.claims import claims
from glassformer.claims.claim_figures import DRAWN
from glassformer.cli import run


def test_one_claim_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "C11"]) == 0
    out, err = capsys.readouterr()
    assert "C11" in out and "✓ holds" in out and "4.5" in out
    assert err == ""


def test_chinese(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no line ends inside a word
    assert run(["claims", "C11", "C05", "--lang", "zh"]) == 0
    out = capsys.readouterr().out
    assert "成立" in out and "不成立" in out and "加权和" in out


def test_json_has_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "C33", "C69", "--json"]) == 0
    fresh, stored = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fresh["id"], fresh["verdict"], fresh["stored"]) == ("C33", "holds", None)
    assert fresh["figures"]["error"] < 1e-5 and fresh["seconds"] >= 0
    assert stored["stored"]["command"] == "glassformer train imdb"
    assert stored["figures"]["accuracy"] == 0.88332


@pytest.mark.parametrize(("lang", "said"), [("en", "not measured now"), ("zh", "这次未能重新测量")])
@pytest.mark.parametrize("folder", [None, "empty"])
def test_without_the_texts_the_stored_result_stands_in(
    lang: str,
    said: str,
    folder: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GLASSFORMER_TEXTS", raising=False)
    if folder is not None:
        monkeypatch.setenv("GLASSFORMER_TEXTS", str(tmp_path))
    assert run(["claims", "C72", "C33", "--slow", "--json", "--lang", lang]) == 0
    stored, fresh = map(json.loads, capsys.readouterr().out.splitlines())
    assert said in stored["found"] and "GLASSFORMER_TEXTS" in stored["found"]
    assert stored["seconds"] is None and stored["stored"] is not None and stored["figures"]
    assert (fresh["id"], fresh["stored"]) == ("C33", None)


@pytest.mark.parametrize("form", ["terminal", "md"])
def test_a_report_goes_to_a_file(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report"
    assert run(["claims", "C33", "--to", form, "-o", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert "C33" in file.read_text(encoding="utf-8")
    assert run(["claims", "C33", "-o", str(tmp_path / "no" / "report")]) == 2


@pytest.mark.parametrize("arguments", [["C99"], ["C33", "--json", "--to", "md"], ["--to", "pdf"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["claims", "C66", "C33", "--plot", str(tmp_path / "pictures")]) == 0
    (file,) = (tmp_path / "pictures").iterdir()
    assert file.name == "C66.svg" and file.read_text(encoding="utf-8").startswith("<svg")
    assert "C66.svg" in capsys.readouterr().err


def test_every_picture_belongs_to_a_claim() -> None:
    assert set(DRAWN) <= set(claims())
