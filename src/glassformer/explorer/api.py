"""The API as a FastAPI app: routes over a state, errors as answers, its own description."""

from __future__ import annotations

import json
import sys
from threading import Lock

from fastapi import APIRouter, FastAPI

from glassformer import __version__
from glassformer.explorer.http_errors import PROBLEMS, answer_problems
from glassformer.explorer.routes import ROUTERS
from glassformer.explorer.state import State

# FastAPI silences a warning while it reads the routes, for the whole process: two at once, and the
# one that ends first would let the other's through.
_READING_ROUTES = Lock()


def create_api(state: State) -> FastAPI:
    """The app behind `/api`."""
    app = FastAPI(
        title="Glassformer explorer",
        version=__version__,
        description="Traces of Transformers: every number with the arithmetic that made it.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.explorer = state
    answer_problems(app)
    api = APIRouter(prefix="/api", responses=PROBLEMS)
    with _READING_ROUTES:
        for router in ROUTERS:
            api.include_router(router)
        app.include_router(api)
    return app


# --- openapi ---
# The API's OpenAPI document on stdout: `python -m glassformer.explorer.openapi`.
#
# The page's TypeScript types are generated from it (`make web`).


def document() -> str:
    """What `/api/openapi.json` answers."""
    return json.dumps(create_api(State.of()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
