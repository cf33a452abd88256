"""`seatrial export`, `import` and `prune`."""

import json
import os
import sqlite3
from datetime import timedelta
from io import BytesIO, StringIO
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.clock import now
from seatrial.model.run import Run, RunState
from seatrial.store.store import open_store

AGENT = """
    def answer(input):
        return "hello"
"""
NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def greetings(folder: Any) -> Any:
    """A suite of which one scenario fails."""
    folder.write("agent.py", AGENT)
    scenarios = [{"name": name, "input": name, "expected_output": "bye" if name == "d" else "hel"} for name in NAMES]
    suite = {"name": "greetings", "agent": "agent:answer", "config": {"trials": 2}}
    folder.write("scenarios/greetings.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))
    return folder


def shards(folder: Any, of: int) -> list[str]:
    """Files of so many machines, each of which played a part."""
    for number in range(1, of + 1):
        folder.seatrial("run", "--shard", f"{number}/{of}", "--store", f"machine{number}.db")
        folder.seatrial("export", "--store", f"machine{number}.db", "--output", f"shard{number}.jsonl")
    return [f"shard{number}.jsonl" for number in range(1, of + 1)]


def results(folder: Any, store: str, ref: str = "latest") -> Any:
    return json.loads(folder.seatrial("show", ref, "--json", "--store", store).out)


def without_times(form: Any) -> Any:
    if isinstance(form, dict):
        passing = ("run", "started_at", "finished_at", "seed")
        return {k: without_times(v) for k, v in form.items() if k not in passing and not k.endswith("_ms")}
    return [without_times(item) for item in form] if isinstance(form, list) else form


def runs(folder: Any, store: str) -> list[Any]:
    with open_store(str(folder.path / store)) as opened:
        return opened.runs()


def test_an_exported_run_is_the_same_elsewhere(greetings: Any) -> None:
    greetings.seatrial("run", "--name", "nightly")

    wrote = greetings.seatrial("export", "nightly", "-o", "out/run.jsonl")
    read = greetings.seatrial("import", "out/run.jsonl", "--store", "other.db")

    assert (wrote.code, read.code) == (0, 0)
    assert "10 trials added. FAIL: 1 scenario failed" in read.out
    assert results(greetings, "other.db") == greetings.results()
    assert [path.name for path in (greetings.path / "out").iterdir()] == ["run.jsonl"]


def test_without_a_file_lines_go_to_standard_output_and_come_from_standard_input(
    greetings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    greetings.seatrial("run")
    lines = greetings.process("export").out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(lines.encode())))

    assert greetings.seatrial("import", "-", "--store", "other.db").code == 0
    assert results(greetings, "other.db") == greetings.results()


def test_shards_become_one_run_that_is_like_an_unsharded_one(greetings: Any) -> None:
    files = shards(greetings, 3)

    ended = greetings.seatrial("import", *files, "--store", "all.db")

    assert ended.out.count("\n") == 1, "one run"
    assert "10 trials added. FAIL: 1 scenario failed" in ended.out
    whole = greetings.seatrial("run")
    assert without_times(results(greetings, "all.db")) == without_times(greetings.results())
    again = greetings.seatrial("run", "--resume", "latest", "--store", "all.db")
    assert (again.code, whole.code) == (1, 1)
    assert "no trial was missing" in again.err


def test_a_missing_shard_is_no_pass(greetings: Any) -> None:
    with_the_failure, second, third = shards(greetings, 3)

    part = greetings.seatrial("import", second, third, "--store", "all.db")

    assert "shard 1 is still missing. NOT RUN" in part.out
    assert results(greetings, "all.db")["passed"] is False
    resumed = greetings.seatrial("run", "--resume", "latest", "--store", "all.db")
    assert (resumed.code, "shard 1 is missing. Import it first" in resumed.err) == (2, True)
    assert "missing" not in greetings.seatrial("import", with_the_failure, "--store", "all.db").out


def test_a_file_may_be_imported_twice(greetings: Any) -> None:
    files = shards(greetings, 2)
    greetings.seatrial("import", *files, "--store", "all.db")
    before = results(greetings, "all.db")

    again = greetings.seatrial("import", *files, "--store", "all.db")

    assert "0 trials added, 10 already stored" in again.out
    assert results(greetings, "all.db") == before
    assert len(runs(greetings, "all.db")) == 1


