"""Not more calls to the agent than so many in a minute."""

import asyncio


class Pace:
    """Spaces calls evenly; shared by all trials of a run."""

    def __init__(self, per_minute: float) -> None:
        self._gap = 60.0 / per_minute
        self._next = 0.0

    async def wait(self) -> None:
        """Return when it is this caller's turn."""
        now = asyncio.get_running_loop().time()
        mine = max(now, self._next)
        self._next = mine + self._gap
        if mine > now:
            await asyncio.sleep(mine - now)
