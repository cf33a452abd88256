"""What a scenario expects of tool calls, held against the sessions of `seatrial mock-server --check`."""

from collections.abc import Sequence

from seatrial.evaluators.limits import Limits
from seatrial.evaluators.state import State
from seatrial.evaluators.tool_calls import ToolCallArgsEvaluator, ToolCallEvaluator
from seatrial.evaluators.trajectory import Trajectory
from seatrial.mock_server.sessions import SessionDesk
from seatrial.model.conversation import PlayedTurn, StopReason, Transcript
from seatrial.model.protocols import Evaluator, TrialContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Expect, Scenario


def tool_evaluators(scenario: Scenario) -> list[Evaluator]:
    """Evaluators of calls and state over a whole session. Nobody knows here where a turn ends, or what was replied."""
    found: list[Evaluator] = []
    if scenario.trajectory is not None:
        spec = scenario.trajectory
        found.append(Trajectory(mode=spec.mode, expected=spec.expected, forbidden=spec.forbidden))
    if scenario.expected_tools:
        found.append(ToolCallEvaluator(must_include=tuple(scenario.expected_tools)))
    for tool, args in (scenario.expected_tool_args or {}).items():
        found.append(ToolCallArgsEvaluator(tool, args, calls="first"))
    if scenario.expect is not None:
        found += _of_expect(scenario.expect)
    if scenario.expected_state is not None:
        found.append(State(scenario.expected_state))
    if scenario.limits is not None and scenario.limits.tool_calls is not None:
        found.append(Limits(tool_calls=scenario.limits.tool_calls))
    return found


def _of_expect(expect: Expect) -> list[Evaluator]:
    found: list[Evaluator] = []
    if expect.tool_calls_include or expect.tool_calls_exclude:
        found.append(
            ToolCallEvaluator(
                must_include=expect.tool_calls_include,
                must_exclude=expect.tool_calls_exclude,
                ordered=expect.tool_calls_ordered,
            )
        )
    for entry in expect.tool_calls_args:
        if entry.args is not None:
            found.append(ToolCallArgsEvaluator(entry.tool, entry.args, mode=entry.mode, calls=entry.calls))
    return found


async def check_session(desk: SessionDesk, scenario: Scenario, evaluators: Sequence[Evaluator]) -> list[EvalResult]:
    """What each says of the session."""
    turn = PlayedTurn(index=0, user="", reply=None, tool_calls=tuple(desk.calls))
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, state=desk.tools.state or None)
    ctx = TrialContext(transcript=transcript, scenario=scenario)
    return [await evaluator.evaluate(ctx) for evaluator in evaluators]