def test_a_shard_alone_is_no_pass(greetings: Any) -> None:
    passing, _ = shards(greetings, 2)

    part = greetings.seatrial("import", passing, "--store", "all.db")
    assert "shard 2 is still missing. NOT RUN" in part.out

    resumed = greetings.seatrial("run", "--resume", "latest", "--store", "all.db")
    assert (resumed.code, "shard 2 is missing. Import it first" in resumed.err) == (2, True)


def test_shards_of_different_runs_are_not_mixed(greetings: Any) -> None:
    one, two = shards(greetings, 2)
    greetings.seatrial("run", "--shard", "2/2", "--trials", "3", "--store", "else.db")
    greetings.seatrial("export", "--store", "else.db", "-o", "else.jsonl")

    greetings.seatrial("import", one, "else.jsonl", "--store", "all.db")

    assert len(runs(greetings, "all.db")) == 2
    greetings.seatrial("import", two, "--store", "all.db")
    assert sorted(run.state for run in runs(greetings, "all.db")) == ["finished", "interrupted"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        ("hello", "line 1: not JSON"),
        ('{"schema_version": 1}', "line 1: not a line of a Seatrial export"),
    ],
)
def test_what_is_no_export_is_named_with_its_place(greetings: Any, text: str, why: str) -> None:
    greetings.write("wrong.jsonl", text)

    ended = greetings.seatrial("import", "wrong.jsonl")

    assert ended.code == 2
    assert f"wrong.jsonl: {why}" in ended.err


def test_a_file_that_was_cut_short_leaves_nothing(greetings: Any) -> None:
    greetings.seatrial("run")
    greetings.seatrial("export", "-o", "run.jsonl")
    lines = (greetings.path / "run.jsonl").read_text().splitlines(keepends=True)
    greetings.write("cut.jsonl", "".join(lines[:-3]))

    ended = greetings.seatrial("import", "cut.jsonl", "--store", "other.db")

    assert ended.code == 2
    assert "cut.jsonl: the file is cut short" in ended.err
    assert runs(greetings, "other.db") == []


def test_files_that_cannot_be_read_or_written_are_named(greetings: Any) -> None:
    greetings.seatrial("run")
    greetings.write("file", "")

    assert "nowhere.jsonl: cannot be read" in greetings.seatrial("import", "nowhere.jsonl").err
    assert "cannot be written" in greetings.seatrial("export", "-o", "file/run.jsonl").err
    assert "cannot be written: it is a folder" in greetings.process("export", "-o", ".").err


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_an_export_goes_into_a_pipe_and_leaves_it_there(greetings: Any) -> None:
    greetings.seatrial("run")
    pipe = greetings.path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    ended = greetings.seatrial("export", "-o", "pipe")

    assert ended.code == 0
    assert pipe.is_fifo()
    assert os.read(reading, 100_000).endswith(b"}\n")
    os.close(reading)


def test_an_export_through_a_link_leaves_the_link(greetings: Any) -> None:
    greetings.seatrial("run")
    (greetings.path / "latest.jsonl").symlink_to(greetings.path / "real.jsonl")

    greetings.seatrial("export", "-o", "latest.jsonl")

    assert (greetings.path / "latest.jsonl").is_symlink()
    assert (greetings.path / "real.jsonl").exists()


def test_an_import_does_not_need_a_store_to_be_there(greetings: Any) -> None:
    greetings.seatrial("run", "--store", "one.db")
    greetings.seatrial("export", "--store", "one.db", "-o", "run.jsonl")

    assert greetings.seatrial("import", "run.jsonl").code == 0
    assert os.path.exists(".seatrial/runs.db")


def store_runs(folder: Any, **ages: float) -> None:
    """Runs of these names, started so many days ago."""
    with open_store(str(folder.path / "runs.db")) as store:
        for name, days in ages.items():
            run = Run(id=name, name=name.rstrip("0123456789"), started_at=now() - timedelta(days=days))
            store.start_run(run)
            store.finish_run(name, RunState.FINISHED, now())


