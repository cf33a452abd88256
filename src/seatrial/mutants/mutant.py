"""A mutant, and what operators know about the run that it comes from."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import field
from msgspec.structs import replace

from seatrial.model.conversation import PlayedTurn, ToolCall, Transcript
from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct

_READS = (
    *("get", "list", "search", "lookup", "look", "find", "check", "verify", "read", "fetch", "query", "show", "view"),
    *(
        "calculate",
        "compute",
        "describe",
        "count",
        "validate",
        "authenticate",
        "think",
        "is",
        "has",
        "browse",
        "identify",
    ),
)
"""First words of tools that change nothing, if no world says which tools do."""
_WORD = re.compile(r"[A-Za-z][a-z]*")
_MOST_VALUES = 20
"""Values kept for each argument name, so that memory does not grow with the run."""
_MOST_REPLIES = 200


class Mutant(Struct, frozen=True, kw_only=True):
    """A transcript with one known defect."""

    what: str
    """What was done, in a sentence."""
    transcript: Transcript
    turn: int = 0
    """Index of the turn that was changed."""
    operator: str = ""
    """Set by the registry."""
    call: ToolCall | None = None
    """The call that was changed."""
    added: str | None = None
    """The tool or the text that was added."""
    lost: str | None = None
    """The text that was lost."""


class RunFacts(Struct, frozen=True, kw_only=True):
    """What the passed trials of the run contain."""

    used_tools: tuple[str, ...] = ()
    """Tools that a passed trial calls."""
    known_tools: tuple[str, ...] = ()
    """All tools that are known: called, mocked, offered."""
    writes: frozenset[str] = frozenset()
    """Tools that changed a world."""
    has_world: bool = False
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of arguments, by the argument's name."""
    replies: Mapping[str, str] = field(default_factory=dict)
    """One last reply for each scenario."""
    scenario: str = ""
    """The scenario whose transcript is changed."""
    without_end_state: frozenset[ScenarioKey] = frozenset()
    """Scenarios with a world whose end state is not checked."""
    scripted: bool = True
    """The user follows a script, so the agent cannot end the conversation early."""

    def changes_state(self, tool: str) -> bool:
        """Whether the tool changes something: known from a world, else guessed from the first word of its name."""
        if self.has_world:
            return tool in self.writes
        words = _WORD.findall(tool)
        return not words or words[0].lower() not in _READS


def collect_facts(transcripts: Iterable[tuple[str, Transcript]], known_tools: Iterable[str]) -> RunFacts:
    """The facts of transcripts, each with the name of its scenario."""
    used: dict[str, None] = {}
    writes: set[str] = set()
    values: dict[str, list[Any]] = {}
    replies: dict[str, str] = {}
    has_world = False
    for scenario, transcript in transcripts:
        has_world = has_world or transcript.world is not None
        if transcript.reply and len(replies) < _MOST_REPLIES:
            replies.setdefault(scenario, transcript.reply)
        for call in transcript.seen_calls:
            used[call.name] = None
            if call.changes:
                writes.add(call.name)
            for name, value in (call.args or {}).items():
                known = values.setdefault(name, [])
                if len(known) < _MOST_VALUES and value not in known:
                    known.append(value)
    return RunFacts(
        used_tools=tuple(used),
        known_tools=tuple(dict.fromkeys((*used, *known_tools))),
        writes=frozenset(writes),
        has_world=has_world,
        values={name: tuple(found) for name, found in values.items()},
        replies=replies,
    )


Place = tuple[int, int]
"""Position of a turn, and of a call in it."""


def calls_in(transcript: Transcript) -> Iterator[tuple[Place, ToolCall]]:
    """The known calls, with their places."""
    for at, turn in enumerate(transcript.turns):
        for position, call in enumerate(turn.tool_calls or ()):
            yield (at, position), call


def with_calls(transcript: Transcript, at: int, calls: Iterable[ToolCall]) -> Transcript:
    """The transcript with other calls in one turn."""
    return with_turn(transcript, at, replace(transcript.turns[at], tool_calls=tuple(calls)))


def with_reply(transcript: Transcript, at: int, reply: str) -> Transcript:
    """The transcript with another reply in one turn."""
    return with_turn(transcript, at, replace(transcript.turns[at], reply=reply))


def with_turn(transcript: Transcript, at: int, turn: PlayedTurn) -> Transcript:
    turns = transcript.turns
    return replace(transcript, turns=(*turns[:at], turn, *turns[at + 1 :]))
