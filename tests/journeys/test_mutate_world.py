"""Mutation of scenarios with a world: mutants that change no end state, and the end state as a suggestion."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial.model.mutation import MutationResult
from seatrial.mutants.operators import find_operators
from seatrial.reports.mutation import suggestions_document

ROOT = Path(__file__).parent.parent.parent
SHOP = "examples/shop_world/scenarios.yaml"

AGENT = """
    def answer(messages, ctx):
        ctx.call_tool("look", {"order": "W1"})
        ctx.call_tool("pay_back", {"order": "W1"})
        ctx.call_tool("send_mail", {"to": "Ann"})
        return "W1 is paid back."

"""
TOOLS = """
    def look(state, order: str):
        return dict(state["orders"][order])

    def pay_back(state, order: str):
        state["orders"][order]["paid_back"] = True
        state["calls"] = state.get("calls", 0) + 1
        return "ok"

    def delete_order(state, order: str):
        state["orders"].pop(order, None)
        return "ok"
"""


def write(folder: Any, *, suite: dict[str, Any] | None = None, **scenario: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("shop_tools.py", TOOLS)
    world = {"seed": {"orders": {"W1": {"total": 4}}}, "tools": "shop_tools", **(scenario.pop("world", {}))}
    content = {
        "suite": {
            "name": "shop",
            "agent": {"type": "python", "target": "agent:answer", "tools": "all_wrapped"},
            "world": world,
            "config": {"mocks": {"send_mail": {"returns": "sent"}}},
            **(suite or {}),
        },
        "scenarios": [{"name": "pays back", "input": "Pay W1 back.", "expected_output": "W1", **scenario}],
    }
    folder.write("shop.trial.yaml", json.dumps(content))


def ran(folder: Any) -> None:
    ended = folder.seatrial("run", "shop.trial.yaml")
    assert ended.code == 0, ended.out + ended.err


def mutated(folder: Any, *flags: str) -> Any:
    ended = folder.seatrial("mutate", "--json", *flags)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def counts(result: Any) -> dict[str, tuple[int, int, int]]:
    return {one["name"]: (one["caught"], one["survived"], one["equivalent"]) for one in result["operators"]}


def test_mutants_that_reach_the_same_end_state_are_counted_apart(folder: Any) -> None:
    write(folder)
    ran(folder)

    result = mutated(folder)

    found = counts(result)
    assert found["drop"] == (0, 2, 1), "the lookup changes nothing; the mail is a mock, so its effect is not known"
    assert found["duplicate"][2] == 0, "the second call is counted in the state"
    assert found["reorder"][2] == 1, "the lookup may come after"
    assert result["total"]["equivalent"] == 2
    others = set(found) - {"drop", "duplicate", "reorder"}
    assert all(found[name][2] == 0 for name in others), "mutants of other kinds are never equivalent"
    assert "2 equivalent" in folder.seatrial("mutate").out


def test_a_mutant_that_violates_an_invariant_is_not_equivalent(folder: Any) -> None:
    write(folder, suite={"invariants": [{"never": "pay_back", "before": "look"}]})
    ran(folder)

    found = counts(mutated(folder))

    assert found["drop"] == (1, 2, 0)
    assert found["reorder"][0] >= 1
    assert found["reorder"][2] == 0


def test_paths_that_the_end_state_ignores_make_no_difference(folder: Any) -> None:
    gold = {"as_after": [{"pay_back": {"order": "W1"}}], "ignore": ["calls"]}
    write(folder, end_state=gold)
    ran(folder)

    assert counts(mutated(folder))["duplicate"] == (0, 0, 1)


def test_a_world_that_refuses_drift_judges_mutants(folder: Any) -> None:
    write(folder, world={"drift": "error"}, end_state={"as_after": [{"pay_back": {"order": "W1"}}]})
    ran(folder)

    result = mutated(folder)

    assert result["total"]["not_judged"] == 0
    assert counts(result)["argument"][0] >= 1


def test_the_end_state_is_suggested_and_catches_what_it_names(folder: Any) -> None:
    write(folder)
    ran(folder)
    before = mutated(folder, "--write-suggestions", "noticed.yaml")

    [line] = [one for one in before["suggestions"] if one["line"]["key"] == "end_state"]
    assert line["line"]["value"] == {"as_after": [{"pay_back": {"order": "W1"}}]}
    assert {"drop", "duplicate", "argument"} <= set(line["operators"])
    write(folder, suite={"include": ["noticed.yaml"]})
    assert folder.seatrial("run", "shop.trial.yaml").code == 0
    after = mutated(folder)
    assert after["score"] > before["score"]
    assert not [one for one in after["suggestions"] if one["line"]["key"] == "end_state"]


def test_an_included_end_state_does_not_replace_another(folder: Any) -> None:
    folder.write("noticed.yaml", "scenarios: [{name: pays back, end_state: {as_after: []}}]")
    write(folder, suite={"include": ["noticed.yaml"]}, end_state={"unchanged": ["orders"]})

    ended = folder.seatrial("validate", "shop.trial.yaml")

    assert ended.code == 2
    assert "the scenario 'pays back' has two 'end_state'. Write both into one, in the scenario" in ended.err


def test_a_conversation_that_a_tool_ended_does_not_end_without_it(folder: Any) -> None:
    write(folder, world={"ends": ["pay_back"]}, expect={"ended": True})
    ran(folder)

    found = mutated(folder, "--operator", "drop")

    checks = {one["check"]: one["caught"] for one in found["checks"]}
    assert checks["ended"] == 1


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MutationResult, Path]]:
    """The example's first result, and a folder with a copy of it."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(ROOT))
        shutil.copytree(ROOT / "examples" / "shop_world", folder / "examples" / "shop_world")
        yield seatrial.mutate(seatrial.run(SHOP, store=None), SHOP), folder


