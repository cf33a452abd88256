"""results.json and results.jsonl, written trial by trial, in pure ASCII."""

from typing import TextIO

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome

from .escaping import json_text
from .run_json import SCHEMA_VERSION, outcome_form, run_form, scenario_form
from .trial_json import trial_form


def write_json(record: RunRecord, stream: TextIO) -> None:
    """One JSON document that follows results.schema.json."""
    head = {"schema_version": SCHEMA_VERSION, "run": run_form(record.run), **outcome_form(record.outcome)}
    stream.write(f'{json_text(head)[:-1]}, "scenarios": [')
    for position, outcome in enumerate(record.outcome.scenarios):
        stream.write(",\n" if position else "\n")
        _write_scenario(record, outcome, stream)
    stream.write("\n]}\n")


def write_jsonl(record: RunRecord, stream: TextIO) -> None:
    """One line for each trial, in the form it has in results.json, with its run and scenario."""
    for outcome in record.outcome.scenarios:
        key = outcome.entry.key
        where = {"schema_version": SCHEMA_VERSION, "run_id": record.run.id, "run_name": record.run.name}
        where |= {"scenario": key.name, "suite": key.suite, "agent": key.agent or None}
        for trial in record.trials(key):
            stream.write(json_text({**where, **trial_form(trial)}) + "\n")


def _write_scenario(record: RunRecord, outcome: ScenarioOutcome, stream: TextIO) -> None:
    stream.write(f'{json_text(scenario_form(outcome))[:-1]}, "trials": [')
    for position, trial in enumerate(record.trials(outcome.entry.key)):
        stream.write((",\n" if position else "\n") + json_text(trial_form(trial)))
    stream.write("]}")
