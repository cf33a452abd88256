"""What `seatrial doctor` finds out about a suite: whether it loads, and whether its agent answers once."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from seatrial.errors import SeatrialError
from seatrial.model.run import Trial
from seatrial.model.scenario import Scenario, Suite, SuiteConfig, User
from seatrial.reports.escaping import one_line
from seatrial.runs.execute_run import execute
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.scenarios.loaded_suite import LoadedSuite

from .doctor_checks import Finding, ok, problem

_SHOWN = 60
_SMALL_TALK = "Hello!"
_KEPT = ("mocks", "tools", "unmocked_tools", "timeout_seconds", "trial_timeout_seconds", "setup", "teardown")
"""Of a scenario's settings, what an agent needs to be asked at all."""


def check_suites(request: RunRequest, *, ask: bool) -> Iterator[Finding]:
    """One line for each suite and, where the agent is to be asked, for each of its agents."""
    try:
        plan = RunPlan(request)
    except SeatrialError as error:
        yield from (Finding(state="problem", text=line) for line in str(error).splitlines())
        return
    for loaded in plan.suites:
        yield ok(f"suite {loaded.path}: {loaded.count} scenario{'' if loaded.count == 1 else 's'}")
        if ask:
            yield from _ask_agents(loaded, request)


def _ask_agents(loaded: LoadedSuite, request: RunRequest) -> Iterator[Finding]:
    probe = _probe(next((each for each in loaded.resolved() if each.skip is None), None))
    suite = Suite(
        name=loaded.name,
        scenarios=(probe,),
        agent=loaded.suite.agent,
        agents=loaded.suite.agents,
        config=SuiteConfig(isolation=loaded.config.isolation),
        setup=loaded.suite.setup,
        teardown=loaded.suite.teardown,
    )
    try:
        report = execute(replace(request, sources=(suite,), overrides={}, store=None, cache=None))
    except SeatrialError as error:
        yield problem(error)
        return
    for trial in report.trials():
        yield _what_came(trial, sent=str(probe.input))


def _probe(scenario: Scenario | None) -> Scenario:
    """A scenario of one message that asks for nothing but a reply."""
    if scenario is None:
        return Scenario(name="doctor", input=_SMALL_TALK, scorers=("passfail",))
    said: str | None = scenario.input or (scenario.turns[0].user if scenario.turns else None)
    if said is None and isinstance(scenario.user, User):
        said = scenario.user.first_message
    kept: Mapping[str, Any] = {name: getattr(scenario, name) for name in _KEPT}
    return Scenario(
        name="doctor",
        input=said or _SMALL_TALK,
        scorers=("passfail",),
        system=scenario.system,
        history=scenario.history,
        trials=1,
        **kept,
    )


def _what_came(trial: Trial, *, sent: str) -> Finding:
    who = f"agent {trial.key.agent}" if trial.key.agent else "agent"
    asked = f"{who}: sent {_short(sent)}"
    if trial.error is not None:
        return Finding(state="problem", text=f"{asked}; {trial.error.message}", remedy=trial.error.hint or "")
    turn = trial.transcript.turns[-1]
    if not (turn.reply or "").strip():
        return Finding(
            state="problem", text=f"{asked}; the reply is empty", remedy="an agent must reply with a text to be tried"
        )
    calls = "; its tool calls are not recorded" if turn.tool_calls is None else ""
    return ok(f"{asked}; got {_short(turn.reply or '')} in {trial.duration_ms:.0f} ms{calls}")


def _short(text: str) -> str:
    shown = one_line(text)
    return repr(shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…")
