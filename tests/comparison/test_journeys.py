"""compare, baseline and plan from the command line and from Python, over runs in a real store."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Scenario, Suite, SuiteConfig, ToolCall, UsageError
from seatrial.cli.main import main
from seatrial.model.comparison import ChangeKind, Comparison
from seatrial.model.run import RunState
from seatrial.statistics.intervals import wilson_lower_bound
from seatrial.store.store import open_store

SHOP = """
suite: {{name: shop, agent: "{module}:answer", config: {{trials: {trials}}}}}
scenarios:
  - {{name: refund, input: refund, expected_output: ok}}
  - {{name: book, input: book, expected_output: ok}}
  - {{name: greet, input: greet, expected_output: ok}}
"""
AGENT = """
from pathlib import Path
from seatrial import AgentResult, ToolCall

BROKEN = Path(__file__).parent / "broken"

def answer(input):
    if BROKEN.exists() and input in BROKEN.read_text().split():
        return AgentResult("sorry", [ToolCall("lookup", {"id": "A2"})])
    return AgentResult("ok", [ToolCall("lookup", {"id": "A1"}), ToolCall(input, {})])
"""


@pytest.fixture
def seatrial_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., Any]:
    """Runs a command in a folder of its own; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("SEATRIAL_STORE", "SEATRIAL_AGENT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        # How long the agents take is the machine's business, not that of these tests.
        calm = ["--max-latency-increase-pct", "1000000"] if arguments[0] == "compare" else []
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *calm])
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


def a_shop(folder: Path, request: pytest.FixtureRequest, *, trials: int = 5) -> Path:
    """A suite whose agent fails in the scenarios that are named in the file `broken`."""
    module = "shop_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    (folder / f"{module}.py").write_text(AGENT, "utf-8")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "shop.yaml").write_text(SHOP.format(module=module, trials=trials), "utf-8")
    return folder / "broken"


def test_a_run_that_got_worse_exits_1_and_says_where_the_conversations_part(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "main")
    assert seatrial_command("baseline", "set", "main")[0] == 0
    broken.write_text("refund")
    seatrial_command("run")
    code, out, _ = seatrial_command("compare")
    assert code == 1
    assert "1 of 3 scenarios got worse (refund)" in out
    assert "✗ refund  5/5 → 0/5  worse" in out
    assert "step 1 (turn 1): lookup was called with id: 'A1' → 'A2'" in out
    assert out.endswith("✗ worse: refund\nREGRESSION\n")


JUDGED = """
suite:
  name: shop
  agent: "{module}:answer"
  config: {{trials: 2}}
  evaluators: [{module}]
scenarios:
  - {{name: refund, input: refund, scorers: [fair]}}
  - {{name: book, input: book, expected_output: ok}}
"""
JUDGE = """
from pathlib import Path
from seatrial import evaluator

def answer(input):
    return "ok"

@evaluator
def fair(ctx):
    if (Path(__file__).parent / "down").exists():
        raise ConnectionError("the judge is down")
    return True
"""


