"""The report for people at a terminal."""

import io
from types import SimpleNamespace
from typing import Any

from seatrial.reports import print_run
from seatrial.vocabulary.conversation import ErrorInfo, ErrorKind, StopReason
from seatrial.vocabulary.run import Gates, Status

IN_DESIGN = """\
✗ books a morning slot  2/3 trials passed [0.21, 0.94]
  ✓ trial-1 (2 turns, goal met, trajectory matched)
  ✗ trial-2 (2 turns, goal met, trajectory FAILED)
      Missing tool calls: create_booking
      Agent called: [check_availability]
      Expected (in_order): [check_availability, create_booking]
  ✗ trial-3 ERROR agent: endpoint returned 500: {"error": …
  helpfulness: 3.2 (threshold: 3.5 ✗)   goal_completion: 0.67 (threshold: 0.8 ✗)
2/3 scenarios passed
FAIL: 1 scenario failed
"""


def printed(record: Any, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    print_run(record, stream, verbose=verbose)
    return stream.getvalue()


def a_booking_run(build: SimpleNamespace) -> Any:
    name, both = "books a morning slot", ("check_availability", "create_booking")
    turns = (build.turn(), build.turn(index=1))
    error = ErrorInfo(kind=ErrorKind.AGENT, message='endpoint returned 500: {"error": …')
    trials = (
        build.trial(
            name=name,
            turns=turns,
            stop=StopReason.GOAL_MET,
            results=(build.trajectory(actual=both, expected=both),),
        ),
        build.trial(
            Status.FAILED,
            name=name,
            index=1,
            turns=turns,
            stop=StopReason.GOAL_MET,
            results=(build.trajectory(actual=both[:1], expected=both, missing_calls=both[1:]),),
        ),
        build.trial(Status.ERRORED, name=name, index=2, error=error, stop=StopReason.ERROR),
        build.trial(name="a"),
        build.trial(name="b"),
    )
    booking = build.scenario(
        Status.FAILED,
        name=name,
        trials=3,
        passed=2,
        errored=1,
        interval=(0.2077, 0.9385),
        position=2,
        entry={"gates": Gates(metric_thresholds={"helpfulness": 3.5, "goal_completion": 0.8})},
        metric_averages={"helpfulness": 3.2, "goal_completion": 2 / 3},
        reasons=("1 trial errored", "helpfulness: 3.2 (threshold: 3.5)", "goal_completion: 0.67 (threshold: 0.8)"),
    )
    scenarios = (build.scenario(name="a"), build.scenario(name="b", position=1), booking)
    return build.record(*scenarios, trials=trials, status=Status.FAILED, reasons=("1 scenario failed",))


def test_the_console_report_has_the_form_of_the_design(build: SimpleNamespace) -> None:
    text = printed(a_booking_run(build))
    assert text.startswith("✓ a  (1 turn)\n✓ b  (1 turn)\n" + IN_DESIGN)
