"""Scenario files as tests."""

from typing import Any

import pytest

from seatrial.store.store import open_store

pytest_plugins = ["pytester"]

SHOP = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - name: greets
        input: hello
        expected_output: hello
        tags: [smoke, needs-review]
      - name: looks up an order
        input: "order 7?"
        expected_output: "seven"
        tags: [tools]
"""


@pytest.mark.parametrize("name", ["shop.trial.yaml", "shop.trial.yml"])
def test_every_scenario_of_a_trial_file_is_a_test(project: Any, name: str) -> None:
    project.write(name, SHOP)
    result = project.run("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"{name}::greets PASSED*", f"{name}::looks up an order FAILED*"])


def test_json_trial_files_are_collected(project: Any) -> None:
    project.write("a.trial.json", '{"suite": {"agent": "agent:answer"}, "scenarios": [{"name": "a", "input": "x"}]}')
    project.run().assert_outcomes(passed=1)


def test_other_yaml_files_are_left_alone(project: Any) -> None:
    project.write("shop.yaml", SHOP)
    assert project.run().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_folders_of_testpaths_are_collected_without_being_asked_for(project: Any) -> None:
    project.write("scenarios/deep/shop.yaml", SHOP)
    project.write(
        "pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]\n[tool.pytest.ini_options]\ntestpaths = ["tests"]'
    )
    project.write("tests/test_plain.py", "def test_plain(): pass")
    project.run().assert_outcomes(passed=2, failed=1)


@pytest.mark.parametrize("name", ["a.trial.YAML", "a.trial.v2.yaml", "a.trial.jsonl", "a.trial.x_trials.py", "B.YAML"])
def test_no_scenario_file_of_testpaths_is_left_out_because_of_its_name(project: Any, name: str) -> None:
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]\nagent = "agent:answer"\n')
    scenario = '{"name": "greets", "input": "hello", "expected_output": "hello"}'
    text = {"jsonl": scenario, "py": f"from seatrial import Scenario\nfirst = Scenario(**{scenario})\n"}
    project.write(f"scenarios/{name}", text.get(name.rpartition(".")[2], f"scenarios: [{scenario}]"))
    project.run().assert_outcomes(passed=1)


def test_a_folder_of_testpaths_is_collected_once(project: Any) -> None:
    project.write("scenarios/shop.trial.yaml", SHOP)
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]')
    project.run().assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("name", ["shop.trial.new.yaml", "SHOP.TRIAL.YAML"])
def test_no_file_of_a_folder_in_testpaths_is_left_out_for_its_name(project: Any, name: str) -> None:
    project.write(f"scenarios/{name}", SHOP)
    project.write(
        "scenarios/orders.trial.jsonl", '{"name": "order", "input": "hi", "expected_output": "nothing like it"}'
    )
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]')
    project.run().assert_outcomes(passed=1, failed=2)


@pytest.mark.parametrize("args", [("scenarios",), ("scenarios", "elsewhere"), (".",), ()])
def test_testpaths_that_are_a_link_are_collected_once(project: Any, args: tuple[str, ...]) -> None:
    project.write("elsewhere/shop.yaml", SHOP)
    (project.path / "scenarios").symlink_to("elsewhere")
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]')
    project.run(*args).assert_outcomes(passed=1, failed=1)


def test_testpaths_are_collected_where_the_project_is_reached_by_a_link(project: Any) -> None:
    project.write("real/scenarios/shop.yaml", SHOP)
    project.write("real/agent.py", "def answer(input): return input")
    project.write("real/pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]')
    (project.path / "link").symlink_to("real")
    project.run("link").assert_outcomes(passed=1, failed=1)


def test_testpaths_of_the_ini_file_work_as_well(project: Any) -> None:
    project.write("scenarios/shop.yaml", SHOP)
    project.write("pytest.ini", "[pytest]\nseatrial_testpaths = scenarios\n")
    project.run().assert_outcomes(passed=1, failed=1)


def test_a_missing_folder_in_testpaths_is_a_usage_error(project: Any) -> None:
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarois"]')
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no file or folder 'scenarois'*"])


def test_keywords_select_scenarios(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.run("-k", "greets").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("expression", ["smoke", "needs-review", "not tools"])
def test_tags_are_markers(project: Any, expression: str) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.run("-m", expression, "--strict-markers", "-W", "error").assert_outcomes(passed=1, deselected=1)


def test_a_tag_that_means_something_to_pytest_is_refused(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP.replace("smoke", "skip"))
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*the tag 'skip' is a marker with a meaning; rename the tag*"])


def test_a_scenario_can_be_asked_for_by_its_node_id(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.run("shop.trial.yaml::greets").assert_outcomes(passed=1)


def test_collecting_plays_nothing(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP)
    result = project.run("--collect-only")
    result.stdout.fnmatch_lines(
        ["*<ScenarioFile shop.trial.yaml>*", "*<ScenarioItem greets>*", "*<ScenarioItem looks up an order>*"]
    )
    assert not (project.path / ".seatrial").exists()


def test_what_failed_last_time_can_be_run_alone(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.process("-q")
    result = project.process("-q", "--lf")
    result.assert_outcomes(failed=1)


def test_the_first_failure_can_end_the_session(project: Any) -> None:
    project.write(
        "a.trial.yaml",
        SHOP.replace("hello", "nothing of it", 2).replace('"hello"', "x").replace("input: nothing of it", "input: x"),
    )
    result = project.run("-x")
    result.assert_outcomes(failed=1)


def test_all_mistakes_of_a_file_are_told_with_their_lines_and_nothing_runs(project: Any) -> None:
    project.write("bad.trial.yaml", "scenarios:\n  - name: a\n    inptu: x\n  - name: b\n    input: 5\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*bad.trial.yaml:3:5*'inptu'*", "*bad.trial.yaml:5:*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_syntax_error_is_told_with_its_line(project: Any) -> None:
    project.write("bad.trial.yaml", "scenarios: [\n  oops: }\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*bad.trial.yaml:2:*"])


def test_two_files_cannot_have_the_same_scenario_of_the_same_suite(project: Any) -> None:
    project.write("a.trial.yaml", SHOP)
    project.write("b.trial.yaml", SHOP)
    result = project.run()
    result.stdout.fnmatch_lines(["*the name 'greets' is taken in the suite 'shop' by a.trial.yaml:3*"])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_skip_is_shown_with_its_reason(project: Any) -> None:
    project.write("a.trial.yaml", 'suite: {agent: "agent:answer"}\nscenarios: [{name: a, input: x, skip: not yet}]')
    result = project.run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*not yet*"])


@pytest.mark.parametrize(("expected", "ending"), [("nine", "xfailed"), ("x", "failed")])
def test_xfail_foretells_a_failure_and_a_pass_is_told(project: Any, expected: str, ending: str) -> None:
    scenario = f"{{name: a, input: x, expected_output: {expected}, xfail: known}}"
    project.write("a.trial.yaml", f'suite: {{agent: "agent:answer"}}\nscenarios: [{scenario}]')
    project.run().assert_outcomes(**{ending: 1})


@pytest.mark.parametrize(
    ("given", "why"),
    [("xfail: known", "*passed although*"), ("gate: {pass_rate: 0.9}", "*29 clean trials*")],
)
def test_what_no_trial_can_tell_is_told_of_the_scenario(project: Any, given: str, why: str) -> None:
    scenario = f"{{name: a, input: x, expected_output: x, {given}}}"
    project.write("a.trial.yaml", f'suite: {{agent: "agent:answer"}}\nscenarios: [{scenario}]')
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([why])


def test_xfail_does_not_foretell_a_broken_evaluator(project: Any) -> None:
    project.write("checks.py", "from seatrial import evaluator\n@evaluator\ndef broken(ctx): raise KeyError('x')\n")
    project.write(
        "a.trial.yaml",
        """
        suite: {agent: "agent:answer", evaluators: [checks]}
        scenarios: [{name: a, input: x, scorers: [broken], xfail: known}]
        """,
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ERROR evaluator*KeyError*"])


@pytest.mark.parametrize("what", ["skip", "xfail", "fail"])
def test_an_evaluator_does_not_decide_how_the_test_ends(project: Any, what: str) -> None:
    text = f"import pytest\nfrom seatrial import evaluator\n@evaluator\ndef mine(ctx): pytest.{what}('so there')\n"
    project.write("checks.py", text)
    project.write(
        "a.trial.yaml",
        """
        suite: {agent: "agent:answer", evaluators: [checks]}
        scenarios: [{name: a, input: x, scorers: [mine]}]
        """,
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ERROR evaluator: evaluator 'mine': *: so there"])


def test_names_that_node_ids_cannot_hold_are_still_tests(project: Any) -> None:
    project.write(
        "a.trial.yaml",
        """
        suite: {agent: "agent:answer"}
        scenarios:
          - {name: "a::b", input: x}
          - {name: "a:b", input: x}
          - {name: "__dict__", input: x}
          - {name: "two\\nlines", input: x}
        """,
    )
    result = project.run("-v")
    result.assert_outcomes(passed=4)


def test_files_of_pytest_agent_eval_run_as_they_are(project: Any) -> None:
    project.supply_agent()
    project.write(
        "greeting.trial.yaml",
        """
        id: greeting
        runs: 2
        threshold: 0.5
        turns:
          - user: hello
            expect: {reply_contains_any: [HELLO], tool_calls_include: [lookup]}
        """,
    )
    result = project.run("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::greeting PASSED*"])


def test_python_files_of_testpaths_are_collected(project: Any) -> None:
    project.write(
        "scenarios/shop_trials.py",
        """
        from seatrial import Scenario, Suite
        from agent import answer
        suite = Suite(name="shop", agent=answer, scenarios=[Scenario(name="greets", input="hi", expected_output="hi")])
        """,
    )
    project.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]')
    project.run().assert_outcomes(passed=1)


def test_a_suite_that_says_fail_fast_ends_the_session(project: Any) -> None:
    text = SHOP.replace('agent: "agent:answer"', 'agent: "agent:answer", config: {fail_fast: true}')
    project.write("a.trial.yaml", text.replace("expected_output: hello", "expected_output: bye"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*fail_fast*"])


def test_fixtures_that_are_always_used_are_used_for_each_scenario(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def noted(request):
            with open("noted.txt", "a") as file:
                print(request.node.name, file=file)
        """,
    )
    project.write("shop.trial.yaml", SHOP)
    project.run()
    assert (project.path / "noted.txt").read_text().splitlines() == ["greets", "looks up an order"]


