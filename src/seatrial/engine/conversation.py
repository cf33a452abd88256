"""What one turn brings in: the reply, the evidence of tool calls, tokens and cost, retries included."""

import asyncio
import json
from collections.abc import Awaitable, Collection, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.clock import milliseconds
from seatrial.model.conversation import (
    ErrorInfo,
    ErrorKind,
    Message,
    PlayedTurn,
    StopReason,
    ToolCall,
    Transcript,
    Usage,
    total_usage,
)
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentSession, PreparedScenario, ToolBox, TrialStart, TrialUser, UserMove
from seatrial.model.results import AgentFailure, ModelUse, TrialError, mock_timed_out, sum_model_use

from .schedule import RateLimit


class Exchange:
    """What one turn brings in, retries included."""

    __slots__ = ("_costs", "_usages", "hides_calls", "is_answered", "listed", "recorded", "reply", "retries")

    def __init__(self, *, recorded: list[ToolCall]) -> None:
        self.recorded = recorded
        self.reply: str | None = None
        self.is_answered = False
        """Whether the turn came to its reply, with which programs tell what all of it took; until then they say 0."""
        self.listed: list[ToolCall] | None = None
        self.hides_calls = False
        """It is known, or said, that there are calls that nobody told us of."""
        self._usages: list[Usage | None] = []
        self._costs: list[float | None] = []
        self.retries = 0

    def answer(self, reply: str | None) -> None:
        self.reply, self.is_answered = reply, True

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """What one reply took, as far as the agent says."""
        self._usages.append(usage)
        self._costs.append(cost_usd)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the turn, as far as every reply says."""
        found = self._usages[0] if len(self._usages) == 1 else total_usage(self._usages)
        says = self.is_answered or (found is not None and (found.input_tokens or found.output_tokens))
        return found if says else None

    @property
    def cost_usd(self) -> float | None:
        """What the turn cost; None unless every reply says."""
        known = [cost for cost in self._costs if cost is not None]
        found = sum(known) if known and len(known) == len(self._costs) else None
        return found if self.is_answered or found else None

    @property
    def is_complete(self) -> bool:
        """Whether these are all calls: the agent lists those that it makes by itself, and does not hide any."""
        return self.listed is not None and not self.hides_calls

    def evidence(self) -> tuple[ToolCall, ...] | None:
        """The calls we saw and those that the agent lists beside; None when there is neither sight nor list."""
        if not self.recorded:
            return None if self.listed is None else tuple(self.listed)
        # They were recorded as they ended; calls that were made side by side count in the order they were made.
        seen = sorted(self.recorded, key=lambda call: call.started_ms or 0.0)
        return tuple(_merge(seen, self.listed or ()))


def _merge(seen: Sequence[ToolCall], listed: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Calls that we saw in the order we saw them, and each that only the agent knows of at its place among them."""
    places = set(range(len(seen)))
    beside: dict[int, list[ToolCall]] = {}
    after = -1
    for call in listed:
        place = next((p for p in sorted(places) if _is_same(call, seen[p])), None)
        if place is None:
            beside.setdefault(after, []).append(call)
        else:
            places.discard(place)
            after = place
    yield from beside.get(-1, ())
    for place, call in enumerate(seen):
        yield call
        yield from beside.get(place, ())


def _is_same(listed: ToolCall, seen: ToolCall) -> bool:
    """Whether the agent tells of a call that we saw; it may tell no more than the name."""
    return listed.name == seen.name and (listed.arguments is None or listed.arguments == seen.arguments)


MAX_TOOL_ROUNDS = 50
MAX_CALLS_AT_ONCE = 5_000
LONGEST_WAIT_SECONDS = 60.0
"""An agent that asks for more before it is asked again is not waited for."""

CLOCKS_APART_MS = 2.0
"""A timer of the event loop may go off so much before our own clock says that the time is up."""


Played = tuple[Transcript, ModelUse | None]
"""A conversation, and what the simulated user took."""


