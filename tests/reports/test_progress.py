"""How far a run has come, on a terminal and elsewhere."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.model.protocols import RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.results import ModelUse
from seatrial.model.run import Status
from seatrial.reports.progress import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plan(build: SimpleNamespace, progress: Progress, *names: str, trials: int) -> Any:
    run = build.record().run
    progress(RunStarted(run=run, scenarios=len(names), trials=trials * len(names)))
    for name in names:
        progress(ScenarioPlanned(entry=build.scenario(name=name, trials=trials).entry))
    return run


def test_elsewhere_each_finished_scenario_is_one_plain_line(build: SimpleNamespace) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    run = plan(build, progress, "a\nb\x1b[31m", "c", trials=2)
    for index, status in enumerate((Status.PASSED, Status.FAILED)):
        progress(TrialFinished(trial=build.trial(status, name="a\nb\x1b[31m", index=index)))
    progress(RunFinished(run=run))
    assert stream.getvalue() == "a\\nb\\x1b[31m: 1/2 trials passed  [1/2]\n"


def test_elsewhere_there_is_at_most_one_other_line_a_second(build: SimpleNamespace) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock=clock)
    plan(build, progress, "a", trials=100)
    for index in range(50):
        clock.now = index * 100.0
        progress(TrialFinished(trial=build.trial(name="a", index=index)))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0] == "0/1 scenarios  11/100 trials  100 % passed  0:08 left"


def test_a_run_of_many_scenarios_has_no_line_for_each(build: SimpleNamespace) -> None:
    stream, names = io.StringIO(), [f"n{number}" for number in range(200)]
    progress = Progress(stream, clock=Clock())
    plan(build, progress, *names, trials=1)
    for name in names:
        progress(TrialFinished(trial=build.trial(name=name)))
    assert stream.getvalue() == ""


def live(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, *, width: int) -> tuple[io.StringIO, Progress, Clock]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    stream, clock = io.StringIO(), Clock()
    return stream, Progress(stream, live=True, clock=clock), clock


def shown(stream: io.StringIO) -> str:
    """What was drawn, without the codes of the terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_on_a_terminal_a_bar_shows_rate_cost_and_remaining_time(
    build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, progress, clock = live(build, monkeypatch, width=120)
    run = plan(build, progress, "a", "b", trials=1)
    clock.now = 61_000.0
    turn = build.turn(cost_usd=0.5)
    progress(TrialFinished(trial=build.trial(name="a", turns=(turn,), instruments=ModelUse(calls=1, cost_usd=0.25))))
    progress(RunFinished(run=run))

    assert "1/2 trials  all passed  1:01 left  1.0 trials/min  $0.7500" in shown(stream)
    assert "━" in shown(stream)


def test_a_narrow_terminal_has_numbers_and_no_bar(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, progress, _ = live(build, monkeypatch, width=40)
    run = plan(build, progress, "a", trials=2)
    progress(TrialFinished(trial=build.trial(name="a")))
    progress(RunFinished(run=run))

    assert "1/2 trials" in shown(stream)
    assert "━" not in shown(stream)
    assert max(map(len, shown(stream).splitlines())) <= 40


def test_a_narrow_terminal_still_shows_the_time_left(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, progress, clock = live(build, monkeypatch, width=40)
    run = plan(build, progress, "a", trials=2)
    clock.now += 61_000
    progress(TrialFinished(trial=build.trial(name="a")))
    progress(RunFinished(run=run))

    assert "1:01 left" in shown(stream)


def test_failures_are_shown_as_they_happen_and_equal_ones_once(
    build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, progress, _ = live(build, monkeypatch, width=100)
    run = plan(build, progress, "[bold]a[/bold]", trials=3)
    for index in range(3):
        reason = f'passfail: Output produced: PASS. Expected output found: FAIL ("ORD-{index}" not found in output).'
        trial = build.trial(Status.FAILED, name="[bold]a[/bold]", index=index, reasons=(reason,))
        progress(TrialFinished(trial=trial))
    progress(RunFinished(run=run))

    last = shown(stream).splitlines()
    assert any('✗ 3× reply lacks "ORD-0"' in line and "[bold]a[/bold]" in line for line in last), "agent text is text"
    assert any("3 not passed" in line for line in last)


def test_no_colour_is_written_if_none_is_wanted(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream, progress, _ = live(build, monkeypatch, width=100)
    run = plan(build, progress, "a", trials=1)
    progress(TrialFinished(trial=build.trial(Status.FAILED, name="a")))
    progress(RunFinished(run=run))

    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", stream.getvalue())


def test_the_display_is_gone_at_the_end_and_may_be_closed_twice(
    build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, progress, _ = live(build, monkeypatch, width=100)
    run = plan(build, progress, "a", trials=1)
    progress(RunFinished(run=run))
    progress.close()

    assert stream.getvalue().endswith("\x1b[2K"), "the last thing written erases the line"


def test_an_unknown_cost_is_not_shown_as_none(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, progress, clock = live(build, monkeypatch, width=100)
    run = plan(build, progress, "a", trials=2)
    for index, cost in enumerate((0.5, None)):
        clock.now += 1_000.0
        progress(TrialFinished(trial=build.trial(name="a", index=index, turns=(build.turn(cost_usd=cost),))))
    progress(RunFinished(run=run))

    assert "$0.5000 or more" in shown(stream)
