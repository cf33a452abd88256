"""Play single scenarios as they are requested, for pytest: one RunSession on an event loop in a thread."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from seatrial.clock import now
from seatrial.engine.evaluate import evaluate
from seatrial.engine.executors import Finished, LocalExecutor
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import Budget, Job, RateLimit, Schedule, TrialSchedule
from seatrial.errors import UsageError
from seatrial.model.protocols import Evaluator, PreparedScenario
from seatrial.model.results import ModelUse
from seatrial.model.run import (
    MergedErrors,
    Run,
    RunGates,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Trial,
    summarise,
)
from seatrial.model.scenario import Scenario, User
from seatrial.model.struct import Struct
from seatrial.scenarios.build import make_entry, prepare
from seatrial.scenarios.build_evaluators import evaluator_object
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.merge import CONFIG_DEFAULTS, merge_config
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.tool_names import find_unknown_tools
from seatrial.store.store import open_store
from seatrial.verdicts.scenario import decide_scenario
from seatrial.verdicts.trial import decide_trial, find_error

from .agents import Agents, describe_agent, is_recording, make_context
from .event_loop import LoopThread
from .gold_calls import check_gold_calls
from .report import Report, StoredRecord
from .request import RunRequest
from .run_plan import make_gates, merge_run_configs
from .secrets import redact_user_input
from .session import Jobs, Place, RunSession

if TYPE_CHECKING:
    from seatrial.llm.client import LLM
    from seatrial.llm.model import ModelSpec

    from .against_history import HistoryPlan


class ScenarioRequest(Struct, frozen=True, kw_only=True):
    """A scenario to play, and its agent."""

    loaded: LoadedSuite
    scenario: Scenario
    """Resolved."""
    agent: Any
    """A spec as in files, or a Python object."""
    agent_name: str = ""
    """Set if several agents play the same scenario."""
    name: str | None = None
    """Stored instead of the scenario's own name."""
    suite: str | None = None
    """Stored instead of the suite's own name."""
    position: int = 0

    def entry(self, *, skip: str | None = None) -> ScenarioEntry:
        """The row of a scenario that is not played: skipped for a reason, or prevented by an error."""
        return make_entry(
            self.scenario if skip is None else replace(self.scenario, skip=skip),
            key=ScenarioKey(self.suite or self.loaded.name, self.name or self.scenario.name, self.agent_name),
            agent_key="" if self.agent is None else describe_agent(self.agent),
            evaluators=self.loaded.evaluators,
            position=self.position,
        )


@dataclass(frozen=True, kw_only=True)
class PlayedScenario:
    """The trials of a scenario, and their outcome."""

    prepared: PreparedScenario
    trials: tuple[Trial, ...]
    merged: MergedErrors | None = None

    @cached_property
    def outcome(self) -> ScenarioOutcome:
        return decide_scenario(self.prepared.entry, map(summarise, self.trials), merged=self.merged)


class NotLive(Exception):
    """A scenario needs an answer of a model that is not in the cache, and calls to models are off."""