def names(folder: Any) -> set[str]:
    return {run.id for run in runs(folder, "runs.db")}


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (["--older-than", "30d"], {"n1", "n2", "m1"}),
        (["--older-than", "1w", "--name", "m"], {"n1", "n2", "n3", "m1"}),
        (["--keep", "2"], {"n1", "m1"}),
        (["--keep", "1", "--name", "n"], {"n1", "m1", "m2"}),
        (["--keep", "3", "--older-than", "12h"], {"n1", "m1", "n2"}),
        (["--name", "m"], {"n1", "n2", "n3"}),
    ],
)
def test_prune_deletes_what_fits(folder: Any, flags: list[str], left: set[str]) -> None:
    store_runs(folder, n1=0, m1=1, n2=8, m2=40, n3=50)

    assert folder.seatrial("prune", *flags, "--yes", "--store", "runs.db").code == 0
    assert names(folder) == left


def test_prune_never_deletes_a_baseline(folder: Any) -> None:
    store_runs(folder, n1=0, n2=40, n3=50)
    with open_store(str(folder.path / "runs.db")) as store:
        store.set_baseline("n2")
        store.set_baseline("n3", suite="s")

    ended = folder.seatrial("prune", "--keep", "0", "--yes", "--store", "runs.db")

    assert ended.code == 0
    assert "kept, as baseline or still running: n2, n3" in ended.err
    assert names(folder) == {"n2", "n3"}


def test_prune_never_deletes_a_run_that_a_suites_file_names_as_baseline(greetings: Any) -> None:
    for name in ("old", "good"):
        greetings.seatrial("run", "--name", name)
    file = greetings.path / "scenarios/greetings.yaml"
    suite = json.loads(file.read_text())
    suite["suite"]["baseline"] = "good"
    file.write_text(json.dumps(suite))
    greetings.seatrial("run", "--name", "new")

    ended = greetings.seatrial("prune", "--keep", "1", "--yes")

    assert "kept, as baseline or still running: " in ended.err
    assert {run["name"] for run in json.loads(greetings.seatrial("list", "runs", "--json").out)} == {"good", "new"}
    assert greetings.seatrial("compare").code != 2


def test_prune_leaves_a_run_that_may_be_under_way(folder: Any) -> None:
    with open_store(str(folder.path / "runs.db")) as store:
        store.start_run(Run(id="under-way", name="n", started_at=now()))
        store.start_run(Run(id="killed", name="n", started_at=now() - timedelta(days=3)))

    folder.seatrial("prune", "--name", "n", "--yes", "--store", "runs.db")

    assert names(folder) == {"under-way"}


def test_prune_leaves_a_run_that_was_begun_long_ago_and_is_gone_on_with(folder: Any) -> None:
    store_runs(folder, n1=40)
    with open_store(str(folder.path / "runs.db")) as store:
        let_go = store.claim_run("n1")
        store.resume_run("n1")

        ended = folder.process("prune", "--older-than", "30d", "--yes", "--store", "runs.db")

        assert (names(folder), "still running: n1" in ended.err) == ({"n1"}, True)
        let_go()
    folder.process("prune", "--older-than", "30d", "--yes", "--store", "runs.db")
    assert names(folder) == set()


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, set()), ("n\n", 130, {"n1"}), ("", 130, {"n1"})])
def test_prune_asks_first(folder: Any, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: set[str]) -> None:
    store_runs(folder, n1=40)
    monkeypatch.setattr("sys.stdin", StringIO(answer))

    ended = folder.seatrial("prune", "--name", "n", "--store", "runs.db")

    assert (ended.code, names(folder)) == (code, left)


