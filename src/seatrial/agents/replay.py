"""Agents of type `replay`: recorded conversations, played again turn by turn. Nothing is run."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, Message, PlayedTurn
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import TrialError, error_from
from seatrial.traces.formats import read_trace
from seatrial.traces.transcript_builder import MessagePaths, RecordedConversation, script_of, words_of

from .chat_messages import latest_user_text

_SHOWN = 200


@dataclass(kw_only=True, eq=False)
class ReplayAgent:
    """Recorded conversations of one or several files. The fields are the keys of the settings."""

    answers_own_tools: bool = field(default=True, init=False)
    keeps_conversation: bool = field(default=True, init=False)
    takes_attachments: bool = field(default=True, init=False)
    replays: bool = field(default=True, init=False)
    """Its calls were made before: a world runs them again to produce the end state."""

    path: str | Sequence[str]
    format: str | None = None
    """The format, if it cannot be recognised."""
    messages: str | None = None
    """JMESPath of the messages, for JSON of any other form."""
    conversation_name: str | None = None
    """JMESPath of the conversations' names, with `messages`."""
    name: str = "replay"

    def __post_init__(self) -> None:
        paths = [self.path] if isinstance(self.path, str) else self.path
        if not paths or not isinstance(paths, Sequence) or not all(isinstance(each, str) and each for each in paths):
            raise UsageError(f"agent {self.name!r}.path: expected a file or a list of files, got {self.path!r}")
        if self.conversation_name is not None and self.messages is None:
            raise UsageError(f"agent {self.name!r}.conversation_name: is used with messages, the path of the messages")
        found = None if self.messages is None else MessagePaths(messages=self.messages, name=self.conversation_name)
        try:
            traces = [read_trace(path, format=self.format, paths=found) for path in dict.fromkeys(paths)]
            self._recordings = [one for trace in traces for one in trace.recordings]
        except UsageError as wrong:
            raise UsageError(f"agent {self.name!r}: {wrong}") from None
        self._by_script: dict[tuple[str, ...], list[RecordedConversation]] = {}
        self._by_beginning: dict[tuple[str, ...], list[RecordedConversation]] = {}
        for one in self._recordings:
            self._by_script.setdefault(words_of(one.users), []).append(one)
            self._by_beginning.setdefault(words_of(one.users[:1]), []).append(one)

    def open(self, start: TrialStart) -> AgentSession:
        return _Replay(start, self)

    async def close(self) -> None:
        """The files are closed already."""

    def find(self, start: TrialStart, said: str) -> RecordedConversation:
        """The recording of a trial: the one with the scenario's script. Each further trial gets the next one."""
        script = None if start.definition is None else script_of(start.definition)
        fitting = [] if script is None else self._by_script.get(words_of(script), [])
        # A user without a script, or with another script, is recognised by the first message.
        fitting = fitting or self._by_beginning.get(words_of([said]), [])
        named = [each for each in fitting if each.name == start.scenario] or fitting
        if not named:
            raise self._not_recorded(start, said)
        if start.index >= len(named):
            raise TrialError(
                ErrorKind.CONFIG,
                f"{start.scenario!r} has {_counted(len(named))}, and none for trial {start.index + 1}",
                hint="a recording is played once, since playing it again shows nothing new; lower --trials",
            )
        return named[start.index]

    def _not_recorded(self, start: TrialStart, said: str) -> TrialError:
        named = [each for each in self._recordings if each.name == start.scenario and each.users]
        if named:
            return _differs(said, named[0].users[0], named[0])
        return TrialError(
            ErrorKind.CONFIG,
            f"nothing is recorded for {start.scenario!r}: no recording begins with {_short(said)!r}",
            hint=f"recorded are: {', '.join(repr(each.name) for each in self._recordings[:10])}",
        )


class _Replay:
    """One trial of a recording."""

    def __init__(self, start: TrialStart, agent: ReplayAgent) -> None:
        self._start = start
        self._agent = agent
        self._recording: RecordedConversation | None = None

    @property
    def reachable_tools(self) -> tuple[str, ...]:
        return () if self._recording is None else self._recording.transcript.reachable_tools

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        said = latest_user_text(messages)
        if self._recording is None:
            self._recording = self._agent.find(self._start, said)
            self._require_times(self._recording)
        turn = self._turn(self._recording, said)
        if turn.error is not None:
            raise self._failure(turn)
        return AgentReply(
            reply=turn.reply,
            tool_calls=turn.tool_calls,
            hides_calls=not turn.calls_complete,
            usage=turn.usage,
            cost_usd=turn.cost_usd,
            attachments=turn.reply_attachments,
            contexts=turn.contexts,
            # The recorded time counts as the agent's time.
            waited_ms=-turn.latency_ms,
        )

    async def close(self) -> None:
        """Nothing is open."""

    def _turn(self, recording: RecordedConversation, said: str) -> PlayedTurn:
        place = self._start.turn()
        turns = recording.transcript.turns
        if place >= len(turns):
            raise TrialError(
                ErrorKind.CONFIG,
                f"the recording {recording.name!r} ends after {_counted(len(turns), 'turn')}, "
                f"but the user says {_short(said)!r}",
                hint="record the conversation again, or end the script where the recording ends",
            )
        if words_of([said]) != words_of([turns[place].user]):
            raise _differs(said, turns[place].user, recording)
        return turns[place]

    def _failure(self, turn: PlayedTurn) -> TrialError:
        for call in turn.tool_calls or ():
            self._start.record(call)
        assert turn.error is not None
        return error_from(turn.error, final=True)

    def _require_times(self, recording: RecordedConversation) -> None:
        """Refuse a latency limit for a recording without times: it would always be met."""
        limits = None if self._start.definition is None else self._start.definition.limits
        if limits is not None and limits.latency_ms is not None and not recording.timed:
            raise TrialError(
                ErrorKind.CONFIG,
                f"limits.latency_ms cannot be checked: the recording {recording.name!r} has no times",
                hint="leave the limit out for recordings, or record spans (OTLP), which have times",
            )


def _differs(said: str, recorded: str, recording: RecordedConversation) -> TrialError:
    return TrialError(
        ErrorKind.CONFIG,
        f"the user says {_short(said)!r}, but in the recording {recording.name!r} the user says {_short(recorded)!r}",
        hint="a recording answers only what it was asked; use the words that were recorded, or run the agent itself",
    )


def _counted(number: int, noun: str = "recording") -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
