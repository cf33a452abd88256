"""Lines of a suite that would catch mutants that survived: proposed by operator, then applied and verified.

A line is kept only if it fails the mutant and passes every original. Nothing is proposed that forbids another right
path: no exact order, no exact list of calls, no limit on calls that change nothing.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.errors import UsageError
from seatrial.evaluators.end_state import EndState
from seatrial.evaluators.invariants import Invariant
from seatrial.evaluators.said import Said
from seatrial.evaluators.tool_calls import ToolArgs, ToolCalls
from seatrial.model.conversation import REDACTED, ToolCall, Transcript
from seatrial.model.mutation import Line, Suggestion
from seatrial.model.protocols import Evaluator, TrialContext
from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct
from seatrial.model.transcript_events import decoded
from seatrial.model.world_view import WorldView

from .mutant import Mutant, RunFacts, calls_in

_ROUNDS = 3
"""How often other lines are tried for mutants whose line does not pass all originals."""
_MOST_WORDS = 6


class Survivor(Struct, frozen=True, kw_only=True):
    """A mutant that no check noticed."""

    key: ScenarioKey
    trial: int
    """Index of the original."""
    mutant: Mutant
    original: Transcript


Original = tuple[ScenarioKey, Transcript]
Originals = Callable[[], Iterable[Original]]
FindWorld = Callable[[ScenarioKey, Transcript], Awaitable[WorldView | None]]
"""The world at the end of a transcript; None if the scenario has none."""


async def suggest(
    survivors: Sequence[Survivor], originals: Originals, facts: RunFacts, *, find_world: FindWorld
) -> list[Suggestion]:
    """Verified lines that catch as many of the survivors as possible, those that catch most first."""
    found: list[Suggestion] = []
    for suite in dict.fromkeys(each.key.suite for each in survivors):
        mine = [each for each in survivors if each.key.suite == suite]
        found += await _Search(suite, mine, originals, facts, find_world).run()
    return found


class _Search:
    """The search for the lines of one suite."""

    def __init__(
        self,
        suite: str,
        survivors: Sequence[Survivor],
        originals: Originals,
        facts: RunFacts,
        find_world: FindWorld,
    ) -> None:
        self._suite = suite
        self._find_world = find_world
        self._survivors = survivors
        self._originals = originals
        self._facts = facts
        self._refused: set[str] = set()
        self._kept: dict[str, tuple[Line, Evaluator]] = {}
        self._caught: dict[int, list[str]] = {}
        """By the place of a survivor, the lines that catch it."""

    async def run(self) -> list[Suggestion]:
        for _ in range(_ROUNDS):
            await self._propose()
            if not await self._refuse_what_fails_originals():
                break
        return self._fewest()

    async def _propose(self) -> None:
        for place, survivor in enumerate(self._survivors):
            if self._caught.get(place):
                continue
            for line in _lines_for(survivor, self._facts):
                if line.id not in self._refused and line.id not in self._kept and await self._catches(line, survivor):
                    break

    async def _catches(self, line: Line, survivor: Survivor) -> bool:
        """Whether the line catches the mutant and passes its original; then it is kept."""
        evaluator = _evaluator(line)
        if evaluator is None or not await self._passes(evaluator, survivor.key, survivor.original):
            self._refused.add(line.id)
            return False
        if not await self._fails(evaluator, survivor):
            return False
        self._kept[line.id] = (line, evaluator)
        for place, each in enumerate(self._survivors):
            if _concerns(line, each.key) and await self._fails(evaluator, each):
                self._caught.setdefault(place, []).append(line.id)
        return True

    async def _refuse_what_fails_originals(self) -> bool:
        """Apply the lines to all originals. Whether one had to be refused."""
        refused: set[str] = set()
        for key, transcript in self._originals():
            if key.suite != self._suite:
                continue
            for line, evaluator in self._kept.values():
                if line.id in refused or not _concerns(line, key):
                    continue
                if not await self._passes(evaluator, key, transcript):
                    refused.add(line.id)
        for name in refused:
            del self._kept[name]
        self._caught = {place: [one for one in ids if one not in refused] for place, ids in self._caught.items()}
        self._refused |= refused
        return bool(refused)

    async def _passes(self, evaluator: Evaluator, key: ScenarioKey, transcript: Transcript) -> bool:
        return (await evaluator.evaluate(await self._context(evaluator, key, transcript))).passed

    async def _fails(self, evaluator: Evaluator, survivor: Survivor) -> bool:
        context = await self._context(evaluator, survivor.key, survivor.mutant.transcript)
        result = await evaluator.evaluate(context)
        return not result.passed and result.error is None

    async def _context(self, evaluator: Evaluator, key: ScenarioKey, transcript: Transcript) -> TrialContext:
        world = await self._find_world(key, transcript) if isinstance(evaluator, EndState) else None
        return TrialContext(transcript=transcript, world=world)

    def _fewest(self) -> list[Suggestion]:
        """The lines that catch most first, without those that add nothing."""
        by_line: dict[str, set[int]] = {name: set() for name in self._kept}
        for place, names in self._caught.items():
            for name in names:
                by_line[name].add(place)
        open_places = set().union(*by_line.values()) if by_line else set()
        chosen: list[Suggestion] = []
        while open_places:
            best = max(by_line, key=lambda name: len(by_line[name] & open_places))
            chosen.append(self._suggestion(best, sorted(by_line[best])))
            open_places -= by_line.pop(best)
        return chosen

    def _suggestion(self, name: str, places: Sequence[int]) -> Suggestion:
        caught = [self._survivors[place] for place in places]
        return Suggestion(
            suite=self._suite,
            line=self._kept[name][0],
            operators=tuple(dict.fromkeys(each.mutant.operator for each in caught)),
            catches=tuple(f"{each.key.label}, trial-{each.trial + 1}: {each.mutant.what}" for each in caught),
        )


def _concerns(line: Line, key: ScenarioKey) -> bool:
    return line.scenario is None or line.scenario == key.name


def _evaluator(line: Line) -> Evaluator | None:
    """The check that the line makes; None if the line would be refused."""
    try:
        match line.key:
            case "invariants":
                return Invariant(**line.value)
            case "tool_calls_include":
                return ToolCalls(must_include=[line.value])
            case "tool_calls_exclude":
                return ToolCalls(must_exclude=[line.value])
            case "tool_calls_args":
                return ToolArgs(**line.value)
            case "end_state":
                return EndState(**line.value)
            case "said_contains_all":
                return Said(contains_all=[line.value])
            case _:
                return Said(excludes=[line.value])
    except UsageError:
        return None


def _lines_for(survivor: Survivor, facts: RunFacts) -> Iterator[Line]:
    """Lines that might catch the mutant, the most general first."""
    name = survivor.key.name
    proposals = _PROPOSALS.get(survivor.mutant.operator, _no_proposals)(survivor, facts)
    for scope, key, value in (*_right_end_state(survivor, facts), *proposals):
        if REDACTED not in repr(value):
            yield Line(scenario=None if scope == "suite" else name, key=key, value=value)


_Proposal = tuple[str, str, Any]
"""suite or scenario, the key, the value."""


def _no_proposals(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    return iter(())


def _rule(**keys: Any) -> tuple[_Proposal, _Proposal]:
    """An invariant, for the suite and else for the scenario."""
    return ("suite", "invariants", keys), ("scenario", "invariants", keys)


def _user_said(survivor: Survivor, turn: int) -> dict[str, Any]:
    return {"user": {"$contains": survivor.original.turns[turn].user}}


def _right_end_state(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    """The state after the calls that changed the world: another right path leads to it too."""
    if survivor.key in facts.without_end_state:
        writes = [{call.name: dict(call.args or {})} for _, call in calls_in(survivor.original) if call.changes]
        yield "scenario", "end_state", {"as_after": writes}


def _needed_call(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    """The call must be made: before what changes something, in its turn, or at all."""
    call = survivor.mutant.call
    if call is None:
        return
    yield from _before_writes(survivor, call.name, facts)
    yield "scenario", "tool_calls_include", call.name
    if facts.scripted:
        said = _user_said(survivor, survivor.mutant.turn)
        yield "scenario", "invariants", {"after": said, "always": call.name, "within_turns": 0}


def _before_writes(survivor: Survivor, name: str, facts: RunFacts) -> Iterator[_Proposal]:
    if facts.changes_state(name):
        return
    for (at, _), call in calls_in(survivor.original):
        if at >= survivor.mutant.turn and call.name != name and facts.changes_state(call.name):
            yield from _rule(never=call.name, before=name)
            yield from _rule(never=call.name, before=name, within_turns=0)


def _once(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    assert survivor.mutant.call is not None
    yield from _rule(at_most=1, of=survivor.mutant.call.name, per=["*"])
    yield "scenario", "invariants", {"at_most": 1, "of": survivor.mutant.call.name}


def _right_order(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    later, first = survivor.mutant.call, survivor.mutant.added
    assert later is not None
    yield from _rule(never=later.name, before=first)
    yield from _rule(never=later.name, before=first, within_turns=0)


def _right_argument(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    call, name = survivor.mutant.call, survivor.mutant.lost
    assert call is not None
    assert call.args is not None
    assert name is not None
    value = call.args[name]
    for tool, path in _sources(survivor.original, call, value):
        yield from _rule(every=call.name, where={name: {"$from": f"{tool}.{path}"}})
    yield "scenario", "tool_calls_args", {"tool": call.name, "args": dict(call.args), "calls": "all"}
    yield "scenario", "tool_calls_args", {"tool": call.name, "args": {name: value}, "calls": "all"}
    yield "scenario", "tool_calls_args", {"tool": call.name, "args": dict(call.args)}
    yield from _rule(every=call.name, where={name: {"$type": _type_of(value)}})


def _type_of(value: Any) -> str:
    kinds = ((bool, "boolean"), (str, "string"), (int | float, "number"), (Mapping, "object"), (list | tuple, "array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")


def _sources(transcript: Transcript, call: ToolCall, value: Any) -> Iterator[tuple[str, str]]:
    """Earlier results that contain the value under a key of their own."""
    for _, earlier in calls_in(transcript):
        if earlier is call:
            return
        result = decoded(earlier.result)
        if earlier.name == call.name or not isinstance(result, Mapping) or not _PLAIN_KEY.fullmatch(earlier.name):
            continue
        for key, item in result.items():
            if item == value and type(item) is type(value) and _PLAIN_KEY.fullmatch(str(key)):
                yield earlier.name, str(key)
            elif isinstance(item, list | tuple) and value in item and _PLAIN_KEY.fullmatch(str(key)):
                yield earlier.name, f"{key}[]"


def _right_tool(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    yield from _needed_call(survivor, facts)
    yield "scenario", "tool_calls_exclude", survivor.mutant.added


_CONFIRMS = r"(?i)\b(yes|yep|yeah|ok|okay|sure|confirm\w*|go ahead|please do|correct)\b"


def _not_early(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    call = survivor.mutant.call
    assert call is not None
    last = len(survivor.original.turns) - 1
    if facts.changes_state(call.name):
        yield from _rule(never=call.name, before={"user": {"$regex": _CONFIRMS}})
    if facts.scripted:
        said = _user_said(survivor, last)
        if facts.changes_state(call.name):
            yield "scenario", "invariants", {"never": call.name, "before": said}
        yield "scenario", "invariants", {"after": said, "always": call.name}


def _checked_first(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    write = survivor.mutant.call
    assert write is not None
    for name in (survivor.mutant.lost or "").split(", "):
        yield from _rule(never=write.name, before=name)


_ADMITS = r"(?i)sorry|could not|couldn't|cannot|can't|unable|fail|error|problem|unfortunately|try again|unavailable"


def _admits_failure(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    """The agent tells the user, or tries again and succeeds."""
    call = survivor.mutant.call
    assert call is not None
    told = {"says": {"$regex": _ADMITS}}
    again = {"call": call.name, "ok": True}
    any_success = {"call": "*", "ok": True}
    failed = {"call": "*", "ok": False}
    yield from _rule(name="failures are told", after=failed, always=[told, any_success], within_turns=0)
    yield from _rule(after={"call": call.name, "ok": False}, always=[told, again], within_turns=0)
    yield from _rule(after={"call": call.name, "ok": False}, always=told, within_turns=0)


_DESTROYS = ["delete_*", "remove_*", "drop_*", "wipe_*", "purge_*"]


def _forbidden_tool(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    tool = survivor.mutant.added
    unused = [name for name in facts.known_tools if name not in facts.used_tools and facts.changes_state(name)]
    if tool in unused:
        yield from _rule(never=unused if len(unused) > 1 else tool)
    elif tool not in facts.known_tools:
        yield from _rule(name="nothing is destroyed", never=_DESTROYS)
    yield from _rule(never=tool)


_WORDS = re.compile(r"\w[\w:./-]*\w|\w")


def _words(survivor: Survivor) -> list[str]:
    """Facts in the lost text: words with digits (references, times, amounts), then words of tool results.

    Other words are left out: another right reply may be worded differently.
    """
    words = list(dict.fromkeys(_WORDS.findall(survivor.mutant.lost or "")))
    marked = [word for word in words if any(sign.isdigit() for sign in word) and len(word) > 1]
    results = repr([call.result for _, call in calls_in(survivor.original)]).lower()
    told = [word for word in words if word not in marked and len(word) > 3 and word.lower() in results]
    return [*marked, *told][:_MOST_WORDS]


def _said_text(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    """A word of the lost text must be said: anywhere, or in its turn."""
    yield from _said(survivor, _words(survivor), facts)


def _said(survivor: Survivor, texts: Sequence[str], facts: RunFacts) -> Iterator[_Proposal]:
    for text in texts:
        yield "scenario", "said_contains_all", text
    if facts.scripted:
        said = _user_said(survivor, survivor.mutant.turn)
        for text in texts:
            rule = {"after": said, "always": {"says": {"$contains": text}}, "within_turns": 0}
            yield "scenario", "invariants", rule


def _not_said(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    yield "scenario", "said_excludes", survivor.mutant.added


_PROMISES = ("guarantee", "voucher", "promise", "compensation")


def _no_promises(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    yield from _rule(name="no promises", never={"says": {"$regex": f"(?i){'|'.join(_PROMISES)}"}})
    for word in _PROMISES:
        if word in (survivor.mutant.added or "").lower():
            yield from _rule(never={"says": {"$regex": f"(?i){word}"}})


def _not_stopped(survivor: Survivor, facts: RunFacts) -> Iterator[_Proposal]:
    call = survivor.mutant.call
    if call is not None:
        yield "scenario", "tool_calls_include", call.name
    for word in _words(survivor):
        yield "scenario", "said_contains_all", word


_PROPOSALS: Mapping[str, Callable[[Survivor, RunFacts], Iterator[_Proposal]]] = {
    "drop": _needed_call,
    "duplicate": _once,
    "reorder": _right_order,
    "argument": _right_argument,
    "wrong tool": _right_tool,
    "act early": _not_early,
    "skip the check": _checked_first,
    "ignore the error": _admits_failure,
    "destructive extra": _forbidden_tool,
    "empty reply": _said_text,
    "cut reply": _said_text,
    "foreign reply": _said_text,
    "invented promise": _no_promises,
    "leaked value": _not_said,
    "negated reply": _not_said,
    "stop early": _not_stopped,
}
