"""Run trials on the workers of a Ray cluster.

The driver sends each worker the request as JSON. No object is pickled: a worker imports agents and evaluators by their
paths and reads the same files as the driver.
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
from seatrial.engine.trial import TrialSettings, judge_transcript, trial_seed
from seatrial.errors import MissingExtra, SeatrialError, UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
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
"""Variables that belong to one machine, such as paths and settings of Ray. The driver sends all others."""


class Order(Struct, frozen=True, kw_only=True):
    """What a worker needs to load the same scenarios, and the settings that all its trials share."""

    request: RunRequest
    run_id: str
    seed: int
    folder: str
    """The folder that relative paths start from."""
    imports: tuple[str, ...]
    """The driver's `sys.path`."""


def write_order(request: RunRequest, *, run_id: str, seed: int) -> bytes:
    """The order as JSON. Raises UsageError if the request holds a Python object that cannot be sent."""
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
    order = {
        "request": asked,
        "run_id": run_id,
        "seed": seed,
        "folder": os.getcwd(),
        "imports": [os.path.abspath(place) for place in sys.path],
    }
    return json.dumps(order, default=_refuse).encode("ascii")


def read_order(text: bytes, environ: Mapping[str, str]) -> Order:
    """The order from its JSON; `environ` is the worker's own environment."""
    said: dict[str, Any] = json.loads(text)
    asked: dict[str, Any] = said.pop("request")
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
    return Order(**{**said, "request": request, "imports": tuple(said["imports"])})


def _path(source: Any) -> str:
    if isinstance(source, str | Path):
        return str(source)
    raise UsageError(
        f"--executor ray: {type(source).__name__} {getattr(source, 'name', '')!r} is a Python object, and cannot be "
        "sent to workers. Put it into a file that workers can read, such as shop_trials.py, and give its path"
    )


def _refuse(value: Any) -> Any:
    raise UsageError(
        f"--executor ray: {value!r} is a Python object, and cannot be sent to workers. Give a path that they can "
        "import: package.module:attribute"
    )


WorkerJob = tuple[int, int, str]
"""The scenario's position, the trial's index, and the expected fingerprint of the scenario."""

_GATHER_SECONDS = 0.01
"""How long a finished trial waits, so that others are sent with it."""
_KEPT = 20_000
"""How many prepared scenarios stay in memory. A shuffled run asks for any of the next 10,000."""


class Worker:
    """Plays the trials that the driver sends, all at the same time. The driver limits their number."""

    def prepare(self, order: bytes, version: str, workers: int) -> None:
        """Load the plan of the run. Raises UsageError if the worker cannot load the same plan.

        `workers`: how many workers share the run's rate limit.
        """
        try:
            self._prepare(read_order(order, os.environ), version, workers)
        except UsageError as problem:
            # Ray cannot copy some subclasses of UsageError.
            raise UsageError(f"ray worker on {platform.node()}: {problem}") from None

    def _prepare(self, order: Order, version: str, workers: int) -> None:
        if version != __version__:
            raise UsageError(
                f"has seatrial {__version__}, but the run was started with {version}. "
                "Install the same version on every node"
            )
        try:
            os.chdir(order.folder)
        except OSError as missing:
            raise UsageError(
                f"cannot enter {order.folder!r}: {missing.strerror}. The project must have this path on every node: "
                "share the folder, or give it to Ray: ray job submit --working-dir . -- seatrial run …"
            ) from None
        os.environ.update(order.request.environ)
        sys.path[:] = [*order.imports, *(place for place in sys.path if place not in order.imports)]
        plan = self._plan = RunPlan(order.request)
        self._scenarios = _Scenarios(plan)
        self._redaction = plan.open_session().redaction
        self._executor = LocalExecutor(
            TrialSettings(
                run_id=order.run_id,
                seed=order.seed,
                rate_limit=RateLimit(plan.config.rpm / workers) if plan.config.rpm else None,
                redaction=self._redaction,
            )
        )
        self._playing: set[asyncio.Task[bytes]] = set()

    async def exchange(self, jobs: Sequence[WorkerJob]) -> list[bytes]:
        """Start these trials, wait until a trial is finished, and return the finished ones."""
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
            more, self._playing = await asyncio.wait(self._playing, timeout=_GATHER_SECONDS)
            done |= more
        return [task.result() for task in done]

    async def _play(self, prepared: PreparedScenario, index: int) -> bytes:
        return encode(await self._executor.play(Job(prepared=prepared, index=index)))

    async def close(self) -> None:
        """Cancel the running trials, and close agents and models."""
        for task in self._playing:
            task.cancel()
        if self._playing:
            await asyncio.wait(self._playing, timeout=GRACE_SECONDS)
        await self._plan.agents.close()
        await self._plan.models.close()


