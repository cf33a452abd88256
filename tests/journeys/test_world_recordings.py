"""Recordings of conversations, judged by what their calls do in a world."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.shop_world import SEED, lookup_order, refund

import seatrial
from seatrial import EndState, Scenario, Suite, World
from seatrial.model.run import Trial
from seatrial.store.store import open_store

SHOP = World(seed=SEED, tools=[lookup_order, refund])
REFUNDED = EndState(as_after=[{"refund": {"order_id": "W1"}}], ignore=["orders.*.seen"])
SUITE = {
    "suite": {"world": {"seed": SEED, "tools": "tests.journeys.shop_world"}},
    "scenarios": [
        {
            "name": "refunds",
            "input": "Refund W1",
            "end_state": {"as_after": [{"refund": {"order_id": "W1"}}], "ignore": ["orders.*.seen"]},
        }
    ],
}


def messages(*calls: tuple[str, Any, Any]) -> list[dict[str, Any]]:
    """A conversation with these calls and their recorded results."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "Refund W1"}]
    for place, (name, arguments, result) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        found += [
            {"role": "assistant", "tool_calls": [{"id": str(place), "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": str(place), "content": result},
        ]
    return [*found, {"role": "assistant", "content": "done"}]


def replay(folder: Path, *calls: tuple[str, Any, Any], world: World = SHOP, **keys: Any) -> Trial:
    file = folder / "recorded.jsonl"
    file.write_text(json.dumps({"id": "refunds", "messages": messages(*calls)}), "utf-8")
    scenario = Scenario(name="refunds", input="Refund W1", **{"end_state": REFUNDED, **keys})
    suite = Suite(name="shop", world=world, scenarios=[scenario])
    report = seatrial.run(suite, agent={"type": "replay", "path": str(file)}, store=None)
    assert report.status
    [trial] = report.trials()
    return trial


RIGHT = ("refund", {"order_id": "W1"}, "refunded")


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([RIGHT], "passed"),
        ([("refund", {"order_id": "W2"}, {"error": "no"}), RIGHT], "passed"),
        ([("lookup_order", {"order_id": "W1"}, "{}")], "failed"),
        ([], "errored"),
        ([("refund", {"order_id": "W1", "amount": 1}, "refunded")], "failed"),
        ([("send_mail", {}, "sent"), RIGHT], "errored"),
    ],
    ids=[
        "the gold call",
        "a refused call",
        "only a lookup",
        "calls that were not recorded",
        "another amount",
        "a tool that the world does not have",
    ],
)
def test_recorded_calls_run_in_the_world(calls: list[Any], status: str, tmp_path: Path) -> None:
    assert replay(tmp_path, *calls).status.value == status


def test_a_call_without_recorded_arguments_is_no_pass(tmp_path: Path) -> None:
    trial = replay(tmp_path, ("refund", "W1", "refunded"))

    assert trial.status.value in ("failed", "errored")


def test_drift_is_counted_and_can_be_an_error(tmp_path: Path) -> None:
    calls = [("lookup_order", {"order_id": "W1"}, json.dumps({"status": "delivered", "total": 31, "seen": 1})), RIGHT]

    trial = replay(tmp_path, *calls)
    strict = replay(tmp_path, *calls, world=World(seed=SEED, tools=[lookup_order, refund], drift="error"))

    assert trial.status.value == "passed"
    assert trial.transcript.world is not None
    assert trial.transcript.world.drift == 1
    assert trial.transcript.world.first_drift == "turn 1, lookup_order: total was 31, and is 30"
    assert strict.status.value == "errored"
    assert strict.error is not None
    assert (strict.error.kind, "total was 31" in strict.error.message) == ("config", True)


def test_a_recording_of_the_worlds_own_answers_does_not_drift(tmp_path: Path) -> None:
    seen = {"status": "delivered", "total": 30, "seen": 1}

    trial = replay(tmp_path, ("lookup_order", {"order_id": "W1"}, json.dumps(seen)), RIGHT)

    assert trial.transcript.world is not None
    assert (trial.transcript.world.drift, trial.transcript.world.first_drift) == (0, None)


