"""What a session leaves in the store: the same as `seatrial run` would have left."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from seatrial.model.protocols import Event, TrialFinished
from seatrial.model.run import RunOutcome, RunState, Status, Trial
from seatrial.runs import session
from seatrial.runs.report import StoredRecord
from seatrial.store.store import open_store

pytest_plugins = ["pytester"]

ONE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - {name: plays, input: hello}
"""


def only_run(project: Any) -> tuple[Any, RunOutcome]:
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (run,) = store.runs()
        return run, StoredRecord(store, run).outcome


def by_name(outcome: RunOutcome) -> dict[str, Any]:
    return {each.entry.key.label: each for each in outcome.scenarios}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_what_was_skipped_is_in_the_run_with_its_reason(project: Any, workers: tuple[str, ...]) -> None:
    project.write(
        "a.trial.yaml",
        ONE
        + """
      - {name: waits, input: x, skip: not yet}
      - {name: asks, turns: [{user: x, expect: {judge: {rubric: r}}}]}
      - {name: is held back, input: x, tags: [held]}
""",
    )
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.get_closest_marker("held"):
                    item.add_marker(pytest.mark.skip(reason="by conftest"))
        """,
    )
    project.process(*workers).assert_outcomes(passed=1, skipped=3)
    _, outcome = only_run(project)
    skipped = {name: each.entry.skip for name, each in by_name(outcome).items() if each.skipped}
    assert skipped == {
        "waits": "not yet",
        "asks": "it asks a model: --seatrial-live runs it",
        "is held back": "by conftest",
    }
    assert outcome.verdict.passed


def test_a_scenario_of_a_python_test_that_asks_a_model_is_in_the_run_as_skipped(project: Any) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        from seatrial import Scenario

        def test_a(seatrial):
            assert seatrial.run("hello")
            seatrial.run(Scenario(name="judged", input="x", expected_outcomes=["it is done"], scorers=["passfail"]))
        """,
    )
    project.run().assert_outcomes(skipped=1)
    _, outcome = only_run(project)
    assert [name for name, each in by_name(outcome).items() if each.skipped] == ["test_a: judged"]


