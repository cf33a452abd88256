"""Worlds: a state, and tools that act on it. Each trial has its own copy of the state.

`PreparedWorld` is what a scenario uses: a seed and its tools. `OpenWorld` is the copy of one trial. It answers calls
and notes what they changed. `play` runs a list of calls on a new copy: gold calls, recorded calls, the beginning of
a conversation that is continued.
"""

import asyncio
import gc
import json
import marshal
import random
import weakref
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from seatrial import foreign
from seatrial.errors import ToolError
from seatrial.model.conversation import REDACTED, Change, ErrorInfo, ErrorKind, StopReason, ToolCall, Transcript
from seatrial.model.conversation import WorldRecord as Record
from seatrial.model.json_patch import differences, make_changes, merge_patch
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.model.scenario import GoldCall
from seatrial.model.struct import Struct
from seatrial.model.value_paths import show_location
from seatrial.model.world_view import SEED_BASE, SEED_MERGE, WorldView

from .world_tools import WorldTool

NOW = datetime(2025, 1, 1, 12, 0, tzinfo=UTC)
"""The time in every world, unless it names another one."""
_SHOWN = 200
_DEEPEST = 50

_pack = msgspec.msgpack.Encoder(decimal_format="number").encode
_pack_sorted = msgspec.msgpack.Encoder(order="deterministic").encode


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Half of the time to decode a large seed would be spent in looking for garbage among its new objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Seed:
    """The state in which every trial of a scenario begins. Copies are decoded from bytes: 5 MB take milliseconds."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value: dict[str, Any] = _share_texts(plain_value(value), {})
        """Shared by all trials, so nothing may change it."""
        # A quarter quicker than msgpack: equal texts become one object.
        self._packed = marshal.dumps(self.value)
        self._overlay: Mapping[str, Any] | None = None
        self._base: Seed | None = None
        self._find_parts()

    def merged(self, overlay: Mapping[str, Any]) -> "Seed":
        """This seed with a merge patch (RFC 7386) over it. It shares the bytes of this one."""
        merged = object.__new__(Seed)
        merged._packed = self._packed
        merged._base = self._base or self
        merged._overlay = overlay if self._overlay is None else merge_patch(self._overlay, overlay)
        merged.value = merge_patch(self.value, plain_value(overlay))
        merged._find_parts()
        return merged

    def _find_parts(self) -> None:
        self.parts = {key: _pack(part) for key, part in self.value.items()}
        """The encoded values by key: a part with other bytes has changed."""
        self.hash = blake2b(_pack_sorted(self.value), digest_size=16).hexdigest()

    def documents(self) -> dict[str, Any]:
        """What a store keeps of the seed, by hash: a merged seed is kept as its patch."""
        if self._base is None:
            return {self.hash: self.value}
        patch = {SEED_BASE: self._base.hash, SEED_MERGE: plain_value(self._overlay)}
        return {**self._base.documents(), self.hash: patch}

    def copy(self) -> dict[str, Any]:
        """A copy of the state that a trial may change."""
        with _garbage_collection_paused():
            state: dict[str, Any] = marshal.loads(self._packed)
        return state if self._overlay is None else merge_patch(state, plain_value(self._overlay))


def _share_texts(value: Any, known: dict[str, str]) -> Any:
    """The JSON value with one object for equal texts."""
    if type(value) is dict:
        return {known.setdefault(key, key): _share_texts(item, known) for key, item in value.items()}
    if type(value) is list:
        return [_share_texts(item, known) for item in value]
    return known.setdefault(value, value) if type(value) is str else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool gets as `ctx` if it has a parameter of this name."""

    tool: str
    trial_id: str
    turn_index: int
    repetition: int
    """The number of earlier calls of this tool with the same arguments in this trial."""
    now: datetime
    """A fixed time."""
    random: random.Random
    """Depends on the trial's seed, the tool, its arguments and the repetition, not on other calls."""


class Played(Struct, frozen=True, kw_only=True):
    """The result of playing calls on a new copy of a world."""

    calls: tuple[ToolCall, ...]
    """The calls with their results, errors and changes."""
    record: Record