def test_a_mocked_tool_of_a_recording_does_not_reach_the_world(tmp_path: Path) -> None:
    trial = replay(
        tmp_path, ("send_mail", {}, "sent"), RIGHT, mocks={"send_mail": {"returns": "sent"}}, end_state=REFUNDED
    )

    assert trial.status.value == "passed"


def test_an_imported_conversation_is_judged_by_its_end_state(folder: Any) -> None:
    folder.write("suite.json", json.dumps(SUITE))
    folder.write("right.json", json.dumps(messages(RIGHT)))
    folder.write("wrong.json", json.dumps(messages(("lookup_order", {"order_id": "W1"}, "{}"))))

    assert folder.seatrial("import-trace", "right.json", "--suite", "suite.json").code == 0
    ended = folder.seatrial("import-trace", "wrong.json", "--suite", "suite.json")
    assert ended.code == 1
    assert "orders.W1.status: expected 'refunded', got 'delivered'" in ended.out


MOCKED = {"name": "refunds", "input": "Refund W1", "mocks": {"refund": {"returns": 1}}, "expected_output": "done"}
WITHOUT_WORLD = "recorded without a world, so mocks and setup have no say, and the state is as recorded: refunds"
REPLAY = '{"type": "replay", "path": "right.json"}'
WAYS = {
    "import-trace": [("import-trace", "right.json", "--suite", "suite.json")],
    "replay": [("run", "suite.json", "--agent", REPLAY)],
    "regrade": [("run", "suite.json", "--agent", "agent:answer"), ("regrade", "latest")],
    "regraded recording": [("run", "suite.json", "--agent", REPLAY), ("regrade", "latest")],
}


@pytest.mark.parametrize("way", WAYS)
def test_without_a_world_every_report_says_that_mocks_have_no_say(folder: Any, way: str) -> None:
    folder.write("agent.py", "def answer(input, ctx): return ctx.call_tool('refund') and 'done'")
    folder.write("suite.json", json.dumps({"suite": {"name": "shop"}, "scenarios": [MOCKED]}))
    folder.write("right.json", json.dumps(messages(RIGHT)))
    *before, last = WAYS[way]
    for command in before:
        assert folder.seatrial(*command).code == 0

    reports = [f"--report={kind}=report.{kind}" for kind in ("json", "markdown", "html", "junit", "github")]
    ended = folder.seatrial(*last, *reports)

    assert ended.code == 0, ended.err
    assert f"note: {WITHOUT_WORLD}" in ended.out
    for kind in ("json", "markdown", "html"):
        assert WITHOUT_WORLD in (folder.path / f"report.{kind}").read_text("utf-8"), kind
    assert WITHOUT_WORLD in folder.seatrial("show", "latest").out


def test_a_run_of_an_agent_and_recordings_with_a_world_need_no_such_note(folder: Any) -> None:
    folder.write("agent.py", "def answer(input, ctx): return ctx.call_tool('refund') and 'done'")
    folder.write("suite.json", json.dumps({"suite": {"name": "shop"}, "scenarios": [MOCKED]}))
    folder.write("world.json", json.dumps(SUITE))
    folder.write("right.json", json.dumps(messages(RIGHT)))

    for command in (
        ("run", "suite.json", "--agent", "agent:answer"),
        ("import-trace", "right.json", "--suite", "world.json"),
    ):
        ended = folder.seatrial(*command)
        assert ended.code == 0
        assert "recorded without a world" not in ended.out


@pytest.mark.parametrize("way", ["import-trace", "replay", "regraded recording"])
def test_the_state_of_mocks_is_not_known_for_a_recording(folder: Any, way: str) -> None:
    suite = {"suite": {"name": "shop"}, "scenarios": [{**MOCKED, "expected_state": {"n": 1}, "setup": "hooks:write"}]}
    folder.write("hooks.py", "def write(ctx): ctx.state['n'] = 1")
    folder.write("suite.json", json.dumps(suite))
    folder.write("right.json", json.dumps(messages(RIGHT)))
    for command in WAYS[way]:
        ended = folder.seatrial(*command)

    assert ended.code == 1
    assert "expected_state: mocks did not answer the recorded calls, so the state is not known" in ended.out
    assert "1 scenario errored" in ended.out


