"""Errors as HTTP responses: one clear line each."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glassformer.errors import (
    CancelledError,
    GlassformerError,
    UnknownNameError,
    is_out_of_memory,
)
from glassformer.explorer.open_traces import RETRY_AFTER_S, BusyError, DroppedError, NoStepError
from glassformer.explorer.schemas import Problem, ProblemCode
from glassformer.language import chinese_of
from glassformer.tasks.forward_pass import EmptyTextError, TooLongError

_LOG = logging.getLogger("glassformer.explorer")
_STATUS: tuple[tuple[type[GlassformerError], int], ...] = (
    (DroppedError, 410),
    (NoStepError, 404),
    (UnknownNameError, 404),
    (BusyError, 429),
    (CancelledError, 499),
)


class NoMemoryError(GlassformerError, MemoryError):
    """Memory ran out in the middle of a request."""


_MEANINGS = {
    400: "The request asks for something that cannot be; `detail` says what and what to do.",
    403: "Not from this page: a foreign Host or Origin, or the token is missing.",
    404: "There is no such step, model or lesson.",
    410: "No trace is open under this id: it was closed, to make room for others or by its user, "
    "or it is of a server that ran before. Run the text again.",
    413: "The request is too large.",
    422: "The request does not have the shape that the schema says.",
    429: "Too much at once; `Retry-After` says when to try again.",
    500: "A fault of the server; its log says more.",
    507: "There is not enough memory for this; the server goes on.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning} for status, meaning in _MEANINGS.items()
}


def answer_problems(app: FastAPI) -> None:
    """Register the error handlers."""
    app.add_exception_handler(GlassformerError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(MemoryError, _memory)
    app.add_exception_handler(RuntimeError, _memory)  # torch's, of a CPU or a GPU
    app.add_exception_handler(Exception, _unexpected)


def problem(
    status: int,
    detail: str,
    headers: dict[str, str] | None = None,
    code: ProblemCode | None = None,
    figures: dict[str, int | str] | None = None,
    zh: str | None = None,
) -> JSONResponse:
    """A one-line error; common ones have a code and figures, for the page to translate."""
    told = Problem(detail=" ".join(detail.split()), zh=zh, code=code, figures=figures or {})
    return _ProblemResponse(told.model_dump(), status, headers)


class _ProblemResponse(JSONResponse):
    """A problem may quote half a surrogate pair: JSON can hold one, UTF-8 cannot."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def _ours(_request: Request, error: Exception) -> JSONResponse:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 429 else None
    code, figures = _code(error)
    return problem(status, str(error), headers, code, figures, chinese_of(error))


def _code(error: Exception) -> tuple[ProblemCode | None, dict[str, int | str]]:
    """The code of an error, and the figures that its message mentions."""
    match error:
        case TooLongError(tokens=tokens, most=most):
            return "too_long", {"tokens": tokens, "most": most}
        case EmptyTextError():
            return "empty", {}
        case UnknownNameError(what="model", name=name):
            return "unknown_model", {"name": name}
        case UnknownNameError(what="lesson", name=name):
            return "unknown_lesson", {"name": name}
        case DroppedError():
            return "dropped", {}
        case BusyError():
            return "busy", {}
        case _:
            return None, {}


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    if first["type"] == "string_too_long" and isinstance(first["input"], str):
        given, most = len(first["input"]), int(first["ctx"]["max_length"])
        line = f"the {place} has {given} characters, at most {most} are read; take a shorter one"
        figures: dict[str, int | str] = {"characters": given, "most": most}
        return problem(422, line, code="too_many_characters", figures=figures)
    return problem(422, f"{place}: {first['msg']}")


def _of_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), dict(error.headers or {}))


def _memory(request: Request, error: Exception) -> JSONResponse:
    if not is_out_of_memory(error):
        raise error
    _LOG.error("%s %s: out of memory", request.method, request.url.path)
    told = NoMemoryError("there is not enough memory for this: take a shorter text")
    return problem(507, str(told), zh=chinese_of(told))


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "the server could not do this; its log says why", code="fault")
