"""`compare`: which further runs count as the baseline, and which never do."""

import json
import subprocess
from typing import Any

import pytest

AGENT = """
    from pathlib import Path

    def answer(input):
        return "sorry" if Path("broken").exists() else "ok"
"""
SUITE = """
    suite: {name: shop, agent: "agent:answer", config: {trials: 4}}
    scenarios:
      - {name: refund, input: refund, expected_output: ok}
"""


@pytest.fixture
def shop(folder: Any) -> Any:
    """A committed project, whose agent changes by a file that git does not see."""
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    folder.write(".gitignore", "*\n!scenarios\n!scenarios/*\n!agent.py\n")
    commit(folder, "init", "-q")
    commit(folder, "add", ".")
    commit(folder, "commit", "-q", "-m", "first")
    return folder


def commit(folder: Any, *arguments: str) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, *arguments], cwd=folder.path, check=True)


def play(folder: Any, *names: str, broken: bool = False) -> None:
    for name in names:
        if broken:
            folder.write("broken", "")
        folder.seatrial("run", "--name", name)


def compare(folder: Any, *arguments: str) -> Any:
    """By the tests alone: how long the agent takes is the machine's business."""
    return folder.seatrial("compare", *arguments, "--gate", "statistical")


def pooled(folder: Any, *arguments: str) -> Any:
    """The names of the runs that were pooled, and the notes."""
    form = json.loads(compare(folder, *arguments, "--json").out)
    with_names = {run["id"]: run["name"] for run in json.loads(folder.seatrial("list", "runs", "--json").out)}
    return sorted(with_names[run] for run in form["evidence"]["pooled_runs"]), form["notes"]


def test_runs_that_may_be_the_candidates_own_are_not_pooled_with_the_baseline(shop: Any) -> None:
    play(shop, "good")
    play(shop, "v2-1", "v2-2", "v2-3", "v2-4", broken=True)

    ended = compare(shop, "good", "v2-1")

    assert (ended.code, ended.out.splitlines()[-1]) == (1, "REGRESSION")
    assert "so 3 further runs may belong to either and were not pooled" in ended.out
    assert "Name the baseline's runs: --pool RUN" in ended.out


def test_the_same_comparison_with_a_second_look_says_the_same_twice(shop: Any) -> None:
    play(shop, "good")
    play(shop, "v2", broken=True)

    first = compare(shop, "good", "v2", "--confirm")
    second = compare(shop, "good", "v2", "--confirm")

    assert (first.code, second.code) == (1, 1)
    assert "not pooled" not in second.out, "a second look is no further run"


def test_a_run_of_another_commit_is_compared_with_all_runs_of_the_baselines(shop: Any) -> None:
    play(shop, "good", "again")
    commit(shop, "commit", "-q", "--allow-empty", "-m", "second")
    play(shop, "v2-1", "v2-2", broken=True)

    assert pooled(shop, "good", "v2-1") == (["again"], [])
    assert pooled(shop, "good", "v2-1", "--no-pool") == ([], [])


def test_a_second_look_at_the_baseline_is_not_pooled_with_it(shop: Any) -> None:
    play(shop, "best")
    play(shop, "good", broken=True)
    assert compare(shop, "best", "good", "--confirm").code == 1
    commit(shop, "commit", "-q", "--allow-empty", "-m", "second")
    play(shop, "v2")

    assert pooled(shop, "good", "v2") == (["best"], [])


def test_a_run_that_is_named_twice_or_is_the_baseline_counts_once(shop: Any) -> None:
    play(shop, "good", "again", "v2")

    found = pooled(shop, "good", "v2", "--pool", "again", "--pool", "again", "--pool", "good")

    assert found[0] == ["again"]


def test_conversations_of_the_baseline_judged_again_are_refused(shop: Any) -> None:
    play(shop, "good", "v2")
    shop.seatrial("regrade", "good", "--name", "judged again")
    shop.seatrial("regrade", "judged again", "--name", "and again")

    ended = compare(shop, "good", "v2", "--pool", "and again")

    assert ended.code == 2
    assert "cannot be pooled with the baseline: it has the same conversations as run " in ended.err
    assert "Leave it out of --pool." in ended.err


def test_conversations_of_a_pooled_run_judged_again_are_refused(shop: Any) -> None:
    play(shop, "good", "again", "v2")
    shop.seatrial("regrade", "again", "--name", "judged again")

    assert compare(shop, "good", "v2", "--pool", "judged again").code == 0
    assert compare(shop, "good", "v2", "--pool", "judged again", "--pool", "again").code == 2