class _Scenarios:
    """The scenarios of a plan by position. Reads only as far as needed, and keeps the last ones in memory."""

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
"""Ray's address for a cluster that it starts on this machine and stops with this process."""
_STORE_BYTES = 256 * 1024 * 1024
"""The object store of a local cluster. Ray's default is a third of the memory."""
_ANSWER_SECONDS = 5.0
_STOP_SECONDS = 5.0
"""How long workers may take to end their trials and close their agents."""


def require_ray(address: str | None) -> None:
    """Raise MissingExtra without Ray, and UsageError if the address does not answer: Ray would retry for long."""
    if find_spec("ray") is None:
        raise MissingExtra("ray", needed_for="--executor ray")
    host, colon, port = (address or LOCAL).rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as refused:
        raise UsageError(
            f"--ray-address {address}: does not answer: {refused.strerror or refused}. Is the cluster running? "
            "On its machine: ray status"
        ) from None


class WorkerLost(SeatrialError):
    """A worker or its node has ended. Its unfinished trials must be played again."""


class Cluster:
    """A connection to a Ray cluster, which starts workers."""

    def __init__(self, ray: Any, *, cpus: int, ours: bool) -> None:
        self._ray = ray
        self._ours = ours
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self.cpus = cpus

    @classmethod
    async def connect(cls, address: str | None) -> "Cluster":
        """Connect to the cluster. Raises UsageError if that fails."""
        # In a thread: it takes seconds, and in the main thread Ray would install its own SIGTERM handler.
        return await asyncio.to_thread(cls._connect, address or LOCAL)

    @classmethod
    def _connect(cls, address: str) -> "Cluster":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray warns that this default will change for workers without a GPU. Use the new value now.
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
                    f"--ray-address {address}: could not join the Ray cluster: {said}. Does it have the same "
                    "version of Ray? If it requires a token, set RAY_AUTH_MODE=token"
                ) from failed
        return cls(ray, cpus=int(ray.cluster_resources().get("CPU", 0)), ours=ours)

    def start_worker(self) -> "RemoteWorker":
        """A new worker. It starts as soon as a CPU is free."""
        return RemoteWorker(self._ray, self._actor.remote())

    async def leave(self) -> None:
        if self._ours:
            await asyncio.to_thread(self._ray.shutdown)


