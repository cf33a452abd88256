"""The report for people at a terminal."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, ToolCall
from seatrial.model.results import Check, Judgement, MetricScore, Severity, UniqueError
from seatrial.model.run import Gates, RunGates, RunState, Status, Totals, Verdict
from seatrial.reports.console import print_run

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


def test_a_scenario_of_one_trial_takes_one_line_and_its_reasons(build: SimpleNamespace) -> None:
    failed = build.result(False, "Output produced: PASS. Expected tools called: FAIL (missing: lookup_order).")
    record = build.record(
        build.scenario(Status.FAILED, interval=(0.0, 0.79)),
        trials=(build.trial(Status.FAILED, results=(failed,)),),
        status=Status.FAILED,
    )
    assert printed(record).splitlines()[:4] == [
        "✗ order_lookup  (1 turn)",
        "    missing call: lookup_order",
        "    the agent said: Hi",
        "0/1 scenario passed",
    ]
    assert "Output produced: PASS. Expected tools called: FAIL (missing: lookup_order)." in printed(
        record, verbose=True
    )


def test_the_same_failing_check_is_explained_for_three_scenarios(build: SimpleNamespace) -> None:
    def fails(name: str) -> Any:
        reason = f'Output produced: PASS. Expected output found: FAIL ("order {name}" not found in output).'
        result = build.result(False, reason)
        return build.trial(Status.FAILED, name=name, results=(result,), reasons=(f"passfail: {reason}",))

    names = [f"s{number}" for number in range(5)]
    scenarios = [build.scenario(Status.FAILED, name=name) for name in names]
    record = build.record(*scenarios, trials=tuple(map(fails, names)), status=Status.FAILED)
    lines = printed(record).splitlines()
    assert sum("the agent said" in line for line in lines) == 3
    assert '✗ s3  reply lacks "order s3" (as above)' in lines
    assert "(as above)" not in printed(record, verbose=True)


def said_in(build: SimpleNamespace, *results: Any, turns: Any, verbose: bool = False, **more: Any) -> list[str]:
    trial = build.trial(more.pop("status", Status.FAILED), results=results, turns=turns, **more)
    text = printed(build.record(build.scenario(Status.FAILED), trials=(trial,)), verbose=verbose)
    return [line.strip() for line in text.splitlines() if "the agent said" in line]


def test_of_several_turns_it_is_said_what_the_agent_said_where_a_check_failed_first(build: SimpleNamespace) -> None:
    turns = (build.turn(reply="Hello"), build.turn(reply="Two\nlines", index=1), build.turn(reply="Bye", index=2))
    passed, failed = build.result(turn=0), build.result(False, "no", evaluator="contains", turn=1)

    assert said_in(build, passed, failed, turns=turns) == ["the agent said in turn 2: Two\\nlines"]
    assert said_in(build, build.result(False, "no"), turns=turns) == ["the agent said in turn 3: Bye"]


def test_what_the_agent_said_is_cut_where_it_is_long(build: SimpleNamespace) -> None:
    [line] = said_in(build, build.result(False, "no"), turns=(build.turn(reply="x" * 1_000),))

    assert "xxx… (" in line
    assert len(line) < 350


def test_what_the_agent_said_is_left_out_where_it_explains_nothing(build: SimpleNamespace) -> None:
    failed = build.result(False, "no")
    trajectory = build.trajectory(actual=("a",), expected=("a", "b"), missing_calls=("b",))
    error = ErrorInfo(kind=ErrorKind.AGENT, message="endpoint returned 500")

    assert said_in(build, trajectory, turns=(build.turn(),)) == []
    assert said_in(build, failed, turns=(build.turn(reply=None),)) == []
    assert said_in(build, failed, turns=(build.turn(),), status=Status.ERRORED, error=error) == []
    assert said_in(build, failed, turns=(build.turn(),), verbose=True) == []


def test_a_failed_result_says_which_turn_it_concerns(build: SimpleNamespace) -> None:
    failed = build.result(False, "first\nsecond", evaluator="contains", turn=1)
    trial = build.trial(Status.FAILED, results=(failed,), reasons=("turn 2: contains: first\nsecond",))
    text = printed(build.record(build.scenario(Status.FAILED), trials=(trial,)))
    assert "    turn 2: contains: first\n      second\n" in text
    assert text.count("second") == 1


def test_reasons_that_no_result_tells_are_shown(build: SimpleNamespace) -> None:
    trial = build.trial(Status.FAILED, results=(build.result(),), reasons=("overall score 60 (threshold: 75)",))
    text = printed(build.record(build.scenario(Status.FAILED), trials=(trial,)))
    assert "    overall score 60 (threshold: 75)\n" in text


def test_an_error_is_shown_with_its_kind_and_hint(build: SimpleNamespace) -> None:
    error = ErrorInfo(kind=ErrorKind.CONFIG, message="tools were not recorded", hint="return AgentResult", turn=1)
    trial = build.trial(Status.ERRORED, error=error, reasons=("config: tools were not recorded",))
    text = printed(build.record(build.scenario(Status.ERRORED, errored=1), trials=(trial,)))
    assert "✗ order_lookup  ERROR config: tools were not recorded\n    in turn 2\n    return AgentResult\n" in text
    assert text.count("not recorded") == 2  # in the list of scenarios and in the causes


def test_skipped_and_xfailed_scenarios_are_shown_and_counted(build: SimpleNamespace) -> None:
    record = build.record(
        build.scenario(name="a"),
        build.scenario(Status.NOT_RUN, name="b", skipped=True, entry={"skip": "no key"}),
        build.scenario(Status.FAILED, name="c", failed=1, xfailed=True, entry={"xfail": "issue 7"}),
        trials=(build.trial(name="a"), build.trial(Status.FAILED, name="c")),
    )
    text = printed(record)
    assert "- b  skipped: no key\n- c  xfail: issue 7\n1/1 scenario passed, 1 skipped, 1 xfailed\nPASS\n" in text
    assert "Failures" not in text


def test_a_verdict_that_no_trial_explains_is_explained(build: SimpleNamespace) -> None:
    reason = "passed although xfail says 'issue 7'; remove the xfail"
    record = build.record(build.scenario(Status.FAILED, passed=1, reasons=(reason,)), trials=(build.trial(),))
    assert f"✗ order_lookup  (1 turn)\n    {reason}\n" in printed(record)


def test_an_inconclusive_scenario_has_no_tick(build: SimpleNamespace) -> None:
    record = build.record(
        build.scenario(Status.INCONCLUSIVE, passed=2, trials=2, reasons=("14 clean trials are needed",)),
        trials=(build.trial(), build.trial(index=1)),
        status=Status.INCONCLUSIVE,
        reasons=("1 scenario inconclusive",),
    )
    text = printed(record)
    assert text.startswith("? order_lookup  2/2 trials passed\n")
    assert "    14 clean trials are needed\n" in text
    assert "INCONCLUSIVE: 1 scenario inconclusive\n" in text


def test_unique_errors_notes_groups_and_gates_are_shown(build: SimpleNamespace) -> None:
    error = UniqueError(
        severity=Severity.HIGH, label="Assumes the date", explanation="Booked unasked.", examples=((0, 1), (2, None))
    )
    record = build.record(
        build.scenario(unique_errors=(error,), notes=("1 errored trial tolerated (threshold: 0.8)",)),
        trials=(build.trial(),),
        groups=(("refunds", Verdict(status=Status.FAILED, failure_reasons=("1 of 2 scenarios passed",))),),
        totals=Totals(
            total_executions=3,
            passed_count=2,
            cases_pass_rate_pct=200 / 3,
            cases_pass_threshold=66.67,
            cases_passed=False,
        ),
        gates=RunGates(cases_pass_threshold=66.67),
    )
    text = printed(record)
    assert (
        "  Unique errors:\n"
        "    [high] Assumes the date (2 occurrences)\n"
        "      Booked unasked.\n"
        "      Examples: trial-1 turn 2, trial-3\n"
        "  note: 1 errored trial tolerated (threshold: 0.8)\n"
        "✗ group refunds: FAIL  1 of 2 scenarios passed\n"
        "cases pass rate: 66.667 %, 2/3 trials (threshold: 66.67 ✗)\n"
    ) in text


def test_many_passing_scenarios_are_collapsed_into_one_line(build: SimpleNamespace) -> None:
    names = [f"n{number}" for number in range(10_000)]
    record = build.record(
        *(build.scenario(name=name) for name in names), trials=tuple(build.trial(name=name) for name in names)
    )
    lines = printed(record).splitlines()
    assert len([line for line in lines if line.startswith("✓")]) == 30
    assert "… 9,970 more passed" in lines
    assert record.reads == 30
    assert "9999" in printed(record, verbose=True)


def test_many_failing_scenarios_are_counted(build: SimpleNamespace) -> None:
    names = [f"n{number}" for number in range(60)]
    record = build.record(
        *(build.scenario(Status.FAILED, name=name) for name in names),
        trials=tuple(build.trial(Status.FAILED, name=name) for name in names),
    )
    text = printed(record)
    assert "… 10 more did not pass\n" in text
    assert "1 cause of 60 failed trials:\n  ✗ n0, n1, n2 and 57 more (60 trials): failed\n" in text


def test_scenarios_that_an_interrupt_left_over_are_only_counted_where_they_are_many(build: SimpleNamespace) -> None:
    failed = build.scenario(Status.FAILED, name="broken", failed=1, reasons=("no",))
    missing = [build.scenario(Status.NOT_RUN, name=f"later {n}", not_run=1) for n in range(11)]
    text = printed(build.record(failed, *missing))
    assert "… 11 were not run\n" in text
    assert "later 3" not in text
    assert "broken: no\n" in text.partition("2 causes:")[2]
    assert "later 0, later 1, later 2 and 8 more: not run\n" in text
    assert "later 3" in printed(build.record(failed, *missing[:10]))
    assert "later 3" in printed(build.record(failed, *missing), verbose=True)


def test_failures_are_grouped_by_cause_with_the_command_to_look_closer(build: SimpleNamespace) -> None:
    def lacks(order: str) -> Any:
        return build.result(False, f"the reply lacks {order}", evaluator="contains")

    record = build.record(
        build.scenario(Status.FAILED, name="half", passed=1, failed=1, trials=2, reasons=("1/2 trials passed",)),
        build.scenario(Status.FAILED, name="it's bad", failed=1, reasons=("0/1 trials passed",)),
        build.scenario(Status.INCONCLUSIVE, name="few", passed=1, reasons=("29 clean trials are needed",)),
        trials=(
            build.trial(name="half", turns=(build.turn(reply="W1"),)),
            build.trial(Status.FAILED, name="half", index=1, results=(lacks("W1"),)),
            build.trial(Status.FAILED, name="it's bad", results=(lacks("W2"),)),
            build.trial(name="few"),
        ),
    )
    assert printed(record).split("\n\n")[1] == (
        "3 causes of 2 failed trials:\n"
        "  ✗ half: contains: the reply lacks W1\n"
        '      turn 1, reply: the reply is "Hi"; the passed one is "W1" (compared with trial-1)\n'
        "      try: read both replies: the check may be too strict, or the instructions leave the answer open\n"
        "      seatrial show r-1 'half' 2\n"
        "  ✗ it's bad: contains: the reply lacks W2\n"
        "      turn 1, reply: no trial of this scenario passed, so there is nothing to compare with\n"
        "      try: read one conversation, or run more trials until one passes\n"
        "      seatrial show r-1 'it'\"'\"'s bad' 1\n"
        "  ✗ few: 29 clean trials are needed\n"
        "      seatrial show r-1 'few'\n"
    )


def test_equal_reasons_of_several_trials_are_told_once(build: SimpleNamespace) -> None:
    def failed(index: int, lacks: str) -> Any:
        result = build.result(False, f"the reply lacks {lacks}", evaluator="contains")
        return build.trial(Status.FAILED, name="asks", index=index, results=(result,))

    record = build.record(
        build.scenario(Status.FAILED, name="asks", failed=3, trials=3),
        trials=(failed(0, "W1"), failed(1, "W2"), failed(2, "W1")),
    )
    shown = printed(record).split("\n\n")[0]
    assert shown.count("the reply lacks W1") == 1
    assert shown.count("the reply lacks W2") == 1
    assert "✗ trial-3 (1 turn), as trial-1\n" in shown
    assert printed(record, verbose=True).split("\n\n")[0].count("    contains: the reply lacks W1") == 2


def test_verbose_shows_the_whole_conversation(build: SimpleNamespace) -> None:
    call = ToolCall("book", {"time": "10am"}, result={"id": "BK-1"}, duration_ms=12.0)
    results = (
        build.result(
            reasoning="fine",
            checks=(Check(name="Output produced", passed=True, detail="PASS"), Check(name="exact_match", passed=True)),
        ),
        build.result(False, "not there", evaluator="contains", turn=0),
    )
    error = ErrorInfo(kind=ErrorKind.AGENT, message="boom", traceback="Traceback…\nValueError: boom")
    judgement = Judgement(scores=(MetricScore(metric="helpfulness", value=4.0, reason="polite", turn=0),))
    trial = build.trial(
        Status.ERRORED,
        turns=(build.turn("Book it", None, calls=(call,)),),
        results=results,
        error=error,
        judgement=judgement,
    )
    text = printed(build.record(build.scenario(Status.ERRORED, errored=1), trials=(trial,)), verbose=True)
    for line in (
        "    turn 1 (120 ms)",
        "      user: Book it",
        '      tool: book({"time": "10am"}) -> {"id": "BK-1"}  (12 ms)',
        "      agent: (no reply)",
        "      ✗ contains: not there",
        "      helpfulness: 4 polite",
        "    ✓ passfail: fine",
        "      ✓ Output produced: PASS",
        "      ✓ exact_match",
        "    Traceback…",
        "      ValueError: boom",
    ):
        assert f"{line}\n" in text, line


def test_calls_that_were_not_recorded_are_not_shown_as_none(build: SimpleNamespace) -> None:
    trial = build.trial(turns=(build.turn(calls=None),))
    assert "tool calls: not recorded" in printed(build.record(build.scenario(), trials=(trial,)), verbose=True)


@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_an_agent_says_reaches_the_terminal_as_a_command(build: SimpleNamespace, verbose: bool) -> None:
    text = printed(build.hostile_record(), verbose=verbose)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    for spelt in ("\\x1b[31m", "\\x00", "\\udc80", "\\u202e", "\\x0d", "[/red]"):
        assert spelt in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "##[" not in text
    assert "##vso[" not in text


def test_colours_are_ours_alone(build: SimpleNamespace) -> None:
    stream = io.StringIO()
    print_run(build.hostile_record(), stream, colour=True)
    assert set(re.findall("\x1b\\[([0-9;]*)m", stream.getvalue())) <= {"0", "1", "2", "31", "32", "33"}
    assert "\x1b" not in re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_color_is_respected(build: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen = {}
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        stream = Terminal()
        print_run(build.record(build.scenario(), trials=(build.trial(),)), stream)
        seen[value] = "\x1b[" in stream.getvalue()
    assert seen == {"": True, "1": False}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_stream_that_cannot_show_ticks_gets_other_marks(build: SimpleNamespace, encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    record = build.record(build.scenario(name="日本"), trials=(build.trial(name="日本"),))
    print_run(record, stream)
    stream.flush()
    first = raw.getvalue().decode(encoding).splitlines()[0]
    assert first == ("✓ 日本  (1 turn)" if encoding == "utf-8" else "+ \\u65e5\\u672c  (1 turn)")


def test_long_texts_are_cut_with_a_count_and_never_wrapped(build: SimpleNamespace) -> None:
    trial = build.trial(Status.FAILED, results=(build.result(False, "x" * 5_000),))
    text = printed(build.record(build.scenario(Status.FAILED), trials=(trial,)))
    assert f"    passfail: {'x' * 1_990}… (3,010 more characters)\n" in text


def test_an_interrupted_run_says_how_to_go_on(build: SimpleNamespace) -> None:
    record = build.record(
        build.scenario(Status.NOT_RUN, trials=3, passed=1, not_run=2, reasons=("2 trials not run",)),
        trials=(build.trial(),),
        status=Status.NOT_RUN,
        state=RunState.INTERRUPTED,
    )
    text = printed(record)
    assert "- order_lookup  1/3 trials passed (2 not run)\n" in text
    assert "seatrial run --resume r-1" in text


def test_suites_are_named_where_there_are_several(build: SimpleNamespace) -> None:
    record = build.record(
        build.scenario(name="x", suite="one"),
        build.scenario(name="y", suite="two"),
        trials=(build.trial(name="x", suite="one"), build.trial(name="y", suite="two")),
    )
    assert printed(record).startswith("one\n✓ x  (1 turn)\ntwo\n✓ y  (1 turn)\n")


def test_a_scenario_whose_trial_is_missing_is_still_shown(build: SimpleNamespace) -> None:
    record = build.record(build.scenario(Status.NOT_RUN, not_run=1, reasons=("nothing was run",)))
    assert printed(record).startswith("- order_lookup  0/1 trial passed (1 not run)\n    nothing was run\n")