def test_a_run_is_not_found_beside_the_regrade_of_it_that_was_named(shop: Any) -> None:
    play(shop, "good", "again")
    shop.seatrial("regrade", "again", "--name", "judged again")
    commit(shop, "commit", "-q", "--allow-empty", "-m", "second")
    play(shop, "v2")

    assert pooled(shop, "good", "v2", "--pool", "judged again")[0] == ["judged again"]


def test_the_conversations_of_a_regraded_candidate_are_not_pooled_with_the_baseline(shop: Any) -> None:
    play(shop, "good", "again")
    commit(shop, "commit", "-q", "--allow-empty", "-m", "second")
    shop.seatrial("regrade", "again", "--name", "judged again")

    assert pooled(shop, "good", "judged again")[0] == []


def test_recordings_are_refused_since_they_are_the_same_each_time(shop: Any) -> None:
    play(shop, "good", "v2")
    said = [{"role": "user", "content": "refund"}, {"role": "assistant", "content": "ok"}]
    shop.write("said.jsonl", json.dumps({"messages": said}))
    shop.seatrial("run", "--agent", "{type: replay, path: said.jsonl}", "--name", "recorded", "--trials", "1")

    ended = compare(shop, "good", "v2", "--pool", "recorded")

    assert ended.code == 2
    assert "its trials are recordings, so they are not independent" in ended.err


def test_the_candidate_and_its_second_look_are_refused(shop: Any) -> None:
    play(shop, "good")
    play(shop, "v2", broken=True)
    compare(shop, "good", "v2", "--confirm")

    assert "it is the candidate" in compare(shop, "good", "v2", "--pool", "v2").err
    again = compare(shop, "good", "v2", "--pool", "confirm v2")
    assert again.code == 2
    assert "its trials are the candidate's, played again by --confirm" in again.err


@pytest.mark.parametrize(("base", "candidate"), [("good", "again"), ("again", "good"), ("aside", "again")])
def test_a_regrade_of_a_regrade_is_not_tested_against_the_same_conversations(
    shop: Any, base: str, candidate: str
) -> None:
    play(shop, "good")
    for of, name in (("good", "once"), ("once", "again"), ("good", "aside")):
        shop.seatrial("regrade", of, "--name", name)

    ended = compare(shop, base, candidate)

    assert ended.code == 3
    assert "both runs judge the same conversations, so their trials are not independent" in ended.out


MENDED = "def answer(input): return 'ok'"


@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "with changes"])
def test_suspects_are_not_cleared_by_code_that_the_candidate_did_not_have(shop: Any, dirty: bool) -> None:
    """The candidate's commit is checked out, but not the candidate's code."""
    shop.seatrial("run", "--name", "good", "--trials", "2")
    shop.write("broken", "")
    if dirty:
        shop.write("agent.py", MENDED.replace("ok", "sorry"))
    shop.seatrial("run", "--name", "bad", "--trials", "2")
    shop.write("agent.py", AGENT if dirty else MENDED)
    (shop.path / "broken").unlink()

    ended = shop.seatrial("compare", "good", "bad", "--confirm")

    assert ended.code == 2
    assert "fresh trials would test another agent" in ended.err


def test_a_scenario_that_an_uncommitted_edit_broke_is_not_flaky(shop: Any) -> None:
    shop.process("run", "--name", "good")
    for agent in (MENDED.replace("ok", "sorry"), MENDED):
        shop.write("agent.py", agent)
        shop.process("run")

    assert json.loads(shop.seatrial("list", "flaky", "--json").out) == []


def test_runs_with_the_same_seed_count_once(shop: Any) -> None:
    for name in ("good", "copy", "another copy"):
        shop.seatrial("run", "--name", name, "--seed", "5")
    shop.seatrial("run", "--name", "fresh", "--seed", "6")
    play(shop, "v2", broken=True)

    named = ("--pool", "copy", "--pool", "another copy", "--pool", "fresh")
    assert pooled(shop, "good", "v2", *named)[0] == ["fresh"]


def test_only_the_first_trials_of_auto_runs_are_pooled(shop: Any) -> None:
    play(shop, "good")
    shop.seatrial("run", "--name", "auto", "--trials", "auto")
    play(shop, "v2", broken=True)

    form = json.loads(compare(shop, "good", "v2", "--pool", "auto", "--json").out)
    assert (form["scenarios"][0]["pooled_passed"], form["scenarios"][0]["pooled"]) == (3, 3)
