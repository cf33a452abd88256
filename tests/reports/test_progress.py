"""How far a run has come, on a terminal and elsewhere."""

import io
from types import SimpleNamespace
from typing import Any

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


def test_on_a_terminal_one_line_renews_itself_and_is_gone_at_the_end(build: SimpleNamespace) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, live=True, clock=clock)
    run = plan(build, progress, "a", "b", trials=1)
    clock.now = 61_000.0
    turn = build.turn(cost_usd=0.5)
    progress(TrialFinished(trial=build.trial(name="a", turns=(turn,), instruments=ModelUse(calls=1, cost_usd=0.25))))
    progress(RunFinished(run=run))
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        "0/2 scenarios  0/2 trials",
        "1/2 scenarios  1/2 trials  100 % passed  $0.7500  1:01 left",
        "",
    ]


def test_an_unknown_cost_is_not_shown_as_none(build: SimpleNamespace) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, live=True, clock=clock)
    plan(build, progress, "a", trials=2)
    for index, cost in enumerate((0.5, None)):
        clock.now += 1_000.0
        progress(TrialFinished(trial=build.trial(name="a", index=index, turns=(build.turn(cost_usd=cost),))))
    assert "$0.5000 or more" in stream.getvalue()
