"""One function for every format; translations; atomic file writes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.colours import Scale
from glassformer.documents import FORMATS, render
from glassformer.documents.heat_maps import scale_of
from glassformer.documents.renderer import meaning_of, words_in, write_file
from glassformer.documents.trace_data import Addresses, all_steps
from glassformer.errors import TraceError, UnknownNameError
from glassformer.tracing import Cell, Step, trace
from glassformer.tracing.arithmetic.expressions import Entry
from glassformer.tracing.capture.memory import flat_place, index_of
from tests.tracing.render.toys import SIGNALLING, TOYS, traced


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("to", FORMATS)
def test_every_format_takes_a_trace_a_step_a_cell_and_a_list(
    to: str, lang: str, tmp_path: Path
) -> None:
    t = traced("illustrated")
    several: list[Step | Cell] = [t["scores"], t["weights"][0, 0]]
    options: dict[str, Any] = {"width": 80, "colour": False} if to == "terminal" else {}
    for thing in (t, t["scores"], t["scores"][1, 2], several):
        made = render(thing, to=to, lang=lang, **options)
        assert isinstance(made, bytes if to == "xlsx" else str) and made
        name = "file.md" if to == "worksheet" else "file"  # a worksheet's ending says its format
        path = render(thing, to=to, path=tmp_path / name, lang=lang, **options)
        content = made.encode() if isinstance(made, str) else made
        assert isinstance(path, Path) and path.read_bytes() == content


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "html", "json", "xlsx"])
def test_the_ending_of_the_path_chooses_the_format(ending: str, tmp_path: Path) -> None:
    path = render(traced("illustrated"), path=tmp_path / f"run.{ending}")
    assert isinstance(path, Path) and path.stat().st_size > 100


def test_what_cannot_be_rendered_raises_a_one_line_error(tmp_path: Path) -> None:
    t = traced("illustrated")
    with pytest.raises(UnknownNameError, match="unknown format 'htm'; did you mean 'html'"):
        render(t, to="htm")
    with pytest.raises(UnknownNameError, match=r"file ending '\.xls'; did you mean '\.xlsx'"):
        render(t, path=tmp_path / "a.xls")
    with pytest.raises(TraceError, match="nothing to render"):
        render([], to="html")


def test_a_data_file_of_a_cell_explains_it() -> None:
    cell = traced("illustrated")["scores"][1, 2]
    made = render(cell, to="json")
    assert isinstance(made, str)
    assert json.loads(made)["cells"][0]["cell"] == cell.name


# --- words ---


def test_chinese_uses_the_terms_of_the_field() -> None:
    chinese = words_in("zh")
    assert meaning_of(chinese, "encoder.blocks.0.attention.weights") == "注意力权重"
    assert meaning_of(chinese, "projected_keys.2") == "键"
    assert meaning_of(chinese, "attention_sum") == "残差相加"
    assert meaning_of(chinese, "something_else") == ""
    assert "变压器" not in "".join(chinese.values())


@pytest.mark.parametrize("to", ["terminal", "md", "tex", "xlsx"])
def test_nothing_english_is_left_in_chinese(to: str) -> None:
    """Notes, long sums, choices and heads: the trace's own text, not names or source."""

    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            scores = x @ x.mT
            masked = scores.masked_fill(~keep, -1e9)
            return masked.softmax(-1) @ x

    t = trace(Attention(), torch.randn(1, 2, 3, 12), torch.ones(3, 3, dtype=torch.bool).tril())
    t = t.edit({("x", (0, 0, 0, 0)): 1.0})
    made = render(t, to=to, lang="zh")
    cells = [t[name][0, 1, 0, 2] for name in ("scores", "masked")]
    shown = [made, *(render(cell, to=to, lang="zh") for cell in cells)]
    pages = ["".join(texts_of(page)) if isinstance(page, bytes) else str(page) for page in shown]
    said = "\n".join(pages)
    assert re.findall(r"\d+ others|\bif \b|\belse \b|\bhead \d|edited:|otherwise", said) == []
    if to != "tex":
        assert "已修改" in said
    if to in ("terminal", "md"):
        assert "其余 4 项" in said
        assert "若 " in said
    if to == "xlsx":
        assert "头 1" in said


def texts_of(workbook: bytes) -> list[str]:
    """The text cells of a workbook."""
    with zipfile.ZipFile(io.BytesIO(workbook)) as archive:
        return re.findall(r"<t[^>]*>([^<]*)</t>", archive.read("xl/sharedStrings.xml").decode())


# --- files ---


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path / "a.txt", "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(TraceError, match="disk full"):
            write_file(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    path.chmod(0o640)
    assert write_file(path, b"new").stat().st_mode & 0o777 == 0o640


# --- addresses ---


@pytest.mark.parametrize("toy", TOYS)
def test_addresses_agree_with_the_owners_of_every_operand(toy: str) -> None:
    t = traced(toy)
    steps, addresses = all_steps(t), Addresses()
    for step in t.steps:
        for operand in step.operands:
            for place in range(operand.view.numel):
                index = index_of(place, operand.view.shape)
                found = addresses.of(Entry(operand.view, index))
                owner, at = operand.view.owner(index)
                assert found.step is not None and steps[found.step] is owner
                assert found.base == flat_place(at, owner.shape)


def test_addresses_know_what_was_overwritten() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        before = y + 0
        y[1:, ::2] = 7.0
        return y.mT + before.mT

    t = trace(function, torch.arange(6.0).reshape(2, 3))
    last = t.steps[-1]
    addresses, steps = Addresses(), all_steps(t)
    for index in [(0, 0), (0, 1), (1, 1), (2, 1)]:
        cell = last[index]
        assert isinstance(cell, Cell)
        written = next(o for o in cell.operands)
        found = addresses.of(Entry(last.operands[0].view, index))
        assert found.step is not None and steps[found.step] is written.step


# --- colours ---


def test_only_probabilities_get_the_fixed_scale() -> None:
    t = trace(
        lambda x: (x.softmax(-1), x.relu(), x > 0, x.long()),
        torch.tensor([[-1.0, 0.5], [2.0, 30.0]]),
    )
    scales = [scale_of(step) for step in t.steps]
    assert scales[0] == Scale("probability")
    assert scales[2] == Scale("signed", 1.0)  # a truth is no share: what is false has no colour
    assert scales[1] is not None and scales[1].kind == "signed" and scales[1].limit > 20
    assert scales[3] is None


@pytest.mark.parametrize("dtype", SIGNALLING)
@pytest.mark.parametrize("to", FORMATS)
def test_memory_never_written_may_hold_a_signalling_nan(to: str, dtype: torch.dtype) -> None:
    """Warnings are errors here, and numpy warns when such a number is cast."""
    assert render(trace(lambda x: (x.clone(), x + 1), SIGNALLING[dtype].view(dtype)), to=to)
