"""Changes: start, cancel and resume runs, labels, baselines, login. For the API and for forms."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import RedirectResponse, Response

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState, Trial
from seatrial.store.runs import Label

from .access import try_again
from .app_state import AppState, NotFound, State
from .middleware import no_cookie, session_cookie
from .responses import render
from .run_processes import Conflict, Start, find_suite
from .urls import run_url


def cancel_run(state: AppState, run_id: str) -> None:
    """Raises NotFound, or Conflict if this server is not running it."""
    if state.processes.cancel(run_id):
        return
    if not state.processes.was_started(run_id) and state.store.run_row(run_id) is None:
        raise NotFound(f"no run has the id {run_id!r}")
    raise Conflict(f"run {run_id}: was not started by this server or is not running, so it cannot be cancelled here")


def put_label(state: AppState, run_id: str, scenario: str, index: int, *, metric: str, value: float, who: str) -> Label:
    """Store a label. Raises NotFound if there is no such trial."""
    decided, outcome = state.scenario(run_id, scenario)
    key = outcome.entry.key
    if not any(one.index == index for one in decided.trials.get(key, ())):
        raise NotFound(f"run {run_id}: has no trial-{index + 1} of {key.label!r}")
    label = Label(run_id=run_id, key=key, index=index, metric=metric, value=value, who=who, at=now())
    state.store.label(label)
    return label


def choose_baseline(state: AppState, run_id: str, *, suite: str | None) -> Run:
    """Make the run the baseline. Raises UsageError."""
    decided = state.run(run_id)
    run = decided.run
    if run.state is not RunState.FINISHED:
        raise Conflict(f"run {run.id}: is not finished, so it cannot be a baseline")
    if suite is not None and all(one.entry.key.suite != suite for one in decided.outcome.scenarios):
        raise UsageError(f"run {run.id}: has no suite {suite!r}")
    state.store.set_baseline(run.id, suite=suite)
    return run


def forget_baseline(state: AppState, suite: str | None) -> None:
    """Clear a baseline. Raises NotFound if it is not set."""
    if not state.store.clear_baseline(suite):
        raise NotFound("this baseline is not set")


MOST_FORKED = 1_000
SILENT_SECONDS = 60.0
"""A run of another process counts as stopped after this time without a new trial."""
_HARMLESS = {
    "trials",
    "concurrency",
    "seed",
    "fail_fast",
    "budget",
    "pass_threshold",
    "metrics_pass_threshold",
    "cases_pass_threshold",
}
"""Stored settings that may be used again. Others name models and agents, and a stored run may come from anyone."""


def silent_since(state: AppState, run: Run) -> datetime | None:
    """When the last trial of a running run was stored, if that is long ago and this server does not run it."""
    if run.state is not RunState.RUNNING or state.processes.is_running(run.id):
        return None
    written = state.store.last_written(run.id) or run.started_at
    is_left = state.processes.was_started(run.id) or (now() - written).total_seconds() > SILENT_SECONDS
    return written if is_left else None


def resume_run(state: AppState, run_id: str) -> None:
    """Resume the run in a separate process. Raises NotFound, Conflict."""
    row = state.store.run_row(run_id)
    if row is None:
        raise NotFound(f"no run has the id {run_id!r}")
    refused = why_not_resumed(state, row.run)
    if refused is not None:
        raise Conflict(f"run {run_id}: {refused}")
    state.processes.resume(row.run, _files(state, row.run))


def why_not_resumed(state: AppState, run: Run) -> str | None:
    """Why the run cannot be resumed here; None if it can."""
    config = run.config or {}
    if run.state is RunState.FINISHED:
        return "is finished"
    # The process of an interrupted run may still be stopping; resuming waits for it.
    if state.processes.is_resuming(run) or (run.state is RunState.RUNNING and state.processes.is_running(run.id)):
        return "is running"
    if run.state is RunState.RUNNING and silent_since(state, run) is None:
        return "stored a trial a moment ago, so another process may be running it"
    by_hand = f"Resume it where it was started: seatrial run --resume {run.id}"
    if run.parent is not None or "run" not in config or config.get("fork"):
        return "was not made by `seatrial run`, so it cannot be resumed"
    if config.get("agent") is not None or not set(config.get("overrides") or ()) <= _HARMLESS:
        return f"was started with an agent or settings from options. {by_hand}"
    try:
        return None if _files(state, run) else f"has no files. {by_hand}"
    except UsageError as problem:
        return f"{problem} {by_hand}"


def why_not_forked(run: Run, trial: Trial) -> str | None:
    """Why the trial cannot be continued here, as far as the stored run tells; None if it can.

    Its files and its agent are looked at only when it is forked: a page must not search the folder.
    """
    config = run.config or {}
    if run.replayed:
        return "No agent can continue a recording."
    if run.sweep:
        return "In a sweep tools answer differently, so its trials cannot be continued."
    by_hand = f"Continue it where the run was started: seatrial fork {run.id} SCENARIO {trial.index + 1} --at …"
    if config.get("agent") is not None or not set(config.get("overrides") or ()) <= _HARMLESS:
        return f"The run was started with an agent or settings from options. {by_hand}"
    return None if config.get("sources") else f"The run has no files. {by_hand}"


def fork_trial(state: AppState, run_id: str, scenario: str, index: int, *, at: str, trials: int) -> str:
    """Continue the trial in a separate process, and return the id of the new run. Raises NotFound, Conflict."""
    decided, outcome = state.scenario(run_id, scenario)
    key = outcome.entry.key
    if not any(one.index == index for one in decided.trials.get(key, ())):
        raise NotFound(f"run {run_id}: has no trial-{index + 1} of {key.label!r}")
    refused = why_not_forked(decided.run, state.store.trial(run_id, key, index))
    if refused is not None:
        raise Conflict(refused)
    return state.processes.fork((run_id, key.label, str(index + 1)), _files(state, decided.run), at=at, trials=trials)


def _files(state: AppState, run: Run) -> list[Path]:
    return [find_suite(state.options.root, str(source)) for source in (run.config or {}).get("sources") or ()]


router = APIRouter(include_in_schema=False)


async def read_fields(request: Request) -> dict[str, str]:
    """The fields of a form. If a name occurs more than once, the last value."""
    text = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(text, max_num_fields=50).items()}


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form with a valid CSRF token."""
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
    """Set a session cookie if the token is right."""
    access = request.app.state.access
    wanted = fields.get("next", "/")
    address = request.client.host if request.client else ""
    wait = access.seconds_to_wait(address)
    if wait:
        answer = _login_page(request, wanted, f"Too many wrong tokens from this address. {try_again(wait)}", status=429)
        answer.headers["retry-after"] = str(wait)
        return answer
    if access.needs_token and not access.check_token(fields.get("token", ""), address):
        return _login_page(request, wanted, "Wrong token.", status=403)
    answer = _go(wanted if _is_our_page(wanted) else "/")
    answer.headers.append("set-cookie", session_cookie(access.new_session(), secure=_is_secure(request)))
    return answer


