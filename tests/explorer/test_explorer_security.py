"""Who may ask what: foreign names, foreign pages, tokens, bodies, headers, paths."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from glassformer.explorer.api import create_api
from glassformer.explorer.security import MOST_BODY, Access, Guard
from glassformer.explorer.server import Front
from glassformer.explorer.state import State

TOKEN = "a-token-that-nobody-guesses"
RUN = {"model": "toy", "text": "I am happy"}


def whole(state: State, access: Access) -> TestClient:
    """Page and API behind the guard, as they are served."""
    front = Front(lambda: create_api(state))
    front.start_loading()
    return TestClient(Guard(front, access), base_url="http://localhost:8017")


@pytest.fixture(scope="module")
def state() -> State:
    return State("toy")


@pytest.fixture(scope="module")
def local(state: State) -> TestClient:
    return whole(state, Access())


@pytest.fixture
def guarded(state: State) -> Iterator[TestClient]:
    with whole(state, Access(token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize(
    "host",
    ["localhost:8017", "127.0.0.1:8017", "[::1]:8017", "localhost", "LOCALHOST:9", "127.0.0.1"],
)
def test_this_machines_own_names_are_answered_to(local: TestClient, host: str) -> None:
    assert local.get("/api/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8017", "127.0.0.1.evil.example", "localhost.evil.example",
     "192.168.0.7:8017", "", "[::1", "user@evil.example", "localhost@evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/models"])
def test_dns_rebinding_is_refused(local: TestClient, host: str, path: str) -> None:
    answer = local.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json() == {
        "detail": "this server answers to localhost only", "zh": "这个服务器只应答 localhost"
    }  # fmt: skip


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://localhost.evil.example", "null", "http://localhost:3000",
     "http://127.0.0.1:8017", "file://", "http://["],
)  # fmt: skip
def test_a_foreign_page_cannot_post(local: TestClient, origin: str) -> None:
    answer = local.post("/api/traces", json=RUN, headers={"Origin": origin})
    assert answer.status_code == 403
    assert local.delete("/api/traces/x", headers={"Origin": origin}).status_code == 403


def test_the_page_itself_and_programs_may_post(local: TestClient) -> None:
    own = {"Origin": "http://localhost:8017", "Sec-Fetch-Site": "same-origin"}
    assert local.post("/api/traces", json=RUN, headers=own).status_code == 201
    assert local.post("/api/traces", json=RUN).status_code == 201


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_the_request_is_foreign_is_believed(
    local: TestClient, site: str
) -> None:
    foreign = {"Sec-Fetch-Site": site}
    assert local.get("/api/models", headers=foreign).status_code == 403
    assert local.post("/api/traces", json=RUN, headers=foreign).status_code == 403
    assert local.get("/", headers=foreign).status_code == 200  # a link to the page is no harm


def test_a_form_cannot_be_posted(local: TestClient) -> None:
    """What another page can send without asking: a form, or plain text."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = local.post(
            "/api/traces", content=b'{"model": "toy", "text": "x"}', headers={"Content-Type": kind}
        )
        assert answer.status_code == 422


# --- tokens ---


