"""The tools of one trial, answered from mocks and, where there is none, by the world."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from itertools import count
from typing import Any, Literal

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, WorldRecord
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct

from .cassettes import RecordedTools
from .faults import SLOW_SECONDS, answer_with_fault
from .mock_checks import CheckArgs, check_mocks
from .mocks import (
    MISSING,
    Answer,
    Branch,
    Calls,
    Faulty,
    Mock,
    MockContext,
    Raises,
    Returns,
    answer_by_function,
    find_function,
)
from .tool_schemas import ToolSchema, offer, read_tools, violation_finder
from .world import PreparedWorld
from .world_tools import definitions

Matches = Callable[[Any, Any], bool]
"""(expected, actual) -> whether they match, by the rules of the expectations."""
UnmockedTools = Literal["error", "passthrough"]


class MockedTools:
    """The tools of one trial, with their own counters and state."""

    def __init__(self, mock_set: "MockSet", *, trial_id: str, seed: int) -> None:
        self._world = None if mock_set.world is None else mock_set.world.open(trial_id, seed)
        self._world_tools = {} if mock_set.world is None else mock_set.world.tools
        self._mocks = mock_set.mocks
        self._recorded = mock_set.recorded
        self._schemas = mock_set.schemas
        self._matches = mock_set.matches
        self._unmocked_tools = mock_set.unmocked_tools
        self._trial_id = trial_id
        self._seed = seed
        self._state: dict[str, Any] = {}
        self._counts: dict[tuple[str, str], count[int]] = {}

    @property
    def state(self) -> dict[str, Any]:
        """The state of the mocks; a setup may fill it."""
        return self._state

    @property
    def has_ended(self) -> bool:
        """Whether a call has ended the conversation (`world.ends`)."""
        return self._world is not None and self._world.has_ended

    def record_world(self) -> WorldRecord | None:
        """The world now; None without one. Raises TrialError if something else than a call has changed it."""
        return None if self._world is None else self._world.record()

    def knows(self, name: str) -> bool:
        """Whether a mock, a recording or the world answers the tool."""
        recorded = self._recorded is not None and name in self._recorded.calls
        return name in self._mocks or recorded or name in self._world_tools

    def lets_run(self, name: str) -> bool:
        """Whether the agent's real tool may run: nothing here answers it, and `unmocked_tools` is `passthrough`."""
        return not self.knows(name) and self._unmocked_tools == "passthrough"

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools: of `tools:`, then the world's and recorded ones, then those made of mocks."""
        found: dict[str, Mapping[str, Any]] = {}
        recorded = () if self._recorded is None else self._recorded.definitions()
        # A mock knows less about its tool than the world or a recording.
        for tool in (
            *offer({}, self._schemas),
            *definitions(self._world_tools.values()),
            *recorded,
            *offer(self._mocks, {}),
        ):
            found.setdefault(tool["name"], tool)
        return tuple(found.values())

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        """The answer of the mock, or else of the world. Raises TrialError without either, or if it has a bug."""
        mock = self._mocks.get(name)
        if mock is None and self._recorded is not None and name in self._recorded.calls:
            return self._replay(self._recorded, name, {} if arguments is None else arguments)
        if mock is None and self._world is not None and name in self._world_tools:
            refusal = self._refuse(name, {} if arguments is None else arguments)
            if refusal is not None:
                return ToolAnswer(error=refusal)
            return self._checked(name, await self._world.call(name, arguments, turn=turn), is_fault=False)
        if mock is None:
            raise self._no_mock(name, arguments)
        arguments = {} if arguments is None else arguments
        refusal = self._refuse(name, arguments)
        if refusal is not None:
            return ToolAnswer(error=refusal)
        call_index = self._count("call", name)
        answer, delay_ms = self._choose(mock, arguments, 0.0)
        if answer is None:
            raise _no_answer(name, arguments)
        if delay_ms:
            import asyncio

            await asyncio.sleep(delay_ms / 1000)
        ctx = MockContext(
            tool=name,
            call_index=call_index,
            turn_index=turn,
            trial_id=self._trial_id,
            seed=self._seed,
            state=self._state,
        )
        return self._checked(name, await _give(answer, arguments, ctx), is_fault=isinstance(answer, Faulty))

    def _replay(self, recorded: RecordedTools, name: str, arguments: Any) -> ToolAnswer:
        """The recorded answer. Raises TrialError if the call is not recorded."""
        refusal = self._refuse(name, arguments)
        if refusal is not None:
            return ToolAnswer(error=refusal)
        position, call = recorded.find(name, arguments)
        answer = call.answer(self._count("recorded", f"{name}[{position}]"))
        return self._checked(name, ToolAnswer(result=deepcopy(answer.result), error=answer.error), is_fault=False)

    def _refuse(self, name: str, arguments: Any) -> str | None:
        """Why a real tool would refuse the arguments, as the agent sees it."""
        if not isinstance(arguments, Mapping):
            return f"arguments are not a JSON object: {_show(arguments)}"
        schema = self._schemas.get(name)
        if schema is None or schema.parameters is None:
            return None
        violation = violation_finder(schema.parameters)(dict(arguments))
        return None if violation is None else f"invalid arguments for {name!r}: {violation}"

    def _checked(self, name: str, answer: ToolAnswer, *, is_fault: bool) -> ToolAnswer:
        """The answer. Raises TrialError if it violates the tool's output schema, unless it is a fault."""
        schema = self._schemas.get(name)
        if schema is None or schema.output_schema is None or is_fault or answer.error is not None:
            return answer
        violation = violation_finder(schema.output_schema)(plain_value(answer.result))
        if violation is not None:
            message = f"the mock of {name!r} returned what the tool's output_schema does not allow: {violation}"
            raise TrialError(ErrorKind.TOOL, message, hint="correct the mock, or the output_schema under `tools:`")
        return answer

    def _choose(self, mock: Mock, arguments: Mapping[str, Any], delay_ms: float) -> tuple[Answer | None, float]:
        """The answer to this call and its delay. An inner delay replaces the outer one."""
        delay_ms = delay_ms if mock.delay_ms is None else mock.delay_ms
        for branch in mock.when:
            if self._fits(branch.args, arguments):
                return self._choose(branch.mock, arguments, delay_ms)
        if mock.sequence:
            position = min(self._count("sequence", mock.path), len(mock.sequence) - 1)
            return self._choose(mock.sequence[position], arguments, delay_ms)
        return mock.answer, delay_ms

    def _fits(self, expected: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
        return all(key in arguments and self._matches(value, arguments[key]) for key, value in expected.items())

    def _count(self, what: str, path: str) -> int:
        # next() on itertools.count is atomic: agents may call tools from several threads.
        return next(self._counts.setdefault((what, path), count()))

    def _no_mock(self, name: str, arguments: Any) -> TrialError:
        message = f"Tool {name!r} was called but no mock is defined"
        if self._world is not None:
            message += ", and the world has no such tool"
        if self._unmocked_tools == "passthrough":
            message += ", and there is no real tool to pass the call to"
        key = name if name.replace("_", "a").replace("-", "a").isalnum() else json.dumps(name)
        hint = f"add a mock; it was called with {_show(arguments)}:\n\nmocks:\n  {key}: {{returns: {{}}}}"
        close = get_close_matches(name, [*self._mocks, *self._world_tools], n=1)
        if close:
            hint = f"is it {close[0]!r} under another name? Else {hint}"
        return TrialError(ErrorKind.TOOL, message, hint=hint, counts_as_failed=True)


async def _give(answer: Answer, arguments: Mapping[str, Any], ctx: MockContext) -> ToolAnswer:
    """A copy of the answer: an agent that changes it must not change the next answer."""
    match answer:
        case Returns(value=value):
            return ToolAnswer(result=deepcopy(value))
        case Raises(text=text):
            return ToolAnswer(error=text)
        case Faulty(fault=fault, value=value):
            return answer_with_fault(fault, value)
        case Calls(function=function):
            return await answer_by_function(function, deepcopy(dict(arguments)), ctx)


def _no_answer(name: str, arguments: Any) -> TrialError:
    return TrialError(
        ErrorKind.TOOL,
        f"Tool {name!r} was called with {_show(arguments)} but no entry of its mock's `when` matches",
        hint=f"add an entry for these arguments, or `returns` beside `when` for all others, under mocks.{name}",
        counts_as_failed=True,
    )


def _show(arguments: Any) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=repr, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:297]}..."


