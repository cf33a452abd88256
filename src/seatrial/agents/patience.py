"""Time limits for agents that do not count while the runner's loop is held up.

An evaluator or a hook that blocks holds the loop, and every answer that comes in meanwhile waits to be heard. That is
no fault of the agent. So while somebody waits for an agent a tick goes round, and by how late it comes it is known how
long the loop was held.
"""

import asyncio
from time import monotonic
from types import TracebackType
from weakref import WeakKeyDictionary

from seatrial.vocabulary.roles import AgentReply
from seatrial.vocabulary.value import altered

_TICK_SECONDS = 0.02
"""What goes by in less is the work of the runner itself."""


class _HeldLoop:
    """Knows how long one event loop was held, as far as somebody was waiting."""

    def __init__(self) -> None:
        self._waiting = 0
        self._due = 0.0
        self._held = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """So far; what is just over counts, whether the tick has come round yet or not."""
        late = monotonic() - self._due
        return self._held + (late if self._timer is not None and late > _TICK_SECONDS else 0.0)

    def begin(self) -> None:
        self._waiting += 1
        if self._timer is None:
            self._tick_again()

    def end(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._timer is not None:
            self._held = self.seconds
            self._timer.cancel()
            self._timer = None

    def _tick_again(self) -> None:
        self._due = monotonic() + _TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._held = self.seconds
        self._tick_again()


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _HeldLoop] = WeakKeyDictionary()


class Patience:
    """As `asyncio.timeout`; and for as long as the loop was held meanwhile, longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limit = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._held = _LOOPS.setdefault(self._loop, _HeldLoop())
        self._before = self._forgiven = 0.0

    async def __aenter__(self) -> "Patience":
        self._held.begin()
        self._before = self._forgiven = self._held.seconds
        await self._limit.__aenter__()
        self._timer = self._loop.call_later(self._seconds, self._check)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._held.end()
        await self._limit.__aexit__(kind, error, traceback)

    def excuse(self, reply: AgentReply) -> AgentReply:
        """The reply, with the time that the loop was held taken off the agent's clock."""
        held = self._held.seconds - self._before
        return altered(reply, waited_ms=reply.waited_ms + 1000 * held) if held else reply

    def _check(self) -> None:
        held = self._held.seconds
        if held > self._forgiven:
            self._timer = self._loop.call_later(held - self._forgiven, self._check)
            self._forgiven = held
        else:
            self._limit.reschedule(self._loop.time())
