"""Play one conversation: turn by turn, with tool rounds, retries and time limits."""

import asyncio
import json
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import asdict, replace

from seatrial.clock import milliseconds
from seatrial.model.content import Attachment, RetrievedText, chat_content
from seatrial.model.conversation import (
    ErrorInfo,
    ErrorKind,
    Message,
    PlayedTurn,
    StopReason,
    ToolCall,
    Transcript,
    Usage,
    WorldRecord,
    total_usage,
)
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import (
    AgentSession,
    PreparedScenario,
    ToolAnswer,
    ToolBox,
    TrialStart,
    TrialUser,
    UserMove,
)
from seatrial.model.results import AgentFailure, ModelUse, TrialError, mock_timed_out, sum_model_use
from seatrial.model.scenario import decides

from .fork import call_messages, make_call, restore_call
from .schedule import RateLimit


class TurnRecord:
    """The evidence of one turn, including retries: the reply, tool calls, tokens and cost."""

    __slots__ = (
        *("_costs", "_usages", "attachments", "awaits", "contexts", "guardrail", "hides_calls"),
        *("is_answered", "listed", "recorded", "reply", "retries"),
    )

    def __init__(self, *, recorded: list[ToolCall]) -> None:
        self.recorded = recorded
        self.attachments: tuple[Attachment, ...] = ()
        self.contexts: tuple[RetrievedText, ...] | None = None
        self.reply: str | None = None
        self.is_answered = False
        """Whether the turn has its reply. Programs report usage with the reply, and 0 before."""
        self.listed: list[ToolCall] | None = None
        self.hides_calls = False
        """The agent made calls that are not recorded."""
        self.awaits: tuple[str, ...] = ()
        self.guardrail: str | None = None
        self._usages: list[Usage | None] = []
        self._costs: list[float | None] = []
        self.retries = 0

    def answer(self, reply: str | None) -> None:
        self.reply, self.is_answered = reply, True

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Add the usage and cost of one reply, if the agent reports them."""
        self._usages.append(usage)
        self._costs.append(cost_usd)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the turn."""
        found = self._usages[0] if len(self._usages) == 1 else total_usage(self._usages)
        says = self.is_answered or (found is not None and (found.input_tokens or found.output_tokens))
        return found if says else None

    @property
    def cost_usd(self) -> float | None:
        """The cost of the turn; None unless every reply reports one."""
        known = [cost for cost in self._costs if cost is not None]
        found = sum(known) if known and len(known) == len(self._costs) else None
        return found if self.is_answered or found else None

    @property
    def is_complete(self) -> bool:
        """Whether all calls are known: the agent lists its own calls and hides none."""
        return self.listed is not None and not self.hides_calls

    def outside_tools(self) -> Iterator[str]:
        """Tools that ran for real, or that only the agent lists: neither a mock nor the world answered them."""
        yield from (call.name for call in self.recorded if call.real)
        left = list(self.recorded)
        for call in self.listed or ():
            seen = next((each for each in left if _is_same(call, each)), None)
            if seen is None:
                yield call.name
            else:
                left.remove(seen)

    def evidence(self) -> tuple[ToolCall, ...] | None:
        """The calls that we recorded and those that the agent lists; None if there is neither."""
        if not self.recorded:
            return None if self.listed is None else tuple(self.listed)
        # Calls are recorded when they end, but concurrent calls count in the order of their start.
        seen = sorted(self.recorded, key=lambda call: call.started_ms or 0.0)
        return tuple(_merge(seen, self.listed or ()))


