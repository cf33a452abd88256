"""The driver's side: hands out trials to workers, takes back those of lost ones, and yields what is finished."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection

from msgspec.structs import replace

from seatrial.engine.executors import Finished
from seatrial.engine.schedule import Job, Schedule
from seatrial.engine.trial import TrialSettings, judge_transcript, trial_seed
from seatrial.errors import SeatrialError
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.model.run import ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.runs.request import RunRequest
from seatrial.store.codec import decode

from .cluster import Cluster, Hired, WorkerLost, require_ray
from .job_spec import write_order
from .worker import WorkerJob

MOST_LOSSES = 3
"""So many workers may be lost over one trial before it is given up."""
_PATIENCE_SECONDS = 300.0
"""How long a cluster without a single worker may take to give us one, such as by starting a machine."""


def require_cluster(request: RunRequest) -> None:
    """Raises UsageError where the run could not go to the cluster, before anything is written down."""
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
        """Each job with its trial, as it is finished. Closing the generator ends those in flight."""
        order = write_order(self._request, run_id=self._settings.run_id, seed=self._settings.seed)
        cluster = await Cluster.connect(_address(self._request))
        crew = _Crew(schedule, self._settings, cluster, order, concurrency=concurrency)
        tasks = [asyncio.create_task(crew.work(slots)) for slots in crew.shares]
        closing = asyncio.create_task(crew.close_after(tasks))
        try:
            while (finished := await crew.finished.get()) is not None:
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
    """A trial that a worker is asked for."""

    job: Job
    losses: int = 0
    """How many workers were lost that held it."""

    @property
    def place(self) -> tuple[ScenarioKey, int]:
        return self.job.prepared.entry.key, self.job.index

    @property
    def order(self) -> WorkerJob:
        entry = self.job.prepared.entry
        return entry.position, self.job.index, entry.fingerprint


_Held = dict[tuple[ScenarioKey, int], _Played]


class _Crew:
    """The workers, and what they have in common."""

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
        """None comes last. Whoever takes the trials may be slow, and memory must stay flat."""

    async def work(self, slots: int) -> None:
        """Keep one worker busy, and find another when it is lost, until there is nothing left to do."""
        while not self._is_over:
            held: _Held = {}
            worker = self._cluster.hire()
            try:
                if await self._prepare(worker):
                    await self._keep_busy(worker, slots, held)
            finally:
                await worker.dismiss()

    async def close_after(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        """Tell that nothing more comes, once all have ended or one has broken down."""
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await self.finished.put(None)

    async def _prepare(self, worker: Hired) -> bool:
        """Whether the worker is there and has its order. One that is waited for holds no trials."""
        try:
            await asyncio.wait_for(worker.prepare(self._order, workers=len(self.shares)), _PATIENCE_SECONDS)
        except TimeoutError:
            if self._ready == 0:
                raise SeatrialError(
                    f"ray: no worker could be started within {_PATIENCE_SECONDS:g} s. Has the cluster a free CPU? "
                    "See: ray status"
                ) from None
            return False
        except WorkerLost as lost:
            self._failed_starts += 1
            if self._ready == 0 and self._failed_starts >= MOST_LOSSES:
                raise SeatrialError(f"ray: {self._failed_starts} workers ended as they were started: {lost}") from lost
            return False
        self._failed_starts = 0
        return True

    async def _keep_busy(self, worker: Hired, slots: int, held: _Held) -> None:
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
        """What a worker shall begin beside what it holds; None when there is nothing left to do for anybody."""
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
        """Alone, so that a trial which ends its worker is known, and takes no others with it again."""
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
            hint="does the agent end its process, or need more memory than there is? See what becomes of it with "
            "isolation: process",
        )
        transcript = Transcript(
            turns=(), stop_reason=StopReason.ERROR, history=played.job.prepared.history, error=error
        )
        trial = await judge_transcript(played.job.prepared, transcript, index=played.job.index)
        seed = trial_seed(self._settings.seed, trial.key, trial.index)
        return replace(trial, seed=seed)
