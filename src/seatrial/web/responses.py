"""How answers are written, and how mistakes become answers."""

import json
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from seatrial.errors import StoreError, UsageError
from seatrial.store.runs import UnknownRun

from .app_state import NotFound
from .background import StillWorking
from .rendering import render, render_problem
from .run_processes import NotNow


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str = Field(description="What is wrong, and what would work.")


class AsciiJSONResponse(JSONResponse):
    """JSON in ASCII: whatever an agent said, lone surrogates included, can be sent."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def explain_problems(app: FastAPI) -> None:
    """Make the app answer mistakes with a Problem, or with a page where a page was asked for."""
    app.add_exception_handler(UsageError, _usage)
    app.add_exception_handler(StoreError, _store)
    app.add_exception_handler(StillWorking, _working)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _answer(request: Request, status: int, text: str) -> Response:
    if request.url.path.startswith("/api/"):
        return AsciiJSONResponse({"detail": text}, status_code=status)
    return render_problem(request, status, text)


async def _usage(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, NotFound | UnknownRun) else 409 if isinstance(error, NotNow) else 422
    return _answer(request, status, str(error))


async def _working(request: Request, error: Exception) -> Response:
    # Not an error: the page that asks again by itself. 202, so that nobody takes it for the answer.
    return render(request, "waiting.html.jinja", {"title": "One moment"}, status=202)


async def _store(request: Request, error: Exception) -> Response:
    return _answer(request, 503, str(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Not what was sent: it may be anything, and it is known to whoever sent it.
    said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return _answer(request, 422, "; ".join(said))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(request, error.status_code, error.detail or HTTPStatus(error.status_code).phrase)
    answer.headers.update(error.headers or {})
    return answer