def test_skip_and_xfail_of_a_scenario_hold_in_python_tests(project: Any) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        from seatrial import Scenario

        def refuse(input):
            raise RuntimeError("must not be asked")

        async def test_waits(seatrial):
            seatrial.check(await seatrial.run(Scenario(name="a", input="x", skip="not yet"), agent=refuse))

        def test_fails(seatrial):
            seatrial.check(seatrial.run(Scenario(name="a", input="x", expected_output="bye", xfail="known")))
        """,
    )
    result = project.run("-rsx")
    result.assert_outcomes(skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["SKIPPED*not yet", "XFAIL*known"])
    assert by_name(only_run(project)[1])["test_waits: a"].entry.skip == "not yet"


@pytest.mark.parametrize("then", ["skip='not yet'", "xfail='known', expected_output='bye'"])
def test_a_scenario_that_failed_before_is_not_hidden_by_skip_or_xfail_of_another(project: Any, then: str) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        f"""
        from seatrial import Scenario

        def test_both(seatrial):
            first = seatrial.run(Scenario(name="first", input="x", expected_output="bye"))
            seatrial.check(seatrial.run(Scenario(name="second", input="x", {then})))
            assert first.passed

        def test_asked(seatrial):
            assert not seatrial.run(Scenario(name="first", input="x", expected_output="bye")).passed
            seatrial.check(seatrial.run(Scenario(name="second", input="x", {then})))
        """,
    )
    result = project.run()
    kind = "skipped" if then.startswith("skip") else "xfailed"
    result.assert_outcomes(failed=1, **{kind: 1})
    result.stdout.fnmatch_lines(["FAIL*test_both: first*"])


def test_what_was_deselected_is_not_part_of_the_run(project: Any) -> None:
    project.write("a.trial.yaml", ONE + "      - {name: waits, input: x, skip: not yet}\n")
    project.run("-k", "plays").assert_outcomes(passed=1, deselected=1)
    assert list(by_name(only_run(project)[1])) == ["plays"]


def test_where_nothing_was_played_there_is_no_run(project: Any) -> None:
    project.write("a.trial.yaml", ONE.replace("input: hello", "input: hello, skip: not yet"))
    project.run().assert_outcomes(skipped=1)
    assert not (project.path / ".seatrial" / "runs.db").exists()


def test_a_scenario_that_could_not_be_played_keeps_the_run_from_passing(project: Any) -> None:
    project.write("a.trial.yaml", ONE)
    project.write("b.trial.yaml", "suite: {name: b}\nscenarios: [{name: nobody plays it, input: x}]")
    project.run("--seatrial-report=json=out.json").assert_outcomes(passed=1, failed=1)
    _, outcome = only_run(project)
    assert by_name(outcome)["nobody plays it"].verdict.status is Status.NOT_RUN
    assert not outcome.verdict.passed
    assert json.loads((project.path / "out.json").read_text())["passed"] is False


def test_a_session_that_was_stopped_early_leaves_no_run_that_passed(project: Any) -> None:
    project.write(
        "a.trial.yaml",
        """
        suite: {name: shop, agent: "agent:answer", config: {cases_pass_threshold: 50}}
        scenarios:
          - {name: a, input: x}
          - {name: b, input: x, expected_output: nine}
          - {name: c, input: x, expected_output: nine}
        """,
    )
    assert project.run("-x").ret == pytest.ExitCode.TESTS_FAILED
    run, outcome = only_run(project)
    assert run.state is RunState.INTERRUPTED
    assert not outcome.verdict.passed
    shown = subprocess.run(
        [sys.executable, "-m", "seatrial", "show"], cwd=project.path, capture_output=True, text=True, check=False
    )
    assert "interrupted; finished trials are kept. To run all: pytest " in shown.stdout


def test_a_suites_group_whose_scenarios_were_all_skipped_turns_no_session_red(project: Any) -> None:
    project.write(
        "a.trial.yaml",
        """
        suite:
          name: shop
          agent: "agent:answer"
          groups: [{name: judged, tags: [judged], must_pass: [asks]}]
        scenarios:
          - {name: plays, input: hello}
          - {name: asks, tags: [judged], turns: [{user: x, expect: {judge: {rubric: r}}}]}
        """,
    )
    result = project.run()
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_suites_own_reports_are_written(project: Any, workers: tuple[str, ...]) -> None:
    project.write("a.trial.yaml", ONE.replace("name: shop,", "name: shop, reports: [json=own.json, junit=own.xml],"))
    project.process(*workers, "--seatrial-report=junit=flag.xml").assert_outcomes(passed=1)
    assert json.loads((project.path / "own.json").read_text())["passed"] is True
    assert (project.path / "flag.xml").exists()
    assert not (project.path / "own.xml").exists(), "a flag of the same kind comes instead"


def test_a_report_that_the_suite_misspells_is_a_collection_error(project: Any) -> None:
    project.write("a.trial.yaml", ONE.replace("name: shop,", "name: shop, reports: [sculpture],"))
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*a.trial.yaml: suite.reports: unknown report 'sculpture'*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_isolated_agents_run_in_processes_of_their_own(project: Any) -> None:
    project.write("agent.py", "import os\ndef answer(input):\n    os._exit(0)\n")
    project.write("a.trial.yaml", ONE.replace("name: shop,", "name: shop, config: {isolation: process},"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ERROR agent*"])


def test_isolation_refuses_an_object_that_another_process_does_not_have(project: Any) -> None:
    project.supply_agent()
    project.write("a.trial.yaml", ONE.replace("name: shop,", "name: shop, config: {isolation: process},"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*isolation: process cannot run the Python object 'answer'*"])


RECORDING = {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello!"}]}


@pytest.mark.parametrize("by", ["suite", "flag", "fixture"])
def test_a_run_with_recordings_is_marked(project: Any, by: str) -> None:
    project.write("said.jsonl", json.dumps(RECORDING))
    spec = "{type: replay, path: said.jsonl}"
    project.write("a.trial.yaml", ONE.replace('"agent:answer"', spec) if by == "suite" else ONE)
    if by == "fixture":
        project.write(
            "conftest.py",
            """
            import pytest

            @pytest.fixture
            def seatrial_agent():
                return {"type": "replay", "path": "said.jsonl"}
            """,
        )
    project.run(*(["--seatrial-agent", spec] if by == "flag" else [])).assert_outcomes(passed=1)
    run, _ = only_run(project)
    assert run.replayed


def test_a_recording_that_comes_late_is_refused(project: Any) -> None:
    project.supply_agent()
    project.write("said.jsonl", json.dumps(RECORDING))
    project.write(
        "test_a.py",
        """
        def test_a(seatrial):
            assert seatrial.run("hello")
            assert seatrial.run("hello", agent={"type": "replay", "path": "said.jsonl"})
        """,
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a recording is played, and the run began without saying so*"])


def test_the_seed_of_a_suite_is_that_of_the_run(project: Any) -> None:
    project.write("a.trial.yaml", ONE.replace("name: shop,", "name: shop, config: {seed: 7},"))
    project.run().assert_outcomes(passed=1)
    assert only_run(project)[0].seed == 7


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """An OTLP receiver on loopback: its address, and the spans it was sent."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(span for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", spans
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_spans_of_every_trial_are_sent_with_what_checks_found(
    project: Any, monkeypatch: pytest.MonkeyPatch, collector: tuple[str, list[Any]], workers: tuple[str, ...]
) -> None:
    address, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    project.supply_agent()
    project.write("a.trial.yaml", ONE.replace("input: hello", "input: hello, trials: 2"))
    project.write(
        "test_a.py",
        """
        from seatrial import Contains

        async def test_a(seatrial):
            await seatrial.check(await seatrial.run("hello"), Contains(any_of=["hello"]))
        """,
    )
    project.process(*workers).assert_outcomes(passed=2)
    assert sum(not span.parent_span_id for span in spans) == 3
    names = [value.value.string_value for span in spans for event in span.events for value in event.attributes]
    assert "contains" in names


