"""YAML as people mean it."""

import math

import pytest

from seatrial.errors import UsageError
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems
from seatrial.scenarios.yaml_files import parse, parse_value


def _value(text: str):
    return parse(f"a: {text}\n").data["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-7", -7),
        ("+7", 7),
        ("0o14", 12),
        ("0xFf", 255),
        ("010", 10),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_a_plain_scalar_is_what_yaml_1_2_says(text, value):
    assert _value(text) == value
    assert type(_value(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["yes", "NO", "on", "off", "y", "10:30", "2024-05-01", "0b11", "1_000", "tRUE", "1e", ".", "0o8", "+.nan"],
)
def test_what_is_no_scalar_of_yaml_1_2_stays_text(text):
    assert _value(text) == text


def test_nan_is_a_number():
    assert math.isnan(_value(".nan"))


@pytest.mark.parametrize("text", ["'12'", '"true"', "!!str 12", "|\n  12", "'null'"])
def test_a_quoted_or_marked_scalar_is_text(text):
    assert isinstance(_value(text), str)


def test_an_alias_stands_for_its_anchor():
    assert parse("a: &x [1, 2]\nb: *x\nc: &y z\nd: *y\n").data == {"a": [1, 2], "b": [1, 2], "c": "z", "d": "z"}


def _refusal(tmp_path, text: str | bytes) -> str:
    path = tmp_path / "suite.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileProblems) as refused:
        load(path)
    return str(refused.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scenarios:\n\t- name: a\n", "2:1: not YAML"),
        ("scenarios:\n\t- name: a\n", "Indent with spaces, not tabs"),
        ("a: !!python/object/apply:os.system [ls]\n", "1:4: the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("a: !mine 5\n", "1:4: the tag '!mine' is not allowed"),
        ("a: 1\n---\nb: 1\n", "2:1: the file holds several documents"),
        ("base: &b {x: 1}\nscenarios:\n  - <<: *b\n", "3:5: scenarios[0]['<<']: merge keys (<<) are not part of YAML"),
        ("scenarios: &s [*s]\n", "1:16: the alias *s has no complete value"),
        ("a: *nowhere\n", "1:4: the alias *nowhere"),
        ("a: &x 1\nb: &x 2\n", "2:4: the anchor &x is given twice"),
        ("&x a: &x {b: 1}\n", "1:7: the anchor &x is given twice"),
        ("a: &x [&x 1]\n", "1:8: the anchor &x is given twice"),
        ("? [a]\n: 1\n", "1:3: a key must be a text"),
        ("&k a: 1\n*k : 2\n", "2:1: an alias (*k) cannot be a key"),
        ("true: 1\n", "1:1: true: the key 'true' is not text. Put it in quotes"),
        ("null: 1\n", "the key 'null' is not text"),
        ("a: {b: 1, b: 2}\n", "1:11: a.b: the key 'b' is given twice; first at line 1, column 5"),
        (f"a: {'9' * 5000}\n", "1:4: a number with too many digits"),
        (f"a: {'[' * 200}{']' * 200}\n", "nested more than 100 levels deep"),
        ("a: " + "[" * 5000, "nested more than 100 levels deep"),
        (b"a: \xff\n", "1:4: not UTF-8. Save the file as UTF-8"),
        ("a: b\n".encode("utf-16"), "1:1: not UTF-8"),
        (b"a: b\x00c\n", "not YAML"),
        (b"\x00", "not YAML"),
        ('a: "\\ud800"\n', "not YAML"),
    ],
)
def test_what_is_not_allowed_is_refused_at_its_place(text, said, tmp_path):
    assert said in _refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scenarios:\n  - name: x\n   input: hi\n", "3:4: not YAML: {} Indent it like the lines it belongs to"),
        ("suite:\n  name: a\n agent: b\n", "3:2: not YAML: {} Indent it like the lines it belongs to"),
        ("- input: hi\n    tags: [a]\n", "{}; a line that is indented too far looks the same"),
        ('a:\n  b: "abc\n  c: d\n', "{} The quote in line 2, column 6 is not closed"),
        ("a:\n  b: [c, d\n  e: [f]\n", "{} The bracket in line 2, column 6 is not closed, or a comma is missing"),
        ("a: @home\n", "{} A text that begins with @, % or a backtick needs quotes around it"),
        ("a: *home\n", "{} A text that begins with * needs quotes around it"),
        ('a: "yes" or no\n', "{} A text goes on after its closing quote: put quotes around all of it"),
        ("scenarios:\n  name: x\n  input: hi\n", "{} Begin each scenario with '- '"),
    ],
)
def test_what_is_not_yaml_is_told_what_would_mend_it(text, said, tmp_path):
    begin, _, end = said.partition("{}")
    refusal = _refusal(tmp_path, text)
    assert refusal.startswith(begin)
    assert refusal.endswith(end)


def test_aliases_that_multiply_are_refused(tmp_path):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "expand to more than 1,000,000 values" in _refusal(tmp_path, "\n".join(levels))


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_bytes(b"\xef\xbb\xbfscenarios: [{name: a, input: hi}]\n")
    assert load(path)[0].count == 1


def test_a_scenario_knows_its_line(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("suite: {config: {retries: 1}}\nscenarios:\n\n  - name: a\n    input: x\n  - {name: b, input: x}\n")
    assert [scenario.source for scenario in load(path)[0].scenarios] == [f"{path}:4", f"{path}:6"]


def test_a_problem_after_a_duplicate_key_is_told_too(tmp_path):
    text = "scenarios:\n  - name: a\n    input: x\n    input: y\n  - name: b\n    inputt: z\n"
    said = _refusal(tmp_path, text)
    assert "given twice" in said
    assert "Did you mean 'input'?" in said


def test_the_pure_python_parser_reads_the_same(monkeypatch):
    import yaml

    text = "a: &x {b: [1, 'two', null]}\nc: *x\n"
    quick = parse(text).data
    monkeypatch.delattr(yaml, "CBaseLoader")
    assert parse(text).data == quick


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("yes", "yes"), ("[a, 1]", ["a", 1]), ("{a: 1}", {"a": 1}), ("", None), ("'5'", "5")]
)
def test_a_value_of_the_command_line_is_read_as_in_a_file(text, value):
    assert parse_value(text) == value


def test_a_value_of_the_command_line_that_is_no_yaml_is_a_usage_error():
    with pytest.raises(UsageError, match="not YAML"):
        parse_value("[a")
