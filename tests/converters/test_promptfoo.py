"""Assertions of promptfoo mean the same here: the replies that pass there pass here, and no others."""

import json
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, ToolCall, load
from seatrial.converters.conversion import Converted, convert
from seatrial.errors import UsageError
from seatrial.model.run import Status


def converted(folder: Path, test: dict[str, Any], **config: Any) -> tuple[Converted, Path]:
    source = folder / "promptfooconfig.yaml"
    source.write_text(json.dumps({"prompts": ["{{question}}"], "tests": [test], **config}))
    found = convert(source)
    made = folder / "made.yaml"
    made.write_text(found.text)
    return found, made


def status(file: Path, agent: Any) -> Status:
    (outcome,) = seatrial.run(str(file), agent=agent, store=None).record.outcome.scenarios
    return outcome.verdict.status


def asked(*assertions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"vars": {"question": "Well?"}, "assert": list(assertions), **more}


@pytest.mark.parametrize(
    ("assertion", "passes", "fails"),
    [
        ({"type": "equals", "value": "Yes."}, "Yes.", "yes."),
        ({"type": "not-equals", "value": "Yes."}, "Yes. No.", "Yes."),
        ({"type": "contains", "value": "30 days"}, "In 30 days!", "In 30 Days!"),
        ({"type": "not-contains", "value": "a.b"}, "a-b\nA.B", "see\na.b"),
        ({"type": "contains", "value": True}, "it is true", "it is True"),
        ({"type": "icontains", "value": "Refund"}, "a REFUND", "a return"),
        ({"type": "not-icontains", "value": "Refund"}, "a return", "a REFUND"),
        ({"type": "contains-any", "value": ["Spree", "Havel"]}, "the Havel", "the havel"),
        ({"type": "contains-any", "value": "Spree, Havel"}, "the Havel", "Spree Havel".lower()),
        ({"type": "not-contains-any", "value": ["(x)", "y"]}, "x", "y\n"),
        ({"type": "contains-all", "value": ["a", "b"]}, "b a", "a A"),
        ({"type": "icontains-all", "value": ["a", "b"]}, "B A", "a a"),
        ({"type": "icontains-any", "value": ["spree", "HAVEL"]}, "the havel", "the Rhine"),
        ({"type": "starts-with", "value": "Dear"}, "Dear you", "Oh Dear"),
        ({"type": "regex", "value": "ORD-\\d+"}, "it is ORD-1", "it is ord-1"),
        ({"type": "not-regex", "value": "^\\d+$"}, "12a", "12"),
        ({"type": "is-json"}, '{"a": 1}', "a: 1"),
        ({"type": "is-json", "value": {"type": "object", "required": ["b"]}}, '{"b": 1}', '{"a": 1}'),
        ({"type": "assert-set", "assert": [{"type": "contains", "value": "a"}]}, "a", "b"),
    ],
)
def test_a_reply_passes_here_as_it_does_there(
    tmp_path: Path, assertion: dict[str, Any], passes: str, fails: str
) -> None:
    found, file = converted(tmp_path, asked(assertion))

    assert [note for note in found.notes if note.lost] == []
    assert status(file, lambda input: passes) is Status.PASSED
    assert status(file, lambda input: fails) is Status.FAILED


@pytest.mark.parametrize(
    ("assertion", "passes", "fails"),
    [
        ({"type": "trajectory:tool-used", "value": "a"}, ["b", "a", "a"], ["b"]),
        ({"type": "trajectory:tool-used", "value": ["a", "b"]}, ["b", "a"], ["a"]),
        ({"type": "trajectory:tool-used", "value": {"name": "a", "min": 1, "max": 2}}, ["a", "a"], ["a", "a", "a"]),
        ({"type": "trajectory:tool-used", "value": {"name": "a", "max": 2}}, ["a", "a"], ["b"]),
        ({"type": "trajectory:tool-used", "value": {"name": "a", "min": 0, "max": 0}}, ["b"], ["a"]),
        ({"type": "not-trajectory:tool-used", "value": "delete"}, ["a"], ["a", "delete"]),
        ({"type": "trajectory:tool-sequence", "value": {"steps": ["a", "b"]}}, ["a", "c", "b"], ["b", "a"]),
        ({"type": "trajectory:tool-sequence", "value": {"steps": ["a"], "mode": "exact"}}, ["a"], ["a", "b"]),
        ({"type": "trajectory:step-count", "value": {"type": "tool", "max": 1}}, ["a"], ["a", "b"]),
    ],
)
def test_calls_pass_here_as_they_do_there(
    tmp_path: Path, assertion: dict[str, Any], passes: list[str], fails: list[str]
) -> None:
    _, file = converted(tmp_path, asked(assertion))

    assert status(file, lambda input: AgentResult("done", tool_calls=passes)) is Status.PASSED
    assert status(file, lambda input: AgentResult("done", tool_calls=fails)) is Status.FAILED


