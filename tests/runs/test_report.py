"""What a run came to."""

import re
from pathlib import Path
from typing import Any

import pytest

from seatrial import EvalResult, Scenario, UsageError, compare, run
from seatrial.runs.report import MemoryRecord, StoredRecord
from seatrial.store.store import open_store
from seatrial.version import __version__

HELLO = Scenario(name="greet", input="Hello", expected_output="hi", trials=2)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def greet(input: str) -> str:
    return "hi"


def test_a_run_in_memory_and_a_stored_one_come_to_the_same(place: Path) -> None:
    kept = run(HELLO, agent=greet, store=str(place / "runs.db"), seed=1)
    lost = run(HELLO, agent=greet, store=None, seed=1)

    assert isinstance(kept.record, StoredRecord)
    assert isinstance(lost.record, MemoryRecord)
    assert (kept.passed, kept.exit_code, kept.played) == (lost.passed, lost.exit_code, lost.played) == (True, 0, 2)
    assert kept.outcome.scenarios == lost.outcome.scenarios
    assert [trial.transcript.reply for trial in kept.trials()] == ["hi", "hi"]
    assert not (place / ".seatrial").exists()


def test_a_report_is_printed_without_reading_a_row(place: Path) -> None:
    report = run(HELLO, agent=greet, store=None)

    assert repr(report) == f"<Report {report.run.id}>"
    assert "outcome" not in vars(report.record)


def test_a_run_keeps_what_is_known_of_it(place: Path) -> None:
    def answer(input: str) -> str:
        return "hi"

    report = run(HELLO, agent=answer, store="runs.db", seed=7, name="nightly", threshold=0.5)

    with open_store("runs.db") as store:
        kept = store.run("nightly")
        (entry,) = store.entries(kept.id)
    assert kept == report.run
    assert (kept.seed, kept.state.value, kept.parent) == (7, "finished", None)
    assert kept.finished_at is not None
    assert kept.started_at <= kept.finished_at
    assert kept.versions is not None
    assert kept.versions["seatrial"] == __version__
    config: Any = kept.config
    assert config["sources"] == ["<Scenario greet>"]
    assert config["agent"].endswith("answer")
    assert config["overrides"] == {"seed": 7, "threshold": 0.5}
    assert len(entry.fingerprint) == 32


def test_the_commit_and_whether_it_was_changed_are_kept(place: Path) -> None:
    import subprocess

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    (place / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "one")
    clean = run(HELLO, agent=greet, store=None).run
    (place / "file").write_text("two")
    dirty = run(HELLO, agent=greet, store=None).run

    sha = git("rev-parse", "HEAD").strip()
    assert (clean.git_commit, clean.git_dirty) == (sha, False)
    assert (dirty.git_commit, dirty.git_dirty) == (sha, True)


def test_the_branch_is_kept_as_the_job_or_git_names_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    for name in ("GITHUB_REF_TYPE", "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_BRANCH"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["git", "init", "-q", "-b", "trunk"], check=True)
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    here = run(HELLO, agent=greet, store=None).run
    monkeypatch.setenv("GITHUB_REF_TYPE", "branch")
    monkeypatch.setenv("GITHUB_REF_NAME", "7/merge")
    monkeypatch.setenv("GITHUB_HEAD_REF", "faster")
    in_a_job = run(HELLO, agent=greet, store=None).run

    assert (here.git_branch, in_a_job.git_branch) == ("trunk", "faster")


def test_a_result_that_cannot_be_kept_is_errored_and_costs_no_other_trial(place: Path) -> None:
    def strict(ctx: Any) -> EvalResult:
        return EvalResult(passed=True, checks=("greets",))  # type: ignore[arg-type]

    broken = Scenario(name="broken", input="Hello", scorers=[strict])
    report = run([broken, HELLO], agent=greet, store="runs.db", concurrency=1)

    assert [trial.status.value for trial in report.trials()] == ["errored", "passed", "passed"]
    assert "evaluator 'strict': checks must be Checks, got ('greets',)" in report.failure_reasons[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": 5}, "run: name: expected a text, got 5 (int)"),
        ({"name": "baseline"}, "run: name 'baseline': expected a name; not blank, latest or baseline"),
        ({"store": False}, "run: store: expected a path, an address, or None to keep nothing, got False (bool)"),
        ({"tag": None}, "run: tag: expected a text or a list of texts, got None (NoneType)"),
        ({"scenario": [5]}, "run: scenario: expected a text or a list of texts, got 5 (int)"),
    ],
)
def test_what_is_no_name_store_or_selection_is_refused_before_the_run(
    place: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        run(HELLO, agent=greet, **given)
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("base", "given", "said"),
    [
        (None, {}, "compare: expected a Report, or a stored run by its id or name, got None (NoneType)"),
        ("latest", {"store": None}, "compare: store: expected a path or an address, got None (NoneType)"),
        ("latest", {"max_pass_rate_drop": "0.1"}, "compare: max_pass_rate_drop: expected a number, got '0.1' (str)"),
    ],
)
def test_what_cannot_be_compared_is_refused(place: Path, base: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        compare(base, "latest", **given)
    assert not list(place.iterdir())
