"""Pages from templates: the report's own parts, and a frame around them."""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from seatrial.reports.pages.environment import make_environment, style_sheet
from seatrial.version import __version__

from . import urls
from .selection import status_of

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
STATIC = HERE / "static"


@lru_cache(maxsize=1)
def environment() -> "Environment":
    """The templates of the pages, with the words that they use."""
    made = make_environment(HERE / "templates")
    words = (urls.run_url, urls.scenario_url, urls.trial_url, urls.compare_url)
    made.globals |= {word.__name__: word for word in (*words, urls.scenario_id, status_of)}
    made.globals |= {"version": __version__, "stamp": _stamp()}
    for name in made.list_templates(extensions=["jinja"]):
        made.get_template(name)  # compiled now, and not when the first reader waits for the page
    return made


def render(request: Request, template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """A page, with what every page has: whether things may be changed here, and the proof that a form is ours."""
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
    """The page that says why there is none."""
    return render(request, "problem.html.jinja", {"title": HTTPStatus(status).phrase, "text": text}, status=status)


def _stamp() -> str:
    """Changes whenever a static file does, so that browsers never mix old and new."""
    files = sorted(file for file in STATIC.iterdir() if file.suffix == ".js")
    content = b"".join(file.read_bytes() for file in files) + style_sheet().encode()
    return blake2b(content, digest_size=6).hexdigest()
