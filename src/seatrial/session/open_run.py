"""A run that stays open: its scenarios are played one at a time, whenever somebody asks, as pytest does.

Several processes may play the same run, each for its own scenarios; one of them, or whoever started them, ends it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.runner import Redaction, RunOptions, TrialSettings, run_trial, run_trials
from seatrial.runner.evaluate import evaluate
from seatrial.runner.pace import Pace
from seatrial.scenarios import Cast, LoadedSuite, ModelCast, Preparer, find_unknown_tools, merge_config, read_hooks
from seatrial.scenarios.build_evaluators import evaluator_object
from seatrial.store import Store, open_store
from seatrial.verdicts import decide_scenario, decide_trial, find_error
from seatrial.vocabulary.events import Event, RunFinished, RunStarted, TrialFinished
from seatrial.vocabulary.failures import PlayAgain
from seatrial.vocabulary.roles import Agent, Evaluator, PreparedScenario
from seatrial.vocabulary.run import Run, ScenarioEntry, ScenarioKey, ScenarioOutcome, Trial
from seatrial.vocabulary.scenario import Scenario, SuiteConfig
from seatrial.vocabulary.summary import summarise
from seatrial.vocabulary.value import Value

from .discretion import discreet
from .listening import listeners_of
from .loop_thread import LoopThread
from .offline import NotLive, OfflineModels, asks_models
from .request import RunRequest
from .secrets_of import find_secrets, model_settings
from .shared_agents import SharedAgents


class Casting(Value):
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

    @cached_property
    def outcome(self) -> ScenarioOutcome:
        return decide_scenario(self.prepared.entry, map(summarise, self.trials))


class OpenRun:
    """Plays scenarios as they are asked for, on one event loop, and keeps each trial as it is finished."""

    def __init__(self, request: RunRequest, run: Run, *, live: bool = True) -> None:
        """`live`: models may be asked; else their answers come from the cache, or there are none."""
        self.run = run
        self.loop = LoopThread()
        self.live = live
        self._request = request
        cast = ModelCast if live else OfflineModels
        self.models = cast(
            defaults=request.models, cache=Path(request.cache) if request.cache else None, environ=request.environ
        )
        self._offline = self.models if isinstance(self.models, OfflineModels) else None
        self._agents = SharedAgents(request.environ)
        self._listeners = listeners_of(request)
        self._store: Store | None = None
        self._configs: dict[str, SuiteConfig] = {}
        self._paces: dict[str, Pace] = {}
        self._spent: dict[str, float] = {}
        self._kept: set[tuple[ScenarioKey, int]] = set()
        self._gathered_entries: list[ScenarioEntry] = []
        self._gathered: list[Trial] = []
        self._redaction: tuple[tuple[int, int], Redaction] | None = None
        self._model_settings: list[Mapping[str, Any]] = []
        """Of the suites that were cast: they may hold secrets."""
        self._last: tuple[tuple[Any, ...], Casting, Preparer] | None = None
        self._asking: set[ScenarioKey] = set()
        """Scenarios that ask a model, where none may be asked."""

    @property
    def started(self) -> bool:
        """Whether anything was kept."""
        return self._store is not None

    def prepare(self, casting: Casting) -> PreparedScenario:
        """The scenario ready to be played. Raises UsageError, and NotLive where it is plain that a model is missing."""
        scenario = casting.scenario
        offline = self._offline if self._offline is not None and asks_models(scenario) else None
        if offline is not None and not offline.knows_something():
            raise NotLive("it asks a model")
        preparer = self._preparer(casting)
        unknown = find_unknown_tools(scenario, self._agents_of(casting))
        if unknown:
            raise UsageError("\n".join(unknown))
        prepared = preparer.prepare(scenario, position=casting.position)
        if casting.name is not None:
            entry = prepared.entry
            prepared = replace(prepared, entry=replace(entry, key=entry.key._replace(name=casting.name)))
        if offline is not None:
            self._asking.add(prepared.entry.key)
        return prepared

    def _preparer(self, casting: Casting) -> Preparer:
        """The scenarios of a file mostly come one after the other, and have the same."""
        whose = (id(casting.loaded), id(casting.agent), casting.agent_name, casting.suite)
        if self._last is None or self._last[0] != whose:
            # While the casting is held, nothing else can have these ids.
            self._last = whose, casting, Preparer(self._cast(casting))
        return self._last[2]

    def _agents_of(self, casting: Casting) -> list[Agent]:
        """All agents that play the scenario: with several, each in a test of its own."""
        loaded = casting.loaded
        named = (loaded.suite.agents or {}) if casting.agent_name else {}
        isolated = self._config_of(loaded).isolation == "process"
        specs = {**named, casting.agent_name: casting.agent}
        return [self._agents.of(spec, name=name or loaded.name, isolated=isolated)[1] for name, spec in specs.items()]

    def _cast(self, casting: Casting) -> Cast:
        loaded = casting.loaded
        isolated = self._config_of(loaded).isolation == "process"
        key, agent = self._agents.of(casting.agent, name=casting.agent_name or loaded.name, isolated=isolated)
        self._mind_recordings(casting.agent)
        self._model_settings += model_settings(loaded)
        return Cast(
            suite=casting.suite or loaded.name,
            agent=agent,
            agent_name=casting.agent_name,
            agent_key=key,
            evaluators=loaded.evaluators,
            setup=read_hooks(loaded, "setup"),
            teardown=read_hooks(loaded, "teardown"),
            models=self.models,
        )

    def _may_be_quick(self, prepared: PreparedScenario, loaded: LoadedSuite) -> bool:
        """Whether it is a single trial in which nobody takes part but us and a plain function."""
        return (
            prepared.plain
            and prepared.entry.trials == 1
            and prepared.entry.key not in self._asking
            and not self._config_of(loaded).rpm
        )

    @property
    def may_gather(self) -> bool:
        """Whether trials may be told to nobody before they are kept: listeners would hear of them at once."""
        return not self._listeners

    @property
    def gathered(self) -> int:
        """How many trials are played and not yet kept."""
        return len(self._gathered)

    def commit(self) -> None:
        """Keep what was gathered. Raises StoreError, or UsageError; it stays gathered then."""
        if self._gathered:
            self._open().save_played(self.run.id, self._gathered_entries, self._gathered)
            self.forget_gathered()

    def forget_gathered(self) -> None:
        self._gathered_entries, self._gathered = [], []

    def play_here(
        self,
        prepared: PreparedScenario,
        loaded: LoadedSuite,
        *,
        gather: bool,
        before_waiting: Callable[[], None],
    ) -> PlayedScenario:
        """As `play`, for whoever has nothing else to do meanwhile."""
        if self._may_be_quick(prepared, loaded):
            return self.loop.drive(self.play(prepared, loaded, gather=gather), before_waiting=before_waiting)
        before_waiting()
        return self.loop.wait(self.play(prepared, loaded))

    async def play(self, prepared: PreparedScenario, loaded: LoadedSuite, *, gather: bool = False) -> PlayedScenario:
        """All trials of the scenario, each kept once it is finished. To be run on `loop`.

        `gather`: they are kept when `commit` is called, together with others.
        Raises NotLive when a model would have had to be asked; then nothing is kept.
        """
        offline = self._offline if prepared.entry.key in self._asking else None
        refused = offline.refused if offline else 0
        redaction = self._redact()
        prepared = discreet(prepared, redaction)
        entry = prepared.entry
        alone = entry.trials == 1
        if offline is None and not alone:
            self._save([entry], ())
        played: list[Trial] = []
        options = self._options(prepared, loaded, redaction)

        def take(trial: Trial) -> None:
            played.append(trial)
            self._spend(loaded, trial)
            if offline is None:
                # A single trial is kept together with its scenario: one commit instead of two.
                self._save([entry] if alone else (), (trial,), gather=gather)
            elif offline.refused > refused:
                raise NotLive("an answer that it needs is not in the cache")

        if alone:
            for trial in await _play_one(prepared, options):
                take(trial)
        else:
            trials = run_trials([prepared], options)
            try:
                async for trial in trials:
                    take(trial)
            finally:
                await trials.aclose()
        if offline is not None or not played:
            self._save([entry], played)
        return PlayedScenario(prepared=prepared, trials=tuple(sorted(played, key=lambda trial: trial.index)))

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
        again = []
        redact = self._redact().transcript
        for trial in played.trials:
            results = (*trial.results, *await evaluate(asked, trial.transcript, index=trial.index, redact=redact))
            threshold = asked.entry.gates.pass_threshold
            verdict = decide_trial(trial.transcript, results, trial.judgement, pass_threshold=threshold)
            again.append(
                replace(
                    trial,
                    results=results,
                    status=verdict.status,
                    failure_reasons=verdict.failure_reasons,
                    error=find_error(trial.transcript, results, trial.judgement),
                )
            )
        self._save((), again)
        return replace(played, trials=tuple(again))

    def tell(self, played: PlayedScenario) -> None:
        """Tell listeners of trials that nothing will be added to."""
        for trial in played.trials if self._listeners else ():
            self._tell(TrialFinished(trial=trial))

    def close(self) -> None:
        """End what this process shared: agents, models, the writer, the loop. The run itself stays open."""
        try:
            self.commit()
            self.loop.wait(self._close_parts())
        finally:
            self._tell(RunFinished(run=self.run))
            if self._store is not None:
                self._store.close()
            self.loop.close()

    async def _close_parts(self) -> None:
        problem = await self._agents.find_late_call()
        if problem is not None and self._store is not None:
            self._store.note_problem(self.run.id, problem)
        await self._agents.close()
        await self.models.close()

    def _options(self, prepared: PreparedScenario, loaded: LoadedSuite, redaction: Redaction) -> RunOptions:
        config = self._config_of(loaded)
        left = None if config.budget is None else config.budget - self._spent.get(loaded.path, 0.0)
        if left is not None and left <= 0:
            raise UsageError(f"{loaded.path}: the budget of ${config.budget} is spent, so the scenario was not run")
        if config.rpm and loaded.path not in self._paces:
            self._paces[loaded.path] = Pace(config.rpm)
        return RunOptions(
            concurrency=min(config.concurrency or 20, prepared.entry.trials),
            budget_usd=left,
            settings=TrialSettings(
                run_id=self.run.id,
                seed=self.run.seed,
                pace=self._paces.get(loaded.path),
                redact=redaction.transcript,
            ),
        )

    def _config_of(self, loaded: LoadedSuite) -> SuiteConfig:
        config = self._configs.get(loaded.path)
        if config is None:
            config = self._configs[loaded.path] = merge_config(loaded.config, loaded.overrides)
        return config

    def _redact(self) -> Redaction:
        """Made anew only when agents or models have come that may have brought secrets."""
        seen = len(self._agents), len(self._model_settings)
        if self._redaction is None or self._redaction[0] != seen:
            request = self._request
            known = (*self._agents.settings(), request.models, {"store": request.store}, *self._model_settings)
            secrets = find_secrets(request.environ, known, exempt=request.not_redacted)
            self._redaction = (seen, Redaction(secrets))
        return self._redaction[1]

    def _spend(self, loaded: LoadedSuite, trial: Trial) -> None:
        instruments = trial.instruments.cost_usd if trial.instruments else None
        spent = (trial.transcript.cost_usd or 0.0) + (instruments or 0.0)
        self._spent[loaded.path] = self._spent.get(loaded.path, 0.0) + spent

    def _open(self) -> Store:
        if self._store is None:
            assert self._request.store is not None
            self._store = open_store(self._request.store)
            joined = _join(self._store, self.run)
            if self.run.replayed and not joined.replayed:
                raise _late_recording(joined.id)
            self.run = joined
            # How many scenarios will come, nobody knows.
            self._tell(RunStarted(run=joined, scenarios=0, trials=0))
        return self._store

    def _mind_recordings(self, spec: Any) -> None:
        """Mark the run, while that can be done. Raises UsageError when others have been told that it has none."""
        if self.run.replayed or not is_recording(spec):
            return
        if self.started:
            raise _late_recording(self.run.id)
        self.run = replace(self.run, replayed=True)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _save(self, entries: Sequence[ScenarioEntry], trials: Sequence[Trial], *, gather: bool = False) -> None:
        """Keep them. On the loop itself, which has little else to do. A scenario that is played again makes way."""
        places = {(trial.key, trial.index) for trial in trials}
        again = not places.isdisjoint(self._kept)
        self._kept |= places
        if gather and not again:
            self._gathered_entries += entries
            self._gathered += trials
        else:
            self.commit()
            self._open().save_played(self.run.id, entries, trials, replace=again)


async def _play_one(prepared: PreparedScenario, options: RunOptions) -> list[Trial]:
    """The only trial of a scenario, without the schedule that several need: that would take longer than the trial."""
    try:
        return [await run_trial(prepared, 0, options.settings)]
    except PlayAgain:
        return [trial async for trial in run_trials([prepared], options)]


def _join(store: Store, run: Run) -> Run:
    """The run as it is stored; another process may have been first."""
    try:
        store.start_run(run)
    except UsageError as refused:
        try:
            return store.run(run.id)
        except UsageError:
            raise refused from None
    return run


def is_recording(spec: Any) -> bool:
    return isinstance(spec, Mapping) and spec.get("type") == "replay"


def _late_recording(run_id: str) -> UsageError:
    return UsageError(
        f"run {run_id}: a recording is played, and the run began without saying so. Name it where it is known from "
        "the start: agent: in the suite, --seatrial-agent or [tool.seatrial]"
    )
