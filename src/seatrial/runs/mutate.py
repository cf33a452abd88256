"""Mutation: break the passed trials of a run in known ways, and see which checks notice.

No agent is called. Mutants are judged by the judge executor, in a store of their own beside that of the runs: no list,
comparison or history contains them. An interrupted mutation continues where it was.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.engine.executors import JudgeExecutor
from seatrial.engine.schedule import FixedSchedule, Job
from seatrial.errors import UsageError
from seatrial.model.conversation import StopReason, Transcript, WorldRecord
from seatrial.model.json_patch import apply_changes, differences
from seatrial.model.mutation import MutationResult, Suggestion
from seatrial.model.protocols import Evaluator, PreparedScenario
from seatrial.model.run import RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.model.struct import Struct
from seatrial.model.value_paths import parse_path
from seatrial.model.world_view import WorldView
from seatrial.mutants.mutant import Mutant, RunFacts, collect_facts
from seatrial.mutants.operators import OPERATORS, Operator, find_operators
from seatrial.mutants.sampling import PlannedMutant, Sample, Sampling, share_limit
from seatrial.mutants.suggestions import suggest
from seatrial.scenarios.tool_names import offered_tools
from seatrial.tools.world import PreparedWorld
from seatrial.verdicts.reasons import counted
from seatrial.verdicts.run import Spending

from .agents import Agents, NoAgent
from .event_loop import run_until_complete
from .mutation_tally import MutationTally, mutants_store, save_mutation
from .new_run import find_commit, new_planned_run
from .report import MemoryRecord, StoredRecord
from .request import RunRequest
from .resume import request_again
from .run_plan import RunPlan
from .session import Jobs, RunSession

PER_OPERATOR = 10
LIMIT = 10_000
_UNUSED_MODEL = "openai:unused@http://127.0.0.1:9/v1"
"""The model of judges and users if none is asked. It is never called."""

Record = StoredRecord | MemoryRecord
OnProgress = Callable[[int, int, MutationTally], None]
"""Mutants judged so far, mutants in all, and the counts."""


class MutationSettings(Struct, frozen=True, kw_only=True):
    """How a run is mutated."""

    per_operator: int = PER_OPERATOR
    limit: int = LIMIT
    seed: int = 0
    operators: tuple[str, ...] = ()
    """Names of operators; empty: all."""
    judges: bool = False
    budget: float | None = None
    """The US dollars that judges may cost."""
    on_plan: Callable[[str], None] | None = None
    """Receives what will be done, in one line, before it starts."""
    on_progress: OnProgress | None = None


def mutate_record(record: Record, asked: RunRequest, settings: MutationSettings) -> MutationResult:
    """Mutate the passed trials of a run. `asked` replaces stored settings: files, models, store."""
    operators = _choose_operators(settings.operators)
    parent = record.run
    try:
        request = request_again(parent, asked)
    except UsageError as problem:
        text = str(problem).replace(f"seatrial run PATHS --resume {parent.id}", f"seatrial mutate {parent.id} PATHS")
        raise UsageError(text) from None
    if not settings.judges:
        request = replace(request, models={"judge": _UNUSED_MODEL, "user": _UNUSED_MODEL, **request.models})
    budget = {"budget": settings.budget} if settings.judges and settings.budget is not None else {}
    request = replace(request, overrides={**request.overrides, **budget}, store=mutants_store(request.store))
    plan = RunPlan(request, agents=Agents(request, replacement=NoAgent()))
    result = run_until_complete(_Mutation(plan, record, settings, operators).run())
    if request.store is not None:
        save_mutation(request.store, result)
    return result


def _choose_operators(names: Sequence[str]) -> tuple[Operator, ...]:
    known = find_operators()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"no operator is called {unknown[0]!r}. There are: {', '.join(known)}")
    return tuple(known[name] for name in names or known)


class _Mutation:
    """A mutation in progress."""

    def __init__(
        self, plan: RunPlan, record: Record, settings: MutationSettings, operators: tuple[Operator, ...]
    ) -> None:
        self._plan = plan
        self._record = record
        self._settings = settings
        self._operators = operators
        self._commit = find_commit(Path.cwd())
        self._tally = MutationTally(operators)
        self._end_states = _EndStates()
        self._notes: list[str] = []
        self._facts = RunFacts()
        self._originals: dict[ScenarioKey, list[int]] = {}
        """The trials that passed and still pass, by scenario."""
        self._shares: dict[ScenarioKey, int] = {}
        """The greatest number of mutants of each scenario."""
        self._planned = 0
        self._spent = Spending()
        self._open: dict[tuple[ScenarioKey, int], PlannedMutant] = {}
        """Mutants that are being judged."""

    async def run(self) -> MutationResult:
        scenarios = self._find_scenarios()
        finished = False
        suggestions: list[Suggestion] = []
        async with self._plan.open_session() as session:
            stored = self._start(session, scenarios)
            state = RunState.INTERRUPTED
            try:
                await self._judge_originals(session, scenarios, stored)
                self._end_states.learn(scenarios)
                self._learn(scenarios)
                self._tell_plan(scenarios)
                finished = await self._judge_mutants(session, scenarios, stored)
                suggestions = await suggest(
                    self._tally.survivors, self._all_originals, self._facts, find_world=self._end_states.find_world
                )
                state = RunState.FINISHED if finished else RunState.INTERRUPTED
            except asyncio.CancelledError:
                session.cancelled = True
                self._notes.append("it was interrupted; the same command continues it")
            finally:
                await session.recorder.close()
                session.recorder.finish(state)
        return self._tally.result(
            run=self._record.run,
            seed=self._settings.seed,
            judges=self._settings.judges,
            originals=sum(map(len, self._originals.values())),
            suggestions=tuple(suggestions),
            notes=tuple(self._notes),
            finished=finished,
            interrupted=session.cancelled,
        )

    def _find_scenarios(self) -> list[PreparedScenario]:
        """The scenarios that have passed trials, as the files have them now."""
        run = self._record.run
        passed = {each.key for each in self._record.summaries() if each.status is Status.PASSED}
        if not passed:
            raise UsageError(f"run {run.id}: no trial passed, so there is nothing to mutate. Run the suite first")
        old = {each.entry.key: each.entry for each in self._record.outcome.scenarios}
        found = [each for each in self._plan.scenarios() if each.entry.key in passed and each.entry.skip is None]
        if not found:
            files = ", ".join(str(suite.path) for suite in self._plan.suites)
            raise UsageError(
                f"run {run.id}: none of its passed scenarios is in {files}. Give their files: "
                f"seatrial mutate {run.id} PATHS"
            )
        gone = len(passed) - len(found)
        if gone:
            self._notes.append(f"no longer in the files: {counted(gone, 'passed scenario')} of the run")
        edited = [each for each in found if each.entry.trial_fingerprint != old[each.entry.key].trial_fingerprint]
        if edited:
            count = counted(len(edited), "scenario")
            self._notes.append(f"edited since the run: {count}; the current files judge the trials")
        if run.replayed:
            self._notes.append("the trials of the run are recordings")
        return found if self._settings.judges else [_without_models(each) for each in found]

    def _start(self, session: RunSession, scenarios: Sequence[PreparedScenario]) -> set[tuple[ScenarioKey, int]]:
        """Start the run of the mutants, or continue an interrupted one. Returns the trials that are stored."""
        store = session.open_store()
        entries = [replace(each.entry, sequential=None, trials=1) for each in scenarios]
        settings = self._identity(entries)
        earlier = None if store is None else store.runs()
        for run in earlier or ():
            if run.state is RunState.INTERRUPTED and (run.config or {}).get("mutation") == settings:
                session.claim(run.id)
                session.start(run, scenarios=len(entries), again=True)
                known = {entry.key: 0 for entry in (store.entries(run.id) if store is not None else ())}
                session.recorder.add(entries, stored=known)
                return store.finished(run.id) if store is not None else set()
        if store is not None and earlier:
            store.delete_runs([run.id for run in earlier], force=True)  # only the newest mutation is kept
        new = new_planned_run(self._plan, self._commit, session.redaction, seed=self._settings.seed)
        parent = self._record.run
        config = {**(new.config or {}), "mutation": settings}
        session.start(replace(new, parent=parent.id, replayed=True, config=config), scenarios=len(entries))
        session.recorder.add(entries)
        return set()

    def _identity(self, entries: Sequence[ScenarioEntry]) -> Mapping[str, Any]:
        """What decides about the mutants and their results, as JSON."""
        settings = self._settings
        texts = (f"{entry.key} {entry.trial_fingerprint}" for entry in entries)
        return {
            "run": self._record.run.id,
            "per_operator": settings.per_operator,
            "limit": settings.limit,
            "seed": settings.seed,
            "operators": [operator.name for operator in self._operators],
            "judges": settings.judges,
            "scenarios": sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest(),
        }

    async def _judge_originals(
        self, session: RunSession, scenarios: Sequence[PreparedScenario], stored: set[tuple[ScenarioKey, int]]
    ) -> None:
        """Judge the passed trials again: only those that pass now can show that a check notices a defect."""
        jobs = (
            Job(prepared=prepared, index=trial.index, recorded=trial)
            for prepared in scenarios
            for trial in self._passed_trials(prepared.entry.key)
            if (prepared.entry.key, trial.index) not in stored
        )
        left_out: dict[str, int] = {}
        async with aclosing(session.play(self._jobs(session, FixedSchedule(jobs)))) as trials:
            async for trial in trials:
                self._note_original(trial, left_out)
        for key, index in sorted(stored):
            if index < _FIRST_MUTANT:
                self._note_original(self._stored_trial(session, key, index), left_out)
        for why, count in left_out.items():
            self._notes.append(f"left out: {counted(count, 'trial')}; {why}")
        if not self._originals:
            raise UsageError(
                f"run {self._record.run.id}: none of its passed trials passes the current checks without "
                f"{'an error' if self._settings.judges else 'judges'}, so nothing can be shown. "
                + "; ".join(self._notes)
            )

    def _note_original(self, trial: Trial, left_out: dict[str, int]) -> None:
        if trial.status is Status.PASSED:
            self._originals.setdefault(trial.key, []).append(trial.index)
            self._tally.add_original(trial)
            self._end_states.add_original(trial)
            return
        only_judged = trial.error is not None and not trial.results and not self._settings.judges
        why = "only judges check them, which --judges asks" if only_judged else "they do not pass the current files"
        left_out[why] = left_out.get(why, 0) + 1

    def _stored_trial(self, session: RunSession, key: ScenarioKey, index: int) -> Trial:
        assert session.store is not None
        return session.store.trial(session.run.id, key, index)

    def _passed_trials(self, key: ScenarioKey) -> Iterator[Trial]:
        return (trial for trial in self._record.trials(key) if trial.status is Status.PASSED)

    def _originals_of(self, key: ScenarioKey) -> Iterator[Trial]:
        wanted = set(self._originals.get(key, ()))
        return (trial for trial in self._record.trials(key) if trial.index in wanted)

    def _all_originals(self) -> Iterator[tuple[ScenarioKey, Any]]:
        return ((key, trial.transcript) for key in self._originals for trial in self._originals_of(key))

    def _learn(self, scenarios: Sequence[PreparedScenario]) -> None:
        """Collect what operators may use: tools, argument values, replies."""
        known: dict[str, None] = {}
        for each in scenarios:
            known |= dict.fromkeys((*(each.scenario.mocks or ()), *sorted(offered_tools(each.scenario))))
        self._facts = collect_facts(((key.name, transcript) for key, transcript in self._all_originals()), known)
        unchecked = [each.entry.key for each in scenarios if each.world is not None and _checks_no_end(each)]
        self._facts = replace(self._facts, without_end_state=frozenset(unchecked))
        if not self._facts.used_tools:
            self._notes.append("no trial has recorded calls, so only replies were changed")

    def _sampled(self, prepared: PreparedScenario) -> Sample:
        key = prepared.entry.key
        sampling = Sampling(
            operators=self._operators,
            per_operator=self._settings.per_operator,
            per_scenario=self._shares[key],
            seed=self._settings.seed,
        )
        facts = replace(self._facts, scenario=key.name, scripted=prepared.scripted)
        return sampling.sample(key, self._originals_of(key), facts)

    def _tell_plan(self, scenarios: Sequence[PreparedScenario]) -> None:
        self._shares = share_limit(self._settings.limit, self._originals, seed=self._settings.seed)
        samples = {each.entry.key: self._sampled(each) for each in scenarios if each.entry.key in self._originals}
        counts = {key: len(sample.mutants) for key, sample in samples.items()}
        self._planned, possible = sum(counts.values()), sum(sample.possible for sample in samples.values())
        if self._planned < possible:
            self._notes.append(
                f"a sample: {self._planned:,} of {possible:,} possible mutants. More: --per-operator, --limit"
            )
        if self._settings.on_plan is None:
            return
        originals = sum(map(len, self._originals.values()))
        text = f"{counted(self._planned, 'mutant')} of {counted(originals, 'passed trial')}"
        if self._settings.judges:
            text += f"; {_judge_plan(scenarios, counts, self._record)}"
        self._settings.on_plan(text)

    async def _judge_mutants(
        self, session: RunSession, scenarios: Sequence[PreparedScenario], stored: set[tuple[ScenarioKey, int]]
    ) -> bool:
        """Whether all mutants were judged."""
        schedule = _WithinBudget(self._mutant_jobs(session, scenarios, stored), self._spent, self._settings.budget)
        async with aclosing(session.play(self._jobs(session, schedule))) as trials:
            async for trial in trials:
                self._note_mutant(trial, self._open.pop((trial.key, trial.index)))
        if schedule.stopped:
            self._notes.append(f"the budget of ${self._settings.budget:g} is spent, so not all mutants were judged")
        return not schedule.stopped

    def _note_mutant(self, trial: Trial, planned: PlannedMutant) -> None:
        self._tally.add(trial, planned, equivalent=self._end_states.are_equal(trial, planned))
        if self._settings.on_progress is not None:
            self._settings.on_progress(self._tally.count, self._planned, self._tally)

    def _mutant_jobs(
        self, session: RunSession, scenarios: Sequence[PreparedScenario], stored: set[tuple[ScenarioKey, int]]
    ) -> Iterator[Job]:
        for prepared in scenarios:
            key = prepared.entry.key
            if key not in self._originals:
                continue
            for index, planned in enumerate(self._sampled(prepared).mutants, _FIRST_MUTANT):
                if (key, index) in stored:
                    self._note_mutant(self._stored_trial(session, key, index), planned)
                    continue
                self._open[key, index] = planned
                broken = replace(planned.original, transcript=_not_ended_yet(planned.mutant.transcript))
                yield Job(prepared=_with_drift(prepared), index=index, recorded=broken)

    def _jobs(self, session: RunSession, schedule: FixedSchedule) -> Jobs:
        return Jobs(
            schedule=schedule,
            executor=JudgeExecutor(session.trial_settings()),
            concurrency=self._plan.config.concurrency,
        )


_FIRST_MUTANT = 1_000_000
"""Mutants are stored as trials behind the originals, whose indexes stay."""


class _EndStates:
    """The end states of scenarios with a world: a mutant that reaches the same one may be no defect."""

    def __init__(self) -> None:
        self._originals: dict[tuple[ScenarioKey, int], WorldRecord] = {}
        self._scenarios: dict[ScenarioKey, PreparedScenario] = {}

    def add_original(self, trial: Trial) -> None:
        if trial.transcript.world is not None:
            self._originals[trial.key, trial.index] = trial.transcript.world

    def learn(self, scenarios: Sequence[PreparedScenario]) -> None:
        self._scenarios = {each.entry.key: each for each in scenarios if each.world is not None}

    async def find_world(self, key: ScenarioKey, transcript: Transcript) -> WorldView | None:
        prepared = self._scenarios.get(key)
        if prepared is None or prepared.world is None or transcript.world is None:
            return None
        return await prepared.world.view(transcript.world, seed=0, gold=None)

    def are_equal(self, trial: Trial, planned: PlannedMutant) -> bool:
        """Whether the mutant does what its original does: same end state, no violated invariant.

        Only of operators that may be equivalent, and only if the world shows the effect of the changed calls.
        """
        mutant = planned.mutant
        operator = OPERATORS.get(mutant.operator)
        prepared = self._scenarios.get(trial.key)
        before, after = self._originals.get((trial.key, planned.original.index)), trial.transcript.world
        if operator is None or not operator.may_be_equivalent or prepared is None or before is None or after is None:
            return False
        if before.seed != after.seed or trial.transcript.error is not None or not _world_answers(prepared, mutant):
            return False
        if any(result.invariant is not None and not result.passed for result in trial.results):
            return False
        return _same_end(prepared, before, after)


def _not_ended_yet(transcript: Transcript) -> Transcript:
    """Without the end that a tool made: the world ends the conversation again if the mutant still calls that tool."""
    if transcript.stop_reason is StopReason.ENDED_BY_TOOL and transcript.world is not None:
        return replace(transcript, stop_reason=StopReason.MAX_TURNS)
    return transcript


def _with_drift(prepared: PreparedScenario) -> PreparedScenario:
    """The scenario whose world may answer differently than recorded, since a mutant makes other calls."""
    if not isinstance(prepared.world, PreparedWorld) or prepared.world.drift == "note":
        return prepared
    return replace(prepared, world=replace(prepared.world, drift="note"))


def _world_answers(prepared: PreparedScenario, mutant: Mutant) -> bool:
    """Whether the changed calls reach the world. A mock or a real tool has effects that it does not show."""
    world, mocks = prepared.world, prepared.scenario.mocks or ()
    names = [name for name in (mutant.call and mutant.call.name, mutant.added) if name]
    real = mutant.call is not None and mutant.call.real
    return isinstance(world, PreparedWorld) and not real and all(n in world.tools and n not in mocks for n in names)


def _same_end(prepared: PreparedScenario, before: WorldRecord, after: WorldRecord) -> bool:
    """Whether both reach the same end state, apart from what `end_state.ignore` leaves out."""
    assert isinstance(prepared.world, PreparedWorld)
    rule = prepared.scenario.end_state
    ignored = [parse_path(path) for path in (() if rule is None else rule.ignore)]
    first, second = (apply_changes(prepared.world.seed.value, one.changes) for one in (before, after))
    found = differences(first, second)
    return all(any(path.covers(each.location) for path in ignored) for each in found)


def _checks_no_end(prepared: PreparedScenario) -> bool:
    return prepared.scenario.end_state is None and prepared.scenario.expected_state is None


class _WithinBudget(FixedSchedule):
    """A fixed list of jobs that ends when judges have cost as much as they may."""

    def __init__(self, jobs: Iterable[Job], spent: Spending, budget: float | None) -> None:
        super().__init__(jobs)
        self._spent = spent
        self._budget = budget

    def note(self, job: Job, trial: Trial) -> None:
        self._spent.add(0.0, trial.instruments)
        self.stopped = self.stopped or (self._budget is not None and self._spent.reaches(self._budget))


def _judge_plan(scenarios: Sequence[PreparedScenario], counts: Mapping[ScenarioKey, int], record: Record) -> str:
    """`320 judge calls, about $0.4500`, by what the trials of the run cost."""
    votes = {each.entry.key: _judge_calls(each) for each in scenarios}
    calls = sum(counts[key] * votes[key] for key in counts)
    costs: dict[ScenarioKey, list[float]] = {}
    for summary in record.summaries():
        if summary.key in counts and summary.instruments is not None and summary.instruments.cost_usd is not None:
            costs.setdefault(summary.key, []).append(summary.instruments.cost_usd)
    if any(votes[key] and key not in costs for key in counts):
        return f"{counted(calls, 'judge call')}, whose price is not known"
    price = sum(counts[key] * sum(costs[key]) / len(costs[key]) for key in counts if votes[key])
    return f"{counted(calls, 'judge call')}, about ${price:,.4f} by the trials of the run"


def _judge_calls(prepared: PreparedScenario) -> int:
    """Model calls for one trial of the scenario."""
    each_turn = len(prepared.scenario.turns) or 1
    asks = [one for group in prepared.turn_evaluators for one in group if _asks_model(one)]
    asks += [one for one in prepared.every_turn_evaluators if _asks_model(one)] * each_turn
    asks += [one for one in prepared.trial_evaluators if _asks_model(one)]
    return len(asks) + (prepared.scenario.judge_votes or 1 if prepared.judge is not None else 0)


def _asks_model(evaluator: Any) -> bool:
    """Whether it asks a judge's model, itself or for arguments."""
    return callable(getattr(evaluator, "bound", None)) or getattr(evaluator, "judge", None) is not None


def _without_models(prepared: PreparedScenario) -> PreparedScenario:
    """The scenario with its deterministic checks only."""
    return replace(
        prepared,
        turn_evaluators=tuple(_deterministic(group) for group in prepared.turn_evaluators),
        every_turn_evaluators=_deterministic(prepared.every_turn_evaluators),
        trial_evaluators=_deterministic(prepared.trial_evaluators),
        judge=None,
    )


def _deterministic(evaluators: Sequence[Evaluator]) -> tuple[Evaluator, ...]:
    kept: list[Evaluator] = []
    for evaluator in evaluators:
        judge = getattr(evaluator, "judge", None)
        if judge is not None and getattr(evaluator, "args", None) is not None:
            kept.append(replace(evaluator, judge=None))  # type: ignore[type-var]
        elif not _asks_model(evaluator):
            kept.append(evaluator)
    return tuple(kept)