@router.post("/logout")
def log_out(request: Request, form: Form) -> Response:
    """End the session and delete its cookie."""
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
def start_run(state: State, form: Form) -> Response:
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
    return _go(run_url(state.processes.start(start)))


@router.post("/runs/{run_id}/cancel")
def cancel(state: State, run_id: str, form: Form) -> Response:
    cancel_run(state, run_id)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/resume")
def resume(state: State, run_id: str, form: Form) -> Response:
    resume_run(state, run_id)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/baseline")
def set_baseline(state: State, run_id: str, form: Form) -> Response:
    choose_baseline(state, run_id, suite=None)
    return _go(run_url(run_id))


@router.post("/runs/{run_id}/scenarios/{scenario}/trials/{number}/labels")
def label(state: State, run_id: str, scenario: str, number: int, form: Form) -> Response:
    who = form.get("who", "").strip()
    if not who:
        raise UsageError("who: enter the name of the person who labels")
    try:
        value = float(form.get("value", ""))
    except ValueError:
        raise UsageError(f"value {form.get('value', '')!r}: expected a number") from None
    if not -1e9 <= value <= 1e9:
        raise UsageError(f"value {value!r}: expected a score")
    metric = form.get("metric", "").strip() or "passed"
    put_label(state, run_id, scenario, number - 1, metric=metric[:500], value=value, who=who[:500])
    return _go(f"{run_url(run_id)}/scenarios/{quote(scenario)}/trials/{number}#labels")


@router.post("/runs/{run_id}/scenarios/{scenario}/trials/{number}/fork")
def fork(state: State, run_id: str, scenario: str, number: int, form: Form) -> Response:
    at, trials = form.get("at", ""), form.get("trials", "").strip()
    if re.fullmatch(r"(call:)?[1-9][0-9]{0,8}", at) is None:
        raise UsageError(f"at {at!r}: expected a turn such as 2, or a call such as call:3")
    if not trials.isdecimal() or not 1 <= int(trials) <= MOST_FORKED:
        raise UsageError(f"trials {trials!r}: expected a number from 1 to {MOST_FORKED}")
    return _go(run_url(fork_trial(state, run_id, scenario, number - 1, at=at, trials=int(trials))))


def _go(address: str) -> Response:
    return RedirectResponse(address, status_code=303)


def _is_our_page(address: str) -> bool:
    """Whether it is a path of this server, also for a browser's URL parser."""
    return address.startswith("/") and not address.startswith("//") and "\\" not in address and address.isprintable()
