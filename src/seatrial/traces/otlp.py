"""Conversations out of spans: what models were told and said, which tools ran, in the order of time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from seatrial.model.struct import Struct

from .otlp_messages import Piece, all_said, given_to, said_by
from .otlp_spans import Span, attribute, read_spans
from .otlp_tools import ToolRun, find_tool_runs
from .parsing import read_usage
from .recording import Recording
from .transcript_builder import Notes, Scribe


def read(documents: list[Any], notes: Notes) -> Iterator[Recording]:
    """One recording for each conversation: spans of the same `gen_ai.conversation.id`, `session.id`, or trace."""
    groups: dict[str, list[Span]] = {}
    family = Family(read_spans(documents))
    for span in family.spans:
        groups.setdefault(family.conversation(span), []).append(span)
    for name, spans in groups.items():
        found = _Conversation(spans, family, notes).read(name)
        if found is not None:
            yield found


class Family:
    """Who is whose child among spans."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._by_id = {(span.trace, span.id): span for span in spans}
        self._named: dict[str, set[str]] = {}
        for span in spans:
            if span.conversation is not None:
                self._named.setdefault(span.trace, set()).add(span.conversation)

    def ancestors(self, span: Span) -> Iterator[Span]:
        """The parent first; a broken file may have them in a circle."""
        seen = {span.id}
        while span.parent is not None and span.parent not in seen:
            seen.add(span.parent)
            above = self._by_id.get((span.trace, span.parent))
            if above is None:
                return
            yield above
            span = above

    def conversation(self, span: Span) -> str:
        """Its own word, else that of the next above who says one, else the only one of the trace, else the trace."""
        for each in (span, *self.ancestors(span)):
            if each.conversation is not None:
                return each.conversation
        named = self._named.get(span.trace, set())
        return next(iter(named)) if len(named) == 1 else span.trace

    def is_inside_tool(self, span: Span) -> bool:
        """Whether it is part of what a tool did: an agent behind a tool speaks to the tool, not to the user."""
        return any(above.is_tool for above in self.ancestors(span))

    def outermost_agent(self, span: Span) -> Span | None:
        return next((above for above in reversed(list(self.ancestors(span))) if above.is_agent), None)

    def is_top(self, span: Span) -> bool:
        return next(self.ancestors(span), None) is None


class _Moment(Struct, frozen=True, kw_only=True):
    """Something to dictate, and when it was."""

    time: float
    rank: int
    """Of those at the same time: what was given, then what was done, then what was said, then the end."""
    piece: Piece | None = None
    tool: ToolRun | None = None
    span: Span | None = None
    at: float | None = None