class MockSet(Struct, frozen=True, kw_only=True):
    """The mocks and tool schemas of a scenario, shared by its trials."""

    mocks: Mapping[str, Mock]
    schemas: Mapping[str, ToolSchema]
    matches: Matches
    unmocked_tools: UnmockedTools = "error"
    world: PreparedWorld | None = None
    recorded: RecordedTools | None = None
    """Recorded calls (`mocks_from`)."""

    @classmethod
    def parse(
        cls,
        specs: Mapping[str, Any] | None,
        *,
        matches: Matches,
        tools: Sequence[Mapping[str, Any]] | None = None,
        unmocked_tools: UnmockedTools = "error",
        check_args: CheckArgs | None = None,
        world: PreparedWorld | None = None,
        recorded: RecordedTools | None = None,
    ) -> "MockSet":
        """Read `mocks:` and `tools:`, and import Python functions. Raises UsageError with all problems."""
        problems = [f"mocks.{text}" for text in check_mocks(specs, check_args=check_args)]
        if problems:
            raise UsageError("\n".join(problems))
        return cls(
            mocks={name: _read_mock(spec, name) for name, spec in (specs or {}).items()},
            schemas={tool.name: tool for tool in read_tools(tools)},
            matches=matches,
            unmocked_tools=unmocked_tools,
            world=world,
            recorded=recorded,
        )

    def open(self, trial_id: str, seed: int) -> MockedTools:
        """The tools of one trial."""
        return MockedTools(self, trial_id=trial_id, seed=seed)


