"""Models that are only remembered: answers come from the cache, and nothing is asked."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from seatrial.clock import now
from seatrial.engine.evaluate import Redact, evaluate
from seatrial.engine.executors import Finished, LocalExecutor
from seatrial.engine.redact import Secret
from seatrial.engine.schedule import Budget, Job, RateLimit, Schedule, TrialSchedule
from seatrial.engine.trial import TrialSettings
from seatrial.errors import UsageError
from seatrial.model.protocols import Agent, Evaluator, PreparedScenario
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
from seatrial.model.scenario import Scenario, SuiteConfig, User
from seatrial.model.struct import Struct
from seatrial.scenarios.build import SuiteContext, make_entry, prepare, read_hooks
from seatrial.scenarios.build_evaluators import evaluator_object
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.merge import merge_config
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.tool_names import find_unknown_tools
from seatrial.store.store import open_store
from seatrial.verdicts.scenario import decide_scenario
from seatrial.verdicts.trial import decide_trial, find_error

from .event_loop import LoopThread
from .report import Report, StoredRecord
from .request import RunRequest
from .run_config import find_commit, plain, redact_spec, versions
from .run_plan import Agents, describe_agent, merge_run_configs
from .secrets import discreet, find_secrets, model_settings
from .session import Jobs, Place, RunSession

if TYPE_CHECKING:
    from seatrial.llm.client import LLM
    from seatrial.llm.model import ModelSpec


class NotLive(Exception):
    """A scenario asks a model what the cache does not know, and asking is switched off."""


@dataclass(slots=True, kw_only=True)
class CachedModels(RunModels):
    """Makes users and judges that know what was answered before, and count what they would have had to ask."""

    refused: int = 0

    @property
    def llm(self) -> "LLM":
        if self._llm is None:
            from seatrial.llm.client import LLM

            self._llm = LLM(cache=self.cache, before_request=self._refuse)
        return self._llm

    def _check(self, given: Any) -> "ModelSpec":
        """No key and no SDK is needed for an answer that is there already."""
        from seatrial.llm.model import parse_model

        return parse_model(given, environ=self.environ)

    def _refuse(self, use: ModelUse) -> None:
        from seatrial.llm.model import ModelFailure

        self.refused += 1
        raise ModelFailure("the answer is not in the cache, and asking models is switched off", attempts=0, use=use)

    def knows_something(self) -> bool:
        """Whether the cache holds any answer at all."""
        return self.cache is not None and any(self.cache.glob("*/*.json"))


def asks_models(scenario: Scenario) -> bool:
    """Whether some model must speak for the scenario: a simulated user, a judge, an evaluator that asks one."""
    if isinstance(scenario.user, User) or scenario.metrics or scenario.expected_outcomes or scenario.failures:
        return True
    asked = list(scenario.scorers or ())
    for expect in (scenario.expect, *[turn.expect for turn in scenario.turns]):
        if expect is not None:
            if expect.judge or any(each.judge for each in expect.tool_calls_args):
                return True
            asked += expect.evaluators
    for each in asked:
        if each == "judge" or (isinstance(each, Mapping) and "judge" in each):
            return True
        if hasattr(getattr(each, "judge", each), "bound"):
            return True
    return False


class ScenarioRequest(Struct, frozen=True, kw_only=True):
    """A scenario, and with whom it is played."""

    loaded: LoadedSuite
    scenario: Scenario
    """Resolved."""
    agent: Any
    """A spec as in files, or a Python object."""
    agent_name: str = ""
    """Where several agents play the same scenario."""
    name: str | None = None
    """What it is kept under, where that is not its own name."""
    suite: str | None = None
    position: int = 0


@dataclass(frozen=True, kw_only=True)
class PlayedScenario:
    """A scenario's trials, and what follows from them."""

    prepared: PreparedScenario
    trials: tuple[Trial, ...]
    merged: MergedErrors | None = None

    @cached_property
    def outcome(self) -> ScenarioOutcome:
        return decide_scenario(self.prepared.entry, map(summarise, self.trials), merged=self.merged)