def _with(folder: Path, lines: dict[str, Any], name: str) -> str:
    """A copy of the suite that includes the lines."""
    place = folder / "examples" / "shop_world"
    (place / f"{name}.include.yaml").write_text(json.dumps(lines), encoding="utf-8")
    text = (place / "scenarios.yaml").read_text(encoding="utf-8")
    changed = text.replace("  name: shop world\n", f"  name: shop world\n  include: [{name}.include.yaml]\n")
    assert changed != text
    (place / f"{name}.yaml").write_text(changed, encoding="utf-8")
    return f"examples/shop_world/{name}.yaml"


def test_the_shop_goes_from_its_first_score_to_90_percent_by_suggestions(shop: tuple[MutationResult, Path]) -> None:
    before, folder = shop
    file = _with(folder, suggestions_document(before.suggestions), "all")

    report = seatrial.run(file, store=None)

    assert report.passed
    after = seatrial.mutate(report, file)
    assert before.score is not None
    assert after.score is not None
    assert before.score < 0.5
    assert after.score >= 0.9
    assert after.total.equivalent == before.total.equivalent > 0
    assert after.total.not_judged == 0


def test_every_suggestion_for_the_shop_alone_catches_what_it_names(shop: tuple[MutationResult, Path]) -> None:
    before, folder = shop
    for number, one in enumerate(before.suggestions):
        file = _with(folder, suggestions_document([one]), f"one-{number}")
        report = seatrial.run(file, store=None)
        after = seatrial.mutate(report, file, operators=one.operators)

        assert report.passed, one.line
        left = {f"{each.key.label}, trial-{each.trial + 1}: {each.what}" for each in after.survivors}
        assert not left & set(one.catches), one.line


OTHER_PATH = """
from examples.shop_world.agent_right import act, answer as first, find
from seatrial import ToolError

def answer(messages, ctx):
    said = " ".join(message["content"] for message in messages if message["role"] == "user")
    order = find(r"\\b(W\\d+)\\b", said)
    if order is not None:
        ctx.call_tool("lookup_order", {"order_id": order})
    return first(messages, ctx) + " Have a nice day."
"""


def test_a_right_agent_on_another_path_passes_all_suggestions_for_the_shop(
    shop: tuple[MutationResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, folder = shop
    (folder / "other_path.py").write_text(OTHER_PATH, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    file = _with(folder, suggestions_document(before.suggestions), "path")
    agent = {"type": "python", "target": "other_path:answer", "tools": "all_wrapped"}

    report = seatrial.run(file, agent=agent, store=None)

    assert report.passed, [each.failure_reasons for each in report.scenarios]
    assert "strict" not in repr([one.line for one in before.suggestions])


def test_an_installed_package_adds_an_operator(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write(
        "shouting.py",
        """
        from msgspec.structs import replace
        from seatrial.mutants import Mutant

        def shout(transcript, facts):
            "every reply is in capitals"
            turns = tuple(replace(turn, reply=turn.reply.upper()) for turn in transcript.turns)
            yield Mutant(what="shouted", transcript=replace(transcript, turns=turns))
        """,
    )
    folder.write("shouting-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    folder.write("shouting-1.0.dist-info/entry_points.txt", "[seatrial.mutants]\nshout = shouting:shout\n")
    monkeypatch.syspath_prepend(str(folder.path))
    find_operators.cache_clear()
    try:
        write(folder)
        ran(folder)
        result = mutated(folder, "--operator", "shout")
    finally:
        find_operators.cache_clear()

    assert counts(result) == {"shout": (0, 1, 0)}
    assert result["survivors"][0]["what"] == "shouted"
