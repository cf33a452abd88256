"""Limit agent calls per minute."""

import asyncio


class RateLimit:
    """Spaces calls evenly; shared by all trials of a run."""

    def __init__(self, per_minute: float) -> None:
        self._gap = 60.0 / per_minute
        self._next = 0.0

    def reserve(self, now: float) -> float:
        """Seconds until the next call may be made. The call counts as made."""
        mine = max(now, self._next)
        self._next = mine + self._gap
        return mine - now

    async def wait(self) -> float:
        """Wait until the next call may be made; the seconds that took."""
        seconds = self.reserve(asyncio.get_running_loop().time())
        if seconds > 0:
            await asyncio.sleep(seconds)
        return seconds
