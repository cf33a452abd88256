"""Where async agents run: an event loop of their own, in a daemon thread, apart from the runner's.

An agent that blocks its loop must neither outlive its own timeout nor make others time out. So the time that *other*
agents held the loop is taken off an agent's clock. When an agent whose time is over still holds the loop, the loop
cannot be saved: it is left behind, and the trials that shared it are told to begin again on a fresh one (PlayAgain).
"""

import asyncio

from seatrial.by_hand import Outcome
from seatrial.vocabulary.failures import PlayAgain

from .stage import GRACE_SECONDS, Call, Make, Stage

_WATCH_SECONDS = 0.02
"""How late a timeout may be noticed."""


class AgentLoop:
    """Runs coroutines of agents for the runner's loop."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._watching = False
        self.abandoned = 0

    async def call(self, make: Make, *, timeout: float) -> Outcome:
        """What the coroutine returned or raised. Raises TimeoutError, or PlayAgain when another blocked the loop."""
        hall = asyncio.get_running_loop()
        if self._stage is None:
            self._stage = Stage(hall)
        stage = self._stage
        call = Call(hall.create_future(), timeout)
        stage.submit(call, make)
        if not self._watching:
            self._watching = True
            hall.call_later(_WATCH_SECONDS, self._watch, hall)
        try:
            return await call.future
        except BaseException:
            stage.cancel(call)
            raise

    def _watch(self, hall: asyncio.AbstractEventLoop) -> None:
        """End the calls whose time is over. One timer for all: a timer for each would cost more than a quick call."""
        stage = self._stage
        if stage is not None:
            stage.deliver()
            now = hall.time()
            for call in [call for call in stage.calls if call.due <= now]:
                self._check_deadline(stage, call, now)
        self._watching = self._stage is not None and bool(self._stage.calls)
        if self._watching:
            hall.call_later(_WATCH_SECONDS, self._watch, hall)

    def _check_deadline(self, stage: Stage, call: Call, now: float) -> None:
        if call.future.done():
            return
        if stage.is_stuck():
            self._leave_behind(stage)
            return
        remaining = call.timeout - stage.time_on(call)
        if remaining > 0.001:
            call.due = now + remaining
            return
        call.future.set_exception(TimeoutError())
        call.future.get_loop().call_later(GRACE_SECONDS, self._check_answering, stage, call)

    def _check_answering(self, stage: Stage, call: Call) -> None:
        """A call that was cancelled but is still there shows that the loop does not come round."""
        if stage is not self._stage or call not in stage.calls:
            return
        holder = stage.holder
        if holder is None or holder.future.done():
            self._leave_behind(stage)
        else:
            # Somebody else holds it, within the time that is his.
            call.future.get_loop().call_later(GRACE_SECONDS, self._check_answering, stage, call)

    def _leave_behind(self, stage: Stage) -> None:
        self.abandoned += 1
        if stage is self._stage:
            self._stage = None
        stage.stop()
        for call in list(stage.calls):
            if not call.future.done():
                call.future.set_exception(
                    PlayAgain("another agent blocked the event loop that this trial shared with it")
                )

    def close(self) -> None:
        if self._stage is not None:
            self._stage.stop()
            self._stage = None