def play(
    prepared: PreparedScenario,
    *,
    index: int,
    trial_id: str,
    seed: int,
    tools: ToolBox,
    rate_limit: RateLimit | None = None,
) -> Awaitable[Played]:
    """Play one conversation to its end. What goes wrong on the way is in the transcript, not raised."""
    return _Conversation(prepared, index=index, trial_id=trial_id, seed=seed, tools=tools, rate_limit=rate_limit).play()


class _Conversation:
    """What is under way: the messages so far, the turns played, the calls seen."""

    def __init__(
        self,
        prepared: PreparedScenario,
        *,
        index: int,
        trial_id: str,
        seed: int,
        tools: ToolBox,
        rate_limit: RateLimit | None,
    ) -> None:
        self._prepared = prepared
        self._index = index
        self._trial_id = trial_id
        self._seed = seed
        self._tools = tools
        self._rate_limit = rate_limit
        self._started = milliseconds()
        self._messages: list[Message] = list(prepared.history)
        self._turns: list[PlayedTurn] = []
        self._calls: list[ToolCall] = []
        self._calls_seen = False
        self._exchanges: list[Exchange] = []
        """What each turn brought in; what the agent calls after its reply comes in late."""
        self._paced_ms = 0.0
        self._use: ModelUse | None = None

    def turn(self) -> int:
        return len(self._turns)

    def elapsed_ms(self) -> float:
        return milliseconds() - self._started

    def record(self, call: ToolCall) -> None:
        self._calls_seen = True
        self._calls.append(call)

    async def play(self) -> Played:
        user = self._prepared.make_user(self._index, self._seed)
        session = self._prepared.agent.open(self._trial_start())
        try:
            stop_reason, error = await self._converse(user, session)
        finally:
            close_error = await _close(session)
        if error is None and close_error is not None:
            stop_reason, error = _stopped_by(close_error)
        transcript = Transcript(
            turns=self._with_evidence(),
            stop_reason=stop_reason,
            history=self._prepared.history,
            state=plain_value(self._tools.state) if self._tools.state else None,
            error=error,
            duration_ms=self.elapsed_ms(),
            reachable_tools=self._reachable(getattr(session, "reachable_tools", ())),
        )
        return transcript, self._use

    def _trial_start(self) -> TrialStart:
        """What the agent's session is told. Nobody keeps it here: it refers to us, and a circle outlives the trial."""
        return TrialStart(
            trial_id=self._trial_id,
            scenario=self._prepared.entry.key.name,
            index=self._index,
            seed=self._seed,
            tools=self._tools,
            record=self.record,
            turn=self.turn,
            elapsed_ms=self.elapsed_ms,
            tool_schemas=self._prepared.tool_schemas,
            definition=self._prepared.scenario,
            timeout_seconds=self._prepared.timeout_seconds,
        )

    def _with_evidence(self) -> tuple[PlayedTurn, ...]:
        """The turns with the calls that are known of, those that the agent made after its reply included. Of an agent
        that used ctx.call_tool or a wrapped tool in some turn, it is known that it used none in the others."""
        if not self._calls_seen:
            return tuple(self._turns)
        return tuple(
            replace(turn, tool_calls=() if calls is None and not exchange.hides_calls else calls)
            for turn, exchange in zip(self._turns, self._exchanges, strict=True)
            for calls in [exchange.evidence()]
        )

    def _reachable(self, reaches: Collection[str] | None) -> tuple[str, ...]:
        """The scenario's tools that the agent can call through us; none where it made calls that nobody saw."""
        if reaches == () or any(exchange.hides_calls for exchange in self._exchanges):
            return ()
        offered = [str(tool["name"]) for tool in self._tools.offered()]
        return tuple(name for name in offered if reaches is None or name in reaches)

    async def _converse(self, user: TrialUser, session: AgentSession) -> tuple[StopReason, ErrorInfo | None]:
        while True:
            # A script has an end of its own.
            if not self._prepared.scripted and len(self._turns) >= self._prepared.max_turns:
                return StopReason.MAX_TURNS, None
            try:
                # A script goes on whatever was said; only others need hear it.
                move = await (user.next(()) if self._prepared.scripted else self._next_move(user))
            except TrialError as failure:
                return _stopped_by(replace(failure.info, turn=len(self._turns)))
            if move.goal_met:
                return StopReason.GOAL_MET, None
            if move.stop or move.message is None:
                return (StopReason.SCRIPT_ENDED if self._prepared.scripted else StopReason.USER_STOPPED), None
            turn = await self._play_turn(session, move.message)
            self._turns.append(turn)
            if turn.error is not None:
                return _stopped_by(turn.error)

    async def _next_move(self, user: TrialUser) -> UserMove:
        visible = [(turn.user, turn.reply or "") for turn in self._turns]
        try:
            async with asyncio.timeout(self._trial_seconds_left()):
                move = await user.next(visible)
        except TimeoutError:
            raise self._trial_overran() from None
        except TrialError as failure:
            self._count(failure.use)
            raise
        self._count(move.use)
        return move

    def _count(self, use: ModelUse | None) -> None:
        if use is not None:
            self._use = use if self._use is None else sum_model_use((self._use, use))

    async def _play_turn(self, session: AgentSession, message: str) -> PlayedTurn:
        self._calls = []
        started, paced = self.elapsed_ms(), self._paced_ms
        said_before = len(self._messages) + 1
        self._messages.append({"role": "user", "content": message})
        exchange = Exchange(recorded=self._calls)
        self._exchanges.append(exchange)
        error: ErrorInfo | None = None
        try:
            try:
                await self._exchange(session, exchange)
            except AgentFailure as failure:
                await self._ask_again(session, exchange, failure, said_before)
        except TrialError as failure:
            error = replace(failure.info, turn=len(self._turns))
        return PlayedTurn(
            index=len(self._turns),
            user=message,
            reply=exchange.reply,
            tool_calls=exchange.evidence(),
            calls_complete=exchange.is_complete,
            started_ms=started,
            latency_ms=self.elapsed_ms() - started - (self._paced_ms - paced),
            usage=exchange.usage,
            cost_usd=exchange.cost_usd,
            retries=exchange.retries,
            error=error,
        )

    async def _ask_again(
        self, session: AgentSession, exchange: Exchange, failure: AgentFailure, said_before: int
    ) -> None:
        """Get a reply after an error of the agent's own, as often as the scenario allows."""
        while not failure.final and exchange.retries < self._prepared.retries:
            wait = _wait_for(failure, trial_seconds_left=self._trial_seconds_left())
            exchange.retries += 1
            del self._messages[said_before:]
            await asyncio.sleep(wait)
            try:
                return await self._exchange(session, exchange)
            except AgentFailure as another:
                failure = another
        raise failure

    async def _exchange(self, session: AgentSession, exchange: Exchange) -> None:
        deadline = self.elapsed_ms() + self._prepared.timeout_seconds * 1000
        for _ in range(MAX_TOOL_ROUNDS + 1):
            if self._rate_limit is not None:
                deadline += await self._wait_for_rate_limit(self._rate_limit)
            try:
                reply = await session.respond(self._messages, timeout=self._seconds_until(deadline))
            except TrialError as failure:
                raise self._named_by_limit(failure, deadline) from None
            deadline += reply.waited_ms
            self._paced_ms += reply.waited_ms
            exchange.add(reply.usage, reply.cost_usd)
            if reply.hides_calls:
                exchange.hides_calls = True
            if reply.tool_calls is not None:
                exchange.listed = [*(exchange.listed or ()), *reply.tool_calls]
            self._messages.extend(reply.messages or ({"role": "assistant", "content": reply.reply or ""},))
            if not reply.requested:
                exchange.answer(reply.reply)
                return
            if len(reply.requested) > MAX_CALLS_AT_ONCE:
                raise _too_many_calls(len(reply.requested))
            for call in reply.requested:
                # Mocks may answer without a pause. The clocks of all trials stand still while the loop is held.
                await asyncio.sleep(0)
                await self._answer(call, deadline)
        raise TrialError(
            ErrorKind.LIMIT,
            f"the agent asked for tools {MAX_TOOL_ROUNDS} times in one turn without replying",
            hint="look at its last calls: it may be in a loop",
        )

    async def _wait_for_rate_limit(self, rate_limit: RateLimit) -> float:
        """Milliseconds that we made the agent wait: they count neither as its latency nor as its time."""
        waited = 1000 * await rate_limit.wait()
        self._paced_ms += waited
        return waited

    async def _answer(self, call: ToolCall, deadline: float) -> None:
        """Answer a requested call from the mocks, keep it, and tell the agent."""
        started = self.elapsed_ms()
        try:
            async with asyncio.timeout(self._seconds_until(deadline)):
                answer = await self._tools.call(call.name, call.arguments, turn=len(self._turns))
        except TimeoutError:
            self._keep(call, started, error="no answer in time")
            raise mock_timed_out(call.name) from None
        except TrialError as failure:
            self._keep(call, started, error=str(failure))
            raise
        result = plain_value(answer.result)
        self._keep(call, started, result=result, error=answer.error)
        content = {"error": answer.error} if answer.error is not None else result
        text = content if isinstance(content, str) else json.dumps(content)
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def _keep(self, call: ToolCall, started: float, *, result: Any = None, error: str | None = None) -> None:
        self.record(ToolCall(call.name, call.arguments, result, error, call.id, started, self.elapsed_ms() - started))

    def _seconds_until(self, deadline: float) -> float:
        """What is left for the agent's turn; the trial's own end may come first."""
        now = self.elapsed_ms()
        trial_left = self._trial_seconds_left(now)
        left = (deadline - now) / 1000
        if left <= 0:
            raise self._agent_overran()
        return min(left, trial_left)

    def _trial_seconds_left(self, now: float | None = None) -> float:
        elapsed = self.elapsed_ms() if now is None else now
        left = self._prepared.trial_timeout_seconds - (elapsed - self._paced_ms) / 1000
        if left <= CLOCKS_APART_MS / 1000:
            raise self._trial_overran()
        return left

    def _named_by_limit(self, failure: TrialError, deadline: float) -> TrialError:
        """The same failure; where time was up, with the limit that was set instead of what was left of it."""
        if failure.info.kind is not ErrorKind.LIMIT:
            return failure
        try:
            self._seconds_until(deadline - CLOCKS_APART_MS)
        except TrialError as overrun:
            return overrun
        return failure

    def _agent_overran(self) -> TrialError:
        return TrialError(
            ErrorKind.LIMIT,
            f"the agent did not answer within {self._prepared.timeout_seconds:g} s, its tool rounds included",
            hint="raise timeout_seconds (default_timeout in suite.config) if it needs longer",
        )

    def _trial_overran(self) -> TrialError:
        return TrialError(
            ErrorKind.LIMIT,
            f"the trial took longer than {self._prepared.trial_timeout_seconds:g} s",
            hint="raise trial_timeout_seconds, or lower max_turns",
        )