def test_arguments_of_calls_are_carried_over(tmp_path: Path) -> None:
    value = {"name": "lookup", "args": {"id": "{{question}}", "by": {"name": "Ada"}}}
    _, file = converted(tmp_path, asked({"type": "trajectory:tool-args-match", "value": value}))

    def calling(**args: Any) -> Any:
        return lambda input: AgentResult("done", tool_calls=[ToolCall("lookup", args)])

    assert status(file, calling(id="Well?", more="x", by={"name": "Ada", "age": 36})) is Status.PASSED
    assert status(file, calling(id="Hm?", by={"name": "Ada"})) is Status.FAILED
    assert status(file, calling(id="Well?", by={"name": "Grace"})) is Status.FAILED


def test_what_is_not_carried_over_is_told_wherever_it_stands(tmp_path: Path) -> None:
    rubric = {"type": "llm-rubric", "value": "Polite.", "rubricPrompt": "Be strict.", "metric": "tone"}
    default = {"provider": "openai:x", "options": {"prefix": "Please: "}}
    found, _ = converted(tmp_path, asked(rubric, options={"suffix": "!"}), defaultTest=default)

    told = {note.text for note in found.notes if note.lost}

    of_rubric = "assertion 'llm-rubric': its rubricPrompt"
    assert told == {"defaultTest.provider", "defaultTest.options.prefix", "options.suffix", of_rubric}


def test_columns_of_a_csv_count_or_are_told(tmp_path: Path) -> None:
    columns = "question,__expected,__config:__expected1:threshold,__threshold,__metadata:team,__prefix"
    found = convert(table(tmp_path, columns, "Well?,similar: Fine.,0.95,0.5,core,Please:"))

    assert "threshold: 0.95" in found.text
    assert "team: core" in found.text
    assert [note.text for note in found.notes if note.lost] == ["__prefix"]
    assert any("threshold 0.5: here every check must pass" in note.text for note in found.notes)


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "javascript", "value": "output.length > 3"},
        {"type": "python", "value": "file://check.py"},
        {"type": "levenshtein", "value": "x", "threshold": 3},
        {"type": "regex", "value": "(?<name>x"},
        {"type": "contains", "value": "{{ question | upper }}"},
        {"type": "contains", "value": "x", "transform": "output.trim()"},
        {"type": "contains", "value": "x", "weight": 0},
        {"type": "icontains", "value": ""},
        {"type": "trajectory:tool-used", "value": {"name": "a", "min": 0}},
        {"type": "trajectory:step-count", "value": {"type": "tool", "name": "a", "max": 1}},
        {"type": "trajectory:tool-used", "value": "search_*"},
        {"type": "not-trajectory:tool-sequence", "value": ["a"]},
        {"type": "contains", "value": "file://expected.txt"},
        {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "contains", "value": "x"}]},
        {"type": "equals", "value": {"a": 1}},
        {"type": "not-equals", "value": {"a": 1}},
        {"type": "not-icontains", "value": {"a": 1}},
        {"type": "not-contains-any", "value": [{"a": 1}]},
        {"type": "contains-all", "value": ["", " "]},
    ],
)
def test_a_scenario_that_lost_all_its_assertions_cannot_pass(tmp_path: Path, assertion: dict[str, Any]) -> None:
    found, file = converted(tmp_path, asked(assertion))

    assert found.skipped == 1
    assert len([note for note in found.notes if note.lost]) == 1
    report = seatrial.run(str(file), agent=lambda input: "x", store=None)
    assert not report.passed
    assert report.exit_code == 1


def table(tmp_path: Path, columns: str, row: str) -> Path:
    (tmp_path / "tests.csv").write_text(f"{columns}\n{row}\n")
    source = tmp_path / "promptfooconfig.yaml"
    source.write_text('{"prompts": ["{{question}}"], "tests": "file://tests.csv"}')
    return source


