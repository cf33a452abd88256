"""Not more calls to the agent than so many in a minute."""

import asyncio


class Pace:
    """Spaces calls evenly; shared by all trials of a run."""

    def __init__(self, per_minute: float) -> None:
        self._gap = 60.0 / per_minute
        self._next = 0.0

    def reserve(self, now: float) -> float:
        """Seconds from now until the next free place, which is taken with this call."""
        mine = max(now, self._next)
        self._next = mine + self._gap
        return mine - now

    async def wait(self) -> float:
        """Return when it is this caller's turn; the seconds that it waited."""
        seconds = self.reserve(asyncio.get_running_loop().time())
        if seconds > 0:
            await asyncio.sleep(seconds)
        return seconds