def _wait_for(failure: AgentFailure, *, trial_seconds_left: float) -> float:
    """How long the agent asks us to wait. Raises the failure where that is longer than we wait."""
    wait = failure.retry_after or 0.0
    if wait <= min(LONGEST_WAIT_SECONDS, trial_seconds_left):
        return wait
    has_time = trial_seconds_left > LONGEST_WAIT_SECONDS
    why = (
        f"{LONGEST_WAIT_SECONDS:g} s is the longest wait"
        if has_time
        else f"the trial has {trial_seconds_left:.0f} s left"
    )
    message = f"{failure.info.message}; it asks to wait {wait:g} s, and {why}"
    raise AgentFailure(message, hint=failure.info.hint, traceback=failure.info.traceback, final=True) from None


def _too_many_calls(count: int) -> TrialError:
    return TrialError(
        ErrorKind.LIMIT,
        f"the agent asked for {count:,} tool calls at once; {MAX_CALLS_AT_ONCE:,} are answered at most",
        hint="look at the calls: the agent or its model may repeat itself",
    )


def _stopped_by(error: ErrorInfo) -> tuple[StopReason, ErrorInfo]:
    return (StopReason.LIMIT if error.kind is ErrorKind.LIMIT else StopReason.ERROR), error


async def _close(session: AgentSession) -> ErrorInfo | None:
    try:
        await session.close()
    except TrialError as failure:
        return replace(failure.info, message=f"closing the agent failed: {failure.info.message}")
    return None
