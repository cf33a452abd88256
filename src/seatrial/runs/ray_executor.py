"""The executor that plays trials on a Ray cluster: the settings of a worker, the worker, and the driver's side.

No object is pickled. A worker gets the request as JSON, reads the same files and imports agents and evaluators by their
paths.
"""

import asyncio
import contextlib
import json
import logging
import os
import platform
import re
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.engine.executors import GRACE_SECONDS, Finished, LocalExecutor
from seatrial.engine.schedule import Job, RateLimit, Schedule
from seatrial.engine.trial import TrialSettings, errored_trial
from seatrial.errors import MissingExtra, SeatrialError, UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.store.codec import decode, encode
from seatrial.version import __version__

from .request import RunRequest
from .run_plan import RunPlan
from .secrets import redact_user_input

_MACHINE_VARIABLES = re.compile(
    r"(?:PATH|HOME|PWD|OLDPWD|USER|LOGNAME|SHELL|SHLVL|HOSTNAME|TMPDIR|TEMP|TMP|VIRTUAL_ENV|_"
    r"|(?:LD|DYLD|PYTHON|RAY|CONDA|XDG|SSH|CUDA|DBUS)_?\w*)"
)
"""Variables that describe one machine, or how Ray runs there. All others are copied from the driver."""


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """What a worker needs to prepare the same scenarios, and what all its trials share."""

    request: RunRequest
    run_id: str
    seed: int
    folder: str
    """The folder of relative paths."""
    imports: tuple[str, ...]
    """The import path."""


def encode_settings(request: RunRequest, *, run_id: str, seed: int) -> bytes:
    """The settings of a worker as JSON. Raises UsageError if the request contains Python objects."""
    sources = [_path(source) for source in request.sources]
    asked = {
        "sources": sources,
        "agent": request.agent,
        "overrides": request.overrides,
        "scenario_text": request.scenario_text,
        "tags": request.tags,
        "only": None if request.only is None else sorted(request.only),
        "cache": request.cache,
        "environ": {name: text for name, text in request.environ.items() if not _MACHINE_VARIABLES.fullmatch(name)},
        "models": request.models,
        "default_agent": request.default_agent,
        "not_redacted": list(request.not_redacted),
        "shard": request.shard,
    }
    settings = {
        "request": asked,
        "run_id": run_id,
        "seed": seed,
        "folder": os.getcwd(),
        "imports": [os.path.abspath(place) for place in sys.path],
    }
    return json.dumps(settings, default=_refuse).encode("ascii")


def decode_settings(text: bytes, environ: Mapping[str, str]) -> WorkerSettings:
    """The settings of a worker. `environ` is the worker's own environment."""
    settings: dict[str, Any] = json.loads(text)
    asked: dict[str, Any] = settings.pop("request")
    lists = {name: tuple(asked[name]) for name in ("sources", "scenario_text", "tags", "not_redacted")}
    only, shard = asked["only"], asked["shard"]
    request = RunRequest(
        **{
            **asked,
            **lists,
            "only": None if only is None else frozenset((suite, name) for suite, name in only),
            "shard": None if shard is None else (shard[0], shard[1]),
            "environ": {**environ, **asked["environ"]},
            "store": None,
        }
    )
    return WorkerSettings(**{**settings, "request": request, "imports": tuple(settings["imports"])})


def _path(source: Any) -> str:
    if isinstance(source, str | Path):
        return str(source)
    raise UsageError(
        f"--executor ray: {type(source).__name__} {getattr(source, 'name', '')!r} is a Python object, and cannot leave "
        "this process. Put it into a file that workers can read, such as shop_trials.py, and give its path"
    )


def _refuse(value: Any) -> Any:
    raise UsageError(
        f"--executor ray: {value!r} is a Python object, and cannot leave this process. Give what workers can import: "
        "package.module:attribute"
    )


WorkerJob = tuple[int, int, str]
"""The position of the scenario, the index of the trial, and the required fingerprint of the scenario."""

_BATCH_SECONDS = 0.01
"""How long a finished trial waits for others, to be sent together."""
_KEPT = 20_000
"""How many prepared scenarios are kept; a shuffled run needs any of the next 10,000."""


