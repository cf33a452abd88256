"""JUnit XML for CI systems: one testcase for each scenario; failures and errors are separate.

The format follows Jenkins' schema (junit-10.xsd) and its older versions. They allow properties only for a suite, so a
scenario's properties are written there under its name, and again in the testcase's system-out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from seatrial.model.protocols import RunRecord
from seatrial.model.run import RunOutcome, ScenarioOutcome, Status

from .scenario_totals import ScenarioTotals, is_flaky, repeat_chances, scenario_totals
from .terminal import escape_markup, one_line, shorten
from .texts import interval, not_counted_reason, trials_of, verdict_line

TEXT_LIMIT = 20_000
RUN_SUITE = "seatrial"


def write_junit(record: RunRecord, stream: TextIO) -> None:
    """Write the document, suite by suite."""
    outcome = record.outcome
    suites: dict[str, list[ScenarioOutcome]] = {}
    for one in outcome.scenarios:
        suites.setdefault(one.entry.key.suite, []).append(one)
    hidden = _is_hidden(outcome)
    failures, errors, _ = _counts(outcome.scenarios)
    errors += hidden
    stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
    names = {"name": record.run.name, "tests": len(outcome.scenarios) + hidden, "failures": failures, "errors": errors}
    stream.write(f"<testsuites{_attributes(names)}>\n")
    for name, outcomes in suites.items():
        _write_suite(record, name, outcomes, stream)
    if hidden:
        _write_run_verdict(record, stream)
    stream.write("</testsuites>\n")


def _is_hidden(outcome: RunOutcome) -> bool:
    """Whether the run did not pass but no testcase shows it: a gate of the run was missed, or nothing ran."""
    failures, errors, _ = _counts(outcome.scenarios)
    return not outcome.verdict.passed and failures + errors == 0


def _write_run_verdict(record: RunRecord, stream: TextIO) -> None:
    stream.write(
        f"<testsuite{_attributes({'name': RUN_SUITE, 'tests': 1, 'failures': 0, 'errors': 1, 'skipped': 0})}>\n"
    )
    stream.write(f"<testcase{_attributes({'name': 'run verdict', 'classname': RUN_SUITE, 'time': '0.000'})}>")
    reason = {"message": verdict_line(record.outcome), "type": record.outcome.verdict.status.value}
    stream.write(f"<error{_attributes(reason)}/></testcase>\n</testsuite>\n")


def _write_suite(record: RunRecord, name: str, outcomes: list[ScenarioOutcome], stream: TextIO) -> None:
    failures, errors, skipped = _counts(outcomes)
    attributes = {"name": name, "tests": len(outcomes), "failures": failures, "errors": errors, "skipped": skipped}
    attributes["timestamp"] = record.run.started_at.strftime("%Y-%m-%dT%H:%M:%S")
    stream.write(f"<testsuite{_attributes(attributes)}>\n<properties>\n")
    _write_properties({"run": record.run.id, "run_name": record.run.name, "seed": str(record.run.seed)}, stream)
    for outcome in outcomes:
        # Trials are read twice, here for sums and below for texts, so that only one scenario is in memory.
        label = outcome.entry.key.label
        known = _numbers(outcome, scenario_totals(record, outcome))
        _write_properties({f"{label}.{key}": value for key, value in known.items()}, stream)
    stream.write("</properties>\n")
    for outcome in outcomes:
        _write_testcase(outcome, scenario_totals(record, outcome), stream)
    stream.write("</testsuite>\n")


def _write_testcase(outcome: ScenarioOutcome, sums: ScenarioTotals, stream: TextIO) -> None:
    key = outcome.entry.key
    names = {"name": key.label, "classname": key.suite, "time": f"{sums.duration_ms / 1000:.3f}"}
    stream.write(f"<testcase{_attributes(names)}>")
    kind = _element(outcome)
    reasons = "; ".join(outcome.verdict.failure_reasons)
    if kind == "skipped":
        stream.write(f"<skipped{_attributes({'message': not_counted_reason(outcome) or reasons})}/>")
    elif kind is not None:
        attributes = {"message": shorten(reasons, 1_000), "type": outcome.verdict.status.value}
        stream.write(f"<{kind}{_attributes(attributes)}>{escape_markup(_body(outcome, sums))}</{kind}>")
    known = "\n".join(f"{name}={value}" for name, value in _numbers(outcome, sums).items())
    stream.write(f"<system-out>{escape_markup(known)}</system-out></testcase>\n")


def _element(outcome: ScenarioOutcome) -> str | None:
    """The testcase's child element. Failed is the agent's fault; every other status but passed is a JUnit error."""
    if not_counted_reason(outcome) is not None:
        return "skipped"
    if outcome.verdict.passed:
        return None
    return "failure" if outcome.verdict.status is Status.FAILED else "error"


def _counts(outcomes: Iterable[ScenarioOutcome]) -> tuple[int, int, int]:
    kinds = [_element(outcome) for outcome in outcomes]
    return kinds.count("failure"), kinds.count("error"), kinds.count("skipped")


def _body(outcome: ScenarioOutcome, sums: ScenarioTotals) -> str:
    lines = [*outcome.verdict.failure_reasons, *sums.reason_texts]
    if sums.untold:
        lines.append(f"… {sums.untold:,} more trials did not pass")
    return shorten("\n".join(lines), TEXT_LIMIT)


def _numbers(outcome: ScenarioOutcome, sums: ScenarioTotals) -> dict[str, str]:
    known: dict[str, str | None] = {"trials": str(trials_of(outcome)), "passes": str(outcome.passed)}
    known["interval"] = interval(outcome)
    if is_flaky(outcome):
        chances = repeat_chances(outcome)
        known |= {"flaky": "true", "pass_at_2": _two(chances.pass_at_k), "pass_hat_2": _two(chances.pass_hat_k)}
    known["cost_usd"] = None if sums.cost_usd is None else f"{sums.cost_usd:.6f}"
    known["source"] = outcome.entry.source
    known["note"] = "; ".join(outcome.notes) or None
    return {name: value for name, value in known.items() if value is not None}


def _two(chances: Sequence[float]) -> str | None:
    """The chance over two tries; None if it is not estimated."""
    return f"{chances[1]:.3f}" if len(chances) > 1 else None


def _write_properties(known: dict[str, str], stream: TextIO) -> None:
    for name, value in known.items():
        stream.write(f"<property{_attributes({'name': name, 'value': value})}/>\n")


def _attributes(values: Mapping[str, object]) -> str:
    quoted = ((name, escape_markup(one_line(str(value))).replace('"', "&quot;")) for name, value in values.items())
    return "".join(f' {name}="{value}"' for name, value in quoted)
