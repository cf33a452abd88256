"""`seatrial list`, `list runs` and `list flaky`."""

import json
from typing import TYPE_CHECKING, Any

import click

from seatrial.errors import StoreError, UsageError
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted

from .options import default_paths, json_option, open_stored, selection_options, store_option
from .output import print_table

if TYPE_CHECKING:
    from seatrial.model.scenario import Scenario

_SCENARIO_COLUMNS = ("suite", "scenario", "kind", "trials", "tags")
_FLAKY_COLUMNS = ("suite", "scenario", "passed", "interval", "commit", "runs")
_RUN_COLUMNS = ("id", "name", "when", "passed", "verdict", "state")


@click.command("list")
@click.argument("paths", nargs=-1)
@selection_options
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="With `list runs`: how many.")
@store_option
@json_option
def command(paths: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """List the scenarios of PATHS (default: the folder `scenarios`), or the stored runs with `list runs`.

    `list flaky` lists scenarios that passed and failed in stored runs although nothing about them changed. To list a
    folder named runs or flaky, write `list ./runs`.
    """
    texts, tags = options["scenario_text"], options["tags"]
    if paths == ("runs",):
        if texts or tags:
            raise UsageError("list runs: --scenario and --tag select scenarios, not runs. Use `seatrial show RUN`")
        _print(_runs(options["limit"], options["store"]), _RUN_COLUMNS, as_json=as_json)
        return 0
    if paths == ("flaky",):
        _print(_flaky(options["store"]), _FLAKY_COLUMNS, as_json=as_json)
        return 0
    rows = _scenarios(paths, texts, tags)
    if not rows:
        asked = [f"--scenario {text!r}" for text in texts] + [f"--tag {tag!r}" for tag in tags]
        raise UsageError(f"no scenario matches {' and '.join(asked)}. List all: seatrial list")
    _print(rows, _SCENARIO_COLUMNS, as_json=as_json)
    return 0


def _scenarios(paths: tuple[str, ...], texts: tuple[str, ...], tags: tuple[str, ...]) -> list[dict[str, Any]]:
    from seatrial.scenarios.load import load
    from seatrial.scenarios.loaded_suite import select

    # No agent is called, so its ${VARIABLES} need not be set.
    return [
        {
            "suite": suite.name,
            "scenario": scenario.name,
            "kind": _kind(scenario),
            "tags": list(scenario.tags),
            **{name: getattr(scenario, name) for name in ("trials", "skip", "xfail", "source")},
        }
        for suite in load(default_paths(paths), check_agents=False)
        for scenario in select(suite.scenarios, scenario_text=texts, tags=tags)
    ]


def _kind(scenario: "Scenario") -> str:
    """Where the user's messages come from: one input, scripted turns, or a simulated user."""
    if scenario.turns:
        return counted(len(scenario.turns), "turn")
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
            found.append(
                {
                    "id": run.id,
                    "name": run.name,
                    "when": run.started_at.isoformat(timespec="seconds"),
                    "passed": outcome.totals.passed_count,
                    "total": outcome.totals.total_executions,
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
                "commit": one.commit,
                "uncommitted": one.uncommitted,
                "runs": list(one.runs),
            }
            for one in find_flaky(opened)
        ]


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        print_table(columns, [[_cell(row, column) for column in columns] for row in rows])


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    match column:
        case "tags":
            notes = [f"({key}: {row[key]})" for key in ("skip", "xfail") if row[key] is not None]
            return "  ".join(filter(None, [", ".join(value), *notes]))
        case "when":
            return str(value).replace("T", " ").replace("+00:00", " UTC")
        case "commit":
            changed = " with changes" if value and row["uncommitted"] else ""
            return f"{value[:12]}{changed}" if value else "-"
        case "interval":
            return f"[{value[0]:.2f}, {value[1]:.2f}]"
        case "runs":
            return f"{counted(len(value), 'run')}, last {value[0]}"
        case "passed":
            return f"{value}/{row['total']} trials"
        case "verdict":
            return str(value).replace("_", " ")
    return str(value)
