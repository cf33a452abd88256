"""What is refused before any agent is called: nothing asserted, nothing possible, nothing selected."""

import pytest

from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems


def _refusal(tmp_path, text: str) -> str:
    path = tmp_path / "suite.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(FileProblems) as refused:
        load(path)
    return str(refused.value).replace(f"{path}:", "")


def _scenario(body: str) -> str:
    return f"scenarios:\n  - name: a\n    {body}\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("input: x\n    user: {goal: y}", "4:5: scenarios[0].user: 'input' and 'user' exclude each other"),
        ("user: {goal: y}", "2:5: scenarios[0]: nothing is asserted"),
        ("user: {goal: y}\n    expect: {}", "nothing is asserted"),
        ("user: {goal: y}\n    scorers: [passfail]", "nothing is asserted"),
        ("user: {goal: y}\n    expected_tools: []", "nothing is asserted"),
        ("user: {goal: y}\n    expect: {tool_calls_ordered: true}", "nothing is asserted"),
        ("user: {goal: y}\n    expected_output: ''", "nothing is asserted"),
        ("turns: [{user: x, reply: optional, expect: {tool_calls_ordered: true}}]", "nothing is asserted"),
        (
            "input: x\n    expect: {tool_calls_ordered: true, tool_calls_args: [{tool: a, args: {b: 1}}]}",
            "expect.tool_calls_ordered: is the order of 'tool_calls_include', which is not given",
        ),
        ("user: {profile: y}", "scenarios[0].user: 'goal' is missing"),
        ("input: x\n    expect: {judge: {rubric: ' '}}", "expect.judge.rubric: expected a text"),
        ("input: x\n    expect: {judge: {rubric: a, votes: 4}}", "expected an odd whole number"),
        ("input: x\n    expect: {reply_matches_any: ['(']}", "reply_matches_any[0]: '(' is not a regular expression"),
        ("input: x\n    trials: auto\n    threshold: 0.8", "'threshold' is without effect beside 'trials: auto'"),
        ("input: x\n    trials: auto\n    gate: {pass_rate: 0.9}", "'gate' is without effect beside 'trials: auto'"),
        ("input: x\n    trajectory: {}", "a 'in_order' trajectory with nothing expected"),
        ("input: x\n    trajectory: {mode: contains, expected: []}", "a 'contains' trajectory with nothing expected"),
        ("input: x\n    trajectory: {expected: [{args: {a: 1}}]}", "exactly one of 'name' and 'any_of'"),
        ("input: x\n    trajectory: {expected: [{name: a, count: 1, max: 2}]}", "'count' is exact"),
        ("input: x\n    trajectory: {expected: [{name: a, min: 3, max: 2}]}", "min 3 is more than max 2"),
        ("input: x\n    trajectory: {expected: [{name: a, optional: true, min: 1}]}", "'optional' already says"),
        ("input: x\n    trajectory: {forbidden: [{name: a, count: 2}]}", "a forbidden call must not be made at all"),
        (
            "input: x\n    metrics: [helpfulness]\n    pass_threshold: 90",
            "pass_threshold: is without effect: none of",
        ),
        (
            "input: x\n    severities: {false_information: critical}",
            "severities: is without effect: the judge does not look",
        ),
        (
            "input: x\n    metrics: [helpfulness]\n    thresholds: {helpfulness: 0.8}",
            "thresholds.helpfulness: 'helpfulness' always reaches 0.8: its scale is from 1 to 5",
        ),
        ("input: x\n    scorers: [passfial]", "scorers[0]: unknown scorer 'passfial'. Did you mean 'passfail'?"),
        ("input: x\n    scorers: [exact]", "scorers[0]: exact: there is no text to compare with"),
        ("input: x\n    scorers: [similarity]", "needs 'expected_output'"),
        ("input: x\n    scorers: [regex]", "scorers[0]: regex: needs 'pattern'"),
        ("input: x\n    scorers: [{regex: '('}]", "scorers[0].regex: "),
        ("input: x\n    scorers: [{contains: {}}]", "nothing is asserted"),
        ("input: x\n    scorers: [{regex: ''}]", "scorers[0].regex: regex.pattern: an empty text is found everywhere"),
        (
            "input: x\n    scorers: [{contains: {all_of: [a, '']}}]",
            "contains.all_of: an empty text is found",
        ),
        (
            "input: x\n    scorers: [{tool_calls: {must_exclude: ['']}}]",
            "must_exclude: an empty text is found",
        ),
        (
            "input: x\n    scorers: [{trajectory: {expected: [{name: a, min: 0}]}}]",
            "scorers[0].trajectory: a 'in_order' trajectory with nothing expected",
        ),
        (
            "input: x\n    scorers: [{trajectory: {mode: within, expected: [{name: a, min: 2}]}}]",
            "scorers[0].trajectory.expected[0]: 'min' is without effect",
        ),
        ("input: x\n    scorers: [{trajectory: [a, {nme: b}]}]", "trajectory.expected[1].nme: unknown key 'nme'"),
        ("input: x\n    scorers: [judge]", "needs its rubric"),
        ("input: x\n    scorers: [{judge: {rubric: a, votes: 2}}]", "scorers[0].judge.votes"),
        ("input: x\n    scorers: [{similarity: 2}]\n    expected_output: a", "expected a number from 0 to 1"),
        ("input: x\n    thresholds: {helpfulness: 3}", "a threshold for 'helpfulness', which is not among the metrics"),
        ("input: x\n    metrics: [helpfulness]\n    thresholds: {helpfulness: 6}", "cannot reach 6"),
        ("input: x\n    metrics: [goal_completion]\n    thresholds: {goal_completion: 3}", "its scale ends at 1"),
        (
            "input: x\n    metrics: [{name: a, rubric: b, scale: binary}]\n    thresholds: {a: 0.8}",
            "'a' would need a pass in 16 % of the trials: a pass counts 5. For 80 % write 4",
        ),
        ("turns: [{user: x, reply: optional, expect: {}}]", "nothing is asserted, so every conversation would pass"),
        ("input: x\n    trajectory: {mode: ordered, expected: [a]}", "Did you mean 'in_order'?"),
        ("input: x\n    metrics: [helpfullness]", "Did you mean 'helpfulness'?"),
        ("input: x\n    metrics: [task_completion]", "metrics: 'task_completion' needs a weight"),
        ("input: x\n    metrics: [{name: helpfulness, weight: 2}]", "not part of the overall score"),
        (
            "input: x\n    metrics: default",
            "expected a list of strings or mappings, got 'default' (a string). Write it as a list",
        ),
        ("input: x\n    gate: {confidence: 0.9}", "gate: 'pass_rate' is missing"),
        ("input: x\n    gate: {pass_rate: 1.0}", "gate.pass_rate: expected a number above 0 and below 1"),
        ("input: x\n    failures: false\n    fail_on_error_severity: high", "exclude each other"),
        ("turns: [{user: a}, {user: b}]\n    max_turns: 1", "would end the script before its 2 turns are played"),
        ("turns: [{user: ' '}]", "turns[0].user: expected a text"),
        ("input: x\n    history: [{role: user}]", "history[0]: a message needs 'content'"),
        ("input: x\n    history: [{role: user, content: }]", "history[0]: a message needs 'content'"),
        ("input: x\n    history: [{role: user, content: 18}]", "history[0].content: expected a string, got 18"),
        ("input: x\n    expected_tool_args: {f: {a: {$nope: 1}}}", "unknown matcher '$nope'"),
        ("input: x\n    expected_tool_args: {f: {a: {$gt: 1, $lt: 9}}}", "expected_tool_args.f.a: several matchers in"),
        ("input: x\n    trajectory: {forbidden: [{name: f, args: {a: {$regex: x, $options: i}}}]}", "several matchers"),
        ("input: x\n    mocks: {f: {when: [{args: {a: {$gt: 1, $lt: 9}}, returns: 1}]}}", "args: a: several matchers"),
        (
            "input: '{q}'\n    expected_tool_args: {f: {a: '{m}'}}\n    examples: [{q: x, m: {$gt: 1, $lt: 9}}]",
            "examples[0]: f.a: several matchers in one mapping",
        ),
        ("input: x\n    mocks: {f: {returns: 1, raises: x}}", "only one of them can answer"),
        ("input:", "expected a string, got null"),
        ("input: x\n    expect: {reply_contains_any: [a, '']}", "reply_contains_any[1]: an empty text is in"),
        ("turns: [{user: x, expect: {reply_matches_all: ['']}}]", "reply_matches_all[0]: an empty text is in every"),
        ("input: x\n    trajectory: {expected: [{name: a, min: 0}]}", "a 'in_order' trajectory with nothing expected"),
        ("input: x\n    trajectory: {mode: within, expected: [{name: a, min: 2}]}", "'min' is without effect"),
        (
            "input: x\n    pass_threshold: 0.75",
            "pass_threshold: is in percent, and 0.75 % is next to nothing. Write 75",
        ),
        ("input: x\n    expected_output: a\n    scorers: [{regex: b}]", "expected_output: no scorer checks it"),
        ("input: x\n    expected_output: a\n    scorers: [{exact: b}]", "expected_output: no scorer checks it"),
        (
            "input: x\n    expected_output: a\n    expected_tools: [b]\n    scorers: [exact]",
            "expected_tools: no scorer",
        ),
        ("input: x\n    expected_tool_args: {b: {c: 1}}\n    scorers: [{judge: ok}]", "expected_tool_args: no scorer"),
    ],
)
def test_a_scenario_that_cannot_be_meant_is_refused(body, said, tmp_path):
    assert said in _refusal(tmp_path, _scenario(body))


