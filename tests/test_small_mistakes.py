"""Small mistakes of `make mutants` that no other test would notice."""

import io
import re
import sys
import zipfile
from unittest.mock import Mock

import pytest
import torch
from starlette.testclient import TestClient

from glassformer import cli
from glassformer.cli.trace_commands import explore
from glassformer.documents import parts, render, render_text
from glassformer.documents.parts import Judgement, Question
from glassformer.documents.slides import _row_height
from glassformer.experiments.comparison import compare
from glassformer.explorer import server
from glassformer.explorer.api import create_api
from glassformer.explorer.open_claims import OpenClaims
from glassformer.explorer.state import State
from glassformer.tracing import trace


def sheets(workbook: object) -> dict[str, str]:
    """The XML of each sheet, without its folder."""
    assert isinstance(workbook, bytes)
    with zipfile.ZipFile(io.BytesIO(workbook)) as opened:
        names = [name for name in opened.namelist() if name.startswith("xl/worksheets/sheet")]
        return {name.rpartition("/")[2]: opened.read(name).decode() for name in names}


def test_the_name_of_a_step_is_bounded() -> None:
    """glassformer.explorer.api: what is too long is no name, and is not looked up."""
    with TestClient(create_api(State()), base_url="http://localhost") as client:
        codes = [
            client.get("/api/audits/masked/cell", params={"step": "x" * n}).status_code
            for n in (0, 100, 101)
        ]
    assert codes == [422, 404, 422]


def test_texts_of_a_batch_are_aligned_by_the_first() -> None:
    table = torch.nn.Embedding(10, 2)
    one = trace(table, torch.tensor([[1, 2, 3], [4, 5, 6]]))
    other = trace(table, torch.tensor([[1, 9, 2, 3], [4, 8, 5, 6]]))
    found = compare(one, other)
    assert found.unaligned == ()
    assert {one.steps[-1].name, "weight"} <= {*found.same}


def test_a_letter_that_a_console_lacks_is_one_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = io.BytesIO()
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(console, encoding="latin-1"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    lost = cli._prepare_streams()
    sys.stdout.write("a cat: 猫!")
    sys.stdout.flush()
    assert (console.getvalue(), lost) == (b"a cat: ?!", ["猫"])


def test_a_stored_number_has_the_digits_of_its_precision() -> None:
    """glassformer.documents.trace_documents: nine digits tell every float32 from its neighbours."""
    cell = trace(lambda x: x / 3, torch.ones(1)).steps[-1][0]
    said = render_text(cell, "md")
    assert re.findall(r"0\.333333[0-9]*", said.replace("0.333333333", "")) == ["0.33333334"]


def test_a_card_lists_the_terms_of_a_sum() -> None:
    run = trace(lambda a: a.sum(), torch.tensor([1.0, 2.0, 4.0]))
    said = render_text(run.steps[-1][()], "md")
    assert [f"`a[{k}]`" in said for k in range(4)] == [True, True, True, False]
    assert "| terms |" not in render_text(next(iter(run.inputs.values()))[0], "md")


def test_only_computed_numbers_have_heat_colours() -> None:
    """glassformer.documents.workbook: the colour of a parameter says that it may be changed."""
    layer = torch.nn.Linear(3, 2)
    coloured = [
        area
        for sheet in sheets(render(trace(layer, torch.ones(1, 3)), "xlsx")).values()
        for area in re.findall(r'<conditionalFormatting sqref="([^"]+)"', sheet)
    ]
    assert len(coloured) == 1, coloured


def test_the_cells_to_fill_in_stand_below_their_labels() -> None:
    """glassformer.documents.spreadsheet: a learner writes under a label."""
    cells = trace(lambda x: x + 1, torch.zeros(2)).steps[-1]
    question = Question(
        "Add one.", (cells[0], cells[1]), ("first", "second"), lambda _: Judgement(True, "")
    )
    document = parts.Document("Sums", (parts.Section("A sum", (question,)),))
    (sheet, *_) = sheets(render(document, "xlsx")).values()
    labels = re.findall(r'<c r="([BC])(\d+)" s="\d+" t="s">', sheet)
    blank = re.findall(r'<c r="([BC])(\d+)" s="\d+"/>', sheet)
    assert len(labels) == 2
    assert {(column, str(int(row) + 1)) for column, row in labels} <= {*blank}


def test_a_quick_claim_has_no_verdict_before_it_is_measured() -> None:
    listed = OpenClaims().gallery("en").claims
    assert {claim.verdict for claim in listed if not claim.is_slow} == {None}
    assert None not in {claim.verdict for claim in listed if claim.is_slow}


@pytest.mark.parametrize(("moved", "port"), [(0, None), (1, None), (1, 8000)])
def test_another_port_is_named_where_none_was_asked_for(
    moved: int,
    port: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serving = Mock(port=server.DEFAULT_PORT + moved, address="http://localhost")
    monkeypatch.setattr(server, "prepare", Mock(return_value=serving))
    explore(port=port, open_page=False)
    assert (str(server.DEFAULT_PORT) in capsys.readouterr().err) == bool(moved and port is None)


def test_short_columns_leave_less_room_for_prose() -> None:
    """glassformer.documents.slides: the height of a row decides where a table is continued."""

    def height(short: str) -> float:
        row = (short, "a long sentence " * 20)
        return _row_height(parts.Table("", ("name", "what"), (row,)), row)

    assert height("x" * 20) > height("x")
