"""Files of every tool become suites that can be loaded, and what is not in them is listed with its line."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

import seatrial
from seatrial import AgentResult, ToolCall, UsageError, load
from seatrial.converters.conversion import TOOLS, Converted, SourceFile, convert
from seatrial.model.scenario import Scenario

FIXTURES = Path(__file__).parent / "fixtures"
FILES = {
    "promptfooconfig.yaml": "promptfoo",
    "agentest.config.yaml": "Agentest",
    "agentest_scenarios.yaml": "Agentest",
    "pydantic_evals.yaml": "pydantic-evals",
    "pydantic_evals.json": "pydantic-evals",
    "deepeval.json": "DeepEval",
    "deepeval_conversations.json": "DeepEval",
}


def scenarios(file: str, folder: Path) -> tuple[Converted, dict[str, Scenario]]:
    found = convert(FIXTURES / file)
    made = folder / "made.yaml"
    made.write_text(found.text, encoding="utf-8")
    (suite,) = load(str(made))
    return found, {scenario.name: scenario for scenario in suite.scenarios}


def lost(found: Converted) -> list[tuple[int | None, str]]:
    return [(note.line, note.text) for note in found.notes if note.lost]


@pytest.mark.parametrize(("file", "tool"), FILES.items())
def test_the_tool_is_found_out_and_the_file_can_be_loaded(file: str, tool: str, tmp_path: Path) -> None:
    found, made = scenarios(file, tmp_path)

    assert found.tool == tool
    assert found.scenarios == len(made) > 0


@pytest.mark.parametrize("file", FILES)
def test_everything_that_is_listed_stands_in_the_file_too(file: str) -> None:
    found = convert(FIXTURES / file)
    comments = " ".join(line.strip("# ") for line in found.text.splitlines() if line.strip().startswith("#"))

    assert [note.text for note in found.notes if " ".join(note.text.split()) not in comments] == []


@pytest.mark.parametrize("file", FILES)
def test_a_line_that_is_named_is_the_line_it_stands_on(file: str) -> None:
    lines = (FIXTURES / file).read_text(encoding="utf-8").splitlines()

    assert all(note.line is None or 1 <= note.line <= len(lines) for note in convert(FIXTURES / file).notes)


def test_evaluators_of_pydantic_evals_that_are_code_are_lost_with_their_line(tmp_path: Path) -> None:
    found, made = scenarios("pydantic_evals.yaml", tmp_path)
    lines = (FIXTURES / "pydantic_evals.yaml").read_text(encoding="utf-8").splitlines()

    assert [lines[(line or 0) - 1].strip("- :5") for line, _ in lost(found)] == ["HasMatchingSpan", "IsPolite"]
    assert made["only code"].skip is not None
    assert made["judged"].skip is None


def test_evaluators_of_pydantic_evals_mean_the_same_here(tmp_path: Path) -> None:
    convert_to = tmp_path / "made.yaml"
    convert_to.write_text(convert(FIXTURES / "pydantic_evals.yaml").text)

    def agent(input: str) -> Any:
        if "capital" in input:
            return AgentResult("Paris", tool_calls=[])
        calls = [ToolCall("lookup_order", {"order_id": "ORD-789"}), ToolCall("reply", {})]
        return AgentResult("ORD-789 has SHIPPED.", tool_calls=calls)

    def passed(agent: Any, name: str) -> bool:
        return seatrial.run(str(convert_to), agent=agent, scenario=name, store=None).passed

    assert passed(agent, "capital")
    assert passed(agent, "order")
    assert not passed(lambda input: AgentResult("paris", tool_calls=[]), "capital")
    assert not passed(lambda input: AgentResult("ord-789 has shipped.", tool_calls=agent("").tool_calls), "order")
    assert not passed(lambda input: AgentResult("ORD-789 has shipped.", tool_calls=["reply", "lookup_order"]), "order")


def test_goldens_of_deepeval_become_judged_scenarios(tmp_path: Path) -> None:
    _, made = scenarios("deepeval.json", tmp_path)
    shoes = made["What if these shoes don't fit?"]

    assert list(shoes.expected_outcomes) == [
        "Mentions the 30 days.",
        "The following is not the case: Asks for a credit card number.",
    ]
    assert shoes.scorers is not None
    assert "30 day full refund" in str(shoes.scorers[1])
    assert shoes.scorers[2]["trajectory"]["expected"][0] == {"name": "lookup_order", "args": {"order_id": "ORD-1"}}
    assert (shoes.metadata or {})["team"] == "support"


def test_conversations_of_deepeval_become_simulated_users(tmp_path: Path) -> None:
    _, made = scenarios("deepeval_conversations.json", tmp_path)
    ticket, beth = made["buys a ticket"], made["Beth wants her money back."]

    assert (ticket.user.profile, ticket.user.goal) == ("Andy, in a hurry.", "Andy wants to buy a VIP ticket to a show.")
    assert [message["role"] for message in ticket.history] == ["user", "assistant"]
    assert list(ticket.expected_outcomes) == ["A VIP ticket was bought."]
    assert beth.thresholds == {"goal_completion": 1.0}


def test_scenarios_of_agentest_keep_their_trajectories_mocks_and_thresholds(tmp_path: Path) -> None:
    found, made = scenarios("agentest_scenarios.yaml", tmp_path)
    books, scripted = made["user books a morning slot"], made["scripted"]

    assert books.trajectory is not None
    assert books.trajectory.mode == "contains"
    assert [(call.name, call.args, call.arg_match) for call in books.trajectory.expected] == [
        ("check_availability", None, None),
        ("create_booking", {"service": "haircut"}, "partial"),
        ("send_mail", None, None),
    ]
    assert [call.name for call in books.trajectory.forbidden] == ["delete_booking"]
    answers = [{"returns": {"error": "busy"}}, {"returns": {"id": "BK-1"}}]
    assert (books.mocks or {})["create_booking"] == {"sequence": answers}
    assert books.thresholds == {"helpfulness": 3.5}
    assert books.fail_on_error_severity == "critical"
    assert scripted.turns[0].trajectory is not None
    assert [line for line, _ in lost(found)] == [13, 20]


@pytest.mark.parametrize(
    ("tool", "content", "told"),
    [
        (
            "agentest",
            {
                "parallel": True,
                "metrics": ["helpfulness", "tone"],
                "scenarios": [
                    {
                        "name": "a",
                        "tags": ["x"],
                        "mocks": {"tools": {"book": 1}, "seed": 3},
                        "turns": [
                            {
                                "userMessage": "Hi",
                                "replyContains": "x",
                                "assertions": {
                                    "toolCalls": {"expected": [{"name": "book", "count": 2}], "max": 3},
                                    "outcome": "done",
                                },
                            }
                        ],
                    }
                ],
            },
            {"parallel", "the metric 'tone'", "tags", "seed", "replyContains", "count", "max", "outcome"},
        ),
        (
            "deepeval",
            [
                {"input": "Hi", "expected_tools": [{"name": "book", "output": "BK-1"}], "expected_outcome": "done"},
                {"scenario": "Books", "expected_outcome": "done", "expectedTools": [{"name": "book"}], "role": "x"},
            ],
            {"output", "expected_outcome", "expected_tools", "role"},
        ),
        (
            "pydantic-evals",
            {"retries": 3, "cases": [{"inputs": "Hi", "evaluators": [{"Contains": "x"}], "tags": ["x"]}]},
            {"retries", "tags"},
        ),
    ],
)
def test_a_key_that_has_no_counterpart_is_told(tool: str, content: Any, told: set[str], tmp_path: Path) -> None:
    source = tmp_path / "theirs.json"
    source.write_text(json.dumps(content), encoding="utf-8")

    found = convert(source, tool=tool)

    assert {note.text.partition(":")[0] for note in found.notes if note.lost} == told


def test_a_golden_of_which_only_an_unknown_expectation_is_left_cannot_pass(tmp_path: Path) -> None:
    source = tmp_path / "goldens.json"
    source.write_text('[{"input": "Hi", "id": 7}, {"input": "Bye", "expected_outcome": "done"}]', encoding="utf-8")

    assert convert(source, tool="deepeval").skipped == 1


def test_a_configuration_of_agentest_without_scenarios_cannot_pass(tmp_path: Path) -> None:
    _, made = scenarios("agentest.config.yaml", tmp_path)
    (scenario,) = made.values()

    assert scenario.skip is not None
    assert (scenario.trials, scenario.max_turns) == (5, 6)
    assert scenario.thresholds == {"helpfulness": 3.5, "goal_completion": 0.8}


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", "x: 1\n", "its tool is unknown. Name the tool: --from agentest|promptfoo|"),
        ("a.yaml", "a: [1\n", "a.yaml:2:1: not YAML"),
        ("a.json", "{", "not JSON"),
        ("a.yaml", "prompts: [x]\n", "has no scenario that could be converted"),
        ("a.yaml", "prompts: [x]\ntests: [7]\n", "cannot be read as a file of promptfoo"),
        ("a.yaml", "prompts: [x]\ncases: [{inputs: x}]\n", "looks like a file of promptfoo and of pydantic-evals"),
    ],
)
def test_a_file_that_cannot_be_converted_says_why(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        convert(write(tmp_path, name, text))

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "text", ["0o17", "1e3", "NO", "10:30", "a: b", "# x", "  padded ", "two\nlines\n", "\x07", "é 😀", "-"]
)
def test_any_text_is_read_as_it_was_written(tmp_path: Path, text: str) -> None:
    test = {"vars": {"q": f"?{text}"}, "assert": [{"type": "equals", "value": f"{text}"}]}
    source = write(tmp_path, "a.json", json.dumps({"prompts": ["{{q}}"], "tests": [test]}))
    made = write(tmp_path, "made.yaml", "")
    made.write_text(convert(source).text, encoding="utf-8")
    (suite,) = load(str(made))
    (scenario,) = suite.scenarios

    assert scenario.input == f"?{text}"
    assert scenario.scorers is not None
    assert scenario.scorers[1] == {"exact": {"expected": text, "normalize": False}}


PARTS = (None, True, -1, 2.5, "", " ", "x", "{{a}}", "file://x", "a: b\n# c", [], {}, [1], {"a": 1}, [[]])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], part: Any) -> Any:
    if not path:
        return part
    made = value.copy()
    made[path[0]] = put(value[path[0]], path[1:], part)
    return made


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.data())
def test_a_file_in_which_anything_is_wrong_is_refused_and_never_crashes(
    tmp_path: Path, data: strategies.DataObject
) -> None:
    file = data.draw(strategies.sampled_from(sorted(FILES)))
    whole = SourceFile(FIXTURES / file).data
    broken = put(
        whole, data.draw(strategies.sampled_from(list(places(whole)))), data.draw(strategies.sampled_from(PARTS))
    )
    source = write(tmp_path, "broken.json", json.dumps(broken))
    tool = next(key for key, name in TOOLS.items() if name == FILES[file])
    try:
        found = convert(source, tool=tool)
    except UsageError:
        return

    assert found.scenarios > 0
    with suppress(UsageError):  # what was nonsense there is nonsense here, and is told with its place
        load(str(write(tmp_path, "made.yaml", found.text)))