def _read_mock(spec: Any, path: str) -> Mock:
    if callable(spec):
        return Mock(path=path, answer=_read_function(spec, path))
    if not isinstance(spec, Mapping):
        return Mock(path=path, answer=Returns(value=spec))
    return Mock(
        path=path,
        delay_ms=spec.get("delay_ms", 1000 * SLOW_SECONDS if spec.get("fault") == "slow" else None),
        when=tuple(
            Branch(args=entry["args"], mock=_read_mock(entry, f"{path}.when[{index}]"))
            for index, entry in enumerate(spec.get("when", ()))
        ),
        sequence=tuple(
            _read_mock(entry, f"{path}.sequence[{index}]") for index, entry in enumerate(spec.get("sequence", ()))
        ),
        answer=_read_answer(spec, path),
    )


def _read_answer(spec: Mapping[str, Any], path: str) -> Answer | None:
    value = spec.get("returns", MISSING)
    if "fault" in spec:
        return Faulty(fault=spec["fault"], value=None if value is MISSING else value)
    if "raises" in spec:
        return Raises(text=spec["raises"])
    if "python" in spec:
        return _read_function(spec["python"], path)
    return None if value is MISSING else Returns(value=value)


def _read_function(target: Any, path: str) -> Calls:
    return Calls(function=find_function(target, where=f"mocks.{path}"))


class NoMocks(MockedTools):
    """The tools of a trial without mocks: the agent's real tools run."""

    def __init__(self, trial_id: str, seed: int) -> None:
        super().__init__(_NO_MOCKS, trial_id=trial_id, seed=seed)

    def lets_run(self, name: str) -> bool:
        return True


_NO_MOCKS = MockSet(mocks={}, schemas={}, matches=lambda expected, actual: False)
