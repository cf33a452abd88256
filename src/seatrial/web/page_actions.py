"""The forms of the pages: log in and out, start, cancel, resume, label, choose the baseline. Each has its proof."""

from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import RedirectResponse, Response

from seatrial.errors import UsageError

from .access import try_again
from .actions import cancel_run, choose_baseline, put_label
from .app_state import AtDesk
from .middleware import no_cookie, session_cookie
from .rendering import render
from .resuming import resume_run
from .run_processes import Start
from .urls import run_url

router = APIRouter(include_in_schema=False)


async def read_fields(request: Request) -> dict[str, str]:
    """The form's fields; of several with one name, the last."""
    text = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(text, max_num_fields=50).items()}


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that came from one of our pages."""
    fields = await read_fields(request)
    session = getattr(request.state, "session", None)
    if not request.app.state.access.is_csrf_token(session, fields.pop("csrf", "")):
        raise HTTPException(403, "this form has expired. Load the page again, and send it once more.")
    return fields


Fields = Annotated[dict[str, str], Depends(read_fields)]
Form = Annotated[dict[str, str], Depends(read_form)]


@router.get("/login")
def show_login(request: Request, next: str = "/") -> Response:
    return _login_page(request, next)


@router.post("/login")
def log_in(request: Request, fields: Fields) -> Response:
    """A cookie for those who know the token."""
    access = request.app.state.access
    wanted = fields.get("next", "/")
    address = request.client.host if request.client else ""
    wait = access.seconds_to_wait(address)
    if wait:
        answer = _login_page(request, wanted, f"Many wrong tokens came from here. {try_again(wait)}", status=429)
        answer.headers["retry-after"] = str(wait)
        return answer
    if access.needs_token and not access.check_token(fields.get("token", ""), address):
        return _login_page(request, wanted, "That is not the token.", status=403)
    answer = _go(wanted if _is_our_page(wanted) else "/")
    answer.headers.append("set-cookie", session_cookie(access.new_session(), secure=_is_secure(request)))
    return answer


@router.post("/logout")
def log_out(request: Request, form: Form) -> Response:
    """End the session, here and in the browser."""
    request.app.state.access.end_session(request.state.session)
    answer = _go("/login" if request.app.state.access.needs_token else "/")
    answer.headers.append("set-cookie", no_cookie(secure=_is_secure(request)))
    return answer


def _login_page(request: Request, wanted: str, problem: str = "", *, status: int = 200) -> Response:
    values = {"title": "Log in", "next": wanted, "problem": problem}
    return render(request, "login.html.jinja", values, status=status)


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


@router.post("/runs")
def start_run(desk: AtDesk, form: Form) -> Response:
    texts = {name: form.get(name, "").strip() for name in ("path", "name", "scenario", "tag", "trials")}
    if texts["trials"] and texts["trials"] != "auto" and not texts["trials"].isdecimal():
        raise UsageError(f"trials {texts['trials']!r}: expected a number or auto")
    start = Start(
        paths=(texts["path"],) if texts["path"] else (),
        name=texts["name"] or None,
        scenario_text=(texts["scenario"],) if texts["scenario"] else (),
        tags=(texts["tag"],) if texts["tag"] else (),
        trials=texts["trials"] or None,
    )
    return _go(run_url(desk.launcher.start(start)))


@router.post("/runs/{run_id}/cancel")
def cancel(desk: AtDesk, run_id: str, form: Form) -> Response:
    cancel_run(desk, run_id)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/resume")
def resume(desk: AtDesk, run_id: str, form: Form) -> Response:
    resume_run(desk, run_id)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/baseline")
def set_baseline(desk: AtDesk, run_id: str, form: Form) -> Response:
    choose_baseline(desk, run_id, suite=None)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/scenarios/{scenario}/trials/{number}/labels")
def label(desk: AtDesk, run_id: str, scenario: str, number: int, form: Form) -> Response:
    who = form.get("who", "").strip()
    if not who:
        raise UsageError("who: say whose opinion it is")
    try:
        value = float(form.get("value", ""))
    except ValueError:
        raise UsageError(f"value {form.get('value', '')!r}: expected a number") from None
    if not -1e9 <= value <= 1e9:
        raise UsageError(f"value {value!r}: expected a score")
    metric = form.get("metric", "").strip() or "passed"
    put_label(desk, run_id, scenario, number - 1, metric=metric[:500], value=value, who=who[:500])
    return _go(f"{run_url(run_id)}/scenarios/{quote(scenario)}/trials/{number}#labels")


def _go(address: str) -> Response:
    return RedirectResponse(address, status_code=303)


def _is_our_page(address: str) -> bool:
    """A path of this server: neither another site nor something that a browser would read as one."""
    return address.startswith("/") and not address.startswith("//") and "\\" not in address and address.isprintable()
