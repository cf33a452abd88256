"""Scenarios from rows."""

import pytest

from seatrial.errors import UsageError
from seatrial.model.scenario import Expect, Scenario, Turn, User
from seatrial.scenarios.examples import expand_rows
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems, Problems


def expand_examples(scenario):
    problems = Problems()
    rows = list(expand_rows(scenario, (), problems))
    if problems.found:
        raise UsageError("; ".join(f"{one.message} {one.suggestion or ''}" for one in problems.found))
    return rows


def test_a_scenario_without_rows_is_itself():
    scenario = Scenario(name="a", input="x {y}")
    assert expand_examples(scenario) == [scenario]


def test_a_row_fills_every_text_of_its_scenario():
    scenario = Scenario(
        name="weather in {city}",
        turns=(Turn(user="How is {city}?", expect=Expect(reply_contains_any=("{city}", "there"))),),
        expected_output="{degrees} degrees",
        expected_tool_args={"weather": {"city": "{city}", "days": "{days}"}},
        mocks={"weather": {"returns": {"t": "{degrees}"}}},
        examples=({"city": "Rome", "degrees": 21, "days": 3},),
    )
    [row] = expand_examples(scenario)
    assert row.name == "weather in Rome[1]"
    assert row.turns[0].user == "How is Rome?"
    assert row.turns[0].expect == Expect(reply_contains_any=("Rome", "there"))
    assert row.expected_output == "21 degrees"
    assert row.expected_tool_args == {"weather": {"city": "Rome", "days": 3}}
    assert row.mocks == {"weather": {"returns": {"t": 21}}}
    assert row.examples == ()


def test_a_value_stays_text_where_the_file_needs_text():
    scenario = Scenario(
        name="a",
        input="{n}",
        expected_output="{yes}",
        history=({"role": "user", "content": "{n}"},),
        examples=({"n": 5, "yes": True},),
    )
    [row] = expand_examples(scenario)
    assert (row.input, row.expected_output, row.history) == ("5", "true", ({"role": "user", "content": "5"},))


@pytest.mark.parametrize(
    ("row", "label"), [({"name": "warm", "q": 1}, "warm"), ({"id": 7, "q": 1}, "7"), ({"q": 1}, "1")]
)
def test_a_row_is_named_by_its_name_its_id_or_its_number(row, label):
    [made] = expand_examples(Scenario(name="a", input="{q}", examples=(row,)))
    assert made.name == f"a[{label}]"


def test_a_simulated_user_takes_the_rows_too():
    scenario = Scenario(
        name="a", user=User(goal="Book {when}.", knowledge=("It is {when}.",)), examples=({"when": "now"},)
    )
    [row] = expand_examples(scenario)
    assert row.user == User(goal="Book now.", knowledge=("It is now.",))


def test_braces_that_are_no_column_stay():
    scenario = Scenario(name="a", input='{q} {"a": 1} {other thing} \\d{4} {}', examples=({"q": "x"},))
    assert expand_examples(scenario)[0].input == 'x {"a": 1} {other thing} \\d{4} {}'


@pytest.mark.parametrize(
    ("text", "rows", "said"),
    [
        ("{city} {day}", ({"city": "a", "day": "b"}, {"city": "c"}), "this row has no column 'day'"),
        ("{citty} {city}", ({"city": "a"},), "unknown column 'citty' Did you mean 'city'?"),
        ("{city}", ({"city": "a"}, {"city": ""}), "with this row, the text '{city}' of the scenario is empty"),
        ("nothing", ({"city": "a"},), "no text of the scenario uses a column; write {city}"),
    ],
)
def test_a_column_that_is_not_there_is_a_mistake(text, rows, said):
    with pytest.raises(UsageError) as refused:
        expand_examples(Scenario(name="a", input=text, examples=rows))
    assert said in str(refused.value)


def test_a_row_that_empties_what_is_expected_is_refused_and_one_that_empties_a_description_is_not():
    rows = ({"q": "x", "a": ""},)
    assert expand_examples(Scenario(name="a", input="{q}", description="{a}", examples=rows))[0].description == ""
    for expected in ({"expected_output": "{a}"}, {"expect": Expect(reply_contains_all=("{a}",))}):
        with pytest.raises(UsageError, match="is empty, so it checks nothing"):
            expand_examples(Scenario(name="a", input="{q}", examples=rows, **expected))


@pytest.mark.parametrize(
    ("keys", "row", "said"),
    [
        (
            {},
            {"q": "x", "expected_output": "Paris"},
            "uses the column 'expected_output', so it has no effect",
        ),
        ({"expect": Expect(reply_excludes=("{bad}",))}, {"q": "x", "bad": None}, "the text '{bad}' of the scenario is"),
        ({"expected_tools": ("{tool}",)}, {"q": "x", "tool": None}, "the text '{tool}' of the scenario is empty"),
        (
            {"expected_tool_args": {"{a}": {"n": 1}, "{b}": {"n": 2}}},
            {"q": "x", "a": "book", "b": "book"},
            "two of the keys '{a}', '{b}' are the same",
        ),
    ],
)
def test_a_row_of_which_something_would_not_count_is_refused(keys, row, said):
    with pytest.raises(UsageError) as refused:
        expand_examples(Scenario(name="a", input="{q}", **keys, examples=(row,)))
    assert said in str(refused.value)


def test_a_column_for_people_and_a_null_in_data_are_fine():
    arguments = {"book": {"time": "{time}"}}
    row = {"q": "x", "time": None, "id": "r1", "source": "the log"}
    [made] = expand_examples(Scenario(name="a", input="{q}", expected_tool_args=arguments, examples=(row,)))
    assert made.expected_tool_args == {"book": {"time": None}}


def test_rows_of_a_file_are_scenarios_of_their_own(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("scenarios:\n  - name: a\n    input: say {w}\n    examples: [{w: hi}, {w: ho}]\n")
    [suite] = load(path)
    assert suite.count == 2
    assert [(each.name, each.input) for each in suite.scenarios] == [("a[1]", "say hi"), ("a[2]", "say ho")]


def test_a_wrong_row_of_a_file_is_placed(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("scenarios:\n  - name: a\n    input: say {w}\n    examples: [{w: hi}, {v: ho}]\n")
    with pytest.raises(FileProblems, match=r":4:25: scenarios\[0\].examples\[1\]: this row has no column 'w'"):
        load(path)


@pytest.mark.parametrize(
    "key",
    [
        "trajectory: {mode: contains, forbidden: [{name: pay, args: {n: '{m}'}}]}",
        "expect: {tool_calls_args: [{tool: pay, args: {n: '{m}'}}]}",
        "expected_state: {n: '{m}'}",
        "expected_tool_args: {pay: {n: '{m}'}}",
    ],
)
def test_a_matcher_in_a_row_is_checked_and_placed(tmp_path, key):
    path = tmp_path / "suite.yaml"
    path.write_text(f"scenarios:\n  - name: a\n    input: x\n    {key}\n    examples: [{{m: {{$gtt: 1}}}}]\n")
    with pytest.raises(FileProblems, match=r":5:16: scenarios\[0\].examples\[0\]: .*unknown matcher '\$gtt'"):
        load(path)


def test_rows_with_one_name_are_refused(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("scenarios: [{name: a, input: '{w}', examples: [{id: 1, w: x}, {id: 1, w: y}]}]\n")
    with pytest.raises(FileProblems, match=r"the name 'a\[1\]' is taken"):
        load(path)
