"""A run played in parts on several machines is the run that one machine would have played."""

import json
from typing import Any

import pytest

AGENT = """
    def answer(input, ctx):
        if input == "raises": raise ValueError("no such order")
        if input == "wavers": return "yes" if int(ctx.trial_id.rsplit("-", 1)[1]) % 3 else "no"
        return f"you said {input}"
"""

PASSING = [{"name": f"p{n}", "input": f"{n}", "expected_output": "you said", "tags": ["easy"]} for n in range(5)]
FAILING = {"name": "fails", "input": "a", "expected_output": "goodbye", "trials": 2, "tags": ["hard"]}
ERRORED = {"name": "errors", "input": "raises", "trials": 2}
WAVERING = {"name": "wavers", "input": "wavers", "expected_output": "yes", "trials": 9, "tags": ["hard"]}

SUITES: dict[str, dict[str, Any]] = {
    "all pass": {"scenarios": PASSING},
    "a failure": {"scenarios": [*PASSING, FAILING]},
    "an error": {"scenarios": [*PASSING, ERRORED]},
    "a threshold that holds": {"scenarios": [*PASSING, {**WAVERING, "threshold": 0.6}]},
    "a gate that holds": {"scenarios": [*PASSING, {**WAVERING, "gate": {"pass_rate": 0.2}}]},
    "a gate without an answer": {"scenarios": [*PASSING, {**WAVERING, "gate": {"pass_rate": 0.6}}]},
    "a share of trials that is enough": {"config": {"cases_pass_threshold": 50}, "scenarios": [*PASSING, FAILING]},
    "a share of trials that is not": {"config": {"cases_pass_threshold": 90}, "scenarios": [*PASSING, WAVERING]},
    "a scenario that must pass": {
        "config": {"cases_pass_threshold": 10},
        "scenarios": [*PASSING, {**FAILING, "must_pass": True}],
    },
    "a group that fails": {
        "config": {"cases_pass_threshold": 10},
        "groups": [{"name": "hard ones", "tags": ["hard"], "threshold": 0.9}],
        "scenarios": [*PASSING, FAILING],
    },
    "a group that holds": {
        "groups": [{"name": "easy ones", "tags": ["easy"], "threshold": 1.0}],
        "scenarios": PASSING,
    },
    "skipped and expected to fail": {
        "scenarios": [*PASSING, {**FAILING, "xfail": "known"}, {**PASSING[0], "name": "later", "skip": "not yet"}]
    },
    "as many trials as it takes": {"scenarios": [{**each, "trials": "auto"} for each in [*PASSING, FAILING]]},
    "several agents": {
        "agent": None,
        "agents": {"one": "agent:answer", "two": "agent:answer"},
        "scenarios": [*PASSING, FAILING],
    },
}


def write_suite(folder: Any, suite: dict[str, Any]) -> None:
    scenarios = suite["scenarios"]
    settings = {"agent": "agent:answer", "name": "shop", **suite}
    settings = {key: value for key, value in settings.items() if key != "scenarios" and value is not None}
    folder.write("agent.py", AGENT)
    folder.write("suite.yaml", json.dumps({"suite": settings, "scenarios": scenarios}))


def results(folder: Any, store: str) -> Any:
    return _lasting(json.loads(folder.seatrial("show", "latest", "--json", "--store", store).out))


def _lasting(form: Any) -> Any:
    if isinstance(form, dict):
        passing = ("run", "passed_run", "started_at", "finished_at", "seed", "traceback")
        return {k: _lasting(v) for k, v in form.items() if k not in passing and not k.endswith("_ms")}
    return [_lasting(item) for item in form] if isinstance(form, list) else form