@pytest.mark.parametrize("flags", [[], ["--older-than", "soon"], ["--keep", "-1"]])
def test_prune_without_a_clear_wish_deletes_nothing(folder: Any, flags: list[str]) -> None:
    store_runs(folder, n1=40)

    assert folder.seatrial("prune", *flags, "--yes", "--store", "runs.db").code == 2
    assert names(folder) == {"n1"}


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("run", "id", 3),
        ("run", "started_at", "yesterday"),
        ("scenario", "trials", "x"),
        ("scenario", "key", 5),
        ("trial", "index", "x"),
        ("trial", "started_at", None),
        ("trial", "duration_ms", "x"),
    ],
)
def test_a_line_that_was_changed_is_refused_and_nothing_is_stored(
    folder: Any, kind: str, field: str, value: Any
) -> None:
    folder.write("agent.py", "def answer(input): return 'ok'")
    folder.write("suite.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, expected_output: ok}]")
    folder.seatrial("run", "suite.yaml")
    folder.seatrial("export", "-o", "run.jsonl")
    lines = [json.loads(line) for line in (folder.path / "run.jsonl").read_text().splitlines()]
    for line in lines:
        if kind in line:
            line[kind][field] = value
    folder.write("changed.jsonl", "\n".join(map(json.dumps, lines)))

    ended = folder.seatrial("import", "changed.jsonl", "--store", "other.db")

    assert ended.code == 2
    assert ended.err.startswith("error: changed.jsonl:")
    assert "Traceback" not in ended.err
    assert folder.seatrial("show", "latest", "--store", "other.db").code == 2


@pytest.fixture
def exported(folder: Any) -> Any:
    """A run of one scenario that passes, in `run.jsonl`; the store has another run."""
    folder.write("agent.py", "def answer(input): return 'ok'")
    folder.write("suite.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, expected_output: ok}]")
    folder.seatrial("run", "suite.yaml", "--id", "moved")
    folder.seatrial("export", "moved", "-o", "run.jsonl")
    folder.seatrial("prune", "--name", folder.results()["run"]["name"], "--yes")
    folder.seatrial("run", "suite.yaml", "--id", "mine")
    return folder


def change(folder: Any, kind: str, place: str, value: Any) -> str:
    """Write `changed.jsonl`, in which the field at `place` of the first line of this kind has another value."""
    lines = [json.loads(line) for line in (folder.path / "run.jsonl").read_text().splitlines()]
    where = next(line[kind] for line in lines if kind in line)
    *parents, last = [int(step) if step.isdecimal() else step for step in place.split(".")]
    for step in parents:
        where = where[step] if isinstance(where, list) or step in where else where.setdefault(step, {})
    where[last] = value
    folder.write("changed.jsonl", "\n".join(map(json.dumps, lines)))
    return "changed.jsonl"


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("run", "config.run", True),
        ("run", "config.run.budget", "much"),
        ("run", "config.baselines", ["x"]),
        ("run", "config.shard", "1/2"),
        ("run", "config.shards", {"of": "x"}),
        ("run", "config", "x"),
        ("run", "gates", {"groups": [{"tags": ["x"]}]}),
        ("run", "state", "done"),
        ("run", "id", "a/b"),
        ("run", "id", "../up"),
        ("run", "id", "latest"),
        ("run", "id", "a b"),
        ("run", "id", "a?b#c"),
        ("run", "id", ""),
        ("run", "id", "x" * 101),
        ("scenario", "gates", {"threshold": float("nan")}),
        ("scenario", "trials", -1),
        ("scenario", "sequential", {"good": 0.9}),
        ("trial", "status", "splendid"),
        ("trial", "index", -1),
        ("trial", "index", True),
        ("trial", "key", ["other", "scenario", ""]),
        ("trial", "results", "x"),
        ("trial", "results.0.passed", 1),
        ("trial", "results.0.passed", "true"),
        ("trial", "transcript.turns.0.reply", 7),
        ("trial", "transcript.turns.0.latency_ms", "x"),
        ("trial", "judgement", {"scores": [{"metric": "m"}]}),
    ],
)
def test_a_row_that_would_break_the_store_is_refused_with_its_place(
    exported: Any, kind: str, place: str, value: Any
) -> None:
    ended = exported.seatrial("import", change(exported, kind, place, value))

    line = {"run": 2, "scenario": 3, "trial": 4}[kind]
    assert ended.code == 2
    assert ended.err.startswith(f"error: changed.jsonl: line {line}: ")
    assert "Traceback" not in ended.err
    assert kind == "run" or "run moved: " in ended.err
    assert [run["id"] for run in json.loads(exported.seatrial("list", "runs", "--json").out)] == ["mine"]


