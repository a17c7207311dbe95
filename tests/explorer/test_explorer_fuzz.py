"""Whatever a request holds, it is answered: no fault of the server, no answer that is not declared.

Requests are made from the API's own description. By chance alone none would name an open trace, so
each is sent twice: as it was made, and with the trace (and a step that it has) put in its place.
"""

from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from glassformer.explorer.api import create_api
from glassformer.explorer.security import Access, Guard
from glassformer.explorer.state import State

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FEW, MANY = 6, 200
STEPS = 50

API = create_api(State.of("toy"))
schema = schemathesis.openapi.from_asgi("/api/openapi.json", API)


@pytest.fixture(scope="module")
def opened() -> str:
    """The id of an open trace of the toy."""
    client = TestClient(API)
    answer = client.post("/api/traces", json={"model": "toy", "text": "I am not happy"})
    return str(answer.json()["id"])


def careful(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        database=None,
        derandomize=True,
    )


def ask(case: Case[Any], opened: str) -> None:
    case.call_and_validate(checks=CHECKS)
    places = case.path_parameters
    if "id" not in places or case.method == "DELETE":
        return
    places["id"] = opened
    for holder, name in ((places, "number"), (case.query, "step"), (case.body, "step")):
        if isinstance(holder, dict) and isinstance(given := holder.get(name), int):
            holder[name] = given % STEPS
    case.call_and_validate(checks=CHECKS)


@schema.parametrize()
@careful(FEW)
def test_every_request_is_answered_as_declared(case: Case[Any], opened: str) -> None:
    ask(case, opened)


@pytest.mark.slow
@schema.parametrize()
@careful(MANY)
def test_very_many_requests_are_answered_as_declared(case: Case[Any], opened: str) -> None:
    ask(case, opened)


@careful(60)
@given(
    path=st.one_of(st.sampled_from(["traces", "decode"]), st.text(max_size=60)),
    body=st.binary(max_size=300),
    method=st.sampled_from(["GET", "POST"]),
)
def test_paths_and_bodies_out_of_nowhere(path: str, body: bytes, method: str) -> None:
    client = TestClient(
        Guard(API, Access()), base_url="http://localhost", raise_server_exceptions=False
    )
    head = {"Content-Type": "application/json"}
    address = f"/api/{quote(path, errors='replace')}"
    assert client.request(method, address, content=body, headers=head).status_code < 500
    client.close()