class ScenarioSession:
    """Plays scenarios as they are requested, all in one run."""

    def __init__(
        self, request: RunRequest, run: Run, *, live: bool = True, history: "HistoryPlan | None" = None
    ) -> None:
        """`live`: models may be called; otherwise their answers come from the cache only.

        `history`: the tests of scenarios against their history.
        """
        self._run = run
        self._history = history
        cache = Path(request.cache) if request.cache else None
        self._cached_models = (
            None if live else CachedModels(defaults=request.models, cache=cache, environ=request.environ)
        )
        self._models = self._cached_models or RunModels(defaults=request.models, cache=cache, environ=request.environ)
        self._session = RunSession(request, agents=Agents(request), models=self._models)
        self._loop = LoopThread()
        self._entered: AsyncExitStack | None = None
        self._limits: dict[str, _SuiteLimits] = {}
        """By the suite's path."""
        self._played: set[Place] = set()
        self._from_cache: set[ScenarioKey] = set()
        """Scenarios that need a model, if only the cache may answer."""

    @property
    def run(self) -> Run:
        return self._session.run if self._session.is_started else self._run

    def play(self, request: ScenarioRequest) -> PlayedScenario:
        """Play all trials of the scenario; each is committed.

        Raises UsageError; and NotLive if a model would have to be called: then nothing is stored.
        """
        return self._loop.wait(self._play(self._prepare(request), request.loaded))

    def start(self, request: ScenarioRequest) -> "Future[PlayedScenario]":
        """`play` without waiting for the trials."""
        return self._loop.start(self._play(self._prepare(request), request.loaded))

    def check(self, played: PlayedScenario, evaluators: Sequence[Evaluator]) -> PlayedScenario:
        """The same trials with the results of more evaluators; they replace the stored ones."""
        return self._loop.wait(self._check(played, evaluators))

    def tell(self, played: PlayedScenario) -> None:
        """Tell listeners of trials that are final."""
        self._session.recorder.tell_finished(played.trials)

    def close(self) -> None:
        """Close agents, models, the writer and the loop. The run itself stays open: other processes may share it."""
        try:
            if self._entered is not None:
                self._loop.wait(self._entered.aclose())
        finally:
            self._loop.close()
            if self._session.is_started:
                self._session.recorder.tell_run_finished()
            if self._session.store is not None:
                self._session.store.close()

    def _prepare(self, request: ScenarioRequest) -> PreparedScenario:
        loaded, scenario, agents = request.loaded, request.scenario, self._session.agents
        from_cache = self._cached_models is not None and needs_model(scenario)
        if from_cache and not (self._cached_models and self._cached_models.has_answers()):
            raise NotLive("it asks a model")
        agent = agents.get(request.agent, loaded, name=request.agent_name)
        self._mark_recording(request.agent)
        self._models.budgeted = self._models.budgeted or self._limits_of(loaded).config.budget is not None
        self._session.add_model_settings(loaded)
        context = make_context(loaded, agent, name=request.agent_name, spec=request.agent, models=self._models)
        # With several agents, each has a test of its own; tool names are checked against all of them.
        others = (loaded.suite.agents or {}) if request.agent_name else {}
        all_agents = [agent, *(agents.get(spec, loaded, name=name) for name, spec in others.items())]
        unknown = find_unknown_tools(scenario, all_agents)
        if unknown:
            raise UsageError("\n".join(unknown))
        if request.suite is not None:
            context = replace(context, suite=request.suite)
        prepared = prepare(scenario, context, position=request.position)
        check_gold_calls([(scenario, prepared.world)])
        if request.name is not None:
            entry = prepared.entry
            prepared = replace(prepared, entry=replace(entry, key=entry.key._replace(name=request.name)))
        if from_cache:
            self._from_cache.add(prepared.entry.key)
        return prepared if self._history is None else replace(prepared, entry=self._history.apply(prepared.entry))

    def _mark_recording(self, spec: Any) -> None:
        """Mark the run as replayed. Raises UsageError if it is stored without the mark."""
        if self.run.replayed or not is_recording(spec):
            return
        if self._session.is_started:
            raise _late_recording(self.run.id)
        self._run = replace(self._run, replayed=True)

    async def _play(self, prepared: PreparedScenario, loaded: LoadedSuite) -> PlayedScenario:
        if self._entered is None:
            self._entered = AsyncExitStack()
            await self._entered.enter_async_context(self._session)
        limits = self._limits_of(loaded)
        limits.require_budget(loaded)
        prepared = redact_user_input(prepared, self._session.redaction)
        jobs = Jobs(
            schedule=TrialSchedule([prepared], budget=limits.budget),
            executor=LocalExecutor(self._session.trial_settings(self.run, rate_limit=limits.rate_limit)),
            concurrency=min(limits.config.concurrency or CONFIG_DEFAULTS["concurrency"], prepared.entry.trials),
            replaced=dict.fromkeys(self._played, ()),
        )
        if self._cached_models is not None and prepared.entry.key in self._from_cache:
            jobs = replace(jobs, executor=_FinishedJobs(await _play_from_cache(self._cached_models, jobs)))
        self._start()
        self._session.recorder.add([prepared.entry])
        self._session.keep_contents([prepared])
        trials = await self._play_jobs(jobs)
        self._played |= {(trial.key, trial.index) for trial in trials}
        return PlayedScenario(prepared=prepared, trials=trials, merged=await self._merge(prepared, trials))

    def _start(self) -> None:
        """Store the run, with the first scenario that is stored."""
        if self._session.is_started:
            return
        run = replace(self._run, config=self._session.redaction.value(self._run.config))
        self._session.start(run, join=True, tell_trials=False)
        if self._run.replayed and not self._session.run.replayed:
            raise _late_recording(self._session.run.id)

    async def _play_jobs(self, jobs: Jobs) -> tuple[Trial, ...]:
        trials = [trial async for trial in self._session.play(jobs)]
        return tuple(sorted(trials, key=lambda trial: trial.index))

    async def _merge(self, prepared: PreparedScenario, trials: Sequence[Trial]) -> MergedErrors | None:
        if not any(trial.judgement is not None and trial.judgement.failures for trial in trials):
            return None
        merged = await self._session.merge_failures(lambda: [prepared])
        return next((each for each in merged if each.key == prepared.entry.key), None)

    async def _check(self, played: PlayedScenario, evaluators: Sequence[Evaluator]) -> PlayedScenario:
        prepared = played.prepared
        asked = replace(
            prepared,
            turn_evaluators=(),
            every_turn_evaluators=(),
            trial_evaluators=tuple(evaluator_object(each, prepared.scenario, self._models) for each in evaluators),
        )
        redaction = self._session.redaction
        checked = [await _evaluate_again(asked, trial, redaction) for trial in played.trials]
        jobs = Jobs(
            schedule=TrialSchedule(()),
            executor=_FinishedJobs([(Job(prepared=prepared, index=trial.index), trial) for trial in checked]),
            concurrency=1,
            replaced={(trial.key, trial.index): () for trial in checked},
        )
        return PlayedScenario(prepared=prepared, trials=await self._play_jobs(jobs), merged=played.merged)

    def _limits_of(self, loaded: LoadedSuite) -> "_SuiteLimits":
        if loaded.path not in self._limits:
            self._limits[loaded.path] = _SuiteLimits(loaded)
        return self._limits[loaded.path]