class ScenarioSession:
    """Plays scenarios as they are asked for, through one RunSession on an event loop in a thread."""

    def __init__(self, request: RunRequest, run: Run, *, live: bool = True) -> None:
        """`live`: models may be asked; else their answers come from the cache, or there are none."""
        self._request = request
        self._run = run
        self.live = live
        self.loop = LoopThread()
        make_models = RunModels if live else CachedModels
        self.models = make_models(
            defaults=request.models, cache=Path(request.cache) if request.cache else None, environ=request.environ
        )
        self._offline = self.models if isinstance(self.models, CachedModels) else None
        self._session = RunSession(request, agents=Agents(request), models=self.models, secrets=self._secrets)
        self._entered: AsyncExitStack | None = None
        self._configs: dict[str, SuiteConfig] = {}
        self._rate_limits: dict[str, RateLimit] = {}
        self._budgets: dict[str, Budget] = {}
        self._model_settings: list[Mapping[str, Any]] = []
        """Of the suites that were played: they may hold secrets."""
        self._played: set[Place] = set()
        self._asking: set[ScenarioKey] = set()
        """Scenarios that ask a model, where none may be asked."""

    @property
    def run(self) -> Run:
        return self._session.run if self._session.is_started else self._run

    def prepare(self, asked: ScenarioRequest) -> PreparedScenario:
        """The scenario ready to be played. Raises UsageError, and NotLive where it is plain that a model is missing."""
        scenario = asked.scenario
        offline = self._offline if self._offline is not None and asks_models(scenario) else None
        if offline is not None and not offline.knows_something():
            raise NotLive("it asks a model")
        context = self._context(asked)
        unknown = find_unknown_tools(scenario, self._agents_of(asked))
        if unknown:
            raise UsageError("\n".join(unknown))
        prepared = prepare(scenario, context, position=asked.position)
        if asked.name is not None:
            entry = prepared.entry
            prepared = replace(prepared, entry=replace(entry, key=entry.key._replace(name=asked.name)))
        if offline is not None:
            self._asking.add(prepared.entry.key)
        return prepared

    def _context(self, asked: ScenarioRequest) -> SuiteContext:
        loaded = asked.loaded
        isolated = self._config_of(loaded).isolation == "process"
        agent = self._session.agents.get(asked.agent, name=asked.agent_name or loaded.name, isolated=isolated)
        self._mark_recording(asked.agent)
        self.models.budgeted = self.models.budgeted or self._config_of(loaded).budget is not None
        for settings in model_settings(loaded):
            if settings not in self._model_settings:
                self._model_settings.append(settings)
                self._session.add_secrets()
        return SuiteContext(
            suite=asked.suite or loaded.name,
            agent=agent,
            agent_name=asked.agent_name,
            agent_key=describe_agent(asked.agent),
            evaluators=loaded.evaluators,
            setup=read_hooks(loaded, "setup"),
            teardown=read_hooks(loaded, "teardown"),
            models=self.models,
        )

    def _agents_of(self, asked: ScenarioRequest) -> list[Agent]:
        """All agents that play the scenario: with several, each in a test of its own."""
        loaded = asked.loaded
        named = (loaded.suite.agents or {}) if asked.agent_name else {}
        isolated = self._config_of(loaded).isolation == "process"
        specs = {**named, asked.agent_name: asked.agent}
        agents = self._session.agents
        return [agents.get(spec, name=name or loaded.name, isolated=isolated) for name, spec in specs.items()]

    def play_and_wait(self, prepared: PreparedScenario, loaded: LoadedSuite) -> PlayedScenario:
        return self.loop.wait(self.play(prepared, loaded))

    async def play(self, prepared: PreparedScenario, loaded: LoadedSuite) -> PlayedScenario:
        """All trials of the scenario, each committed. To be run on `loop`.

        Raises NotLive when a model would have had to be asked; then nothing is kept.
        """
        await self._enter()
        prepared = discreet(prepared, self._session.redaction)
        budget = self._budget_of(loaded)
        jobs = Jobs(
            schedule=TrialSchedule([prepared], budget=budget),
            executor=LocalExecutor(self._settings(loaded)),
            concurrency=min(self._config_of(loaded).concurrency or 20, prepared.entry.trials),
            replaced=dict.fromkeys(self._played, ()),
        )
        if self._offline is not None and prepared.entry.key in self._asking:
            jobs = replace(jobs, executor=_Replayed(await _play_offline(self._offline, jobs)))
        self._start()
        self._session.add([prepared.entry])
        trials = [trial async for trial in self._session.play(jobs)]
        self._played |= {(trial.key, trial.index) for trial in trials}
        merged = await self._merged(prepared, trials)
        return PlayedScenario(
            prepared=prepared, trials=tuple(sorted(trials, key=lambda trial: trial.index)), merged=merged
        )

    async def _merged(self, prepared: PreparedScenario, trials: Iterable[Trial]) -> MergedErrors | None:
        if not any(trial.judgement is not None and trial.judgement.failures for trial in trials):
            return None
        merged = await self._session.merge_failures(lambda: [prepared])
        return next((each for each in merged if each.key == prepared.entry.key), None)

    async def check(self, played: PlayedScenario, evaluators: Sequence[Evaluator]) -> PlayedScenario:
        """The same trials with what further evaluators say of them; kept in place of the former."""
        asked = replace(
            played.prepared,
            turn_evaluators=(),
            every_turn_evaluators=(),
            trial_evaluators=tuple(
                evaluator_object(each, played.prepared.scenario, self.models) for each in evaluators
            ),
        )
        redact = self._session.redaction.transcript
        again = [await _checked(asked, trial, redact) for trial in played.trials]
        finished = [(Job(prepared=played.prepared, index=trial.index), trial) for trial in again]
        places = {(trial.key, trial.index): () for trial in again}
        jobs = Jobs(schedule=TrialSchedule(()), executor=_Replayed(finished), concurrency=1, replaced=places)
        trials = [trial async for trial in self._session.play(jobs)]
        ordered = tuple(sorted(trials, key=lambda trial: trial.index))
        return PlayedScenario(prepared=played.prepared, trials=ordered, merged=played.merged)

    def tell(self, played: PlayedScenario) -> None:
        """Tell listeners of trials that nothing will be added to."""
        self._session.recorder.tell_finished(played.trials)

    def close(self) -> None:
        """End what this process shared: agents, models, the writer, the loop. The run itself stays open."""
        try:
            if self._entered is not None:
                self.loop.wait(self._entered.aclose())
        finally:
            self.loop.close()
            if self._session.is_started:
                self._session.recorder.tell_run_finished()
            if self._session.store is not None:
                self._session.store.close()

    async def _enter(self) -> None:
        if self._entered is None:
            self._entered = AsyncExitStack()
            await self._entered.enter_async_context(self._session)

    def _start(self) -> None:
        """Write the run down, with the first scenario that is kept."""
        if self._session.is_started:
            return
        self._session.start(self._run, join=True, tell_trials=False)
        if self._run.replayed and not self._session.run.replayed:
            raise _late_recording(self._session.run.id)

    def _settings(self, loaded: LoadedSuite) -> TrialSettings:
        rpm = self._config_of(loaded).rpm
        if rpm and loaded.path not in self._rate_limits:
            self._rate_limits[loaded.path] = RateLimit(rpm)
        return TrialSettings(
            run_id=self._run.id,
            seed=self.run.seed,
            rate_limit=self._rate_limits.get(loaded.path),
            redact=self._session.redaction.transcript,
        )

    def _budget_of(self, loaded: LoadedSuite) -> Budget:
        """Of the suite. Raises UsageError where it is spent."""
        limit = self._config_of(loaded).budget
        budget = self._budgets.setdefault(loaded.path, Budget(limit))
        if budget.is_spent:
            raise UsageError(f"{loaded.path}: the budget of ${limit} is spent, so the scenario was not run")
        return budget

    def _config_of(self, loaded: LoadedSuite) -> SuiteConfig:
        config = self._configs.get(loaded.path)
        if config is None:
            config = self._configs[loaded.path] = merge_config(loaded.config, loaded.overrides)
        return config

    def _secrets(self) -> Iterable[Secret]:
        request = self._request
        known = (*self._session.agents.settings(), request.models, {"store": request.store}, *self._model_settings)
        return find_secrets(request.environ, known, exempt=request.not_redacted)

    def _mark_recording(self, spec: Any) -> None:
        """Mark the run, while that can be done. Raises UsageError when it was written down without the mark."""
        if self.run.replayed or not is_recording(spec):
            return
        if self._session.is_started:
            raise _late_recording(self.run.id)
        self._run = replace(self._run, replayed=True)