class Worker:
    """Plays the trials that it gets, all at once. The driver limits their number."""

    def prepare(self, settings: bytes, version: str, workers: int) -> None:
        """Prepare the plan of the run. Raises UsageError if it would not be the driver's.

        `workers`: the number of workers that share the rate limit.
        """
        try:
            self._prepare(decode_settings(settings, os.environ), version, workers)
        except UsageError as problem:
            # Ray cannot copy some errors.
            raise UsageError(f"ray worker on {platform.node()}: {problem}") from None

    def _prepare(self, settings: WorkerSettings, version: str, workers: int) -> None:
        if version != __version__:
            raise UsageError(
                f"has seatrial {__version__}, and the run was started with {version}. Install the same on every node"
            )
        try:
            os.chdir(settings.folder)
        except OSError as missing:
            raise UsageError(
                f"cannot enter {settings.folder!r}: {missing.strerror}. The project must have this path on every node: "
                "share the folder, or hand it to Ray: ray job submit --working-dir . -- seatrial run …"
            ) from None
        os.environ.update(settings.request.environ)
        sys.path[:] = [*settings.imports, *(place for place in sys.path if place not in settings.imports)]
        plan = self._plan = RunPlan(settings.request)
        self._scenarios = _Scenarios(plan)
        self._redaction = plan.open_session().redaction
        self._executor = LocalExecutor(
            TrialSettings(
                run_id=settings.run_id,
                seed=settings.seed,
                rate_limit=RateLimit(plan.config.rpm / workers) if plan.config.rpm else None,
                redaction=self._redaction,
            )
        )
        self._playing: set[asyncio.Task[bytes]] = set()

    async def exchange(self, jobs: Sequence[WorkerJob]) -> list[bytes]:
        """Start these trials. Returns finished trials, as soon as there is one."""
        for position, index, fingerprint in jobs:
            prepared = self._scenarios.at(position)
            if prepared is None or prepared.entry.fingerprint != fingerprint:
                raise UsageError(
                    f"ray worker on {platform.node()}: scenario {position + 1} of the run is not the same as on the "
                    "driver. Its files, evaluators or mocks must be the same on every node"
                )
            self._playing.add(asyncio.create_task(self._play(redact_user_input(prepared, self._redaction), index)))
        done, self._playing = await asyncio.wait(self._playing, return_when=asyncio.FIRST_COMPLETED)
        if self._playing:
            more, self._playing = await asyncio.wait(self._playing, timeout=_BATCH_SECONDS)
            done |= more
        return [task.result() for task in done]

    async def _play(self, prepared: PreparedScenario, index: int) -> bytes:
        return encode(await self._executor.play(Job(prepared=prepared, index=index)))

    async def close(self) -> None:
        """Cancel running trials and close the agents."""
        for task in self._playing:
            task.cancel()
        if self._playing:
            await asyncio.wait(self._playing, timeout=GRACE_SECONDS)
        await self._plan.agents.close()
        await self._plan.models.close()


class _Scenarios:
    """The scenarios of a plan by position. A large suite is read as far as needed, and not kept in memory."""

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


LOCAL = "local"
"""Ray's name for a cluster that is started here and ends with this process."""
_STORE_BYTES = 256 * 1024 * 1024
"""Memory for large results in a local cluster; by default Ray reserves a third of the memory."""
_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 5.0
"""How long workers may take to cancel their trials and close their agents."""


def require_ray(address: str | None) -> None:
    """Raise MissingExtra without Ray, and UsageError if no cluster answers: Ray itself would retry for long."""
    if find_spec("ray") is None:
        raise MissingExtra("ray", needed_for="--executor ray")
    host, colon, port = (address or LOCAL).rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as refused:
        raise UsageError(
            f"--ray-address {address}: no answer: {refused.strerror or refused}. Is the cluster running? "
            "On its machine: ray status"
        ) from None


class WorkerLost(SeatrialError):
    """A worker, or its node, is lost. Its trials must be played again."""


