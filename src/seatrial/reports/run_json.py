"""A run and its scenarios as JSON values: everything in results.json above the trials."""

from typing import Any

from seatrial.model.results import UniqueError
from seatrial.model.run import Gates, Run, RunOutcome, ScenarioOutcome

from .pass_at_k import is_flaky, repeats_of
from .to_json import moment, plain

SCHEMA_VERSION = 1
"""Of results.schema.json: raised when a field changes its meaning or goes away, not when one is added."""


def run_form(run: Run) -> dict[str, Any]:
    """The run itself, without scenarios."""
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state.value,
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "seed": run.seed,
        "git_commit": run.git_commit,
        "git_dirty": run.git_dirty,
        "versions": plain(run.versions),
        "parent": run.parent,
        "replayed": run.replayed,
        "problem": run.problem,
        "config": plain(run.config),
    }


def outcome_form(outcome: RunOutcome) -> dict[str, Any]:
    """The run's verdict, its aggregates and its groups."""
    totals = outcome.totals
    return {
        "status": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "failure_reasons": list(outcome.verdict.failure_reasons),
        "notes": list(outcome.notes),
        "totals": {name: plain(getattr(totals, name)) for name in totals.__struct_fields__},
        "groups": [
            {
                "name": name,
                "status": verdict.status.value,
                "passed": verdict.passed,
                "failure_reasons": list(verdict.failure_reasons),
            }
            for name, verdict in outcome.groups
        ],
    }


def scenario_form(outcome: ScenarioOutcome) -> dict[str, Any]:
    """A scenario's verdict and numbers, without its trials."""
    entry = outcome.entry
    repeats = repeats_of(outcome)
    return {
        "name": entry.key.name,
        "suite": entry.key.suite,
        "agent": entry.key.agent or None,
        "status": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "failure_reasons": list(outcome.verdict.failure_reasons),
        "notes": list(outcome.notes),
        "skipped": outcome.skipped,
        "skip": entry.skip,
        "xfailed": outcome.xfailed,
        "xfail": entry.xfail,
        "tags": list(entry.tags),
        "source": entry.source,
        "fingerprint": entry.fingerprint,
        "planned_trials": entry.trials,
        "trial_counts": {
            "passed": outcome.passed,
            "failed": outcome.failed,
            "errored": outcome.errored,
            "not_run": outcome.not_run,
        },
        "interval": None if outcome.interval is None else [outcome.interval.low, outcome.interval.high],
        "flaky": is_flaky(outcome),
        "pass_at_k": list(repeats.pass_at_k),
        "pass_hat_k": list(repeats.pass_hat_k),
        "gates": _gates(entry.gates),
        "metric_averages": plain(outcome.metric_averages or {}),
        "unique_errors": [_unique_error(error) for error in outcome.unique_errors],
        "overall_score": plain(outcome.overall_score),
    }


def _gates(gates: Gates) -> dict[str, Any]:
    return {name: plain(getattr(gates, name)) for name in gates.__struct_fields__}


def _unique_error(error: UniqueError) -> dict[str, Any]:
    return {
        "severity": error.severity.value,
        "label": error.label,
        "explanation": error.explanation,
        "occurrences": error.occurrences,
        "examples": [{"trial": f"trial-{trial + 1}", "turn": turn} for trial, turn in error.examples],
    }
