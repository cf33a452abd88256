"""Record the calls of real tools in a run, and check later whether the tools still answer so."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from seatrial import foreign
from seatrial.agents.context import wrapped_tools
from seatrial.clock import now
from seatrial.engine.redact import Redaction
from seatrial.errors import UsageError
from seatrial.model.conversation import REDACTED, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.struct import Struct
from seatrial.scenarios.cassette_files import find_cassette, load_recorded, read_cassette, write_cassette
from seatrial.tools.cassettes import RecordedCall, RecordedTools, Recording
from seatrial.tools.tool_schemas import read_tools

from .report import Report
from .run_plan import RunPlan

_SECONDS: Final = 60.0
"""How long a real tool may take when it is checked."""
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def record_run(report: Report, file: str, plan: RunPlan) -> Recording:
    """Write the calls of the run's real tools to the file. Raises UsageError if none ran.

    The calls come from the stored transcripts, in which secrets are redacted. Calls of an older recording stay.
    """
    path = Path(file)
    schemas = dict(_schemas(plan))
    before = read_cassette(path) if path.exists() else None
    recording = Recording(date=f"{now():%Y-%m-%d}", schemas=schemas, before=before)
    for outcome in report.record.outcome.scenarios:
        for trial in report.record.trials(outcome.entry.key):
            recording.add(call for call in trial.transcript.seen_calls if call.real)
    if not recording.count:
        raise UsageError(
            f"--record {file}: no real tool ran, so nothing was recorded. A call is recorded if it goes through "
            "@seatrial.tool or a framework, and have no mock"
        )
    write_cassette(path, recording.cassette())
    return recording


def write_calls(
    calls: Mapping[str, list[ToolCall]], file: str, *, schemas: Mapping[str, Any], redaction: Redaction
) -> Recording:
    """Write calls, grouped by session, to the file, without secrets."""
    path = Path(file)
    before = read_cassette(path) if path.exists() else None
    recording = Recording(date=f"{now():%Y-%m-%d}", schemas=schemas, before=before)
    for session in calls.values():
        recording.add(_redacted(call, redaction) for call in session)
    if recording.count:
        write_cassette(path, recording.cassette())
    return recording


def _redacted(call: ToolCall, redaction: Redaction) -> ToolCall:
    error = None if call.error is None else redaction.text(call.error)
    return ToolCall(call.name, redaction.value(call.arguments), redaction.value(call.result), error)


def _schemas(plan: RunPlan) -> Iterator[tuple[str, Any]]:
    """The schemas of wrapped functions, and those under `tools:`."""
    yield from ((name, schema_of(function)) for name, function in list(wrapped_tools.items()))
    for prepared in plan.scenarios():
        for tool in read_tools(prepared.scenario.tools):
            if tool.parameters is not None:
                yield tool.name, dict(tool.parameters)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A JSON Schema of the function's parameters."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError):
        parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    kinds = {one.name: {"type": _TYPES[one.annotation]} if one.annotation in _TYPES else {} for one in named}
    required = [one.name for one in named if one.default is one.empty]
    return {"type": "object", "properties": kinds, **({"required": required} if required else {})}


class Drift(Struct, frozen=True, kw_only=True):
    """A recorded call that the real tool answers differently now."""

    tool: str
    arguments: Any
    recorded: str
    now: str


class Verification(Struct, frozen=True, kw_only=True):
    """The result of calling the real tools again."""

    checked: int
    drifts: tuple[Drift, ...]
    unknown: tuple[str, ...]
    """Recorded tools whose function is not known, so that they cannot be called."""
    skipped: int = 0
    """Calls with redacted arguments, which cannot be made again."""


def find_recordings(plan: RunPlan) -> list[RecordedTools]:
    """The recordings of the plan's scenarios, each once. Raises UsageError if there is none."""
    found: dict[str, RecordedTools] = {}
    for prepared in plan.scenarios():
        recorded = load_recorded(prepared.scenario)
        if recorded is not None:
            found[str(find_cassette(prepared.scenario))] = recorded
    if not found:
        raise UsageError("--verify-mocks: no scenario has `mocks_from`, so there is nothing to check")
    return list(found.values())


async def verify(recordings: list[RecordedTools]) -> Verification:
    """Call the real functions of `@seatrial.tool` again with the recorded arguments, and compare."""
    drifts: list[Drift] = []
    unknown: dict[str, None] = {}
    checked = skipped = 0
    with foreign.in_use():
        for recorded in recordings:
            for name, calls in recorded.calls.items():
                function = wrapped_tools.get(name)
                if function is None:
                    unknown[name] = None
                    continue
                for call in calls:
                    if REDACTED in repr(call.arguments):
                        skipped += 1
                        continue
                    checked += 1
                    drift = await _compare(name, call, function)
                    drifts += [drift] if drift is not None else []
    return Verification(checked=checked, drifts=tuple(drifts), unknown=tuple(unknown), skipped=skipped)


async def _compare(name: str, call: RecordedCall, function: Callable[..., Any]) -> Drift | None:
    try:
        answer: dict[str, Any] = {
            "returns": plain_value(await foreign.call(function, timeout=_SECONDS, **call.arguments))
        }
    except foreign.ForeignError as raised:
        answer = {"raises": str(raised)}
    except TimeoutError:
        answer = {"raises": f"no answer within {_SECONDS:g} s"}
    if any(REDACTED in repr(one) or one == answer for one in call.answers):
        return None
    return Drift(tool=name, arguments=call.arguments, recorded=_show(call.answers[-1]), now=_show(answer))


def _show(answer: Mapping[str, Any]) -> str:
    (kind, value), *_ = answer.items()
    text = f"{kind} {value!r}"
    return text if len(text) <= 200 else f"{text[:199]}…"
