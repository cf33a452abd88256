"""JSON responses, pages, and the responses to errors."""

import json
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from seatrial.errors import StoreError, UsageError
from seatrial.reports.pages.environment import make_environment, style_sheet
from seatrial.store.runs import UnknownRun
from seatrial.version import __version__

from . import urls
from .app_state import NotFound
from .background import StillWorking
from .filters import status_of
from .run_processes import Conflict

if TYPE_CHECKING:
    from jinja2 import Environment


class Problem(BaseModel):
    """An error."""

    detail: str = Field(description="What is wrong, and what would work.")


class AsciiJSONResponse(JSONResponse):
    """JSON in ASCII: every text can be sent, even lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def explain_problems(app: FastAPI) -> None:
    """Make the app answer errors with a Problem, or with a page."""
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
    status = 404 if isinstance(error, NotFound | UnknownRun) else 409 if isinstance(error, Conflict) else 422
    return _answer(request, status, str(error))


async def _working(request: Request, error: Exception) -> Response:
    # Not an error: a page that loads again by itself, with status 202.
    return render(request, "waiting.html.jinja", {"title": "One moment"}, status=202)


async def _store(request: Request, error: Exception) -> Response:
    return _answer(request, 503, str(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Without the input, which may be anything.
    said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return _answer(request, 422, "; ".join(said))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(request, error.status_code, error.detail or HTTPStatus(error.status_code).phrase)
    answer.headers.update(error.headers or {})
    return answer


HERE = Path(__file__).parent
STATIC = HERE / "static"


@lru_cache(maxsize=1)
def environment() -> "Environment":
    """The templates of the pages, with the functions that they use."""
    made = make_environment(HERE / "templates")
    words = (urls.run_url, urls.scenario_url, urls.trial_url, urls.compare_url)
    made.globals |= {word.__name__: word for word in (*words, urls.scenario_id, status_of)}
    made.globals |= {"version": __version__, "stamp": _stamp()}
    for name in made.list_templates(extensions=["jinja"]):
        made.get_template(name)  # compile at start, not at the first request
    return made


def render(request: Request, template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """A page from a template and its values."""
    access = request.app.state.access
    session = getattr(request.state, "session", None)
    frame = {
        "read_only": request.app.state.options.read_only,
        "needs_token": access.needs_token,
        "csrf": access.csrf_token(session) if session else "",
        "path": request.url.path,
    }
    text = environment().get_template(template).render({**frame, **values})
    return HTMLResponse(text.encode("utf-8", errors="backslashreplace"), status_code=status)


def render_problem(request: Request, status: int, text: str) -> Response:
    """The page for an error."""
    return render(request, "problem.html.jinja", {"title": HTTPStatus(status).phrase, "text": text}, status=status)


def _stamp() -> str:
    """A hash of the static files, so that browsers never mix old and new ones."""
    files = sorted(file for file in STATIC.iterdir() if file.suffix == ".js")
    content = b"".join(file.read_bytes() for file in files) + style_sheet().encode()
    return blake2b(content, digest_size=6).hexdigest()
