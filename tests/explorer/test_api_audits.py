"""Audits over HTTP: shipped examples, files that are sent, one number, exports, limits."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.audit import audit, example_names, load_example
from glassformer.audit.example_file import MOST_BYTES
from glassformer.audit.verdicts import printed_cells
from glassformer.errors import CancelledError, cancelled_by
from glassformer.explorer.open_audits import MOST_FILES, OpenAudits
from glassformer.explorer.security import MOST_FILE
from tests.explorer.asking import get

SMALL = {
    "title": {"en": "Small", "zh": "小例"},
    "steps": [
        {"id": "x", "printed": [[1, 2], [3, 4]]},
        {"id": "s", "formula": "x @ transpose(x)", "printed": [[5, 11], [11, 24]], "decimals": 0},
    ],
}


def send(client: TestClient, what: object, name: str = "mine.json", **query: str) -> Any:
    body = what if isinstance(what, bytes) else json.dumps(what).encode()
    return client.post("/api/audits", params={"name": name, **query}, content=body)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_shipped_examples_are_listed(client: TestClient, language: str) -> None:
    found = get(client, "/api/audits", language=language)
    assert [one["name"] for one in found] == example_names()
    assert found[0]["title"] == getattr(load_example(found[0]["name"]).title, language)


@pytest.mark.parametrize("name", example_names())
def test_an_example_has_a_verdict_on_each_number(client: TestClient, name: str) -> None:
    found = get(client, f"/api/audits/{name}")
    expected = audit(load_example(name))
    assert {one["name"]: one["n_steps"] for one in found["verdicts"]} == expected.counts
    for step, result in zip(found["steps"], expected.results, strict=True):
        assert (step["id"], step["verdict"]) == (result.step.id, result.verdict)
        assert step["slip"] == (result.slip("en") if result.verdict == "wrong" else None)
        cells = printed_cells(result)
        assert [(one["text"], one["verdict"], one["right"]) for one in step["cells"]] == [
            (cell.text, cell.verdict, cell.right) for cell in cells
        ]


def test_a_file_is_audited_and_a_number_explained(client: TestClient) -> None:
    answer = send(client, SMALL, language="zh")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["name"], found["title"]) == ("mine", "小例")
    step = found["steps"][1]
    assert [cell["verdict"] for cell in step["cells"]] == ["agrees"] * 3 + ["wrong"]
    assert step["cells"][3]["right"] == "25"
    card = get(client, f"/api/audits/{found['id']}/cell", step="s", index=[1, 1])
    assert (card["printed"], card["right"], card["verdict"]) == ("24", "25", "wrong")
    assert card["arithmetic"][0] == {"name": "s[1, 1]", "numbers": "3·3 + 4·4", "value": 25}
    again = get(client, f"/api/audits/{found['id']}", language="en")
    assert again["title"] == "Small"


@pytest.mark.parametrize("format_", ["html", "md", "tex", "xlsx", "json"])
def test_an_audit_is_saved_in_every_format(client: TestClient, format_: str) -> None:
    id_ = send(client, SMALL, name='my "own"\r\nfile.json').json()["id"]
    answer = client.get(f"/api/audits/{id_}/export", params={"format": format_})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="audit-my-own-file.{format_}"'
    )
    if format_ == "xlsx":
        assert "xl/workbook.xml" in zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    elif format_ == "json":
        assert answer.json()["steps"][1]["verdict"] == "wrong"
    else:
        assert "25" in answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "mine.json is damaged or not a worked example: expected JSON in UTF-8"),
        (b"\xff\xfe", "mine.json is damaged or not a worked example: expected JSON in UTF-8"),
        (b"[]", "mine.json is damaged or not a worked example: expected a JSON object, got list"),
        (
            json.dumps({"steps": [{"id": "s", "formula": "x +"}]}).encode(),
            "mine.json: step 's': column",
        ),
        (
            json.dumps(
                {"steps": [{"id": "s", "formula": "x", "printed": 1, "decimals": 0}]}
            ).encode(),
            "mine.json: step 's': missing input 'x'",
        ),
        (json.dumps({"steps": [{"from": "../../etc/passwd"}]}).encode(), "unknown example"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_with_its_place(
    client: TestClient, body: bytes, said: str
) -> None:
    answer = send(client, body)
    assert answer.status_code == 400
    detail = answer.json()["detail"]
    assert said in detail and "\n" not in detail


def test_a_file_is_as_large_as_the_audit_allows(client: TestClient) -> None:
    assert MOST_FILE == MOST_BYTES
    large = {**SMALL, "note": "x" * (2 << 20)}  # larger than other requests may be
    assert send(client, large).status_code == 200
    answer = send(client, b" " * (MOST_BYTES + 1))
    assert answer.status_code == 413
    assert client.post("/api/decode", content=b" " * (2 << 20)).status_code == 413


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/audits/nothing", 404),
        ("/api/audits/file-gone", 410),
        ("/api/audits/..%2F..%2Fetc%2Fpasswd", 404),
        ("/api/audits/masked/cell?step=nothing", 404),
        ("/api/audits/masked/cell?step=masked_a1&index=9&index=9", 400),
        ("/api/audits/masked/cell?step=masked_a1&index=-1", 422),
        ("/api/audits/masked/export?format=pdf", 422),
    ],
)
def test_what_there_is_not_is_said(client: TestClient, address: str, status: int) -> None:
    assert client.get(address).status_code == status


def test_a_request_opens_no_file(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(SMALL), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    answer = client.get("/api/audits/mine.json")
    assert answer.status_code == 404 and "masked" in answer.json()["detail"]


def test_only_the_last_files_are_kept() -> None:
    held, raw = OpenAudits(), json.dumps(SMALL).encode()
    ids = [held.send(raw, f"{n}.json", "en").id for n in range(MOST_FILES + 1)]
    assert held.get(ids[1], "en").name == "1"
    with pytest.raises(LookupError):
        held.get(ids[0], "en")


def test_an_audit_is_cancelled() -> None:
    with cancelled_by(lambda: True), pytest.raises(CancelledError):
        OpenAudits().send(json.dumps(SMALL).encode(), "x.json", "en")