class RemoteWorker:
    """The driver's handle of a worker. Its methods raise WorkerLost, or the worker's own error."""

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

    async def stop(self) -> None:
        """Let the worker close its agents, if it still can, then end it."""
        try:
            if self._is_ready:
                with contextlib.suppress(WorkerLost, TimeoutError), _explained():
                    await asyncio.wait_for(self._actor.close.remote(), _STOP_SECONDS)
        finally:
            self._ray.kill(self._actor)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn Ray's exceptions into Seatrial's."""
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        yield
    except RayTaskError as raised:
        cause = raised.cause
        if isinstance(cause, SeatrialError):
            raise type(cause)(str(cause)) from None
        raise SeatrialError(f"a ray worker failed; please report it:\n{raised}") from raised
    except RayActorError as lost:
        if lost.actor_init_failed:
            raise SeatrialError(f"a ray worker did not start. Is seatrial installed on every node?\n{lost}") from lost
        raise WorkerLost(str(lost)) from lost
    except RayError as lost:
        raise WorkerLost(f"{type(lost).__name__}: {lost}") from lost


MOST_LOSSES = 3
"""After this many lost workers a trial is errored."""
_START_SECONDS = 300.0
"""How long the first worker may take to start. A cluster may have to start a machine."""


def require_cluster(request: RunRequest) -> None:
    """Raise UsageError if the run cannot use the cluster, before anything is stored."""
    write_order(request, run_id="", seed=0)
    require_ray(_address(request))


def _address(request: RunRequest) -> str | None:
    return request.ray_address or request.environ.get("RAY_ADDRESS")


class RayExecutor:
    """Plays trials on the workers of a Ray cluster."""

    def __init__(self, request: RunRequest, settings: TrialSettings) -> None:
        self._request = request
        self._settings = settings

    async def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        """Each job with its finished trial. Closing the generator cancels the running trials."""
        order = write_order(self._request, run_id=self._settings.run_id, seed=self._settings.seed)
        cluster = await Cluster.connect(_address(self._request))
        workers = _Workers(schedule, self._settings, cluster, order, concurrency=concurrency)
        tasks = [asyncio.create_task(workers.work(slots)) for slots in workers.shares]
        closing = asyncio.create_task(workers.close_after(tasks))
        try:
            while (finished := await workers.finished.get()) is not None:
                yield finished
        finally:
            for task in (closing, *tasks):
                task.cancel()
            await asyncio.wait((closing, *tasks))
            await cluster.leave()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


class _Played(Struct, frozen=True, kw_only=True):
    """A trial to play on a worker."""

    job: Job
    losses: int = 0
    """How many workers were lost while they played it."""

    @property
    def place(self) -> tuple[ScenarioKey, int]:
        return self.job.prepared.entry.key, self.job.index

    @property
    def order(self) -> WorkerJob:
        entry = self.job.prepared.entry
        return entry.position, self.job.index, entry.fingerprint


_Held = dict[tuple[ScenarioKey, int], _Played]


class _Workers:
    """Gives the trials of a schedule to the workers, and collects the finished ones."""

    def __init__(
        self, schedule: Schedule, settings: TrialSettings, cluster: Cluster, order: bytes, *, concurrency: int
    ) -> None:
        self._schedule = schedule
        self._settings = settings
        self._cluster = cluster
        self._order = order
        workers = max(1, min(cluster.cpus, concurrency))
        whole, rest = divmod(concurrency, workers)
        self.shares = [whole + (number < rest) for number in range(workers)]
        """How many trials at a time each worker plays."""
        self._lost: deque[_Played] = deque()
        self._in_flight = 0
        self._ready = 0
        self._failed_starts = 0
        self._is_over = False
        self._changed = asyncio.Event()
        self.finished: asyncio.Queue[Finished | None] = asyncio.Queue(2 * concurrency)
        """Finished trials, then None. The size is limited, so that a slow consumer does not fill the memory."""

    async def work(self, slots: int) -> None:
        """Keep one worker busy until no trial is left; start another worker if it is lost."""
        while not self._is_over:
            held: _Held = {}
            worker = self._cluster.start_worker()
            try:
                if await self._prepare(worker):
                    await self._keep_busy(worker, slots, held)
            finally:
                await worker.stop()

    async def close_after(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        """Put None into `finished` when all tasks have ended or one has failed."""
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await self.finished.put(None)

    async def _prepare(self, worker: RemoteWorker) -> bool:
        """Whether the worker has started and loaded its order."""
        try:
            await asyncio.wait_for(worker.prepare(self._order, workers=len(self.shares)), _START_SECONDS)
        except TimeoutError:
            if self._ready == 0:
                raise SeatrialError(
                    f"ray: no worker started within {_START_SECONDS:g} s. Does the cluster have a free CPU? "
                    "See: ray status"
                ) from None
            return False
        except WorkerLost as lost:
            self._failed_starts += 1
            if self._ready == 0 and self._failed_starts >= MOST_LOSSES:
                raise SeatrialError(f"ray: {self._failed_starts} workers ended during their start: {lost}") from lost
            return False
        self._failed_starts = 0
        return True

    async def _keep_busy(self, worker: RemoteWorker, slots: int, held: _Held) -> None:
        self._ready += 1
        try:
            while (more := await self._next_trials(slots, held)) is not None:
                for played in more:
                    held[played.place] = played
                for body in await worker.exchange([played.order for played in more]):
                    trial = decode(Trial, body)
                    await self._finish(held.pop((trial.key, trial.index)), trial)
        except WorkerLost:
            for played in held.values():
                await self._take_back(played)
        finally:
            self._ready -= 1

    async def _next_trials(self, slots: int, held: _Held) -> list[_Played] | None:
        """The trials that a worker starts next, beside those it plays; None when no worker has anything left to do."""
        while not self._is_over:
            found = self._take_lost(held) or self._take_planned(slots, held)
            if found or held:
                self._in_flight += len(found)
                return found
            if not self._in_flight and not self._lost:
                self._is_over = True
                self._changed.set()
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _take_lost(self, held: _Held) -> list[_Played]:
        """One trial of a lost worker. It is played alone: if it ends its worker again, no other trial is lost."""
        if self._schedule.stopped:
            self._lost.clear()
        return [self._lost.popleft()] if self._lost and not held else []

    def _take_planned(self, slots: int, held: _Held) -> list[_Played]:
        found: list[_Played] = []
        if any(played.losses for played in held.values()):
            return found
        while len(held) + len(found) < slots and (job := self._schedule.next()) is not None:
            found.append(_Played(job=job))
        return found

    async def _finish(self, played: _Played, trial: Trial) -> None:
        self._schedule.note(played.job, trial)
        self._in_flight -= 1
        self._changed.set()
        await self.finished.put((played.job, trial))

    async def _take_back(self, played: _Played) -> None:
        if played.losses + 1 < MOST_LOSSES:
            self._lost.append(replace(played, losses=played.losses + 1))
            self._in_flight -= 1
            self._changed.set()
        else:
            await self._finish(played, await self._given_up(played))

    async def _given_up(self, played: _Played) -> Trial:
        error = ErrorInfo(
            kind=ErrorKind.INFRA,
            message=f"the worker was lost {MOST_LOSSES} times while this trial was played",
            hint="does the agent end its process, or need too much memory? To see how it ends, set isolation: process",
        )
        transcript = Transcript(
            turns=(), stop_reason=StopReason.ERROR, history=played.job.prepared.history, error=error
        )
        trial = await judge_transcript(played.job.prepared, transcript, index=played.job.index)
        seed = trial_seed(self._settings.seed, trial.key, trial.index)
        return replace(trial, seed=seed)
