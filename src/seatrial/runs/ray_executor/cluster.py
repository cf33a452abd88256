"""The one file that knows Ray: a connection to a cluster, and workers on it."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from seatrial.errors import MissingExtra, SeatrialError, UsageError
from seatrial.version import __version__

from .worker import Worker, WorkerJob

LOCAL = "local"
"""Ray's own word for a cluster that is started here and ends with this process."""
_STORE_BYTES = 256 * 1024 * 1024
"""What a cluster of our own sets aside for large results; by default Ray takes a third of the memory."""
_ANSWER_SECONDS = 5.0
_FAREWELL_SECONDS = 5.0
"""How long workers may take to end their trials and close their agents."""


def require_ray(address: str | None) -> None:
    """Raises MissingExtra without Ray, and UsageError where nobody answers: Ray itself would try for long."""
    if find_spec("ray") is None:
        raise MissingExtra("ray", needed_for="--executor ray")
    host, colon, port = (address or LOCAL).rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as refused:
        raise UsageError(
            f"--ray-address {address}: nobody answers there: {refused.strerror or refused}. Is the cluster running? "
            "On its machine: ray status"
        ) from None


class WorkerLost(SeatrialError):
    """A worker, or the node it was on, is gone; whatever it held must be played again."""


class Cluster:
    """Where workers can be had."""

    def __init__(self, ray: Any, *, cpus: int, ours: bool) -> None:
        self._ray = ray
        self._ours = ours
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self.cpus = cpus

    @classmethod
    async def connect(cls, address: str | None) -> "Cluster":
        """Raises UsageError where no cluster answers, and MissingExtra without Ray."""
        # In a thread: it takes seconds, and in the main thread Ray would take SIGTERM for itself.
        return await asyncio.to_thread(cls._connect, address or LOCAL)

    @classmethod
    def _connect(cls, address: str) -> "Cluster":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray warns of a change to come in what workers without a GPU see; this is what will be.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        ours = not ray.is_initialized()
        if ours:
            logging.getLogger("ray").setLevel(logging.ERROR)
            own = {"include_dashboard": False, "object_store_memory": _STORE_BYTES} if address == LOCAL else {}
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
            except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as failed:
                said = str(failed).strip().partition("\n")[0]
                raise UsageError(
                    f"--ray-address {address}: could not join the Ray cluster: {said}. Is it of the same version, and "
                    "does it ask for a token? Then set RAY_AUTH_MODE=token"
                ) from failed
        return cls(ray, cpus=int(ray.cluster_resources().get("CPU", 0)), ours=ours)

    def hire(self) -> "Hired":
        """A worker, once there is a free CPU for it."""
        return Hired(self._ray, self._actor.remote())

    async def leave(self) -> None:
        if self._ours:
            await asyncio.to_thread(self._ray.shutdown)


class Hired:
    """A worker as the driver sees it. Its methods raise WorkerLost, or what went wrong on its side."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._is_ready = False

    async def prepare(self, order: bytes, *, workers: int) -> None:
        with _explained():
            await self._actor.prepare.remote(order, __version__, workers)
        self._is_ready = True

    async def exchange(self, jobs: Sequence[WorkerJob]) -> list[bytes]:
        with _explained():
            done: list[bytes] = await self._actor.exchange.remote(list(jobs))
        return done

    async def dismiss(self) -> None:
        """Let it close its agents, if it still can, and end it."""
        try:
            if self._is_ready:
                with contextlib.suppress(WorkerLost, TimeoutError), _explained():
                    await asyncio.wait_for(self._actor.close.remote(), _FAREWELL_SECONDS)
        finally:
            self._ray.kill(self._actor)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Ray's exceptions as ours."""
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        yield
    except RayTaskError as raised:
        cause = raised.cause
        if isinstance(cause, SeatrialError):
            raise type(cause)(str(cause)) from None
        raise SeatrialError(f"a ray worker broke down; please report it:\n{raised}") from raised
    except RayActorError as lost:
        if lost.actor_init_failed:
            raise SeatrialError(f"a ray worker could not be started. Is seatrial on every node?\n{lost}") from lost
        raise WorkerLost(str(lost)) from lost
    except RayError as lost:
        raise WorkerLost(f"{type(lost).__name__}: {lost}") from lost