@pytest.mark.parametrize("status", ["passed", "failed", "errored", "inconclusive", "not_run"])
@pytest.mark.parametrize(("passes", "verdict"), [(True, "passed"), (False, "failed")])
def test_a_verdict_follows_from_the_results_in_the_file_and_not_from_its_status(
    exported: Any, status: str, passes: bool, verdict: str
) -> None:
    file = change(exported, "trial", "status", status)
    lines = [json.loads(line) for line in (exported.path / file).read_text().splitlines()]
    for result in lines[3]["trial"]["results"]:
        result.update(passed=passes, score=float(passes), reasoning="so it is")
    exported.write(file, "\n".join(map(json.dumps, lines)))

    ended = exported.seatrial("import", file)

    assert ended.code == 0
    assert ("PASS" in ended.out, "FAIL" in ended.out) == (passes, not passes)
    told = "1 trial has another status in the file than its results give; the results count"
    assert (told in ended.out) == (status != verdict)
    shown = json.loads(exported.seatrial("show", "moved", "--json").out)
    (trial,) = shown["scenarios"][0]["trials"]
    assert (shown["status"], trial["status"]) == (verdict, verdict)
    assert "0 trials added, 1 already stored" in exported.seatrial("import", file).out


def test_nothing_checked_is_no_pass_whatever_the_file_says(exported: Any) -> None:
    exported.seatrial("import", change(exported, "trial", "results", []))

    assert json.loads(exported.seatrial("show", "moved", "--json").out)["status"] == "errored"


def damage(folder: Any, statement: str, *values: Any) -> None:
    with sqlite3.connect(folder.path / ".seatrial/runs.db") as raw:
        assert raw.execute(statement, values).rowcount == 1


BAD_BODY = ("UPDATE runs SET body = ? WHERE id = 'moved'", b'{"id":"moved","name":"n"}')
BAD_CONFIG = (
    "UPDATE runs SET body = ? WHERE id = 'moved'",
    b'{"id":"moved","name":"n","state":"finished","started_at":"2030-01-01T00:00:00Z","config":{"run":true}}',
)
BAD_STATUS = ("UPDATE trials SET status = 'splendid' WHERE run_id = 'moved'",)
BAD_TERMS = ("UPDATE scenarios SET terms = ? WHERE run_id = 'moved'", b'{"trials":"x"}')


@pytest.mark.parametrize(
    "damages", [BAD_BODY, BAD_CONFIG, BAD_STATUS, BAD_TERMS], ids=["body", "config", "trial", "terms"]
)
def test_one_run_that_cannot_be_read_does_not_hide_the_others(exported: Any, damages: tuple[Any, ...]) -> None:
    exported.seatrial("import", "run.jsonl")
    damage(exported, *damages)

    listed = exported.seatrial("list", "runs", "--json")
    known = {run["id"]: run["verdict"] for run in json.loads(listed.out)}
    shown = exported.seatrial("show", "moved")
    doctor = exported.seatrial("doctor")

    assert (listed.code, known["mine"], known.get("moved", "damaged")) == (0, "passed", "damaged")
    assert "run moved: " in listed.err
    assert "cannot be read" in listed.err
    assert (shown.code, "run moved: " in shown.err, "Traceback" in shown.err) == (1, True, False)
    assert exported.seatrial("show", "mine").code == 0
    assert "run moved: " in doctor.out
    assert "seatrial prune --damaged" in doctor.out
    assert doctor.code == 2

    assert exported.seatrial("prune", "--damaged", "--yes").code == 0
    assert [run["id"] for run in json.loads(exported.seatrial("list", "runs", "--json").out)] == ["mine"]
    assert "moved" not in exported.seatrial("doctor").out


def test_what_was_stored_of_earlier_files_is_told_before_the_error(exported: Any) -> None:
    ended = exported.seatrial("import", "run.jsonl", change(exported, "run", "id", "a/b"))

    assert (ended.code, "run moved: 1 trial added" in ended.out) == (2, True)
    assert "changed.jsonl: line 2: run id 'a/b'" in ended.err