def test_a_judge_that_is_down_exits_3_and_says_how_to_repeat_its_trials(seatrial_command, tmp_path):
    (tmp_path / "judged_shop.py").write_text(JUDGE, "utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "shop.yaml").write_text(JUDGED.format(module="judged_shop"), "utf-8")
    seatrial_command("run", "--name", "one")
    (tmp_path / "down").touch()
    seatrial_command("run", "--name", "two", "--id", "second")
    code, out, _ = seatrial_command("compare", "one", "two")
    assert code == 3
    assert "pass rate    100.0 % → 100.0 %   (2/2 trials → 2/2 trials)" in out
    assert "refund  2/2 → 0/0 (2 could not be judged)" in out
    assert "? cannot tell: 2 trials of the candidate could not be judged (refund)." in out
    assert "Repeat them: seatrial run --resume second --retry-errors" in out
    assert out.splitlines()[-1] == "UNDECIDED"
    form = json.loads(seatrial_command("compare", "one", "two", "--json")[1])
    assert (form["passed"], form["undecided"], form["regression_detected"]) == (False, True, False)


def test_equal_runs_exit_0(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two")
    code, out, _ = seatrial_command("compare", "one", "two", "--gate", "both")
    assert (code, out.splitlines()[-1]) == (0, "NO REGRESSION")
    assert "None of 3 scenarios got worse" in out


def test_what_got_worse_while_the_rest_got_better_is_told_beside_the_limits(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    broken.write_text("book")
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    code, out, _ = seatrial_command("compare", "one", "two", "--gate", "thresholds")
    note = "note: worse, but within the limits: refund. To fail on this: --gate auto"
    assert (code, out.splitlines()[-2:]) == (0, [note, "NO REGRESSION"])
    assert seatrial_command("compare", "one", "two", "--gate", "both")[0] == 1
    assert seatrial_command("compare", "one", "two")[0] == 1


def test_single_trials_that_flip_exit_3_and_say_how_many_decide(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request, trials=1)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    code, out, _ = seatrial_command("compare", "one", "two")
    assert (code, out.splitlines()[-1]) == (3, "UNDECIDED")
    assert "? refund  1/1 → 0/1  cannot tell" in out
    assert "Decide it with --confirm, or run both versions with 3 trials each" in out


def test_a_limit_tolerates_what_it_says(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    assert seatrial_command("compare", "one", "two", "--max-pass-rate-drop", "0.3")[0] == 1
    assert seatrial_command("compare", "one", "two", "--max-pass-rate-drop", "0.34")[0] == 0


def test_the_json_holds_what_programs_ask_for(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two", "--set", "retries=1")
    code, out, _ = seatrial_command("compare", "one", "two", "--json")
    form = json.loads(out)
    assert code == 1
    assert form["regression_detected"] is True
    assert form["reasons"] == ["pass_rate"]
    assert form["counts"] == {"regression": 1, "improvement": 0, "unchanged": 2, "error": 0, "new": 0, "missing": 0}
    assert form["base"]["name"] == "one"
    assert form["scenarios"][0]["key"] == {"suite": "shop", "name": "refund", "agent": None}
    assert form["alignments"][0]["parting"] == "arguments"
    assert {"what": "set.retries", "base": None, "candidate": 1} in form["config_differences"]


def test_missing_scenarios_exit_1_unless_allowed(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two", "--scenario", "greet")
    code, out, _ = seatrial_command("compare", "one", "two")
    assert code == 1
    assert "2 scenarios missing: refund, book" in out
    assert seatrial_command("compare", "one", "two", "--allow-missing")[0] == 0


def test_an_edited_scenario_is_marked_and_another_number_of_trials_is_not(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    file = tmp_path / "scenarios" / "shop.yaml"
    file.write_text(file.read_text().replace("greet, expected_output: ok", "greet, expected_output: o"), "utf-8")
    seatrial_command("run", "--name", "two", "--trials", "2")
    code, out, _ = seatrial_command("compare", "one", "two")
    assert code == 0
    assert "✓ greet  5/5 → 2/2  edited: scenario" in out
    assert out.count("edited") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "one", "one"), "was given on both sides"),
        (("compare", "one", "two", "--max-pass-rate-drop=-0.1"), "max_pass_rate_drop: -0.1 is not 0 or more"),
        (("compare", "one", "two", "--max-pass-rate-drop", "5"), "5.0 is not a share, 0 to 1. Give 0.05"),
        (("compare", "one", "nobody"), "no run has the id or name 'nobody'"),
        (("compare",), "no baseline is set"),
        (("compare", "one", "two", "--confirm-trials", "3"), "--confirm-trials: needs --confirm"),
        (("compare", "one", "two", "--confirm", "--gate", "thresholds"), "cannot be combined with --gate thresholds"),
        (("baseline", "set", "nobody"), "no run has the id or name 'nobody'"),
        (("baseline", "set", "one", "--suite", "bank"), "has no suite 'bank'. It has: shop."),
        (("baseline", "clear"), "no baseline is set"),
        (("plan", "--drop", "0"), "must be above 0"),
        (("plan", "--rate", "2"), "--rate 2.0: expected more than 0 and at most 1"),
        (("plan", "--alpha", "1"), "--alpha 1.0: expected a value between 0 and 1"),
    ],
)
def test_mistakes_exit_2_with_the_reason(seatrial_command, tmp_path, request, arguments, words):
    a_shop(tmp_path, request, trials=1)
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two")
    code, _, err = seatrial_command(*arguments)
    assert code == 2
    assert words in err


def test_a_confirmed_suspect_exits_1(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    code, out, _ = seatrial_command("compare", "one", "two", "--confirm")
    assert code == 1
    assert "1 suspect got 8 fresh trials each: 1 confirmed (refund: 0/8 after 5/5)" in out
    assert "✗ worse: refund" in out


def test_a_cleared_suspect_exits_0(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    broken.unlink()
    code, out, _ = seatrial_command("compare", "one", "two", "--confirm", "--confirm-trials", "6")
    assert code == 0
    assert "1 suspect got 6 fresh trials each: 1 cleared (refund: 6/6 after 5/5)." in out


def test_the_second_look_is_never_the_latest_run_to_compare(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    seatrial_command("compare", "one", "latest", "--confirm")
    code, out, _ = seatrial_command("compare", "one", "latest", "--json")
    assert code == 1
    assert json.loads(out)["candidate"]["name"] == "two"


def test_a_suspect_that_was_edited_since_is_not_run_again(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    file = tmp_path / "scenarios" / "shop.yaml"
    file.write_text(file.read_text().replace("refund, expected_output: ok", "refund, expected_output: sorry"), "utf-8")
    code, _, err = seatrial_command("compare", "one", "two", "--confirm")
    assert code == 2
    assert "'refund' was edited since run" in err


def test_a_run_of_python_objects_cannot_be_confirmed(seatrial_command, tmp_path):
    suite = Suite(name="s", scenarios=[Scenario(name="a", input="hi", expected_output="ok", trials=5)])
    seatrial.run(suite, agent=lambda input: "ok", name="one")
    seatrial.run(suite, agent=lambda input: "no", name="two")
    code, _, err = seatrial_command("compare", "one", "two", "--confirm")
    assert code == 2
    assert "was started from Python objects" in err


def test_further_runs_make_the_baseline_longer(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request, trials=2)
    for name in ("one", "again", "more"):
        seatrial_command("run", "--name", name)
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    alone = json.loads(seatrial_command("compare", "one", "two", "--json")[1])
    assert alone["evidence"]["worse"] == []
    pooled = json.loads(seatrial_command("compare", "one", "two", "--json", "--pool", "again", "--pool", "more")[1])
    assert [key["name"] for key in pooled["evidence"]["worse"]] == ["refund"]
    assert len(pooled["evidence"]["pooled_runs"]) == 2


def test_a_suites_file_may_name_its_baseline(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    file = tmp_path / "scenarios" / "shop.yaml"
    file.write_text(file.read_text().replace("name: shop,", "name: shop, baseline: good,"), "utf-8")
    seatrial_command("run", "--name", "good")
    broken.write_text("refund")
    seatrial_command("run")
    assert seatrial_command("compare")[0] == 1


def test_a_baseline_is_set_shown_and_cleared(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request, trials=1)
    seatrial_command("run", "--name", "one")
    assert "no baseline is set" in seatrial_command("baseline", "show")[1]
    assert seatrial_command("baseline", "set", "one", "--suite", "shop")[0] == 0
    [shown] = json.loads(seatrial_command("baseline", "show", "--json")[1])
    assert (shown["suite"], shown["name"]) == ("shop", "one")
    assert seatrial_command("baseline", "clear", "--suite", "shop")[0] == 0
    assert json.loads(seatrial_command("baseline", "show", "--json")[1]) == []


def test_a_plan_follows_from_the_latest_run(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    code, out, _ = seatrial_command("plan", "--drop", "20")
    assert code == 0
    assert "To detect a drop of 20 points from 90.1 % over 3 scenarios" in out
    assert "under a minute" in out
    assert "Calculated from run " in out


def test_a_plan_uses_only_trials_that_always_run(seatrial_command, tmp_path, request):
    """Ten trials of each scenario ran; three of each would have run with any results."""
    a_shop(tmp_path, request)
    seatrial_command("run", "--trials", "auto")
    plan = json.loads(seatrial_command("plan", "--drop", "20", "--json")[1])
    assert plan["pass_rate"] == pytest.approx(wilson_lower_bound(9, 9, confidence=0.9))


def test_a_plan_needs_no_run_when_rate_and_scenarios_are_given(seatrial_command):
    code, out, _ = seatrial_command("plan", "--rate", "0.9", "--scenarios", "20")
    assert code == 0
    assert "against a threshold: 78 trials per run (fail if 65 or fewer pass)" in out
    code, _, err = seatrial_command("plan")
    assert code == 2
    assert "Give --rate and --scenarios" in err


def test_a_dry_run_says_what_auto_will_do(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    code, out, _ = seatrial_command("run", "--trials", "auto", "--dry-run")
    assert code == 0
    assert "trials: auto in 3 scenarios (good 0.9, bad 0.7, alpha 0.05, beta 0.05, at most 60 trials)" in out
    assert "0.9        95 %     5 %     0 %           25.9" in out
    assert "errors add up: if all 3 are at 0.9, the chance that at least one fails is 14.2 %" in out
    assert "to correct for this, set sequential: {alpha: 0.017," in out
    assert "3 scenarios, at most 180 trials; nothing was run" in out


def a_report(tmp_path: Path, agent: Any, *, store: str | None = None, name: str | None = None) -> seatrial.Report:
    scenarios = [Scenario(name="a", input="hi", expected_output="ok"), Scenario(name="b", input="hi")]
    suite = Suite(name="s", scenarios=scenarios, config=SuiteConfig(trials=4))
    return seatrial.run(suite, agent=agent, store=store, name=name)


def test_python_compares_reports_that_nobody_stored(tmp_path):
    found = seatrial.compare(a_report(tmp_path, lambda input: "ok"), a_report(tmp_path, lambda input: "no"))
    assert isinstance(found, Comparison)
    assert [key.name for key in found.keys(ChangeKind.REGRESSION)] == ["a"]
    assert found.regression_detected


def test_python_compares_stored_runs_by_name(tmp_path):
    store = str(tmp_path / "runs.db")
    a_report(tmp_path, lambda input: "ok", store=store, name="one")
    a_report(tmp_path, lambda input: AgentResult("ok", [ToolCall("f", {})]), store=store, name="two")
    limit = 1_000_000
    assert not seatrial.compare("one", "two", store=store, max_latency_increase_pct=limit).regression_detected


def test_python_refuses_a_limit_that_it_does_not_know(tmp_path):
    with pytest.raises(UsageError, match=r"unknown limit 'max_drop'\. Known: max_pass_rate_drop, "):
        seatrial.compare("one", "two", store=str(tmp_path / "runs.db"), max_drop=1.0)


def test_runs_of_the_same_clean_commit_and_agent_are_pooled_unless_told_not_to(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request, trials=2)
    (tmp_path / ".gitignore").write_text("*\n!scenarios\n!*.py\n", "utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    for name in ("one", "again", "more"):
        seatrial_command("run", "--name", name)
    broken.write_text("refund")
    seatrial_command("run", "--name", "two", "--agent", f"{next(tmp_path.glob('shop_*.py')).stem}:answer")
    pooled = json.loads(seatrial_command("compare", "one", "two", "--json")[1])
    assert len(pooled["evidence"]["pooled_runs"]) == 2
    assert [key["name"] for key in pooled["evidence"]["worse"]] == ["refund"]
    alone = json.loads(seatrial_command("compare", "one", "two", "--json", "--no-pool")[1])
    assert alone["evidence"]["pooled_runs"] == []


def test_fresh_trials_are_refused_when_another_commit_is_checked_out(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=tmp_path, check=True)
    seatrial_command("run", "--name", "one")
    broken.write_text("refund")
    seatrial_command("run", "--name", "two")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "second"], cwd=tmp_path, check=True)
    code, _, err = seatrial_command("compare", "one", "two", "--confirm")
    assert code == 2
    assert "so fresh trials would test another agent. First: git checkout" in err


def test_an_interrupted_run_is_compared_and_made_baseline_only_when_asked(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request, trials=1)
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two")
    with open_store(".seatrial/runs.db") as opened:
        run = opened.run("two")
        opened.finish_run(run.id, RunState.INTERRUPTED, run.started_at)
    code, _, err = seatrial_command("compare", "one", "two")
    assert code == 2
    assert "was interrupted. Finish it: seatrial run --resume" in err
    assert seatrial_command("compare", "one", "two", "--allow-unfinished")[0] == 0
    assert seatrial_command("baseline", "set", "two")[0] == 2
    assert seatrial_command("baseline", "set", "two", "--allow-unfinished")[0] == 0


def test_a_plan_may_follow_from_another_run_with_other_demands(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request)
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two", "--scenario", "greet")
    usual = json.loads(seatrial_command("plan", "--run", "one", "--json")[1])
    surer = json.loads(seatrial_command("plan", "--run", "one", "--power", "0.95", "--trials", "4", "--json")[1])
    assert usual["scenarios"] == surer["scenarios"] == 3
    assert surer["suite"]["trials"] > usual["suite"]["trials"]
    assert surer["more_scenarios"]["trials"] == 4
    assert surer["suite"]["cost_usd"] is None


def a_bank(folder: Path, *, baseline: str) -> None:
    """Another suite beside the shop, with the same agent."""
    shop = (folder / "scenarios" / "shop.yaml").read_text("utf-8")
    text = shop.replace("name: shop,", f"name: bank, {baseline}").replace("name: refund,", "name: transfer,")
    (folder / "scenarios" / "bank.yaml").write_text(text, "utf-8")


@pytest.mark.parametrize("of_the_bank", ["baseline: bank-1,", ""], ids=["in its file", "set"])
def test_suites_with_different_baselines_are_not_compared_with_that_of_the_first(
    seatrial_command, tmp_path, request, of_the_bank
):
    broken = a_shop(tmp_path, request)
    seatrial_command("run", "--name", "shop-1")
    file = tmp_path / "scenarios" / "shop.yaml"
    a_bank(tmp_path, baseline=of_the_bank)
    file.write_text(file.read_text().replace("name: shop,", "name: shop, baseline: shop-1,"), "utf-8")
    seatrial_command("run", "scenarios/bank.yaml", "--name", "bank-1")
    if not of_the_bank:
        seatrial_command("baseline", "set", "bank-1", "--suite", "bank")
    broken.write_text("refund")
    seatrial_command("run", "--name", "both")
    code, _, err = seatrial_command("compare", "baseline", "both")
    assert code == 2
    assert "its suites have different baselines: " in err
    assert "Name one of them." in err


def test_suites_that_name_the_same_baseline_are_compared_with_it(seatrial_command, tmp_path, request):
    broken = a_shop(tmp_path, request)
    file = tmp_path / "scenarios" / "shop.yaml"
    file.write_text(file.read_text().replace("name: shop,", "name: shop, baseline: good,"), "utf-8")
    file.with_name("bank.yaml").write_text(file.read_text().replace("name: shop,", "name: bank,"), "utf-8")
    seatrial_command("run", "--name", "good")
    broken.write_text("refund")
    seatrial_command("run")
    assert seatrial_command("compare")[0] == 1


def test_what_fails_as_before_has_a_cross(seatrial_command, tmp_path, request):
    a_shop(tmp_path, request).write_text("refund")
    seatrial_command("run", "--name", "one")
    seatrial_command("run", "--name", "two")
    code, out, _ = seatrial_command("compare", "one", "two", "--verbose")
    assert code == 0
    assert "✗ refund  0/5 → 0/5" in out
    assert "✓ book  5/5 → 5/5" in out