@pytest.mark.parametrize(
    "body",
    [
        "input: x\n    expected_tools: []",
        "input: x\n    expect: {}",
        "turns: [{user: x, expect: {tool_calls_ordered: true}}]",
        "input: x\n    trajectory: {mode: within, expected: [{name: a, max: 2}]}",
        "input: x\n    expected_output: y\n    scorers: [{regex: b}, exact]",
        "input: x\n    expected_output: y\n    expected_tools: [b]\n    scorers: [passfail, {regex: b}]",
        "input: x\n    trajectory: {mode: strict, expected: []}",
        "input: x\n    trajectory: {mode: within}",
        "input: x\n    trajectory: {expected: [a, {any_of: [b, {name: c, args: {d: 1}}]}]}",
        "input: x\n    trajectory: {forbidden: [a]}",
        "input: x\n    trajectory: {mode: strict, expected: [{name: a, min: 0}]}",
        "input: x\n    trajectory: {expected: [{name: a, min: 0, max: 2}]}",
        "input: x\n    scorers: [regex]\n    metadata: {regex_pattern: a+}",
        "input: x\n    scorers: [{exact: y}]",
        "input: x\n    scorers: [{exact: ''}]",
        "input: x\n    scorers: [{trajectory: [a, {name: b, max: 2}]}]",
        "input: x\n    scorers: [{trajectory: {mode: within}}]",
        "input: x\n    metrics: [{name: polite, rubric: Is it polite?, scale: binary, scope: turn}]",
        "input: x\n    metrics: [default, {name: task_completion, weight: 0.2}]",
        "input: x\n    metrics: [default]\n    pass_threshold: 90",
        "input: x\n    expected_outcomes: [It is done.]\n    pass_threshold: 90",
        "input: x\n    failures: true\n    severities: {false_information: critical}",
        "input: x\n    metrics: [goal_completion]\n    thresholds: {goal_completion: 0.8}",
        "input: x\n    metrics: [helpfulness]\n    thresholds: {helpfulness: 0}",
        "user: {goal: y}\n    expected_outcomes: [It is done.]",
        "user: {goal: y}\n    metrics: [helpfulness]",
        "user: {goal: y}\n    limits: {turns: 3}",
        "user: {goal: y}\n    failures: true",
        "user: {goal: y}\n    expected_output: ok",
        "user: {goal: y}\n    scorers: [{regex: a}]",
    ],
)
def test_a_scenario_that_asserts_something_loads(body, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(_scenario(body), "utf-8")
    assert load(path)[0].count == 1


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("{agent: a:b, agents: {c: d:e}}", "suite.agents: 'agent' and 'agents' exclude each other"),
        ("{config: {default_timeout: 1, timeout_seconds: 2}}", "are the same; give one"),
        ("{config: {metrics: [helpfulness], metrics_pass_threshold: 90}}", "config.metrics_pass_threshold: is without"),
        (
            "{config: {severities: {false_information: low}}}",
            "config.severities: is without effect: the judge does not look",
        ),
        ("{config: {thresholds: {helpfulness: 3}}}", "suite.config.thresholds.helpfulness: a threshold for"),
        ("{config: {default_scorers: [exact]}}", "scenarios[0].scorers[0]: exact"),
        ("{groups: [{name: g}]}", "suite.groups[0]: a group needs 'tags' or 'must_pass'"),
        ("{agent: {type: htpp}}", "1:16: suite.agent: unknown type 'htpp'. Did you mean 'http'?"),
        ("{agent: {type: http, ulr: x}}", "suite.agent: unknown key 'ulr'. Did you mean 'url'?"),
        ("{agents: {a: agent.py}}", "suite.agents.a: 'agent.py' is not of the form 'package.module:attribute'"),
        ("{groups: [{name: g, tags: [reed]}]}", "no scenario has the tag 'reed'. Did you mean 'read'?"),
        ("{groups: [{name: g, must_pass: [bb]}]}", "no scenario has that name"),
    ],
)
def test_a_suite_that_cannot_be_meant_is_refused(suite, said, tmp_path):
    assert said in _refusal(tmp_path, f"suite: {suite}\n{_scenario('input: x')}    tags: [read]\n")


def test_all_problems_of_all_files_are_told_at_once(tmp_path):
    (tmp_path / "a.yaml").write_text(_scenario("inputt: x\n    trials: 0"))
    (tmp_path / "b.yaml").write_text("scenarios: [")
    (tmp_path / "c.jsonl").write_text('{"name": "a"}')
    (tmp_path / "d_trials.py").write_text("import nothing_of_this_name")
    with pytest.raises(FileProblems) as refused:
        load([tmp_path, tmp_path / "missing.yaml"])
    names = [problem.file.rpartition("/")[2] for problem in refused.value.problems]
    assert sorted(names) == ["a.yaml", "a.yaml", "b.yaml", "c.jsonl", "d_trials.py", "missing.yaml"]


def test_a_name_is_unique_in_a_suite_over_all_its_files(tmp_path):
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("suite: {name: s}\nscenarios: [{name: a, input: x}]\n")
    with pytest.raises(FileProblems, match=r"two.yaml:2:20: .*the name 'a' is taken in the suite 's' by .*one.yaml:2"):
        load(tmp_path)