class _Replayed:
    """An executor for trials that are finished already and only have to be kept."""

    def __init__(self, finished: Sequence[Finished]) -> None:
        self._finished = finished

    async def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        for finished in self._finished:
            yield finished


async def _play_offline(models: CachedModels, jobs: Jobs) -> list[Finished]:
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


async def _checked(asked: PreparedScenario, trial: Trial, redact: Redact) -> Trial:
    results = (*trial.results, *await evaluate(asked, trial.transcript, index=trial.index, redact=redact))
    threshold = asked.entry.gates.pass_threshold
    verdict = decide_trial(trial.transcript, results, trial.judgement, pass_threshold=threshold)
    return replace(
        trial,
        results=results,
        status=verdict.status,
        failure_reasons=verdict.failure_reasons,
        error=find_error(trial.transcript, results, trial.judgement),
    )


def is_recording(spec: Any) -> bool:
    return isinstance(spec, Mapping) and spec.get("type") == "replay"


def _late_recording(run_id: str) -> UsageError:
    return UsageError(
        f"run {run_id}: a recording is played, and the run began without saying so. Name it where it is known from "
        "the start: agent: in the suite, --seatrial-agent or [tool.seatrial]"
    )


def new_run(
    request: RunRequest, run_id: str, *, seed: int, gates: RunGates, folder: Path, replayed: bool = False
) -> Run:
    """A run that is about to begin."""
    commit = find_commit(folder).wait()
    return Run(
        id=run_id,
        name=request.name or "pytest",
        started_at=now(),
        seed=seed,
        gates=gates,
        config={
            "sources": list(request.sources),
            "agent": None if request.agent is None else redact_spec(request.agent),
            "overrides": plain(request.overrides),
            "models": redact_spec(plain(request.models)),
            "command": request.command,
        },
        git_commit=commit.sha,
        git_dirty=commit.dirty,
        versions=versions(),
        replayed=replayed,
    )