@pytest.mark.parametrize("path", ["/", "/api/models", "/index.html", "/api/openapi.json"])
def test_without_the_token_nothing_is_answered(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 403
    assert guarded.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 403
    assert guarded.get(path, headers={"Cookie": "glassformer=wrong"}).status_code == 403
    assert guarded.get(path, params={"token": TOKEN[:-1]}).status_code == 403


def test_the_printed_address_lets_in_and_leaves_no_token_in_the_bar(guarded: TestClient) -> None:
    answer = guarded.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie
    assert guarded.get("/api/models").status_code == 200  # by the cookie
    assert guarded.get("/api/models", headers={"Host": "my-machine:8017"}).status_code == 200


def test_the_cookie_leads_in_from_another_site_and_no_further(guarded: TestClient) -> None:
    """A link that is clicked there sends it; nothing that can be read or changed so answers."""
    guarded.get("/", params={"token": TOKEN})
    clicked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert guarded.get("/", headers=clicked).status_code == 200
    for site in ("cross-site", "same-site"):
        foreign = {"Sec-Fetch-Site": site}
        assert guarded.get("/api/models", headers=foreign).status_code == 403
        assert guarded.post("/api/traces", json=RUN, headers=foreign).status_code == 403


def test_programs_may_send_the_token_in_a_header(state: State) -> None:
    client = whole(state, Access(token=TOKEN))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/models", headers=bearer).status_code == 200


def test_the_token_does_not_excuse_a_foreign_page(guarded: TestClient) -> None:
    guarded.get("/", params={"token": TOKEN})
    foreign = {"Origin": "http://evil.example"}
    assert guarded.post("/api/traces", json=RUN, headers=foreign).status_code == 403


# --- headers ---


@pytest.mark.parametrize("path", ["/", "/api/models", "/nothing", "/api/nothing"])
def test_every_answer_has_the_headers_that_protect_it(local: TestClient, path: str) -> None:
    headers = local.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    scripts = policy.replace("style-src-attr 'unsafe-inline'", "")
    assert "unsafe" not in scripts and "http:" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_only_files_that_are_named_after_their_content_are_kept(local: TestClient) -> None:
    page = local.get("/")
    script = re.findall(r'src="\./(assets/[^"]+)"', page.text)[0]
    kept = {path: local.get(path).headers["cache-control"] for path in ("/api/models", script)}
    assert kept == {"/api/models": "no-store", script: "private, max-age=31536000, immutable"}
    assert page.headers["cache-control"] == "no-cache"
    assert local.get("/assets/nothing.js").headers["cache-control"] == "no-cache"


def test_only_a_page_for_a_notebook_may_be_framed(state: State) -> None:
    headers = whole(state, Access(framed=True)).get("/").headers
    assert "frame-ancestors 'self' http://localhost:*" in headers["content-security-policy"]
    assert "x-frame-options" not in headers


# --- bodies and paths ---


def test_a_huge_body_is_refused_before_it_is_read(local: TestClient) -> None:
    long = b"x" * (MOST_BODY + 1)
    assert local.post("/api/traces", content=long).status_code == 413

    def parts() -> Iterator[bytes]:  # of unknown length
        for _ in range(20):
            yield b"x" * (MOST_BODY // 10)

    assert local.post("/api/traces", content=parts()).status_code == 413


@pytest.mark.parametrize("length", ["²", "1" * 5000, "-1", "ten"])
def test_a_length_that_is_no_number_of_bytes_is_refused(local: TestClient, length: str) -> None:
    given = {b"Content-Length": length.encode("latin-1"), b"Content-Type": b"application/json"}
    assert local.post("/api/traces", content=b"{}", headers=given).status_code == 413


@pytest.mark.parametrize(
    "body", [b"\xff\xfe{", b'{"model": "\xc3\x28"}', b"{", b"[]", b"null", b'"\\ud800"', b""]
)
def test_bytes_that_are_no_json_are_refused(local: TestClient, body: bytes) -> None:
    answer = local.post("/api/traces", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    ["/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fapi.py", "/%5c..%5capi.py",
     "/assets/../../api.py", "//etc/passwd", "/index.html%00.svg"],
)  # fmt: skip
def test_no_path_leads_out_of_the_pages_folder(local: TestClient, path: str) -> None:
    answer = local.get(path)
    assert answer.status_code in (400, 404)
    assert b"root:" not in answer.content and b"FastAPI" not in answer.content


@pytest.mark.parametrize("name", ["/etc", "..", "../models/toy", "toy/../imdb", "C:\\", "imdb"])
def test_a_request_cannot_name_a_folder(local: TestClient, name: str) -> None:
    """Only the model that the server was started with."""
    answer = local.post("/api/traces", json={"model": name, "text": "I"})
    assert answer.status_code == 404


def test_a_model_folder_given_at_the_start_is_known_by_its_name(tmp_path: Path) -> None:
    import shutil

    from glassformer.checkpoint import SHIPPED

    folder = tmp_path / "mine"
    shutil.copytree(SHIPPED / "toy", folder)
    client = whole(State(str(folder)), Access())
    (card,) = client.get("/api/models").json()
    assert card["name"] == "mine" and str(tmp_path) not in str(card)
    assert client.post("/api/traces", json={"model": "mine", "text": "I"}).status_code == 201
    answer = client.post("/api/traces", json={"model": str(folder), "text": "I"})
    assert answer.status_code == 404


def test_user_text_comes_back_as_text(local: TestClient) -> None:
    text = "<script>alert(1)</script>"
    answer = local.post("/api/traces", json={"model": "toy", "text": text})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["text"] == text


def test_a_fault_of_ours_is_one_plain_line_and_the_server_goes_on(
    state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front(lambda: create_api(state))
    front.start_loading()
    client = TestClient(
        Guard(front, Access()), base_url="http://localhost", raise_server_exceptions=False
    )
    opened = client.post("/api/traces", json=RUN).json()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret of the machine")

    monkeypatch.setattr("glassformer.explorer.api.card_info", broken)
    answer = client.get(f"/api/traces/{opened['id']}/cell", params={"step": 0, "index": "0,0"})
    assert answer.status_code == 500
    said = "the server could not do this; its log says why"
    assert answer.json() == {"detail": said, "zh": None, "code": "fault", "figures": {}}
    assert "a secret of the machine" in caplog.text
    assert client.get("/api/models").status_code == 200


def test_an_api_that_cannot_be_loaded_is_logged_and_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def load() -> ASGIApp:
        raise RuntimeError("no such library")

    front = Front(load)
    front.start_loading()
    answer = TestClient(front, base_url="http://localhost").get("/api/models")
    assert answer.status_code == 500 and "no such library" in answer.json()["detail"]
    (told,) = caplog.records
    assert told.exc_info is not None and "no such library" in str(told.exc_info[1])
