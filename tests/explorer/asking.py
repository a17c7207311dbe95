"""Short forms for the tests of the API."""

from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.testclient import TestClient

Json = dict[str, Any]


def run(client: TestClient, model: str, text: str, target: str | None = None) -> Json:
    """A trace of a model over a text."""
    answer = client.post("/api/traces", json={"model": model, "text": text, "target": target})
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


def get(client: TestClient, address: str, **query: Any) -> Any:
    """JSON of an address that must answer."""
    answer = client.get(address, params=query)
    assert answer.status_code == 200, f"{address}: {answer.text}"
    return answer.json()


def named(trace: Json, name: str) -> int:
    """The number of the step of a name."""
    return next(int(step["number"]) for step in trace["steps"] if step["name"] == name)


def card(client: TestClient, trace: Json, step: int, *index: int, **query: Any) -> Json:
    """The card of a cell."""
    found: Json = get(
        client,
        f"/api/traces/{trace['id']}/cell",
        step=step,
        index=",".join(map(str, index)),
        **query,
    )
    return found


def values(client: TestClient, trace: Json, step: int, **query: Any) -> npt.NDArray[np.generic]:
    """The numbers of a matrix."""
    answer = client.get(f"/api/traces/{trace['id']}/steps/{step}/values", params=query)
    assert answer.status_code == 200, answer.text
    rows, columns = map(int, answer.headers["x-shape"].split(","))
    dtype = {"float32": "<f4", "float64": "<f8"}[answer.headers["x-dtype"]]
    return np.frombuffer(answer.content, dtype).reshape(rows, columns)
