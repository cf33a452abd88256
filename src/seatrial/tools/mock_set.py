"""The mocks of a scenario, read and checked once, from which each trial gets its tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.errors import UsageError

from .mock_spec import MISSING, Answer, Branch, Calls, Faulty, Mock, Raises, Returns
from .problems import CheckArgs, check_mocks
from .python_mocks import find_function
from .tool_box import Matches, MockedTools, UnmockedTools
from .tool_schemas import ToolSchema, read_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class MockSet:
    """What every trial of a scenario answers tool calls from. Nothing in it changes while trials run."""

    mocks: Mapping[str, Mock]
    schemas: Mapping[str, ToolSchema]
    matches: Matches
    unmocked_tools: UnmockedTools = "error"

    @classmethod
    def parse(
        cls,
        specs: Mapping[str, Any] | None,
        *,
        matches: Matches,
        tools: Sequence[Mapping[str, Any]] | None = None,
        unmocked_tools: UnmockedTools = "error",
        check_args: CheckArgs | None = None,
    ) -> "MockSet":
        """Read `mocks:` and `tools:`, and find the Python functions. All mistakes at once, as a UsageError."""
        problems = [f"mocks.{text}" for text in check_mocks(specs, check_args=check_args)]
        if problems:
            raise UsageError("\n".join(problems))
        return cls(
            mocks={name: _read_mock(spec, name) for name, spec in (specs or {}).items()},
            schemas={tool.name: tool for tool in read_tools(tools)},
            matches=matches,
            unmocked_tools=unmocked_tools,
        )

    def open(self, trial_id: str, seed: int) -> MockedTools:
        """The tools of one trial, with counters and a state of its own."""
        return MockedTools(
            self.mocks,
            schemas=self.schemas,
            matches=self.matches,
            unmocked_tools=self.unmocked_tools,
            trial_id=trial_id,
            seed=seed,
        )


def _read_mock(spec: Any, path: str) -> Mock:
    if callable(spec):
        return Mock(path=path, answer=_read_function(spec, path))
    if not isinstance(spec, Mapping):
        return Mock(path=path, answer=Returns(value=spec))
    return Mock(
        path=path,
        delay_ms=spec.get("delay_ms"),
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
