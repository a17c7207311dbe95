"""Hostile requests to the explorer: valid ones with a part spoiled, strangers' files, odd queries.

A case asks a server of its own, in the process of the case, in which two traces are open: the
toy's, and that of a module whose texts are token ids. An audit that is accepted is read as the page
reads it: its cells are opened, and it is exported in every format.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

import torch
from httpx2 import Response
from starlette.testclient import TestClient

from glassformer.explorer.api import create_api
from glassformer.explorer.model_list import open_text
from glassformer.explorer.open_audits import AuditFormat
from glassformer.explorer.security import Access, Guard
from glassformer.explorer.state import State
from glassformer.nn import build, presets
from glassformer.tasks import load
from tests.campaign.hostile_folders import mutated_json
from tests.campaign.strangers import hostile_texts

__all__ = ["Asked", "hostile_requests", "refusal_of", "wrong_with"]

OWN, TOY, IDS = "own-model", "trace-of-toy", "trace-of-own"
"""Stand for what a server gives: the name of the module, and the ids of the open traces."""
_TEXT, _SOME_IDS = "I am not happy", "3 1 4"
_LOGIT = {"step": 39, "index": [0, 1]}
_EDIT = {"step": "encoder.blocks.0.attention.scores", "index": [0, 0, 1, None], "value": 2.0}
_VIEW = {"link": "#/trace/saved-0", "title": "one", "note": {"en": "a", "zh": "一"}}
_PLAYLIST = {
    "views": [_VIEW, {"link": "#/lesson/by-hand/2"}],
    "traces": [{"id": TOY, "places": [{"step": 39, "lead": [], "index": [0, 1], "of": 38}]}],
    "lessons": [{"name": "by-hand", "settings": []}],
    "searches": [],
    "language": "zh",
}
_GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api/traces", {"model": "toy", "text": _TEXT, "target": None}),
    ("/api/traces", {"model": OWN, "text": _SOME_IDS}),
    (f"/api/traces/{TOY}/edits", {"edits": [_EDIT]}),
    (f"/api/traces/{TOY}/export", {"format": "html", "steps": [20, 21], "language": "zh"}),
    (f"/api/traces/{TOY}/experiments/words", {**_LOGIT, "method": "integrated"}),
    (f"/api/traces/{TOY}/experiments/compare", {"text": "I am happy"}),
    (f"/api/traces/{TOY}/experiments/sweep", {**_LOGIT, "over": "head", "to": "zero", "layer": 0}),
    (f"/api/traces/{TOY}/experiments/lens", {"language": "en"}),
    (f"/api/traces/{TOY}/experiments/contributions", {**_LOGIT, "heads": True}),
    (f"/api/traces/{TOY}/experiments/answer", {"edits": [_EDIT]}),
    (f"/api/traces/{IDS}/experiments/lens", {"language": "zh"}),
    ("/api/playlist", _PLAYLIST),
    ("/api/lessons/by-hand/answers", {"question": 1, "answers": ["1", "2"], "settings": []}),
)
_ADDRESSES = (  # of a GET; {} takes a word
    f"/api/traces/{TOY}/steps/{{}}/values?lead={{}}&rows={{}}&columns={{}}&operand={{}}",
    f"/api/traces/{TOY}/steps/26/values?lead={{}}&rows={{}}&columns={{}}",
    f"/api/traces/{TOY}/steps/{{}}/equation?lead={{}}",
    f"/api/traces/{TOY}/steps/20/changed?lead={{}}&rows={{}}",
    f"/api/traces/{TOY}/steps/20/meaning?lead={{}}&index={{}}",
    f"/api/traces/{TOY}/cell?step=20&index={{}}&operand={{}}",
    f"/api/traces/{TOY}/cell/terms?step=26&index=0,0,0&offset={{}}&limit={{}}",
    f"/api/traces/{TOY}/cell/dependents?step={{}}&index={{}}",
    f"/api/traces/{TOY}/cell/path?step=39&index={{}}",
    f"/api/traces/{TOY}/thumbnails?steps={{}}",
    "/api/lessons/{}?set={}",
    "/api/lessons/by-hand?set={}&language={}",
    "/api/lessons/{}/export?format={}",
    "/api/claims/{}?set={}",
    "/api/audits/by-hand/cell?step={}&index={}",
    "/api/audits/{}/export?format={}",
    "/api/watch/runs/{}",
    "/{}?token={}",
)
_WORDS = (
    "", "-1", "0", "0,0", "0,0,0,0", "1:2", "2:1", ":", "0:99999999999999999999", "9" * 30, "1e9",
    "nan", "٣", "²", "../../../etc/passwd", "%2e%2e%2f", "%00", "x" * 5_000, "a=b", "=", "[]", "?",
    ",".join(["0"] * 2_000), "0," * 16, "true", "💩",
)  # fmt: skip
_IDS = (
    "3, 1 4", "-1", "6", "99999999999999999999", "1e1", "٣", "²", "0x1", "1_0", "3.0", " ", ",",
    "\0", "1 " * 1_999, "1" * 3_999, "\u202e1 2", "3\n1", "3\u30001",
)  # fmt: skip


class Asked(NamedTuple):
    """A request."""

    method: str
    address: str
    body: str | None = None


def hostile_requests(count: int, seed: int = 0) -> Iterator[tuple[str, Asked, bool]]:
    """Requests, with a name for each, and whether it is a good one: what is spoiled was right."""
    rng = random.Random(seed)
    asked = [Asked("POST", address, json.dumps(body)) for address, body in _GOOD]
    asked += [Asked("POST", "/api/traces", json.dumps({"model": OWN, "text": t})) for t in _IDS]
    to_compare = f"/api/traces/{IDS}/experiments/compare"
    asked += [Asked("POST", to_compare, json.dumps({"text": text})) for text in _IDS]
    asked += [Asked("POST", "/api/audits?name=x", text) for text in hostile_texts(120, rng)]
    while len(asked) < count:
        address, body = rng.choice(_GOOD)
        for _ in range(rng.choice((1, 1, 2))):
            body = mutated_json(body, rng) if body else body
        asked.append(Asked("POST", address, json.dumps(body)))
        words = (quote(rng.choice(_WORDS), safe="") for _ in range(5))
        asked.append(Asked("GET", rng.choice(_ADDRESSES).format(*words)))
    for at, one in enumerate(asked[:count]):
        shown = f"{at} {one.method} {one.address[:80]} {(one.body or '')[:60]!r}"
        yield shown, one, at < len(_GOOD)


def refusal_of(asked: Asked, is_good: bool) -> str:
    """What is wrong with the answer; empty if nothing is: a result, or a refusal in one line."""
    state = State()
    torch.manual_seed(0)
    sizes = {"d_model": 4, "n_heads": 2, "n_layers": 1, "max_len": 8}
    own = load(build(presets.gpt2(vocab_size=6, **sizes)), tokenizer="ids")
    state.models.keep(own, _SOME_IDS)
    names = {OWN: own.name}
    for stands_for, model, text in ((TOY, state.models.get("toy"), _TEXT), (IDS, own, _SOME_IDS)):
        opened = open_text(model, "toy" if stands_for == TOY else own.name, text, None)
        names[stands_for] = state.store.keep(opened).id
    client = TestClient(
        Guard(create_api(state), Access()),
        base_url="http://localhost",
        raise_server_exceptions=False,
    )

    def send(one: Asked) -> tuple[Response, str]:
        _, address, body = one
        for stands_for, name in names.items():
            address, body = (
                address.replace(stands_for, name),
                body and body.replace(stands_for, name),
            )
        head = {"Content-Type": "application/json"}
        response = client.request(one.method, address, content=body, headers=head)
        return response, wrong_with(response)

    response, wrong = send(asked)
    if is_good and not response.is_success:
        return f"{response.status_code} for a good request: {response.text[:200]}"
    if not wrong and response.status_code == 200 and asked.address.startswith("/api/audits?"):
        for further in _further(response.json()):
            wrong = wrong or send(further)[1]
    return wrong


def wrong_with(response: Response) -> str:
    """What is wrong with an answer: a refusal that is a fault, or not one line."""
    if response.status_code < 400:
        return ""
    problem = response.json() if "json" in response.headers.get("content-type", "") else {}
    detail = problem.get("detail")
    is_line = isinstance(detail, str) and detail and "\n" not in detail and len(detail) < 2_000
    if response.status_code < 500 and is_line:
        return ""
    return f"{response.status_code} {response.text[:300]!r}"


def _further(audit: Any) -> Iterator[Asked]:
    """What the page asks about an audit."""
    address = f"/api/audits/{audit['id']}"
    for format_ in get_args(AuditFormat):
        yield Asked("GET", f"{address}/export?format={format_}&language=zh")
    for step in audit["steps"][:5]:
        place = "&index=0" * len(step["shape"])
        yield Asked("GET", f"{address}/cell?step={quote(step['id'], safe='')}{place}")