class Cluster:
    """A Ray cluster that starts workers."""

    def __init__(self, ray: Any, *, cpus: int, ours: bool) -> None:
        self._ray = ray
        self._ours = ours
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self.cpus = cpus

    @classmethod
    async def connect(cls, address: str | None) -> "Cluster":
        """Connect to the cluster, or start a local one. Raises UsageError if that fails."""
        # In a thread: it takes seconds, and in the main thread Ray would install its own SIGTERM handler.
        return await asyncio.to_thread(cls._connect, address or LOCAL)

    @classmethod
    def _connect(cls, address: str) -> "Cluster":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Use the future default for workers without a GPU; otherwise Ray warns about the change.
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

    def start_worker(self) -> "WorkerHandle":
        """A worker. Ray starts it when a CPU is free."""
        return WorkerHandle(self._ray, self._actor.remote())

    async def disconnect(self) -> None:
        if self._ours:
            await asyncio.to_thread(self._ray.shutdown)


class WorkerHandle:
    """The driver's handle of a worker. Its methods raise WorkerLost, or the worker's error."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._is_ready = False

    async def prepare(self, settings: bytes, *, workers: int) -> None:
        with _mapped_errors():
            await self._actor.prepare.remote(settings, __version__, workers)
        self._is_ready = True

    async def exchange(self, jobs: Sequence[WorkerJob]) -> list[bytes]:
        with _mapped_errors():
            done: list[bytes] = await self._actor.exchange.remote(list(jobs))
        return done

    async def stop(self) -> None:
        """Let the worker close its agents, if it can, and end it."""
        try:
            if self._is_ready:
                with contextlib.suppress(WorkerLost, TimeoutError), _mapped_errors():
                    await asyncio.wait_for(self._actor.close.remote(), _CLOSE_SECONDS)
        finally:
            self._ray.kill(self._actor)


@contextlib.contextmanager
def _mapped_errors() -> Iterator[None]:
    """Raise our exceptions instead of Ray's."""
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


MAX_LOSSES = 3
"""A trial whose worker was lost this often is errored."""
_START_SECONDS = 300.0
"""How long the cluster may take to start the first worker; it may have to start a machine."""


def require_cluster(request: RunRequest) -> None:
    """Raise UsageError if the cluster cannot play the run, before anything is stored."""
    encode_settings(request, run_id="", seed=0)
    require_ray(_address(request))


def _address(request: RunRequest) -> str | None:
    return request.ray_address or request.environ.get("RAY_ADDRESS")


class RayExecutor:
    """Plays trials on the workers of a Ray cluster."""

    def __init__(self, request: RunRequest, settings: TrialSettings) -> None:
        self._request = request
        self._settings = settings

    async def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        """Each job with its trial, as it finishes. Closing the generator cancels the running trials."""
        settings = encode_settings(self._request, run_id=self._settings.run_id, seed=self._settings.seed)
        cluster = await Cluster.connect(_address(self._request))
        pool = _WorkerPool(schedule, self._settings, cluster, settings, concurrency=concurrency)
        tasks = [asyncio.create_task(pool.keep_worker(slots)) for slots in pool.shares]
        closing = asyncio.create_task(pool.close_after(tasks))
        try:
            while (finished := await pool.finished.get()) is not None:
                yield finished
        finally:
            for task in (closing, *tasks):
                task.cancel()
            await asyncio.wait((closing, *tasks))
            await cluster.disconnect()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


class _AssignedTrial(Struct, frozen=True, kw_only=True):
    """A trial that a worker plays."""

    job: Job
    losses: int = 0
    """How often its worker was lost."""

    @property
    def place(self) -> tuple[ScenarioKey, int]:
        return self.job.prepared.entry.key, self.job.index

    @property
    def worker_job(self) -> WorkerJob:
        entry = self.job.prepared.entry
        return entry.position, self.job.index, entry.fingerprint


_Assigned = dict[tuple[ScenarioKey, int], _AssignedTrial]