def _merge(seen: Sequence[ToolCall], listed: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Recorded calls in their order, with the calls that only the agent lists at their place between them."""
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


def _seen_reply(turn: PlayedTurn) -> str:
    """The reply as a user sees it: the text, and what is attached."""
    return "\n".join([turn.reply or "", *(f"[attached: {each.label}]" for each in turn.reply_attachments)])


def _is_same(listed: ToolCall, seen: ToolCall) -> bool:
    """Whether the agent lists a call that we recorded; it may list only the name."""
    return listed.name == seen.name and (listed.arguments is None or listed.arguments == seen.arguments)


MAX_TOOL_ROUNDS = 50
MAX_CALLS_AT_ONCE = 5_000
LONGEST_WAIT_SECONDS = 60.0
"""The longest wait that an agent may request before a retry."""

CLOCK_TOLERANCE_MS = 2.0
"""A timer of the event loop may fire this much too early by our own clock."""


class Conversation:
    """One conversation between a user and an agent: its messages, turns and calls so far."""

    def __init__(
        self,
        prepared: PreparedScenario,
        *,
        index: int,
        trial_id: str,
        seed: int,
        tools: ToolBox,
        rate_limit: RateLimit | None = None,
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
        self._attachments: tuple[Attachment, ...] = ()
        self._records: list[TurnRecord] = []
        """The record of each turn. The agent may add calls after its reply."""
        self._paced_ms = 0.0
        self._use: ModelUse | None = None

    def turn(self) -> int:
        return len(self._turns)

    def attachments(self) -> tuple[Attachment, ...]:
        """Images and files of the current user message."""
        return self._attachments

    def elapsed_ms(self) -> float:
        return milliseconds() - self._started

    @property
    def _awaits(self) -> tuple[str, ...]:
        """The calls for which the agent waits since its last reply."""
        return self._records[-1].awaits if self._records else ()

    def record(self, call: ToolCall) -> None:
        self._calls_seen = True
        self._calls.append(call)

    async def play(self) -> tuple[Transcript, ModelUse | None]:
        """The transcript, and the model use of the simulated user. Errors are in the transcript, not raised."""
        user = self._prepared.make_user(self._index, self._seed)
        session = self._prepared.agent.open(self._trial_start())
        try:
            stop_reason, error = await self._begin(user, session)
        finally:
            close_error = await _close(session)
        if error is None and close_error is not None:
            stop_reason, error = _stopped_by(close_error)
        world, world_error = self._record_world()
        if error is None and world_error is not None:
            stop_reason, error = _stopped_by(world_error)
        transcript = Transcript(
            turns=self._with_evidence(),
            stop_reason=stop_reason,
            history=self._prepared.history,
            state=plain_value(self._tools.state) if self._tools.state else None,
            world=world,
            error=error,
            duration_ms=self.elapsed_ms(),
            reachable_tools=self._reachable(getattr(session, "reachable_tools", ())),
        )
        return transcript, self._use

    def _record_world(self) -> tuple[WorldRecord | None, ErrorInfo | None]:
        """The world at the end, with the tools that ran outside of it."""
        try:
            world = self._tools.record_world()
        except TrialError as failure:
            return None, failure.info
        outside = sorted({name for record in self._records for name in record.outside_tools()})
        return None if world is None else replace(world, outside=tuple(outside)), None

    def _trial_start(self) -> TrialStart:
        """The start of the agent's session. It refers to this object, so it is not kept: a cycle outlives the trial."""
        return TrialStart(
            trial_id=self._trial_id,
            scenario=self._prepared.scenario.name,
            index=self._index,
            seed=self._seed,
            tools=self._tools,
            record=self.record,
            turn=self.turn,
            elapsed_ms=self.elapsed_ms,
            tool_schemas=self._prepared.tool_schemas,
            definition=self._prepared.scenario,
            timeout_seconds=self._prepared.timeout_seconds,
            decides=decides(self._prepared.scenario),
            attachments=self.attachments,
        )

    def _with_evidence(self) -> tuple[PlayedTurn, ...]:
        """The turns with all known calls, including those after a reply. If an agent used ctx.call_tool or a wrapped
        tool in one turn, turns without such a call have no calls."""
        if not self._calls_seen:
            return tuple(self._turns)
        stored = len(self._turns) - len(self._records)
        played = [
            replace(turn, tool_calls=() if calls is None and not record.hides_calls else calls)
            for turn, record in zip(self._turns[stored:], self._records, strict=True)
            for calls in [record.evidence()]
        ]
        return (*self._turns[:stored], *played)

    def _reachable(self, reaches: Collection[str] | None) -> tuple[str, ...]:
        """The scenario's tools that the agent can call through us; none if it made calls that are not recorded."""
        if reaches == () or any(record.hides_calls for record in self._records):
            return ()
        offered = [str(tool["name"]) for tool in self._tools.offered()]
        return tuple(name for name in offered if reaches is None or name in reaches)

    async def _begin(self, user: TrialUser, session: AgentSession) -> tuple[StopReason, ErrorInfo | None]:
        """Play the conversation. That of a fork starts with the stored one, in the middle of a turn."""
        fork = self._prepared.fork
        if fork is None:
            return await self._converse(user, session)
        skip = getattr(user, "skip", None)
        if skip is not None:
            skip(len(fork.turns) + (fork.open_turn is not None))
        shows_calls = not getattr(self._prepared.agent, "hides_calls", False)
        try:
            for turn in fork.turns:
                said: Message = {"role": "user", "content": chat_content(turn.user, turn.attachments)}
                self._messages.append(said)
                for call in turn.tool_calls or ():
                    await restore_call(self._tools, call, turn=turn.index)
                    self._messages += call_messages(call, len(self._messages)) if shows_calls else ()
                self._messages.append({"role": "assistant", "content": turn.reply or ""})
                self._turns.append(turn)
        except TrialError as failure:
            return _stopped_by(replace(failure.info, turn=len(self._turns)))
        again = fork.open_turn
        if again is None:
            return await self._converse(user, session)
        move = UserMove(message=again.user, attachments=again.attachments)
        turn = await self._play_turn(session, move, calls=again.tool_calls or (), next_call=fork.next_call)
        self._turns.append(turn)
        if turn.error is not None:
            return _stopped_by(turn.error)
        if self._tools.has_ended:
            return StopReason.ENDED_BY_TOOL, None
        return await self._converse(user, session)

    async def _converse(self, user: TrialUser, session: AgentSession) -> tuple[StopReason, ErrorInfo | None]:
        while True:
            # A script has its own end.
            if not self._prepared.scripted and len(self._turns) >= self._prepared.max_turns:
                return StopReason.MAX_TURNS, None
            try:
                # A script does not depend on the replies.
                move = await (user.next(()) if self._prepared.scripted else self._next_move(user))
                if self._awaits and move.decision is None:
                    raise _undecided(self._awaits)
            except TrialError as failure:
                return _stopped_by(replace(failure.info, turn=len(self._turns)))
            if move.goal_met:
                return StopReason.GOAL_MET, None
            if move.stop or move.message is None:
                return (StopReason.SCRIPT_ENDED if self._prepared.scripted else StopReason.USER_STOPPED), None
            turn = await self._play_turn(session, move)
            self._turns.append(turn)
            if turn.error is not None:
                return _stopped_by(turn.error)
            if self._tools.has_ended:
                return StopReason.ENDED_BY_TOOL, None

    async def _next_move(self, user: TrialUser) -> UserMove:
        visible = [(turn.user, _seen_reply(turn)) for turn in self._turns]
        attached = [each for turn in self._turns for each in turn.reply_attachments]
        see = getattr(user, "see", None)
        if attached and see is not None:
            see(attached)
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

    async def _play_turn(
        self,
        session: AgentSession,
        move: UserMove,
        *,
        calls: Sequence[ToolCall] = (),
        next_call: ToolCall | None = None,
    ) -> PlayedTurn:
        """Play a turn. `calls` of a forked turn have been made already. `next_call` is made after them."""
        message, self._attachments = move.message or "", move.attachments
        self._calls = []
        started, paced = self.elapsed_ms(), self._paced_ms
        said: Message = {"role": "user", "content": chat_content(message, move.attachments)}
        self._messages.append(said if move.decision is None else {**said, "decision": asdict(move.decision)})
        record = TurnRecord(recorded=self._calls)
        self._records.append(record)
        error: ErrorInfo | None = None
        try:
            for call in calls:
                await restore_call(self._tools, call, turn=len(self._turns))
                self._show_call(call)
            if next_call is not None:
                self._show_call(await make_call(self._tools, next_call, turn=len(self._turns)))
            said_before = len(self._messages)
            try:
                await self._ask(session, record)
            except AgentFailure as failure:
                await self._ask_again(session, record, failure, said_before)
        except TrialError as failure:
            error = replace(failure.info, turn=len(self._turns))
        return PlayedTurn(
            index=len(self._turns),
            user=message,
            reply=record.reply,
            tool_calls=record.evidence(),
            calls_complete=record.is_complete,
            started_ms=started,
            latency_ms=self.elapsed_ms() - started - (self._paced_ms - paced),
            usage=record.usage,
            cost_usd=record.cost_usd,
            retries=record.retries,
            guardrail=record.guardrail,
            error=error,
            attachments=move.attachments,
            reply_attachments=record.attachments,
            contexts=record.contexts,
        )

    def _show_call(self, call: ToolCall) -> None:
        """Record a call of a forked turn, before all new calls, and show it to the agent."""
        self.record(replace(call, started_ms=0.0))
        self._messages += call_messages(call, len(self._messages))

    async def _ask_again(
        self, session: AgentSession, record: TurnRecord, failure: AgentFailure, said_before: int
    ) -> None:
        """Retry after an agent error, as often as the scenario allows."""
        while not failure.final and record.retries < self._prepared.retries:
            wait = _wait_for(failure, trial_seconds_left=self._trial_seconds_left())
            record.retries += 1
            del self._messages[said_before:]
            await asyncio.sleep(wait)
            try:
                return await self._ask(session, record)
            except AgentFailure as another:
                failure = another
        raise failure

    async def _ask(self, session: AgentSession, record: TurnRecord) -> None:
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
            record.add(reply.usage, reply.cost_usd)
            if reply.hides_calls:
                record.hides_calls = True
            record.attachments += reply.attachments
            if reply.contexts is not None:
                record.contexts = (*(record.contexts or ()), *reply.contexts)
            if reply.tool_calls is not None:
                record.listed = [*(record.listed or ()), *reply.tool_calls]
            self._messages.extend(reply.messages or ({"role": "assistant", "content": reply.reply or ""},))
            record.awaits, record.guardrail = reply.awaits, reply.guardrail
            if reply.guardrail is not None and not self._expects_guardrail():
                raise _stopped_by_guardrail(reply.guardrail)
            if not reply.requested:
                record.answer(reply.reply)
                return
            if len(reply.requested) > MAX_CALLS_AT_ONCE:
                raise _too_many_calls(len(reply.requested))
            for call in reply.requested:
                # Let other trials run: mocks may answer without a pause.
                await asyncio.sleep(0)
                await self._answer(call, deadline)
        raise TrialError(
            ErrorKind.LIMIT,
            f"the agent asked for tools {MAX_TOOL_ROUNDS} times in one turn without replying",
            hint="look at its last calls: it may be in a loop",
        )

    def _expects_guardrail(self) -> bool:
        """Whether the scenario or this turn expects a guardrail to stop the agent."""
        scenario = self._prepared.scenario
        turn = scenario.turns[len(self._turns)] if len(self._turns) < len(scenario.turns) else None
        expectations = (scenario.expect, None if turn is None else turn.expect)
        return any(expect is not None and expect.guardrail is not None for expect in expectations)

    async def _wait_for_rate_limit(self, rate_limit: RateLimit) -> float:
        """The milliseconds of the wait, which do not count towards latency and timeouts."""
        waited = 1000 * await rate_limit.wait()
        self._paced_ms += waited
        return waited

    async def _answer(self, call: ToolCall, deadline: float) -> None:
        """Answer a requested call, record it, and add the answer to the messages."""
        started = self.elapsed_ms()
        try:
            async with asyncio.timeout(self._seconds_until(deadline)):
                answer = await self._tools.call(call.name, call.arguments, turn=len(self._turns))
        except TimeoutError:
            self._keep(call, started, ToolAnswer(error="no answer in time"))
            raise mock_timed_out(call.name) from None
        except TrialError as failure:
            self._keep(call, started, ToolAnswer(error=str(failure)))
            raise
        result = plain_value(answer.result)
        self._keep(call, started, replace(answer, result=result))
        error = answer.error if answer.is_plain else {"error": answer.error}
        content = result if answer.error is None else error
        text = content if isinstance(content, str) else json.dumps(content)
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def _keep(self, call: ToolCall, started: float, answer: ToolAnswer) -> None:
        self.record(
            replace(
                call,
                result=answer.result,
                error=answer.error,
                started_ms=started,
                duration_ms=self.elapsed_ms() - started,
                changes=answer.changes,
                altered=answer.altered,
            )
        )

    def _seconds_until(self, deadline: float) -> float:
        """The seconds left for the turn, or for the trial if that is less."""
        now = self.elapsed_ms()
        trial_left = self._trial_seconds_left(now)
        left = (deadline - now) / 1000
        if left <= 0:
            raise self._agent_overran()
        return min(left, trial_left)

    def _trial_seconds_left(self, now: float | None = None) -> float:
        elapsed = self.elapsed_ms() if now is None else now
        left = self._prepared.trial_timeout_seconds - (elapsed - self._paced_ms) / 1000
        if left <= CLOCK_TOLERANCE_MS / 1000:
            raise self._trial_overran()
        return left

    def _named_by_limit(self, failure: TrialError, deadline: float) -> TrialError:
        """The failure; a timeout names the configured limit, not the time that was left."""
        if failure.info.kind is not ErrorKind.LIMIT:
            return failure
        try:
            self._seconds_until(deadline - CLOCK_TOLERANCE_MS)
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
    """The wait that the agent requests. Raises the failure if it is too long."""
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


def _undecided(awaits: Sequence[str]) -> TrialError:
    names = ", ".join(sorted(set(awaits)))
    return TrialError(
        ErrorKind.CONFIG,
        f"the agent waits for a person to approve {names}",
        hint=f"add a turn {{approve: [{names}]}} or {{reject: [{names}]}}, or mock the tool in a scenario without such "
        "turns: mocked tools need no approval there",
    )


def _stopped_by_guardrail(name: str) -> AgentFailure:
    hint = f"if it should, write expect: {{guardrail: {name}}} in the turn"
    return AgentFailure(f"the guardrail {name!r} stopped the agent", hint=hint, final=True)


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