def test_a_hook_can_let_one_scenario_use_a_fixture(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture
        def machine():
            pytest.skip("no machine here")

        def pytest_collection_modifyitems(items):
            for item in items:
                if "smoke" in item.keywords:
                    item.fixturenames.append("machine")
        """,
    )
    project.run().assert_outcomes(skipped=1, failed=1)


@pytest.mark.parametrize("given", ["trials=-1", "trials=0", "threshold=-1", "threshold='0.8'"])
def test_a_marker_that_makes_no_sense_for_a_scenario_is_refused(project: Any, given: str) -> None:
    project.write("shop.trial.yaml", SHOP)
    project.write(
        "conftest.py",
        f"""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.seatrial({given}))
        """,
    )
    result = project.process()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*shop.trial.yaml::greets: @pytest.mark.seatrial: t*: expected *"])


def test_a_hook_can_make_several_tests_of_one_scenario(project: Any) -> None:
    project.supply_agent()
    with (project.path / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(
            "\n\ndef pytest_generate_tests(metafunc):\n"
            "    if metafunc.function.__name__ == 'greets':\n"
            "        metafunc.parametrize('seatrial_agent', [answer, answer], ids=['first', 'second'])\n"
        )
    project.write("shop.trial.yaml", SHOP)
    result = project.run("-v", "-k", "greets and not looks")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["*::greets?first? PASSED*", "*::greets?second? PASSED*"])


def test_the_place_of_a_test_is_the_line_of_its_scenario(project: Any) -> None:
    project.write("shop.trial.yaml", SHOP.replace("input: hello", "input: hello\n        skip: not yet"))
    project.run("-rs").stdout.fnmatch_lines(["SKIPPED ?1? shop.trial.yaml:3: not yet"])


def test_hooks_of_another_folder_leave_scenarios_alone(project: Any) -> None:
    project.write("a/shop.trial.yaml", SHOP)
    project.write("b/conftest.py", "def pytest_runtest_setup(item):\n    raise KeyError(item.name)\n")
    project.write("b/test_plain.py", "def test_plain(): pass\n")
    project.write("b/more.trial.yaml", SHOP.replace("name: shop", "name: more"))
    project.run().assert_outcomes(passed=1, failed=1, errors=3)


def test_keys_of_models_that_suites_and_scenarios_name_are_not_kept(project: Any) -> None:
    project.write("agent.py", "def answer(input): return 'I heard of-the-suite-1 and of-scenario-2'")
    project.write(
        "a.trial.yaml",
        """
        suite: {agent: "agent:answer", config: {models: {judge: {model: "openai:x", api_key: of-the-suite-1}}}}
        scenarios:
          - {name: a, input: hi, models: {judge: {model: "openai:x", api_key: of-scenario-2}}}
        """,
    )
    project.run().assert_outcomes(passed=1)
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        [run] = store.runs()
        [trial] = [trial for entry in store.entries(run.id) for trial in store.trials(run.id, entry.key)]
    assert trial.transcript.reply == "I heard [redacted] and [redacted]"
