"""Whatever a request holds, it is answered: no fault of the server, no answer that is not declared.

Requests are made from the API's own description. By chance alone none would name an open trace, so
each is sent twice: as it was made, and with the trace (and a step that it has) put in its place.
"""

from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema
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


@pytest.fixture(scope="module")
def api() -> FastAPI:
    return create_api(State("toy"))


@pytest.fixture(scope="module")
def description(api: FastAPI) -> BaseSchema:
    return schemathesis.openapi.from_asgi("/api/openapi.json", api)


@pytest.fixture(scope="module")
def opened(api: FastAPI) -> str:
    """The id of an open trace of the toy."""
    client = TestClient(api)
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


def ask_everything(
    description: BaseSchema, opened: str, subtests: pytest.Subtests, chosen: settings
) -> None:
    """Every operation; they are made here, since that takes seconds, and each worker collects."""
    made = get_all_tests(schema=description, test_func=ask, settings=chosen, given_kwargs={})
    asked = 0
    for found in made:
        assert isinstance(found, Ok)
        operation, test = found.ok()
        with subtests.test(operation.label):
            test(opened=opened)
        asked += 1
    assert asked == sum(len(methods) for methods in description.raw_schema["paths"].values())


def test_every_request_is_answered_as_declared(
    description: BaseSchema, opened: str, subtests: pytest.Subtests
) -> None:
    ask_everything(description, opened, subtests, careful(FEW))


@pytest.mark.slow
def test_very_many_requests_are_answered_as_declared(
    description: BaseSchema, opened: str, subtests: pytest.Subtests
) -> None:
    ask_everything(description, opened, subtests, careful(MANY))


@careful(60)
@given(
    path=st.one_of(st.sampled_from(["traces", "decode"]), st.text(max_size=60)),
    body=st.binary(max_size=300),
    method=st.sampled_from(["GET", "POST"]),
)
def test_paths_and_bodies_out_of_nowhere(path: str, body: bytes, method: str, api: FastAPI) -> None:
    client = TestClient(
        Guard(api, Access()), base_url="http://localhost", raise_server_exceptions=False
    )
    head = {"Content-Type": "application/json"}
    address = f"/api/{quote(path, errors='replace')}"
    assert client.request(method, address, content=body, headers=head).status_code < 500
    client.close()