class _SuiteLimits:
    """The config, rate limit and budget that the scenarios of a suite share."""

    def __init__(self, loaded: LoadedSuite) -> None:
        self.config = merge_config(loaded.config, loaded.overrides)
        self.rate_limit = RateLimit(self.config.rpm) if self.config.rpm else None
        self.budget = Budget(self.config.budget)

    def require_budget(self, loaded: LoadedSuite) -> None:
        """Raise UsageError if the budget is spent."""
        if self.budget.is_spent:
            raise UsageError(
                f"{loaded.path}: the budget of ${self.config.budget} is spent, so the scenario was not run"
            )


@dataclass(slots=True, kw_only=True)
class CachedModels(RunModels):
    """Models that answer only from the cache. It counts the refused calls."""

    refused: int = 0

    @property
    def llm(self) -> "LLM":
        if self._llm is None:
            from seatrial.llm.client import LLM

            self._llm = LLM(cache=self.cache, before_request=self._refuse)
        return self._llm

    def _check(self, given: Any) -> "ModelSpec":
        """A cached answer needs no API key and no SDK."""
        from seatrial.llm.model import parse_model

        return parse_model(given, environ=self.environ)

    def _refuse(self, use: ModelUse) -> None:
        from seatrial.llm.model import ModelFailure

        self.refused += 1
        raise ModelFailure("the answer is not in the cache, and asking models is switched off", attempts=0, use=use)

    def has_answers(self) -> bool:
        """Whether the cache contains any answer."""
        return self.cache is not None and any(self.cache.glob("*/*.json"))