class _WorkerPool:
    """The workers of a run, and the trials that they share."""

    def __init__(
        self, schedule: Schedule, settings: TrialSettings, cluster: Cluster, worker_settings: bytes, *, concurrency: int
    ) -> None:
        self._schedule = schedule
        self._settings = settings
        self._cluster = cluster
        self._worker_settings = worker_settings
        workers = max(1, min(cluster.cpus, concurrency))
        whole, rest = divmod(concurrency, workers)
        self.shares = [whole + (number < rest) for number in range(workers)]
        """How many trials each worker plays at a time."""
        self._lost: deque[_AssignedTrial] = deque()
        self._in_flight = 0
        self._ready = 0
        self._failed_starts = 0
        self._is_over = False
        self._changed = asyncio.Event()
        self.finished: asyncio.Queue[Finished | None] = asyncio.Queue(2 * concurrency)
        """None comes last. The size is limited, so that memory stays flat if the reader is slow."""

    async def keep_worker(self, slots: int) -> None:
        """Keep one worker busy, and replace it if it is lost, until no trial is left."""
        while not self._is_over:
            assigned: _Assigned = {}
            worker = self._cluster.start_worker()
            try:
                if await self._prepare(worker):
                    await self._keep_busy(worker, slots, assigned)
            finally:
                await worker.stop()

    async def close_after(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        """Put None into the queue when all tasks have ended or one has failed."""
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await self.finished.put(None)

    async def _prepare(self, worker: WorkerHandle) -> bool:
        """Whether the worker started and is prepared."""
        try:
            await asyncio.wait_for(worker.prepare(self._worker_settings, workers=len(self.shares)), _START_SECONDS)
        except TimeoutError:
            if self._ready == 0:
                raise SeatrialError(
                    f"ray: no worker could be started within {_START_SECONDS:g} s. Does the cluster have a free CPU? "
                    "See: ray status"
                ) from None
            return False
        except WorkerLost as lost:
            self._failed_starts += 1
            if self._ready == 0 and self._failed_starts >= MAX_LOSSES:
                raise SeatrialError(f"ray: {self._failed_starts} workers ended as they were started: {lost}") from lost
            return False
        self._failed_starts = 0
        return True

    async def _keep_busy(self, worker: WorkerHandle, slots: int, assigned: _Assigned) -> None:
        self._ready += 1
        try:
            while (more := await self._next_trials(slots, assigned)) is not None:
                for each in more:
                    assigned[each.place] = each
                for body in await worker.exchange([each.worker_job for each in more]):
                    trial = decode(Trial, body)
                    await self._finish(assigned.pop((trial.key, trial.index)), trial)
        except WorkerLost:
            for each in assigned.values():
                await self._return_lost(each)
        finally:
            self._ready -= 1

    async def _next_trials(self, slots: int, assigned: _Assigned) -> list[_AssignedTrial] | None:
        """The trials that a worker starts next; None if no trial is left for any worker."""
        while not self._is_over:
            found = self._take_lost(assigned) or self._take_scheduled(slots, assigned)
            if found or assigned:
                self._in_flight += len(found)
                return found
            if not self._in_flight and not self._lost:
                self._is_over = True
                self._changed.set()
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _take_lost(self, assigned: _Assigned) -> list[_AssignedTrial]:
        """A lost trial, alone: if it ends its worker again, no other trial is lost with it."""
        if self._schedule.stopped:
            self._lost.clear()
        return [self._lost.popleft()] if self._lost and not assigned else []

    def _take_scheduled(self, slots: int, assigned: _Assigned) -> list[_AssignedTrial]:
        found: list[_AssignedTrial] = []
        if any(each.losses for each in assigned.values()):
            return found
        while len(assigned) + len(found) < slots and (job := self._schedule.next()) is not None:
            found.append(_AssignedTrial(job=job))
        return found

    async def _finish(self, assigned: _AssignedTrial, trial: Trial) -> None:
        self._schedule.note(assigned.job, trial)
        self._in_flight -= 1
        self._changed.set()
        await self.finished.put((assigned.job, trial))

    async def _return_lost(self, assigned: _AssignedTrial) -> None:
        if assigned.losses + 1 < MAX_LOSSES:
            self._lost.append(replace(assigned, losses=assigned.losses + 1))
            self._in_flight -= 1
            self._changed.set()
            return
        error = ErrorInfo(
            kind=ErrorKind.INFRA,
            message=f"the worker was lost {MAX_LOSSES} times while this trial was played",
            hint="does the agent end its process, or need too much memory? Try isolation: process",
        )
        await self._finish(assigned, errored_trial(assigned.job, error, self._settings))