@pytest.mark.parametrize(
    ("short", "made"),
    [
        ("is-json", "json_schema:\n          schema: true"),
        ("latency(500)", "latency_ms: 500"),
        ("similar: yes", "threshold: 0.8"),
        ("similar(0.6): yes", "threshold: 0.6"),
        ("similar(1.2.3): yes", "exact:\n          expected: 'similar(1.2.3): yes'"),
    ],
)
def test_short_forms_are_read_as_they_are_there(tmp_path: Path, short: str, made: str) -> None:
    assert made in convert(table(tmp_path, "question,__expected", f"Well?,{short}")).text


def test_a_threshold_that_is_no_number_is_named_with_its_line(tmp_path: Path) -> None:
    columns = "question,__expected1,__expected2,__config:__expected2:threshold"
    with pytest.raises(UsageError) as refused:
        convert(table(tmp_path, columns, "Well?,similar: yes,similar: no,much"))
    assert "tests.csv:2: the threshold of __expected2 is no number: 'much'" in str(refused.value)


def test_defaults_do_not_speak_for_a_test_that_lost_its_own(tmp_path: Path) -> None:
    default = {"assert": [{"type": "latency", "threshold": 5000}]}
    found, _ = converted(tmp_path, asked({"type": "ruby", "value": "x"}), defaultTest=default)

    assert found.skipped == 1


def test_judges_and_limits_are_carried_over(tmp_path: Path) -> None:
    _, file = converted(
        tmp_path,
        asked(
            {"type": "llm-rubric", "value": "Is polite to {{question}}"},
            {"type": "factuality", "value": "Refunds take 30 days."},
            {"type": "trajectory:goal-success", "value": {"goal": "The order was found."}},
            {"type": "cost", "threshold": 0.01},
            {"type": "latency", "threshold": 2000},
        ),
    )
    (suite,) = load(str(file))
    (scenario,) = suite.scenarios

    assert scenario.scorers is not None
    assert {"judge": "Is polite to Well?"} in scenario.scorers
    assert list(scenario.expected_outcomes) == ["The order was found."]
    assert scenario.limits is not None
    assert (scenario.limits.latency_ms, scenario.limits.cost_usd) == (2000, 0.01)


def test_a_prompt_of_several_messages_becomes_system_history_and_input(tmp_path: Path) -> None:
    prompt = json.dumps(
        [
            {"role": "system", "content": "Be {{tone}}."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "{{question}}"},
        ]
    )
    test = {"vars": {"question": "Well?", "tone": "kind"}, "assert": [{"type": "contains", "value": "x"}]}
    _, file = converted(tmp_path, test, prompts=[prompt])
    (suite,) = load(str(file))
    (scenario,) = suite.scenarios

    assert (scenario.system, scenario.input, len(scenario.history)) == ("Be kind.", "Well?", 2)


def test_lists_of_texts_make_a_scenario_each_and_prompts_as_well(tmp_path: Path) -> None:
    test = {"vars": {"question": ["a?", "b?"], "n": [1, 2]}, "assert": [{"type": "contains", "value": "{{question}}"}]}
    found, file = converted(tmp_path, test, prompts=["{{question}}", "Please: {{question}} {{n}}"])
    (suite,) = load(str(file))

    assert found.scenarios == 4
    assert {scenario.input for scenario in suite.scenarios} == {"a?", "b?", "Please: a? [1, 2]", "Please: b? [1, 2]"}


def test_providers_that_are_endpoints_become_agents(tmp_path: Path) -> None:
    providers = [
        {"id": "openai:chat:gpt-5-mini", "config": {"temperature": 0, "apiBaseUrl": "http://127.0.0.1:9/v1"}},
        {
            "id": "https://api.example.com/chat",
            "label": "ours",
            "config": {
                "headers": {"X-Key": "{{env.SHOP_KEY}}"},
                "body": {"q": "{{prompt}}"},
                "transformResponse": "json.answer.text",
            },
        },
    ]
    _, file = converted(tmp_path, asked({"type": "contains", "value": "x"}), providers=providers)
    (suite,) = load(str(file))

    assert suite.suite.agents == {
        "openai:chat:gpt-5-mini": {
            "type": "openai",
            "base_url": "http://127.0.0.1:9/v1",
            "model": "gpt-5-mini",
            "body": {"temperature": 0},
        },
        "ours": {
            "type": "http",
            "url": "https://api.example.com/chat",
            "headers": {"X-Key": "${SHOP_KEY:-none}"},
            "body": {"q": "{{input}}"},
            "output": "answer.text",
        },
    }
