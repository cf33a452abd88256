"""`seatrial list` and `seatrial list runs`."""

import json
from typing import TYPE_CHECKING, Any

import click

from seatrial.errors import StoreError, UsageError
from seatrial.reports.terminal import safe_text

from .options import default_paths, open_stored, selection_options
from .output import format_table

if TYPE_CHECKING:
    from seatrial.model.scenario import Scenario


@click.command("list")
@click.argument("paths", nargs=-1)
@selection_options
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="With `list runs`: how many.")
@click.option("--store", help="With `list runs`: where runs are stored.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    paths: tuple[str, ...],
    scenario_text: tuple[str, ...],
    tags: tuple[str, ...],
    limit: int,
    store: str | None,
    as_json: bool,
) -> int:
    """List the scenarios of PATHS (by default the folder `scenarios`), or the stored runs with `list runs`.

    `list flaky` lists scenarios that passed and failed in stored runs although nothing about them changed. A folder
    that is called runs or flaky is listed with `list ./runs`.
    """
    if paths == ("runs",):
        if scenario_text or tags:
            raise UsageError("list runs: --scenario and --tag select scenarios, not runs. Use `seatrial show RUN`")
        _print(_runs(limit, store), _RUN_COLUMNS, as_json=as_json)
        return 0
    if paths == ("flaky",):
        _print(_flaky(store), _FLAKY_COLUMNS, as_json=as_json)
        return 0
    rows = _scenarios(paths, scenario_text, tags)
    if not rows:
        asked = [f"--scenario {text!r}" for text in scenario_text] + [f"--tag {tag!r}" for tag in tags]
        raise UsageError(f"no scenario matches {' and '.join(asked)}. List all: seatrial list")
    _print(rows, _SCENARIO_COLUMNS, as_json=as_json)
    return 0


_SCENARIO_COLUMNS = ("suite", "scenario", "kind", "trials", "tags")
_FLAKY_COLUMNS = ("suite", "scenario", "passed", "interval", "runs")
_RUN_COLUMNS = ("id", "name", "when", "passed", "verdict", "state")


def _scenarios(paths: tuple[str, ...], texts: tuple[str, ...], tags: tuple[str, ...]) -> list[dict[str, Any]]:
    from seatrial.scenarios.load import load
    from seatrial.scenarios.loaded_suite import select

    # Nothing is called, so an agent's ${VARIABLES} need not be set.
    return [
        {
            "suite": suite.name,
            "scenario": scenario.name,
            "kind": _kind(scenario),
            "trials": scenario.trials,
            "tags": list(scenario.tags),
            "skip": scenario.skip,
            "xfail": scenario.xfail,
            "source": scenario.source,
        }
        for suite in load(default_paths(paths), check_agents=False)
        for scenario in select(suite.scenarios, scenario_text=texts, tags=tags)
    ]


def _kind(scenario: "Scenario") -> str:
    """Whose words the user speaks: one input, a script, or a user who is played."""

    if scenario.turns:
        return f"{len(scenario.turns)} turns" if len(scenario.turns) > 1 else "1 turn"
    return "input" if scenario.user is None else "user"


def _runs(limit: int, store: str | None) -> list[dict[str, Any]]:
    from seatrial.runs.report import StoredRecord

    with open_stored(store) as opened:
        found = []
        problems: list[tuple[str, str]] = []
        for run in opened.runs(limit, problems=problems):
            try:
                outcome = StoredRecord(opened, run).outcome
            except StoreError as broken:
                problems.append((run.id, str(broken)))
                continue
            totals = outcome.totals
            found.append(
                {
                    "id": run.id,
                    "name": run.name,
                    "when": run.started_at.isoformat(timespec="seconds"),
                    "passed": totals.passed_count,
                    "total": totals.total_executions,
                    "verdict": outcome.verdict.status.value,
                    "state": run.state.value,
                }
            )
        for _, problem in problems:
            click.echo(safe_text(f"skipped: {problem}"), err=True)
        return found


def _flaky(store: str | None) -> list[dict[str, Any]]:
    from seatrial.runs.history import find_flaky

    with open_stored(store) as opened:
        return [
            {
                "suite": one.key.suite,
                "scenario": one.key.label,
                "passed": one.passed,
                "total": one.passed + one.failed,
                "interval": [one.interval.low, one.interval.high],
                "runs": list(one.runs),
            }
            for one in find_flaky(opened)
        ]


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for line in format_table(columns, [[_cell(row, column) for column in columns] for row in rows]):
        click.echo(line)


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    match column:
        case "tags":
            aside = [f"{key}: {row[key]}" for key in ("skip", "xfail") if row[key] is not None]
            return "  ".join(filter(None, [", ".join(value), *(f"({text})" for text in aside)]))
        case "when":
            return str(value).replace("T", " ").replace("+00:00", " UTC")
        case "interval":
            return f"[{value[0]:.2f}, {value[1]:.2f}]"
        case "runs":
            return f"{len(value)} run{'s' if len(value) != 1 else ''}, last {value[0]}"
        case "passed":
            return f"{value}/{row['total']} trials"
        case "verdict":
            return str(value).replace("_", " ")
    return str(value)