class _Conversation:
    """The spans of one conversation on their way to the scribe."""

    def __init__(self, spans: Sequence[Span], family: Family, notes: Notes) -> None:
        self._spans = spans
        self._family = family
        self._notes = notes
        self._scribe = Scribe(notes)
        self._heard: list[Piece] = []
        self._moments: list[_Moment] = []

    def read(self, name: str) -> Recording | None:
        blind = self._hear()
        calls = [moment.piece for moment in self._moments if moment.piece and moment.piece.kind == "call"]
        runs, beside = find_tool_runs(self._spans, self._family, calls)
        for run in beside:
            self._moments.append(_Moment(time=run.start, rank=1, tool=run))
        answered = {piece.call_id for piece in self._heard if piece.kind == "answer"}
        for moment in sorted(self._moments, key=lambda moment: (moment.time, moment.rank)):
            if moment.tool is not None:
                self._run(moment.tool)
            elif moment.piece is not None:
                self._dictate(moment.piece, runs.get(id(moment.piece)), moment.at, answered)
            elif moment.span is not None:
                self._close(moment.span)
                if moment.span.trace in blind and not beside:
                    self._scribe.hide_calls()
        return self._scribe.finish(name, recorded=[span.raw for span in self._spans])

    def _hear(self) -> set[str]:
        """Put on the line of time what models were told and said. Gives the traces that have no model's words."""
        begun: set[str] = set()
        for span in self._spans:
            if not span.is_model or self._family.is_inside_tool(span):
                continue
            given, said = given_to(span, self._notes), said_by(span, self._notes)
            if given or said:
                self._add(span, given, said, first=span.trace not in begun)
                begun.add(span.trace)
        blind: set[str] = set()
        for span in self._spans:
            if span.trace not in begun and span.trace not in blind and not span.is_tool:
                pieces = all_said(span, self._notes)
                if pieces:
                    blind |= set() if any(piece.kind == "call" for piece in pieces) else {span.trace}
                    begun |= set() if span.trace in blind else {span.trace}
                    self._add_whole(span, pieces)
        for span in self._spans:
            if span.is_model or self._family.is_top(span):
                self._moments.append(_Moment(time=span.end, rank=3, span=span))
        return blind

    def _add(self, span: Span, given: list[Piece], said: list[Piece], *, first: bool) -> None:
        fresh = _not_heard(self._heard, given, first=first)
        latest = max((place for place, piece in enumerate(fresh) if piece.kind == "user"), default=0)
        agent = self._family.outermost_agent(span)
        began = agent.start if first and agent is not None else span.start
        for place, piece in enumerate(fresh):
            at = None if place < latest else began if piece.kind == "user" else span.start
            self._moments.append(_Moment(time=span.start, rank=0, piece=piece, at=at))
        self._moments += [_Moment(time=span.end, rank=2, piece=piece, at=span.end) for piece in said]
        self._heard += [*fresh, *said]

    def _add_whole(self, span: Span, pieces: list[Piece]) -> None:
        """All that an agent was given and said, on one span: what came from the user stands at its beginning."""
        fresh = _not_heard(self._heard, pieces, first=True)
        for piece in fresh:
            is_given = piece.kind in ("user", "system")
            at = span.start if is_given else span.end
            self._moments.append(_Moment(time=span.start if is_given else span.end, rank=2, piece=piece, at=at))
        self._heard += fresh

    def _dictate(self, piece: Piece, run: ToolRun | None, at: float | None, answered: set[str | None]) -> None:
        match piece.kind:
            case "system":
                self._scribe.system(piece.text)
            case "user":
                self._scribe.user(piece.text, at=at)
            case "say":
                self._scribe.say(piece.text, at=at)
            case "call":
                began = at if run is None else run.start
                self._scribe.call(piece.name, piece.value, call_id=piece.call_id, at=began)
                if run is not None and (run.error is not None or piece.call_id not in answered):
                    self._scribe.answer(piece.call_id, run.result, error=run.error, name=piece.name, at=run.end)
            case "answer":
                self._scribe.answer_if_open(piece.call_id, piece.value, name=piece.name, at=at)

    def _run(self, run: ToolRun) -> None:
        self._scribe.call(run.name, run.arguments, call_id=run.call_id, at=run.start)
        if run.error is not None or run.result is not None:
            self._scribe.answer(run.call_id, run.result, error=run.error, name=run.name, at=run.end)

    def _close(self, span: Span) -> None:
        if span.is_model:
            self._scribe.use(_usage(span), cost_usd=_cost(span))
        if not self._family.is_top(span):
            return
        self._scribe.touch(span.end)
        if span.failure is not None and not span.is_tool:
            self._scribe.fail(span.failure, at=span.end)


def _not_heard(heard: Sequence[Piece], given: Sequence[Piece], *, first: bool) -> list[Piece]:
    """Of what a model was given, that which is new.

    Mostly it is given all that was said before, and more. Where it is not, the last words of the user are new at the
    beginning of a trace; and whatever else was heard before, in the same order, is not new.
    """
    before = [piece.identity for piece in heard if piece.kind != "system"]
    told = [piece for piece in given if piece.kind != "system"]
    system = [piece for piece in given if piece.kind == "system" and piece not in heard]
    if [piece.identity for piece in told[: len(before)]] == before:
        return [*system, *told[len(before) :]]
    users = [place for place, piece in enumerate(told) if piece.kind == "user"]
    turn = users[-1] if first and users else len(told)
    return [*system, *([] if first else _unmatched(before, told)), *told[turn:]]


def _unmatched(before: Sequence[tuple[str, str, str]], told: Iterable[Piece]) -> Iterator[Piece]:
    place = 0
    for piece in told:
        if piece.identity in before[place:]:
            place = before.index(piece.identity, place) + 1
        else:
            yield piece


def _usage(span: Span) -> Any:
    names = {
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    }
    return read_usage({key: attribute(span, *aliases) for key, aliases in names.items()})


def _cost(span: Span) -> float | None:
    cost = attribute(span, "llm.cost.total")
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None