def needs_model(scenario: Scenario) -> bool:
    """Whether the scenario has a simulated user, a judge, or an evaluator that calls a model."""
    if isinstance(scenario.user, User) or scenario.metrics or scenario.expected_outcomes or scenario.failures:
        return True
    evaluators = list(scenario.scorers or ())
    for expect in (scenario.expect, *[turn.expect for turn in scenario.turns]):
        if expect is not None:
            if expect.judge or any(each.judge for each in expect.tool_calls_args):
                return True
            evaluators += expect.evaluators
    return any(
        each == "judge"
        or (isinstance(each, Mapping) and "judge" in each)
        or hasattr(getattr(each, "judge", each), "bound")
        for each in evaluators
    )


class _FinishedJobs:
    """An executor for trials that are finished and only have to be stored."""

    def __init__(self, finished: Sequence[Finished]) -> None:
        self._finished = finished

    async def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        for finished in self._finished:
            yield finished


async def _play_from_cache(models: CachedModels, jobs: Jobs) -> list[Finished]:
    """The trials, if the cache has every answer that they need. Raises NotLive."""
    refused = models.refused
    finished = []
    running = jobs.executor.run(jobs.schedule, concurrency=jobs.concurrency)
    try:
        async for each in running:
            if models.refused > refused:
                raise NotLive("an answer that it needs is not in the cache")
            finished.append(each)
    finally:
        await running.aclose()
    return finished


async def _evaluate_again(asked: PreparedScenario, trial: Trial, redaction: Redaction) -> Trial:
    results = (*trial.results, *await evaluate(asked, trial.transcript, index=trial.index, redaction=redaction))
    threshold = asked.entry.gates.pass_threshold
    verdict = decide_trial(trial.transcript, results, trial.judgement, pass_threshold=threshold)
    return replace(
        trial,
        results=results,
        status=verdict.status,
        failure_reasons=verdict.failure_reasons,
        error=find_error(trial.transcript, results, trial.judgement),
    )


def _late_recording(run_id: str) -> UsageError:
    return UsageError(
        f"run {run_id}: a recording is played, and the run began without saying so. Name it where it is known from "
        "the start: agent: in the suite, --seatrial-agent or [tool.seatrial]"
    )


def choose_seed(suites: Sequence[LoadedSuite]) -> int | None:
    """The seed that the suites set; a suite may occur several times."""
    return merge_run_configs(_unique(suites)).seed


def selected_gates(selected: Sequence[tuple[LoadedSuite, Scenario]]) -> RunGates:
    """The gates of the suites, limited to the selected scenarios."""
    suites = _unique([loaded for loaded, _ in selected])
    if not suites:
        return RunGates()
    tags = {(id(loaded), tag) for loaded, scenario in selected for tag in scenario.tags}
    names = {(id(loaded), scenario.name) for loaded, scenario in selected}
    groups = [
        (
            loaded,
            replace(
                group,
                tags=[tag for tag in group.tags if (id(loaded), tag) in tags],
                must_pass=[name for name in group.must_pass if (id(loaded), name) in names],
            ),
        )
        for loaded in suites
        for group in loaded.suite.groups
    ]
    return make_gates(suites, [(loaded, group) for loaded, group in groups if group.tags or group.must_pass])


def _unique(suites: Sequence[LoadedSuite]) -> list[LoadedSuite]:
    return list({id(loaded): loaded for loaded in suites}.values())


def end_run(store: str, run_id: str, state: RunState, *, unplayed: Sequence[ScenarioEntry] = ()) -> Report:
    """Mark the run as ended, add the scenarios that were not played, and report."""
    opened = open_store(store)
    ended = now()
    if unplayed:
        known = {entry.key for entry in opened.entries(run_id)}
        opened.add_scenarios(run_id, [entry for entry in unplayed if entry.key not in known])
    opened.finish_run(run_id, state, ended)
    return Report(StoredRecord(opened, opened.run(run_id)))
