"""`seatrial run --faults`: which tools fail, how, and how many trials that takes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from seatrial.errors import UsageError
from seatrial.model.faults import FAULTS
from seatrial.reports.texts import counted
from seatrial.runs.run_plan import RunPlan

from .output import format_table

_Command = TypeVar("_Command", bound=Callable[..., Any])


def fault_options(command: _Command) -> _Command:
    """`--faults`, `--faults-occur` and `--faults-limit`."""
    options = (
        click.option(
            "--faults",
            is_flag=False,
            flag_value="*",
            metavar="[TOOL=FAULT,…]",
            help="Let each tool fail in each way, one at a time; or only these: search=timeout,book=*. Write it after "
            f"PATHS. Faults: {', '.join(FAULTS)}.",
        ),
        click.option(
            "--faults-occur",
            type=click.Choice(["once", "always"]),
            help="With --faults: whether a tool fails in its first call of a trial, or in all (once).",
        ),
        click.option(
            "--faults-limit",
            type=click.IntRange(min=1),
            metavar="N",
            help="With --faults: play N of the scenarios with a fault, chosen by --seed.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_sweep(options: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sweep of the options; None without one. Raises UsageError."""
    if options["faults"] is None:
        for name in ("faults_occur", "faults_limit"):
            if options[name] is not None:
                raise UsageError(f"--{name.replace('_', '-')}: needs --faults")
        return None
    if options["watch"]:
        raise UsageError("--faults: cannot be combined with --watch. Leave one of them out")
    from seatrial.runs.faults import read_faults

    given = {"select": options["faults"], "occur": options["faults_occur"] or "once", "limit": options["faults_limit"]}
    return read_faults(given, overrides)


def describe_sweep(plan: RunPlan) -> Iterator[str]:
    """What a sweep over faults would play: a line for each tool of each scenario."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for prepared in plan.scenarios():
        entry = prepared.entry
        assert entry.variant is not None
        settings = entry.variant.settings
        place = (entry.key.suite, entry.variant.scenario, prepared.agent.name, settings["tool"])
        time = f" ({settings['seconds']:g} s)" if "seconds" in settings else ""
        rows.setdefault(place, []).append(f"{settings['fault']}{time}")
    table = [(*place, ", ".join(faults)) for place, faults in rows.items()]
    yield from format_table(("suite", "scenario", "agent", "tool", "faults"), table)
    scenarios, trials = plan.count()
    yield f"{counted(scenarios, 'fault')}, {counted(trials, 'trial')}; nothing was run"