def choose_seed(selected: Sequence[LoadedSuite]) -> int | None:
    """What the suites say; each may come once for each of its scenarios."""
    return merge_run_configs(list({id(loaded): loaded for loaded in selected}.values())).seed


def run_gates(selected: Sequence[tuple[LoadedSuite, Scenario]]) -> RunGates:
    """The gates of the suites, over the scenarios that were selected: what is not played cannot be asked for."""
    suites = list({id(loaded): loaded for loaded, _ in selected}.values())
    if not suites:
        return RunGates()
    config = merge_run_configs(suites)
    tags = {(id(loaded), tag) for loaded, scenario in selected for tag in scenario.tags}
    names = {(id(loaded), scenario.name) for loaded, scenario in selected}
    groups = [
        {
            "suite": loaded.name,
            "name": group.name,
            "tags": [tag for tag in group.tags if (id(loaded), tag) in tags],
            "threshold": group.threshold,
            "must_pass": [name for name in group.must_pass if (id(loaded), name) in names],
        }
        for loaded in suites
        for group in loaded.suite.groups
    ]
    return RunGates(
        cases_pass_threshold=config.cases_pass_threshold,
        metrics_pass_threshold=config.metrics_pass_threshold,
        groups=tuple(group for group in groups if group["tags"] or group["must_pass"]),
    )


def end_run(store: str, run_id: str, state: RunState, *, left_out: Sequence[ScenarioEntry] = ()) -> Report:
    """Mark the run as ended, and report what it came to, with the scenarios that were not played."""
    opened = open_store(store)
    ended = now()
    if left_out:
        known = {entry.key for entry in opened.entries(run_id)}
        opened.add_scenarios(run_id, [entry for entry in left_out if entry.key not in known])
    opened.finish_run(run_id, state, ended)
    return Report(StoredRecord(opened, opened.run(run_id)))


def left_out(asked: ScenarioRequest, *, skip: str | None = None) -> ScenarioEntry:
    """What a run keeps of a scenario that is not played: skipped for a reason, or else kept from it by a mistake."""
    scenario, loaded = asked.scenario, asked.loaded
    return make_entry(
        scenario if skip is None else replace(scenario, skip=skip),
        key=ScenarioKey(asked.suite or loaded.name, asked.name or scenario.name, asked.agent_name),
        agent_key="" if asked.agent is None else describe_agent(asked.agent),
        evaluators=loaded.evaluators,
        position=asked.position,
    )