@pytest.mark.parametrize("what", SUITES)
def test_the_merged_run_says_what_the_unsharded_one_says(folder: Any, what: str) -> None:
    write_suite(folder, SUITES[what])
    whole = folder.seatrial("run", "suite.yaml", "--store", "whole.db")
    files = []
    for number in (1, 2, 3):
        folder.seatrial("run", "suite.yaml", "--shard", f"{number}/3", "--store", f"part{number}.db")
        folder.seatrial("export", "--store", f"part{number}.db", "-o", f"part{number}.jsonl")
        files.append(f"part{number}.jsonl")

    folder.seatrial("import", *reversed(files), "--store", "merged.db")
    merged = folder.seatrial("run", "--resume", "latest", "--store", "merged.db")

    assert merged.code == whole.code, merged.out + merged.err
    assert results(folder, "merged.db") == results(folder, "whole.db")


def play_parts(folder: Any, of: int, *flags: str, store: str = "part{}.db") -> list[str]:
    """The exports of so many machines; or of one, where all play into the same store."""
    files = []
    for number in range(1, of + 1):
        place = store.format(number)
        folder.seatrial("run", "suite.yaml", "--shard", f"{number}/{of}", "--store", place, *flags)
        files.append(f"part{number}.jsonl")
        folder.seatrial("export", "--store", place, "-o", files[-1])
    return files


def test_the_parts_of_a_suite_that_is_too_large_to_hold_make_one_run(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.runs.run_plan.KEPT_IN_MEMORY", 1)
    write_suite(folder, SUITES["an error"])
    folder.seatrial("import", *play_parts(folder, 3), "--store", "merged.db")

    assert folder.seatrial("run", "--resume", "latest", "--store", "merged.db").code == 1
    folder.write("agent.py", "def answer(input): return f'you said {input}'")
    ended = folder.process("run", "--resume", "latest", "--retry-agent-errors", "--store", "merged.db")

    assert ended.code == 1, ended.out + ended.err
    assert "errored before it was repeated" in ended.out


def test_the_parts_may_all_have_the_id_of_one_job(folder: Any) -> None:
    write_suite(folder, SUITES["all pass"])
    files = play_parts(folder, 2, "--id", "job-42")

    first = folder.seatrial("import", files[0], "--store", "merged.db")
    assert "shard 2 is still missing" in first.out
    folder.seatrial("import", *files, "--store", "merged.db")
    ended = folder.seatrial("run", "--resume", "job-42", "--store", "merged.db")

    assert (ended.code, "5/5 scenarios passed" in ended.out) == (0, True)


def test_a_part_that_was_finished_later_may_be_imported_again(folder: Any) -> None:
    write_suite(folder, SUITES["all pass"])
    files = play_parts(folder, 2)
    lines = (folder.path / files[0]).read_text("utf-8")
    folder.write("early.jsonl", lines.replace('"finished"', '"interrupted"', 1))
    folder.seatrial("import", "early.jsonl", files[1], "--store", "merged.db")

    assert "PASS" in folder.seatrial("import", files[0], "--store", "merged.db").out


def test_parts_that_were_played_into_one_store_are_not_taken_for_merged_there(folder: Any) -> None:
    """Each would stay a run of its own, and the latest one's exit code be that of a part."""
    write_suite(folder, SUITES["a failure"])
    files = play_parts(folder, 2, store="shared.db")

    ended = folder.seatrial("import", *files, "--store", "shared.db")

    assert ended.code == 2
    assert "Import all parts into another store: --store FILE" in ended.err
    assert "shard 1 is still missing" in folder.seatrial("import", files[1], "--store", "shared.db").out


IMPORTING = """
    from seatrial.store.store import open_store

    def answer(input):
        with open_store("merged.db") as store, open("part1.jsonl", "rb") as lines: store.import_runs(lines)
        return f"you said {input}"
"""


def test_a_part_that_ends_after_another_was_imported_beside_it_does_not_end_the_whole(folder: Any) -> None:
    write_suite(folder, SUITES["all pass"])
    play_parts(folder, 3)
    folder.write("agent.py", IMPORTING)
    folder.process("run", "suite.yaml", "--shard", "3/3", "--store", "merged.db")

    [found] = json.loads(folder.seatrial("list", "runs", "--json", "--store", "merged.db").out)

    assert (found["verdict"], found["state"], found["total"]) == ("not_run", "interrupted", 3)