def test_a_regrade_knows_the_state_that_the_mocks_of_the_run_wrote(folder: Any) -> None:
    suite = {"suite": {"name": "shop"}, "scenarios": [{**MOCKED, "expected_state": {"n": 1}, "setup": "hooks:write"}]}
    folder.write("hooks.py", "def write(ctx): ctx.state['n'] = 1")
    folder.write("agent.py", "def answer(input, ctx): return ctx.call_tool('refund') and 'done'")
    folder.write("suite.json", json.dumps(suite))
    assert folder.seatrial("run", "suite.json", "--agent", "agent:answer").code == 0

    assert folder.seatrial("regrade", "latest").code == 0


AGENT = """
    def answer(input, ctx):
        ctx.call_tool("lookup_order", order_id="W1")
        ctx.call_tool("refund", order_id="W1")
        return "done"
"""


ALL_WRAPPED = '{"type": "python", "target": "agent:answer", "tools": "all_wrapped"}'


def test_a_regrade_runs_the_stored_calls_in_the_world_of_today(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("suite.json", json.dumps(SUITE))
    assert folder.seatrial("run", "suite.json", "--agent", ALL_WRAPPED).code == 0
    assert folder.seatrial("regrade", "latest").code == 0

    changed = json.loads(json.dumps(SUITE))
    changed["suite"]["world"]["seed"]["orders"]["W1"]["total"] = 99
    folder.write("suite.json", json.dumps(changed))
    ended = folder.seatrial("regrade", "latest", "--report", "json=results.json")

    [scenario] = json.loads((folder.path / "results.json").read_text("utf-8"))["scenarios"]
    [trial] = scenario["trials"]
    assert ended.code == 0
    assert trial["world"]["changes"][-1]["value"] == {"order": "W1", "amount": 99}
    assert trial["world"]["drift"] == 2
    assert trial["world"]["first_drift"] == "turn 1, lookup_order: total was 30, and is 99"


def test_show_tells_what_each_call_changed(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("suite.json", json.dumps(SUITE))
    folder.seatrial(
        "run", "suite.json", "--agent", '{"type": "python", "target": "agent:answer", "tools": "all_wrapped"}'
    )

    shown = folder.seatrial("show", "latest", "refunds", "1").out

    assert 'changed orders.W1.status: "delivered" → "refunded"' in shown
    assert 'changed refunds[0]: added {"order": "W1", "amount": 30}' in shown


def test_a_run_counts_recordings_that_drift(folder: Any) -> None:
    folder.write("suite.json", json.dumps(SUITE))
    folder.write("chat.json", json.dumps(messages(("lookup_order", {"order_id": "W1"}, '{"total": 31}'), RIGHT)))

    ended = folder.seatrial("import-trace", "chat.json", "--suite", "suite.json")

    assert (
        "drift in 1 of 1 trial: the world answers differently than recorded. First: refunds, trial-1, turn 1"
        in ended.out
    )


def test_a_store_keeps_a_seed_once_and_only_the_difference_of_each_trial(folder: Any) -> None:
    large = json.loads(json.dumps(SUITE))
    large["suite"]["world"]["seed"]["notes"] = [f"note {number} " + "x" * 80 for number in range(15_000)]
    large["scenarios"][0] |= {"trials": 20}
    large["scenarios"].append({**large["scenarios"][0], "name": "other", "world": {"seed": {"extra": 1}}})
    folder.write("agent.py", AGENT)
    folder.write("suite.json", json.dumps(large))

    assert folder.seatrial("run", "suite.json", "--agent", ALL_WRAPPED).code == 0

    store = folder.path / ".seatrial" / "runs.db"
    assert store.stat().st_size < 2_500_000
    with open_store(str(store)) as opened:
        run = opened.run("latest")
        hashes = {trial.transcript.world.seed for trial in trials_of(opened, run.id)}
        seeds = [opened.seed(name) for name in hashes]
    assert sorted("extra" in seed for seed in seeds) == [False, True]
    assert all(seed["notes"] == large["suite"]["world"]["seed"]["notes"] for seed in seeds)


def trials_of(store: Any, run_id: str) -> list[Any]:
    return [trial for entry in store.entries(run_id) for trial in store.trials(run_id, entry.key)]


@pytest.fixture
def moved(folder: Any) -> Any:
    """A run of two scenarios with worlds, whose seeds are one and a patch over it, exported to `run.jsonl`."""
    own = {**SUITE["scenarios"][0], "name": "own seed", "world": {"seed": {"extra": 1}}}  # type: ignore[index]
    folder.write("agent.py", AGENT)
    folder.write("suite.json", json.dumps({**SUITE, "scenarios": [*SUITE["scenarios"], own]}))
    assert folder.seatrial("run", "suite.json", "--agent", ALL_WRAPPED).code == 0
    assert folder.seatrial("export", "-o", "run.jsonl").code == 0
    return folder


def test_an_exported_run_with_a_world_is_shown_regraded_and_mutated_elsewhere(moved: Any) -> None:
    ended = moved.seatrial("import", "run.jsonl", "--store", "other.db")
    assert ended.code == 0, ended.err

    other = ("--store", "other.db")
    assert (
        'changed orders.W1.status: "delivered" → "refunded"'
        in moved.seatrial("show", "latest", "refunds", "1", *other).out
    )
    assert "mutants caught" in moved.seatrial("mutate", "latest", *other).out
    assert moved.seatrial("regrade", "latest", *other).code == 0
    with open_store(moved.path / ".seatrial" / "runs.db") as here, open_store(moved.path / "other.db") as there:
        run = here.run("latest")
        assert list(here.export_run(run.id)) == list(there.export_run(run.id))
        names = {trial.transcript.world.seed for trial in trials_of(there, run.id)}
        assert repr([here.seed(name) for name in names]) == repr([there.seed(name) for name in names])
    assert len(names) == 2


@pytest.mark.parametrize("is_patch", [True, False])
def test_an_export_without_a_seed_is_refused(moved: Any, is_patch: bool) -> None:
    lines = (moved.path / "run.jsonl").read_text("utf-8").splitlines()
    seeds = [line for line in lines if line.startswith('{"content"') and "definition " not in line]
    [gone] = [line for line in seeds if ('"$seed"' in line) == is_patch]
    last = json.loads(lines[-1])
    last["end"]["contents"] -= 1
    moved.write("cut.jsonl", "\n".join([*(line for line in lines[:-1] if line != gone), json.dumps(last)]))

    ended = moved.seatrial("import", "cut.jsonl", "--store", "other.db")

    assert ended.code == 2
    assert "of its world is not in the file. Export the run again" in ended.err
    assert moved.seatrial("show", "latest", "--store", "other.db").code == 2


def test_a_store_that_lost_a_seed_does_not_export_the_run(moved: Any) -> None:
    with open_store(moved.path / ".seatrial" / "runs.db") as store, store._connections.transaction() as connection:
        connection.execute("DELETE FROM content_uses")
        connection.execute("DELETE FROM contents")

    ended = moved.seatrial("export", "-o", "other.jsonl")

    assert ended.code != 0
    assert "which is not stored; the store is damaged" in ended.err
    assert not (moved.path / "other.jsonl").exists()


@pytest.mark.parametrize("name", ["0" * 40, "definition", "x", 5, None])
def test_a_file_cannot_bring_other_contents(moved: Any, name: Any) -> None:
    *lines, last = (moved.path / "run.jsonl").read_text("utf-8").splitlines()
    added = json.dumps({"content": {"name": name, "document": {}}})
    moved.write("more.jsonl", "\n".join([*lines, added, last]))

    ended = moved.seatrial("import", "more.jsonl", "--store", "other.db")

    assert (ended.code, "Traceback" in ended.err) == (2, False)
    assert f"line {len(lines) + 1}:" in ended.err