@pytest.mark.parametrize("place", ["play(seatrial)\n    yield", "yield\n    play(seatrial)"], ids=["setup", "teardown"])
def test_a_run_that_only_fixtures_play_is_ended_and_reported(project: Any, place: str) -> None:
    project.supply_agent()
    play = "def play(seatrial):\n    assert not seatrial.run('hello').passed\n"
    fixture = f"@pytest.fixture\ndef played(seatrial):\n    {place}\n"
    project.write("test_a.py", f"import pytest\n{play}\n{fixture}\ndef test_a(played): ...\n")
    result = project.run("--seatrial-report", "json=out.json")
    result.assert_outcomes(errors=1, passed=int(place.startswith("yield")))
    assert (project.path / "out.json").exists()
    run, _ = only_run(project)
    assert run.state is RunState.FINISHED


def test_listeners_hear_once_of_a_trial_that_subtests_look_at(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Trial] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialFinished):
            heard.append(event.trial)

    monkeypatch.setattr(session, "find_listeners", lambda request: (listen,))
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        from seatrial import Contains

        def test_a(seatrial, subtests):
            result = seatrial.run("hello")
            with subtests.test("passes"):
                assert result.passed
            with subtests.test("greets"):
                seatrial.check(result, Contains(any_of=["hello"]))
        """,
    )
    assert project.run().ret == pytest.ExitCode.OK
    assert [[each.evaluator for each in trial.results] for trial in heard] == [["passfail", "contains"]]


def test_ctrl_c_while_the_agent_answers_keeps_what_was_finished(project: Any) -> None:
    project.write(
        "agent.py",
        """
        import os, signal, threading

        def answer(input):
            if input == "stop":
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait()
            return input
        """,
    )
    # A shell lets what it runs in the background ignore Ctrl-C.
    project.write("conftest.py", "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n")
    inputs = "\n".join(f"  - {{name: s{n}, input: {said}}}" for n, said in enumerate(["x", "stop", "x"]))
    project.write("a.trial.yaml", f"suite: {{agent: 'agent:answer'}}\nscenarios:\n{inputs}\n")
    result = project.process()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
    assert "never retrieved" not in result.stderr.str() + result.stdout.str()
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (row,) = store.run_rows()
    assert (row.run.state, row.trials, row.passed) == (RunState.INTERRUPTED, 1, 1)
