"""Agentest's TypeScript: its data is converted, its code is listed."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from seatrial.converters.conversion import Converted, SourceFile, convert
from seatrial.converters.javascript import Code
from seatrial.errors import UsageError
from seatrial.scenarios.load import load

SCENARIOS = """
import { scenario, sequence } from '@agentesting/agentest'

// scenario('not this one', {})
describe('bookings', () => {
  scenario('books a slot', {
    profile: 'Isn\\'t patient.',
    goal: `Book a haircut.`,
    knowledge: [{ content: "Open 08:00-18:00" }, { content: FACT }],
    mocks: {
      tools: {
        check: () => ({ slots: ['09:00'], n: 1_000 }),
        book: sequence([{ error: 'busy' }, { id: 'BK-1' }]),
        mail: async (args: any) => ({ to: args.to }),
        cancel(args) { return { ok: true } },
      },
    },
    assertions: {
      toolCalls: {
        matchMode: 'contains' as const,
        expected: [{ name: 'book', args: { service: 'haircut' }, argMatchMode: 'partial' }],
      },
    },
    ...BASE,
  });
})
scenario(NAME, { profile: 'p', goal: GOAL })
"""
CONFIG = """
export default defineConfig({
  agent: {
    name: 'shop',
    endpoint: 'http://localhost:3000/v1/chat/completions',
    headers: { Authorization: `Bearer ${process.env.SHOP_TOKEN}` },
  },
  thresholds: { helpfulness: 3.5 },
  customMetrics: [new Mine()],
})
"""


def converted(tmp_path: Path, name: str, text: str) -> tuple[Converted, dict[str, Any]]:
    source = tmp_path / name
    source.write_text(text, encoding="utf-8")
    found = convert(source)
    made = tmp_path / "made.yaml"
    made.write_text(found.text, encoding="utf-8")
    [suite] = load(str(made), check_agents=False)
    return found, {scenario.name: scenario for scenario in suite.scenarios} | {"suite": suite.suite}


def test_data_in_scenarios_is_converted(tmp_path: Path) -> None:
    _, made = converted(tmp_path, "booking.sim.ts", SCENARIOS)
    books = made["books a slot"]

    assert (books.user.profile, books.user.goal) == ("Isn't patient.", "Book a haircut.")
    assert books.user.knowledge == ("Open 08:00-18:00",)
    assert books.mocks == {
        "check": {"returns": {"slots": ["09:00"], "n": 1000}},
        "book": {"sequence": [{"returns": {"error": "busy"}}, {"returns": {"id": "BK-1"}}]},
    }
    assert [(call.name, call.args) for call in books.trajectory.expected] == [("book", {"service": "haircut"})]


def test_code_is_listed_with_its_line(tmp_path: Path) -> None:
    found, _ = converted(tmp_path, "booking.sim.ts", SCENARIOS)

    assert {(note.line, note.text.partition(":")[0].partition(",")[0]) for note in found.notes if note.lost} == {
        (9, "content"),
        (14, "the mock of 'mail'"),
        (11, "the mock of 'cancel'"),
        (6, "...BASE"),
        (27, "name"),
        (27, "goal"),
    }


def test_a_scenario_whose_goal_is_code_is_skipped(tmp_path: Path) -> None:
    _, made = converted(tmp_path, "booking.sim.ts", SCENARIOS)

    assert made["booking.sim"].skip == "the user's goal could not be carried over"


def test_variables_of_the_environment_stay_variables(tmp_path: Path) -> None:
    found, made = converted(tmp_path, "agentest.config.ts", CONFIG)

    assert made["suite"].agent["headers"] == {"Authorization": "Bearer ${SHOP_TOKEN}"}
    assert "customMetrics[0]: it is code: new Mine()" in [note.text for note in found.notes]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a\\n\\u00e9\\x41\\u{1F600}'", "a\néA😀"),
        ("-1.5e3", -1500.0),
        ("0x1F", 31),
        ("[true, false, null, undefined, ]", [True, False, None, None]),
        ("{'a-b': 1, 2: \"x\", /* c */ c: [] }", {"a-b": 1, "2": "x", "c": []}),
        ("{a: {b: 1}} satisfies Options", {"a": {"b": 1}}),
    ],
)
def test_a_literal_is_its_value(tmp_path: Path, text: str, value: Any) -> None:
    assert read(tmp_path, text) == value


@pytest.mark.parametrize("text", ["'a' + b", "5 * 2", "`${name}`", "f()", "process.env.KEY", "(a) => a.b", "a"])
def test_an_expression_is_code(tmp_path: Path, text: str) -> None:
    assert isinstance(read(tmp_path, text), Code)


def read(folder: Path, text: str) -> Any:
    file = folder / "one.sim.ts"
    file.write_text(f"scenario('one', {{ value: {text} }})", encoding="utf-8")
    return SourceFile(file).data["scenarios"][0]["value"]


@settings(max_examples=200, deadline=None)
@given(
    cut=strategies.integers(0, len(SCENARIOS)),
    put=strategies.sampled_from(["", "{", "}", "]", "(", ")", "'", "`", "/*"]),
)
def test_any_text_is_read_or_refused_and_never_hangs(tmp_path_factory: Any, cut: int, put: str) -> None:
    file = tmp_path_factory.mktemp("cut") / "cut.sim.ts"
    file.write_text(SCENARIOS[:cut] + put + (SCENARIOS[cut:] if put else ""), encoding="utf-8")
    with suppress(UsageError):
        convert(file)
