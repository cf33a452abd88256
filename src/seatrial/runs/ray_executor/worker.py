"""What runs on a node of the cluster: trials, as they would be played on one machine."""

import asyncio
import os
import platform
import sys
from collections.abc import Sequence

from seatrial.engine.executors import GRACE_SECONDS, LocalExecutor
from seatrial.engine.rate_limit import RateLimit
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import Job
from seatrial.engine.trial import TrialSettings
from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.runs.redacted_user import discreet
from seatrial.runs.run_plan import RunPlan
from seatrial.store.codec import encode
from seatrial.version import __version__

from .job_spec import Order, read_order

WorkerJob = tuple[int, int, str]
"""A scenario's position, the index of the trial, and the fingerprint that the scenario must have."""

_GATHER_SECONDS = 0.01
"""How long a finished trial waits for others to be sent with it."""
_KEPT = 20_000
"""So many prepared scenarios stay at hand; a shuffled run asks for any of the next 10,000."""


class Worker:
    """Plays the trials it is given, all at once; whoever gives them sees to it that they are not too many."""

    def prepare(self, order: bytes, version: str, workers: int) -> None:
        """Make the plan of the run anew. Raises UsageError where it would not be the same.

        `workers`: how many share what the run may ask of the agent in a minute.
        """
        try:
            self._prepare(read_order(order, os.environ), version, workers)
        except UsageError as problem:
            # Of some errors Ray could not make a copy.
            raise UsageError(f"ray worker on {platform.node()}: {problem}") from None

    def _prepare(self, order: Order, version: str, workers: int) -> None:
        if version != __version__:
            raise UsageError(
                f"has seatrial {__version__}, and the run was started with {version}. Install the same on every node"
            )
        try:
            os.chdir(order.folder)
        except OSError as missing:
            raise UsageError(
                f"cannot enter {order.folder!r}: {missing.strerror}. The project must be at this place on every node: "
                "share the folder, or hand it to Ray: ray job submit --working-dir . -- seatrial run …"
            ) from None
        os.environ.update(order.request.environ)
        sys.path[:] = [*order.imports, *(place for place in sys.path if place not in order.imports)]
        plan = self._plan = RunPlan(order.request)
        self._scenarios = _Scenarios(plan)
        self._redaction = Redaction(plan.secrets())
        self._executor = LocalExecutor(
            TrialSettings(
                run_id=order.run_id,
                seed=order.seed,
                rate_limit=RateLimit(plan.config.rpm / workers) if plan.config.rpm else None,
                redact=self._redaction.transcript,
            )
        )
        self._playing: set[asyncio.Task[bytes]] = set()

    async def exchange(self, jobs: Sequence[WorkerJob]) -> list[bytes]:
        """Begin these trials as well, and give back what is finished, as soon as something is."""
        for position, index, fingerprint in jobs:
            prepared = self._scenarios.at(position)
            if prepared is None or prepared.entry.fingerprint != fingerprint:
                raise UsageError(
                    f"ray worker on {platform.node()}: scenario {position + 1} of the run is not the same as on the "
                    "driver. Its files, evaluators or mocks must be the same on every node"
                )
            self._playing.add(asyncio.create_task(self._play(discreet(prepared, self._redaction), index)))
        done, self._playing = await asyncio.wait(self._playing, return_when=asyncio.FIRST_COMPLETED)
        if self._playing:
            more, self._playing = await asyncio.wait(self._playing, timeout=_GATHER_SECONDS)
            done |= more
        return [task.result() for task in done]

    async def _play(self, prepared: PreparedScenario, index: int) -> bytes:
        return encode(await self._executor.play(Job(prepared=prepared, index=index)))

    async def close(self) -> None:
        """End what is still being played, and close the agents."""
        for task in self._playing:
            task.cancel()
        if self._playing:
            await asyncio.wait(self._playing, timeout=GRACE_SECONDS)
        await self._plan.agents.close()
        await self._plan.models.close()


class _Scenarios:
    """The scenarios of a plan by position. A large suite is read on as far as somebody asks, and not held whole."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._coming = plan.scenarios()
        self._last = -1
        self._kept: dict[int, PreparedScenario] = {}

    def at(self, position: int) -> PreparedScenario | None:
        if position not in self._kept:
            if position <= self._last:
                self._coming = self._plan.scenarios()
            self._read_up_to(position)
        return self._kept.get(position)

    def _read_up_to(self, position: int) -> None:
        for prepared in self._coming:
            self._last = prepared.entry.position
            self._kept[self._last] = prepared
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            if self._last >= position:
                return
