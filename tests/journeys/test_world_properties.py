"""What holds for end states whatever the calls are. The expected states are computed without Seatrial."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import seatrial
from seatrial import EndState, Scenario, World
from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.run import Trial
from seatrial.runs.event_loop import run_until_complete
from seatrial.scenarios.worlds import prepare_world
from seatrial.tools.world import PreparedWorld

SEED: dict[str, Any] = {"shelf": {"a": 1, "b": 2, "c": [1]}, "log": [], "count": 0}


def put(state: dict[str, Any], key: str, value: int) -> str:
    state["shelf"][key] = value
    return "put"


def take(state: dict[str, Any], key: str) -> Any:
    return state["shelf"].pop(key, None)


def note(state: dict[str, Any], text: int) -> int:
    state["log"].append(text)
    return len(state["log"])


def count(state: dict[str, Any], by: int) -> int:
    state["count"] += by
    return int(state["count"])


TOOLS: dict[str, Callable[..., Any]] = {"put": put, "take": take, "note": note, "count": count}
Calls = list[tuple[str, dict[str, Any]]]
KEYS = st.sampled_from(["a", "b", "c", "d"])
NUMBERS = st.integers(0, 2)
CALL = st.one_of(
    st.tuples(st.just("put"), st.fixed_dictionaries({"key": KEYS, "value": NUMBERS})),
    st.tuples(st.just("take"), st.fixed_dictionaries({"key": KEYS})),
    st.tuples(st.just("note"), st.fixed_dictionaries({"text": NUMBERS})),
    st.tuples(st.just("count"), st.fixed_dictionaries({"by": NUMBERS})),
)
CALLS = st.lists(CALL, max_size=6)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def after(calls: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The state after the calls, by plain Python."""
    state = deepcopy(SEED)
    for name, arguments in calls:
        TOOLS[name](state, **arguments)
    return state


def play(calls: Calls, state: EndState) -> Trial:
    def agent(input: str, ctx: Any) -> str:
        for name, arguments in calls:
            ctx.call_tool(name, arguments)
        return "done"

    world = World(seed=SEED, tools=list(TOOLS.values()))
    scenario = Scenario(name="any", input="go", world=world, end_state=state)
    wrapped = {"type": "python", "target": agent, "tools": "all_wrapped"}
    [trial] = seatrial.run(scenario, agent=wrapped, store=None).trials()
    return trial


def gold(calls: Calls) -> list[dict[str, Any]]:
    return [{name: arguments} for name, arguments in calls]


@given(CALLS)
@few
def test_as_after_of_a_trials_own_calls_always_holds(calls: Calls) -> None:
    assert play(calls, EndState(as_after=gold(calls))).status.value == "passed"


@given(CALLS.filter(bool), st.data())
@few
def test_a_call_that_is_dropped_duplicated_or_altered_is_seen_if_it_changes_the_state(
    calls: Calls, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(calls) - 1))
    instead = data.draw(st.sampled_from([[], [calls[place]] * 2, [data.draw(CALL)]]))
    made = [*calls[:place], *instead, *calls[place + 1 :]]
    expected = "passed" if after(made) == after(calls) else "failed"

    trial = play(made, EndState(as_after=gold(calls)))

    assert trial.status.value == expected, trial.failure_reasons


@given(CALLS, st.sampled_from(["shelf", "shelf.a", "shelf.*", "log", "count"]))
@few
def test_unchanged_holds_exactly_for_parts_that_are_as_in_the_seed(calls: Calls, path: str) -> None:
    def part(state: dict[str, Any]) -> Any:
        first, _, key = path.partition(".")
        return state[first] if key in ("", "*") else state[first].get(key, "absent")

    expected = "passed" if part(after(calls)) == part(SEED) else "failed"

    assert play(calls, EndState(unchanged=[path])).status.value == expected


@given(CALLS, CALLS, st.sampled_from(["shelf", "log", "count"]))
@few
def test_an_ignored_path_is_the_only_one_that_is_left_out(made: Calls, right: Calls, path: str) -> None:
    rest, wanted = after(made), after(right)
    del rest[path], wanted[path]

    trial = play(made, EndState(as_after=gold(right), ignore=[path]))

    assert trial.status.value == ("passed" if rest == wanted else "failed")


def recorded(world: PreparedWorld, calls: Calls) -> Transcript:
    """A conversation with the world's own answers."""
    asked = [ToolCall(name, arguments) for name, arguments in calls]
    played = run_until_complete(world.play(asked))
    turn = PlayedTurn(index=0, user="go", reply="done", tool_calls=played.calls)
    return Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED)


@given(CALLS.filter(bool), st.data())
@few
def test_a_recorded_result_that_the_world_does_not_give_is_drift(calls: Calls, data: st.DataObject) -> None:
    world = prepare_world(World(seed=SEED, tools=list(TOOLS.values())))
    same = recorded(world, calls)
    place = data.draw(st.integers(0, len(calls) - 1))
    turn = same.turns[0]
    assert turn.tool_calls is not None
    assume(turn.tool_calls[place].result != "other")
    other = [replace(call, result="other") if n == place else call for n, call in enumerate(turn.tool_calls)]
    changed = replace(same, turns=(replace(turn, tool_calls=tuple(other)),))

    again, drifted = (run_until_complete(world.reenact(each)) for each in (same, changed))

    assert again.world is not None
    assert drifted.world is not None
    assert (again.world.drift, drifted.world.drift) == (0, 1)
    assert drifted.world.changes == again.world.changes
    assert f"{calls[place][0]}: the result was 'other'" in str(drifted.world.first_drift)