class PreparedWorld(Struct, frozen=True, kw_only=True):
    """The world of a scenario: its seed, its tools, and how they behave."""

    seed: Seed
    tools: Mapping[str, WorldTool]
    ends: frozenset[str] = frozenset()
    errors: str | None = None
    """How the agent sees a tool error: a text with `{error}`."""
    drift: Literal["note", "error"] = "note"
    now: datetime = NOW
    timeout_seconds: float = 30.0
    gold_cache: dict[Any, Played] = msgspec.field(default_factory=dict)

    def seed_documents(self) -> dict[str, Any]:
        """What a store keeps of the seed, by hash."""
        return self.seed.documents()

    def open(self, trial_id: str = "", seed: int = 0) -> "OpenWorld":
        """A copy for one trial."""
        return OpenWorld(self, trial_id=trial_id, seed=seed)

    async def play(self, calls: Sequence[ToolCall], *, trial_id: str = "", seed: int = 0) -> Played:
        """Play the calls on a new copy. Raises TrialError for a bug in a tool, and for a tool that does not exist."""
        with _garbage_collection_paused():
            world = self.open(trial_id, seed)
            played = []
            for call in calls:
                answer = await world.call(call.name, call.arguments)
                played.append(replace(call, result=answer.result, error=answer.error, changes=answer.changes))
            record = world.record()
            del world  # before garbage is collected again
        return Played(calls=tuple(played), record=record)

    async def play_gold(self, calls: Sequence[GoldCall], *, seed: int = 0) -> Played:
        """Play gold calls. The result is kept: it is the same for all trials, unless a tool uses random numbers."""
        uses_seed = any(self.tools[call.name].takes_ctx for call in calls if call.name in self.tools)
        key = (msgspec.json.encode(calls), seed if uses_seed else 0)
        if key not in self.gold_cache:
            asked = [ToolCall(call.name, plain_value(call.arguments)) for call in calls]
            self.gold_cache[key] = await self.play(asked, seed=seed)
        return self.gold_cache[key]

    async def view(self, record: Record, *, seed: int = 0, gold: Sequence[GoldCall] | None = None) -> WorldView:
        """The world as evaluators see it. Raises TrialError if the record was made with another seed."""
        if record.seed != self.seed.hash:
            raise TrialError(
                ErrorKind.CONFIG,
                "the seed of the world has changed since this trial was played, so its end state is not known",
                hint="run it again, or judge it again with the seed it was played with: seatrial regrade",
            )

        async def play_gold(calls: Sequence[GoldCall]) -> tuple[tuple[Change, ...], tuple[ToolCall, ...]]:
            played = await self.play_gold(calls, seed=seed)
            return played.record.changes, played.calls

        expected = None if gold is None else (await play_gold(gold))[0]
        return WorldView(seed=self.seed.value, changes=record.changes, gold_changes=expected, play_gold=play_gold)

    async def check_gold(self, calls: Sequence[GoldCall]) -> list[str]:
        """What is wrong with gold calls: unknown tools, refused calls, calls that should be refused and are not."""
        unknown = [call.name for call in calls if call.name not in self.tools]
        if unknown:
            from difflib import get_close_matches

            close = get_close_matches(unknown[0], self.tools, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" It has: {', '.join(sorted(self.tools))}."
            return [f"the world has no tool {unknown[0]!r}.{hint}"]
        try:
            played = await self.play_gold(calls)
        except TrialError as failure:
            return [f"a gold call cannot be played: {failure}"]
        problems = []
        for number, (call, made) in enumerate(zip(calls, played.calls, strict=True), start=1):
            if made.error is not None and not call.refused:
                problems.append(
                    f"the world refuses gold call {number}, {call.name}: {made.error}. "
                    "Correct the call, or write `refused: true` next to it"
                )
            elif made.error is None and call.refused:
                problems.append(f"gold call {number}, {call.name}, is marked `refused: true`, but the world accepts it")
        return problems

    async def reenact(
        self, transcript: Transcript, *, mocked: Container[str] = (), real_tools: bool = False, seed: int = 0
    ) -> Transcript:
        """The recorded transcript, with the end state that its calls produce and what each of them changes.

        Calls of `mocked` tools do not reach the world. `real_tools`: other tools may have run for real. Without records
        of all calls there is no end state.
        """
        calls = transcript.tool_calls
        if calls is None:
            return replace(transcript, world=None)
        if transcript.world is not None and transcript.world.seed == self.seed.hash and _has_redactions(calls):
            return transcript  # the calls cannot be repeated, but the end state is known
        try:
            # One after the other: they compute, so more at a time would only need more memory. Garbage collection waits
            # until the copy of the state is gone.
            async with _one_at_a_time():
                with _garbage_collection_paused():
                    return await _Reenactment(self, transcript, mocked, real_tools=real_tools, seed=seed).play()
        except TrialError as failure:
            error = transcript.error or failure.info
            return replace(transcript, world=None, error=error, stop_reason=StopReason.ERROR)


_latest_call: list["weakref.ref[OpenWorld]"] = []


def _latest() -> "OpenWorld | None":
    """The world of the latest call in this process. If it is one's own, no other trial can have changed the state."""
    return _latest_call[0]() if _latest_call else None


def _note_latest(world: "OpenWorld") -> None:
    _latest_call[:] = [weakref.ref(world)]


class OpenWorld:
    """The world of one trial: its own copy of the state. Calls are answered one after the other."""

    def __init__(self, world: PreparedWorld, *, trial_id: str, seed: int) -> None:
        self._world = world
        self._trial_id = trial_id
        self._seed = seed
        self._known = world.seed.value
        """The state after the last call; shares its unchanged parts with the seed."""
        self._parts: Mapping[str, bytes | None] = world.seed.parts
        self._state: dict[str, Any] | None = None
        self._objects: dict[type, Any] = {}
        self._repetitions = Counter[str]()
        self._one_at_a_time = asyncio.Lock()
        self.has_ended = False
        """A tool of `ends` was called, successfully."""

    @property
    def state(self) -> dict[str, Any]:
        """The state that the tools change. Copied from the seed at the first use."""
        if self._state is None:
            self._state = self._world.seed.copy()
        return self._state

    async def call(self, name: str, arguments: Any, *, turn: int = 0) -> ToolAnswer:
        """The tool's answer, and what the call changed. Raises TrialError if the tool has a bug or does not answer."""
        tool = self._world.tools.get(name)
        if tool is None:
            raise TrialError(ErrorKind.TOOL, f"the world has no tool {name!r}")
        arguments = {} if arguments is None else arguments
        try:
            given = tool.read_arguments(arguments)
        except ValueError as problem:
            return self._refused(str(problem))
        async with self._one_at_a_time:
            if self._state is not None and _latest() is not self:
                self._require_untouched()
            _note_latest(self)
            if tool.takes_ctx:
                given["ctx"] = self._context(tool, arguments, turn)
            try:
                result = await self._run(tool, given)
            except ToolError as refused:
                return replace(self._refused(str(refused)), changes=self._note_changes())
            answer = ToolAnswer(result=plain_value(result), changes=self._note_changes())
            self.has_ended = self.has_ended or name in self._world.ends
            return answer

    def record(self) -> Record:
        """The state now. Raises TrialError if it was changed outside of calls."""
        if self._state is not None:
            self._require_untouched()
        return Record(seed=self._world.seed.hash, changes=make_changes(self._world.seed.value, self._known))

    def _refused(self, error: str) -> ToolAnswer:
        template = self._world.errors
        if template is None:
            return ToolAnswer(error=error)
        return ToolAnswer(error=template.replace("{error}", error), is_plain=True)

    async def _run(self, tool: WorldTool, given: Mapping[str, Any]) -> Any:
        """What the tool returns. Raises ToolError if it does."""
        seconds = self._world.timeout_seconds
        try:
            function = tool.function
            if tool.owner is not None:
                if tool.owner not in self._objects:
                    self._objects[tool.owner] = await foreign.call(tool.owner, timeout=seconds)
                function = getattr(self._objects[tool.owner], tool.name)
            return await foreign.call(partial(function, self.state, **given), timeout=seconds)
        except foreign.ForeignError as error:
            if isinstance(error.raised, ToolError):
                raise error.raised from None
            raise TrialError(
                ErrorKind.TOOL,
                f"the world's tool {tool.name!r} raised {error}",
                hint="this is a bug in the world; an error that the agent should see is raised as seatrial.ToolError",
                traceback=error.traceback,
            ) from error.raised
        except TimeoutError:
            raise TrialError(
                ErrorKind.TOOL,
                f"the world's tool {tool.name!r} did not answer within {seconds:g} s",
                hint="let the tool answer sooner, or raise timeout_seconds",
            ) from None

    def _context(self, tool: WorldTool, arguments: Mapping[str, Any], turn: int) -> ToolContext:
        made = f"{tool.name}\0{json.dumps(plain_value(arguments), sort_keys=True)}"
        repetition = self._repetitions[made]
        self._repetitions[made] += 1
        return ToolContext(
            tool=tool.name,
            trial_id=self._trial_id,
            turn_index=turn,
            repetition=repetition,
            now=self._world.now,
            random=random.Random(f"{self._seed}\0{made}\0{repetition}"),
        )

    def _require_untouched(self) -> None:
        """Nothing but a call of this trial may change its state."""
        after = self._changed_state()[0]
        found = next(differences(self._known, after), None)
        if found is not None:
            raise TrialError(
                ErrorKind.TOOL,
                f"the world's state was changed while none of its tools ran: {show_location(found.location)}",
                hint="a tool must not keep the state: another trial or a thread changes it later",
            )

    def _note_changes(self) -> tuple[Change, ...]:
        """What has changed since the last call."""
        after, self._parts = self._changed_state()
        changes = make_changes(self._known, after)
        self._known = after
        return changes

    def _changed_state(self) -> tuple[dict[str, Any], Mapping[str, bytes | None]]:
        """The state as JSON values, and its encoded parts. Parts with equal bytes are those of the known state."""
        parts = {key: _try_pack(part) for key, part in self.state.items()}
        if parts == self._parts and None not in parts.values():
            return self._known, parts
        if not all(type(key) is str for key in parts):
            return plain_value(self.state), {}
        after = {
            key: self._known[key]
            if key in self._known and parts[key] is not None and parts[key] == self._parts.get(key)
            else _share_part(self._known.get(key), part, parts[key])
            for key, part in self.state.items()
        }
        return after, parts


def _try_pack(value: Any) -> bytes | None:
    """The encoded value; None if it cannot be encoded, such as an object of the user or a very large number."""
    try:
        return _pack(value)
    except Exception:  # of msgspec, or of the user's object
        return None


def _share_part(known: Any, value: Any, packed: bytes | None) -> Any:
    """The changed part as JSON, with the unchanged parts of the known one. `packed`: the encoded value.

    Comparing with `==` is quick, but takes 1, 1.0 and True for equal. Other bytes tell, so the slow way follows.
    """
    if packed is not None and type(known) is dict and type(value) is dict and all(type(key) is str for key in value):
        try:
            quick = {
                key: known[key] if key in known and known[key] == item else _share(known.get(key), item, 1)
                for key, item in value.items()
            }
        except Exception:  # the comparison of the user's object
            return _share(known, value, 0)
        if _try_pack(quick) == packed:
            return quick
    return _share(known, value, 0)


def _share(known: Any, value: Any, depth: int) -> Any:
    """The value as JSON, with the unchanged parts of the known value."""
    packed = _try_pack(value)
    if packed is not None and packed == _try_pack(known):
        return known
    if depth > _DEEPEST:
        return plain_value(value)
    if type(value) is dict and type(known) is dict and all(type(key) is str for key in value):
        return {
            key: _share(known[key], item, depth + 1) if key in known else plain_value(item)
            for key, item in value.items()
        }
    if type(value) is list and type(known) is list:
        shared = [_share(one, item, depth + 1) for one, item in zip(known, value, strict=False)]
        return shared + [plain_value(item) for item in value[len(known) :]]
    return plain_value(value)


_locks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()


def _one_at_a_time() -> asyncio.Lock:
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class _Reenactment:
    """Plays the calls of a recording."""

    def __init__(
        self, world: PreparedWorld, transcript: Transcript, mocked: Container[str], *, real_tools: bool, seed: int
    ) -> None:
        self._world = world
        self._transcript = transcript
        self._mocked = mocked
        self._real_tools = real_tools
        self._copy = world.open(seed=seed)
        self._drift = 0
        self._first: str | None = None

    async def play(self) -> Transcript:
        turns = []
        for turn in self._transcript.turns:
            calls = [await self._play_call(call, turn.index) for call in turn.tool_calls or ()]
            turns.append(replace(turn, tool_calls=tuple(calls)))
        self._note_other_seed()
        record = replace(self._copy.record(), drift=self._drift, first_drift=self._first)
        transcript = replace(self._transcript, turns=tuple(turns), world=record)
        if self._copy.has_ended and transcript.error is None:
            transcript = replace(transcript, stop_reason=StopReason.ENDED_BY_TOOL)
        if self._drift and self._world.drift == "error" and transcript.error is None:
            error = ErrorInfo(
                kind=ErrorKind.CONFIG,
                message=f"the world answers differently than recorded: {self._first}",
                hint="correct the seed or the tools, or allow it: drift: note",
            )
            transcript = replace(transcript, error=error, stop_reason=StopReason.ERROR)
        return transcript

    async def _play_call(self, call: ToolCall, turn: int) -> ToolCall:
        if call.name in self._mocked or call.real or (call.altered is not None and call.error is not None):
            return call  # an error that a sweep gave: the tool never ran
        if call.name not in self._world.tools:
            if call.error is None and not self._real_tools:
                raise TrialError(
                    ErrorKind.CONFIG,
                    f"the recording calls {call.name!r}, which the world does not have, so its effect is not known",
                    hint="add the tool to the world; or give it a mock if it has no effect on the state",
                )
            return call
        if call.arguments is None or _has_redactions([call]):
            what = "not recorded" if call.arguments is None else "redacted"
            raise TrialError(
                ErrorKind.CONFIG,
                f"the arguments of {call.name!r} were {what}, so the world cannot repeat the call",
                hint="record the arguments of all calls of the world's tools",
            )
        answer = await self._copy.call(call.name, call.arguments, turn=turn)
        difference = None if call.altered is not None else _find_drift(call, answer)
        if difference is not None:
            self._drift += 1
            self._first = self._first or f"turn {turn + 1}, {call.name}: {difference}"
        return replace(call, changes=answer.changes)

    def _note_other_seed(self) -> None:
        before = self._transcript.world
        if before is not None and before.seed != self._world.seed.hash:
            self._drift += 1
            self._first = self._first or "the seed of the world is not the one that the conversation was played with"


def _has_redactions(calls: Sequence[ToolCall]) -> bool:
    return any(REDACTED in json.dumps(call.arguments, default=str) for call in calls)


def _find_drift(call: ToolCall, answer: ToolAnswer) -> str | None:
    """How the world's answer differs from the recorded one; None if it does not, or if none was recorded."""
    if call.error is not None and answer.error is not None:
        return None
    recorded = call.result if call.error is None else call.error
    answered = answer.result if answer.error is None else answer.error
    if call.error is None and not call.result_known:
        return None
    if call.error is None or answer.error is None:
        found = next(differences(_parsed(recorded), _parsed(answered)), None)
        if found is None and (call.error is None or isinstance(recorded, str)):
            return None
        if found is not None:
            place = f"{show_location(found.location)} was " if found.location else "the result was "
            return f"{place}{_shown(found.before)}, and is {_shown(found.after)}"
    return f"the result was {_shown(recorded)}, and is {_shown(answered)}"


def _parsed(value: Any) -> Any:
    """The value; the value of a JSON text."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
