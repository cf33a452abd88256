"""`seatrial convert`, as a user who comes from another tool types it."""

from typing import Any

PROMPTFOO = """
    prompts: ["{{question}}"]
    tests:
      - description: refunds
        vars: {question: "How long do refunds take?"}
        assert:
          - {type: contains, value: 30 days}
          - type: javascript
            value: output.length < 500
      - vars: {question: "Is it open?"}
        assert: [{type: icontains, value: open}]
"""
DATASET = """
    cases:
      - {name: capital, inputs: "What is the capital of France?", evaluators: [{Contains: Paris}]}
"""


def test_files_of_several_tools_become_suites_that_run(folder: Any) -> None:
    folder.write("promptfooconfig.yaml", PROMPTFOO)
    folder.write("dataset.yaml", DATASET)
    folder.write("agent.py", "def answer(input): return 'In Paris it is OPEN, and takes 30 days.'\n")
    done = folder.seatrial("convert", "promptfooconfig.yaml", "dataset.yaml")

    assert done.code == 1
    assert "promptfooconfig.yaml (promptfoo) -> scenarios/promptfooconfig.yaml: 2 scenarios" in done.out
    assert "promptfooconfig.yaml:7: refunds: assertion 'javascript': it is code: 'output.length < 500'" in done.out
    assert folder.seatrial("validate").code == 0
    assert folder.seatrial("run", "--agent", "agent:answer").code == 0


def test_everything_carried_over_is_exit_code_0(folder: Any) -> None:
    folder.write("dataset.yaml", DATASET)
    done = folder.seatrial("convert", "dataset.yaml", "--output", "made")

    assert (done.code, done.out) == (0, "dataset.yaml (pydantic-evals) -> made/dataset.yaml: 1 scenario\n")


def test_a_file_that_is_there_is_not_written_over_unless_asked(folder: Any) -> None:
    folder.write("dataset.yaml", DATASET)
    folder.write("scenarios/dataset.yaml", "mine")
    refused = folder.seatrial("convert", "dataset.yaml")

    assert refused.code == 2
    assert "scenarios/dataset.yaml: exists already" in refused.err
    assert (folder.path / "scenarios/dataset.yaml").read_text() == "mine"
    assert folder.seatrial("convert", "dataset.yaml", "--force").code == 0


def test_nothing_is_written_when_one_file_cannot_be_read(folder: Any) -> None:
    folder.write("dataset.yaml", DATASET)
    folder.write("other.yaml", "x: 1\n")
    done = folder.seatrial("convert", "dataset.yaml", "other.yaml")

    assert done.code == 2
    assert "other.yaml: its tool is unknown" in done.err
    assert not folder.exists("scenarios")


def test_the_tool_can_be_named(folder: Any) -> None:
    folder.write("rows.yaml", "- {vars: {q: Hello}, assert: [{type: equals, value: Hi}]}\n")

    assert folder.seatrial("convert", "rows.yaml", "--from", "promptfoo").code == 0
    assert folder.seatrial("convert", "rows.yaml", "--from", "deepeval", "--force").code == 2


def test_two_files_of_one_name_are_refused(folder: Any) -> None:
    folder.write("a/dataset.yaml", DATASET)
    folder.write("b/dataset.yaml", DATASET)
    done = folder.seatrial("convert", "a/dataset.yaml", "b/dataset.yaml")

    assert done.code == 2
    assert "two files would be converted to this file" in done.err


def test_agent_text_in_notes_does_not_act_on_the_terminal(folder: Any) -> None:
    folder.write("dataset.yaml", 'cases: [{name: "a\\e[31m", inputs: x, evaluators: ["\\e[2J"]}]\n')
    done = folder.seatrial("convert", "dataset.yaml")

    assert done.code == 1
    assert "\x1b" not in done.out


def test_a_place_that_cannot_be_written_to_is_named(folder: Any) -> None:
    folder.write("dataset.yaml", DATASET)
    done = folder.process("convert", "dataset.yaml", "-o", "dataset.yaml")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: dataset.yaml/dataset.yaml: cannot be written: ")


def test_what_is_lost_is_told_also_where_the_file_is_not_allowed_here(folder: Any) -> None:
    limited = PROMPTFOO.replace("{type: contains, value: 30 days}", "{type: cost, threshold: -1}")
    folder.write("promptfooconfig.yaml", limited)
    folder.write("dataset.yaml", DATASET)
    done = folder.seatrial("convert", "promptfooconfig.yaml", "dataset.yaml")

    assert done.code == 2
    assert "assertion 'javascript': it is code" in done.out
    assert "limits.cost_usd: expected a number" in done.err
    assert folder.exists("scenarios/dataset.yaml")


def test_a_file_that_loads_is_left_as_it_is(folder: Any) -> None:
    folder.write("hello.yaml", "id: hello\nturns: [{user: hi}]\n")
    folder.write("mine.yaml", "scenarios: [{name: a, input: x}]\n")
    done = folder.seatrial("convert", "hello.yaml", "mine.yaml")

    assert (done.code, folder.exists("scenarios")) == (0, False)
    assert done.out == (
        "hello.yaml: loads as it is, 1 scenario. Run it: seatrial run hello.yaml\n"
        "mine.yaml: loads as it is, 1 scenario. Run it: seatrial run mine.yaml\n"
    )


def test_a_scenario_file_with_a_mistake_is_not_taken_for_another_tool(folder: Any) -> None:
    folder.write("mine.yaml", "scenarios: [{name: a, inptu: x}]\n")
    done = folder.seatrial("convert", "mine.yaml")

    assert done.code == 2
    assert "mine.yaml: is a scenario file already, and has mistakes:\nmine.yaml:1:23:" in done.err


def test_goldens_of_deepeval_are_read_from_csv_and_json_lines(folder: Any) -> None:
    folder.write("table.csv", 'input,actual_output,expected_output,context\n"Where\nis it?",,It was shipped.,a|b\n')
    folder.write("lines.jsonl", '{"input": "Who?", "expected_tools": [{"name": "find", "type": "FUNCTION"}]}\n')
    done = folder.seatrial("convert", "table.csv", "lines.jsonl")

    assert done.code == 0, done.out
    assert "table.csv:3: Where is it?: expected_output: a judge compares the reply with it" in done.out
    made = (folder.path / "scenarios/table.yaml").read_text()
    assert "      context:\n        - a\n        - b\n" in made
    assert "- name: find" in (folder.path / "scenarios/lines.yaml").read_text()
