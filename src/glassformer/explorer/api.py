"""The API as a FastAPI app: routes over a state, errors as answers, its own description."""

from __future__ import annotations

from threading import Lock

from fastapi import APIRouter, FastAPI

from glassformer import __version__
from glassformer.explorer.problems import PROBLEMS, answer_problems
from glassformer.explorer.routes import cells, decoding, lessons, models, steps, traces, watching
from glassformer.explorer.state import State

__all__ = ["create_api"]

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
        for topic in (models, traces, steps, cells, decoding, lessons, watching):
            api.include_router(topic.router)
        app.include_router(api)
    return app
