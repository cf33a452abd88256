"""The counts of a mutation: by operator, scenario and check, and the mutants that survived."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from seatrial.files import make_folder, replacing
from seatrial.model.mutation import (
    CheckCounts,
    MutantCounts,
    MutationResult,
    SurvivedMutant,
)
from seatrial.model.results import EvalResult
from seatrial.model.run import Interval, Run, ScenarioKey, Status, Trial
from seatrial.mutants.operators import Operator
from seatrial.mutants.sampling import PlannedMutant
from seatrial.mutants.suggestions import Survivor
from seatrial.statistics.intervals import wilson_interval
from seatrial.store.codec import decode, encode
from seatrial.verdicts.reasons import counted

_KEPT_OF_KIND = 20
_KEPT = 2_000
"""Survivors of one scenario and operator, and of all, that are kept for suggestions and reports."""
_SUITE = ""
"""Instead of a scenario, for rules of the suite."""


class MutationTally:
    """Counts mutants as they are judged."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._counts: Counter[tuple[ScenarioKey, str, str]] = Counter()
        """By scenario, operator and result."""
        self._operators = [operator.name for operator in operators]
        self._scenarios: dict[ScenarioKey, None] = {}
        self._checks: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[str] = Counter()
        self.survivors: list[Survivor] = []

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @property
    def caught(self) -> int:
        return sum(count for (_, _, result), count in self._counts.items() if result == "caught")

    def add_original(self, trial: Trial) -> None:
        """Note the checks of a trial that passes."""
        self._scenarios[trial.key] = None
        for result in trial.results:
            for check in _labels(result, failed_only=False):
                self._checks.setdefault(_place(trial.key, result, check), 0)

    def add(self, trial: Trial, planned: PlannedMutant, *, equivalent: bool) -> None:
        """Count a mutant. Only a check that failed catches it; an error is no answer."""
        operator = planned.mutant.operator
        if equivalent:
            self._counts[trial.key, operator, "equivalent"] += 1
            return
        failed = [result for result in trial.results if result.error is None and not result.passed]
        judged = trial.status is Status.FAILED
        if failed or judged:
            outcome = "caught"
            places = {_place(trial.key, result, check) for result in failed for check in _labels(result)}
            for place in places or {(trial.key.label, "judge")}:
                self._checks[place] += 1
        elif trial.status is Status.PASSED:
            outcome = "survived"
            self._keep(trial, planned)
        else:
            outcome = "not_judged"
            self._errors[trial.error.message if trial.error is not None else "no answer"] += 1
        self._counts[trial.key, operator, outcome] += 1

    def _keep(self, trial: Trial, planned: PlannedMutant) -> None:
        of_kind = self._counts[trial.key, planned.mutant.operator, "survived"]
        mutant = planned.mutant
        if trial.transcript.world is not None:  # with what the calls of the mutant change
            mutant = replace(mutant, transcript=trial.transcript)
        if of_kind < _KEPT_OF_KIND and len(self.survivors) < _KEPT:
            self.survivors.append(
                Survivor(
                    key=trial.key,
                    trial=planned.original.index,
                    mutant=mutant,
                    original=planned.original.transcript,
                )
            )

    def result(self, *, run: Run, notes: tuple[str, ...], **facts: Any) -> MutationResult:
        """The result. `facts` are the other fields of MutationResult, as they are."""
        errors = [f"not judged: {counted(count, 'mutant')}; {why}" for why, count in self._errors.most_common(3)]
        return MutationResult(
            run=run.id,
            name=run.name,
            total=self._sum("", lambda key, operator: True),
            operators=tuple(self._by_operator()),
            scenarios=tuple(
                self._sum(key.label, lambda one, _, key=key: one == key)  # type: ignore[misc]
                for key in self._scenarios
            ),
            matrix={key.label: dict(self._row(key)) for key in self._scenarios},
            checks=tuple(
                CheckCounts(scenario=scenario, check=check, caught=count)
                for (scenario, check), count in sorted(self._checks.items(), key=lambda one: -one[1])
            ),
            survivors=tuple(
                SurvivedMutant(
                    key=each.key,
                    trial=each.trial,
                    operator=each.mutant.operator,
                    what=each.mutant.what,
                    mutant=each.mutant.transcript,
                    original=each.original,
                )
                for each in self.survivors
            ),
            notes=(*notes, *errors),
            **facts,
        )

    def _by_operator(self) -> Iterator[MutantCounts]:
        for name in self._operators:
            yield self._sum(name, lambda _, operator, name=name: operator == name)  # type: ignore[misc]

    def _sum(self, name: str, belongs: Callable[[ScenarioKey, str], bool]) -> MutantCounts:
        sums: Counter[str] = Counter()
        for (key, operator, result), count in self._counts.items():
            if belongs(key, operator):
                sums[result] += count
        made = MutantCounts(
            name=name,
            caught=sums["caught"],
            survived=sums["survived"],
            equivalent=sums["equivalent"],
            not_judged=sums["not_judged"],
        )
        if not made.counted:
            return made
        low, high = wilson_interval(made.caught, made.counted)
        return MutantCounts(
            name=name,
            caught=made.caught,
            survived=made.survived,
            equivalent=made.equivalent,
            not_judged=made.not_judged,
            interval=Interval(low=low, high=high),
        )

    def _row(self, key: ScenarioKey) -> Iterator[tuple[str, tuple[int, int]]]:
        for name in self._operators:
            caught, survived = self._counts[key, name, "caught"], self._counts[key, name, "survived"]
            if caught + survived:
                yield name, (caught, caught + survived)


def _place(key: ScenarioKey, result: EvalResult, check: str) -> tuple[str, str]:
    return (_SUITE if result.invariant is not None else key.label), check


def _labels(result: EvalResult, *, failed_only: bool = True) -> list[str]:
    """The names of the checks of a result: one for each step of passfail, else one."""
    where = "" if result.turn is None else f"turn {result.turn + 1} "
    if result.invariant is not None:
        return [f"invariant {result.invariant.name}"]
    if result.evaluator == "passfail" and result.checks:
        return [f"passfail {check.name}" for check in result.checks if not (failed_only and check.passed)]
    return [f"{where}{result.evaluator}"]


_SAVED = 200
"""Survivors that are saved with their conversations."""


def mutants_store(store: str | None) -> str | None:
    """The store of mutants: `mutants.db` beside the file with the runs, or in the folder of this project."""
    if store is None:
        return None
    return ".seatrial/mutants.db" if "://" in store else str(Path(store).with_name("mutants.db"))


def save_mutation(mutants: str, result: MutationResult) -> None:
    """Keep the result of the run's newest mutation beside the store of mutants, for the page of the run."""
    file = _result_file(mutants, result.run)
    make_folder(file.parent)
    with replacing(file) as place:
        place.write_bytes(encode(replace(result, survivors=result.survivors[:_SAVED])))


def load_mutation(store: str, run_id: str) -> MutationResult | None:
    """The result of the newest mutation of a run in the store; None if it was not mutated."""
    mutants = mutants_store(store)
    assert mutants is not None
    file = _result_file(mutants, run_id)
    try:
        return _read_result(file, file.stat().st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=32)
def _read_result(file: Path, written: int) -> MutationResult:
    """Cached, since every page of a run shows its score. `written`: the time of the file, which may change."""
    return decode(MutationResult, file.read_bytes())


def _result_file(mutants: str, run_id: str) -> Path:
    return Path(mutants).with_name("mutations") / f"{quote(run_id, safe='')}.json"
