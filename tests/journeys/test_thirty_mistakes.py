"""Mistakes of new users. Each message names the place, the cause and the remedy, and none is a traceback."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer

AGENT = "def answer(input):\n    return 'It was shipped.'\n"


@dataclass(frozen=True)
class Mistake:
    """What the user wrote and typed, and three parts of the message."""

    name: str
    place: str
    cause: str
    remedy: str
    scenario: str = "{name: a, input: x}"
    suite: str = "{agent: 'agent:answer'}"
    agent: str = AGENT
    flags: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("run", "mine.yaml")

    def __str__(self) -> str:
        return self.name


MISTAKES = [
    Mistake(
        "the agent raises",
        agent="def answer(input):\n    return {}['x']\n",
        place="agent.py:2 in answer",
        cause="ERROR agent: KeyError: 'x'",
        remedy="seatrial show",
    ),
    Mistake(
        "the agent returns nothing",
        agent="def answer(input):\n    'It was shipped.'\n",
        place="✗ a ",
        cause="the agent returned None",
        remedy="is a `return` missing?",
    ),
    Mistake(
        "the agent returns a number",
        agent="def answer(input):\n    return 5\n",
        place="in turn 1",
        cause="the agent returned 5 (int)",
        remedy="return a str, an AgentResult(output, tool_calls=[...])",
    ),
    Mistake(
        "the agent has no parameter",
        agent="def answer():\n    return 'x'\n",
        place="agent:answer",
        cause="a function without parameters is taken as a factory, but it returned str",
        remedy="give the agent a parameter (input, messages or ctx)",
    ),
    Mistake(
        "the agent has parameters of its own",
        agent="def answer(order, customer):\n    return 'x'\n",
        place="mine.yaml: agent 'agent:answer'",
        cause="cannot fill its parameter 'order'",
        remedy="name it input (latest user text), messages or ctx",
    ),
    Mistake(
        "the agent is a class that needs arguments",
        agent="class answer:\n    def __init__(self, key): ...\n    def run(self, input): return 'x'\n",
        place="mine.yaml: agent 'agent:answer'",
        cause="cannot be made without arguments",
        remedy="give a factory without parameters that makes it",
    ),
    Mistake(
        "the agent imports what is not installed",
        agent="import langchian\n",
        place="agent.py:1",
        cause="it needs the module 'langchian'",
        remedy="Correct its name, or install its package here: pip install …",
    ),
    Mistake(
        "the agent is too slow",
        scenario="{name: a, input: x, timeout_seconds: 0.1}",
        agent="import threading\ndef answer(input):\n    threading.Event().wait(3)\n    return 'x'\n",
        place="in turn 1",
        cause="the agent did not answer within 0.1 s",
        remedy="raise timeout_seconds",
    ),
    Mistake(
        "the agent's module is misspelt",
        suite="{agent: 'agnet:answer'}",
        place="mine.yaml: agent 'agnet:answer'",
        cause="there is no module 'agnet'",
        remedy="Did you mean 'agent'?",
    ),
    Mistake(
        "no agent",
        suite="{}",
        place="mine.yaml",
        cause="no agent to run",
        remedy="Add `agent: package.module:function` to the suite, or give --agent",
    ),
    Mistake(
        "an agent type that does not exist",
        suite="{agent: {type: opanai, base_url: 'http://127.0.0.1:9'}}",
        place="mine.yaml:1:16: suite.agent",
        cause="unknown type 'opanai'",
        remedy="Did you mean 'openai'?",
    ),
    Mistake(
        "a variable that is not set",
        suite="{agent: {type: openai, base_url: '${SHOP_URL}/v1'}}",
        place="mine.yaml:1:41: suite.agent.base_url",
        cause="the environment variable 'SHOP_URL' is not set",
        remedy="Set it, or write ${SHOP_URL:-default}",
    ),
    Mistake(
        "an endpoint that is not running",
        suite="{agent: {type: openai, base_url: 'http://127.0.0.1:9/v1'}}",
        place="http://127.0.0.1:9/v1/chat/completions",
        cause="cannot connect",
        remedy="is the agent running at this address?",
    ),
    Mistake(
        "a share in percent",
        scenario="{name: a, input: x, trials: 5, threshold: 80}",
        place="mine.yaml:3:47: scenarios[0].threshold",
        cause="expected a number above 0 and of at most 1, got 80",
        remedy="Write 0.8",
    ),
    Mistake(
        "a setting beside the suite",
        suite="{agent: 'agent:answer', trials: 5}",
        place="mine.yaml:1:32: suite.trials",
        cause="unknown key 'trials'",
        remedy="Write it under 'suite.config'",
    ),
    Mistake(
        "an expectation beside `expect`",
        scenario="{name: a, input: x, reply_contains_all: [shipped]}",
        place="mine.yaml:3:25: scenarios[0].reply_contains_all",
        cause="unknown key 'reply_contains_all'",
        remedy="Write it under 'expect'",
    ),
    Mistake(
        "an agent in a scenario",
        scenario="{name: a, input: x, agent: 'agent:answer'}",
        place="mine.yaml:3:25: scenarios[0].agent",
        cause="unknown key 'agent'",
        remedy="Write it under 'suite'",
    ),
    Mistake(
        "a misspelt key",
        scenario="{name: a, input: x, expected_tool: [lookup]}",
        place="mine.yaml:3:25: scenarios[0].expected_tool",
        cause="unknown key 'expected_tool'",
        remedy="Did you mean 'expected_tools'?",
    ),
    Mistake(
        "a key of another tool",
        scenario="{name: a, prompt: x}",
        place="mine.yaml:3:15: scenarios[0].prompt",
        cause="unknown key 'prompt'",
        remedy="Did you mean 'input'?",
    ),
    Mistake(
        "one tool instead of a list",
        scenario="{name: a, input: x, expected_tools: lookup}",
        place="mine.yaml:3:41: scenarios[0].expected_tools",
        cause="expected a list of strings, got 'lookup'",
        remedy="Write it as a list: [lookup]",
    ),
    Mistake(
        "a rubric without its key",
        scenario="{name: a, input: x, expect: {judge: It is polite}}",
        place="mine.yaml:3:41: scenarios[0].expect.judge",
        cause="expected a mapping with rubric, got 'It is polite'",
        remedy="Write {rubric: 'It is polite'}",
    ),
    Mistake(
        "two users",
        scenario="{name: a, input: x, turns: [{user: y}]}",
        place="mine.yaml:3:25: scenarios[0].turns",
        cause="'input' and 'turns' exclude each other",
        remedy="Give one of them",
    ),
    Mistake(
        "a column that no row has",
        scenario="{name: a, input: 'Where is {{order}}?', examples: [{id: 7}]}",
        place="mine.yaml:3:56: scenarios[0].examples[0]",
        cause="unknown column 'order'",
        remedy="Known: id.",
    ),
    Mistake(
        "a text with a colon",
        scenario="name: a\n    input: Note: this fails",
        place="mine.yaml:4:16",
        cause="not YAML: mapping values are not allowed in this context",
        remedy='A text that has ": " in it needs quotes around it',
    ),
    Mistake(
        "an evaluator that does not exist",
        scenario="{name: a, input: x, scorers: [pasfail]}",
        place="mine.yaml:3:35: scenarios[0].scorers[0]",
        cause="unknown scorer 'pasfail'",
        remedy="Did you mean 'passfail'?",
    ),
    Mistake(
        "tool calls that the agent does not report",
        scenario="{name: a, input: x, expected_tools: [lookup]}",
        place="✗ a  ERROR config: expected_tools",
        cause="the agent's tool calls were not recorded",
        remedy="Record them: return AgentResult(output, tool_calls=[...])",
    ),
    Mistake(
        "a tool without a mock",
        scenario="{name: a, input: x, mocks: {lookup_order: {returns: {}}}}",
        agent="def answer(input, ctx):\n    return str(ctx.call_tool('lookup_ordr', {}))\n",
        place="in turn 1",
        cause="Tool 'lookup_ordr' was called but no mock is defined",
        remedy="is it 'lookup_order' under another name?",
    ),
    Mistake(
        "a judge without a model",
        scenario="{name: a, input: x, expected_outcomes: [It is polite.]}",
        place="mine.yaml:3: scenario 'a'",
        cause="needs a model for the judge",
        remedy="Give --judge-model openai:gpt-5-mini",
    ),
    Mistake(
        "an empty folder of scenarios",
        files={"scenarios/README.md": "none yet"},
        command=("run",),
        place="error: scenarios",
        cause="no scenario file in this folder",
        remedy="Make a first one: seatrial init",
    ),
    Mistake(
        "a model that is not running",
        scenario="{name: a, input: x, expect: {judge: {rubric: It is polite., retries: 0}}}",
        flags=("--judge-model", "openai:small@http://127.0.0.1:9/v1"),
        place="openai:small: could not be reached at http://127.0.0.1:9/v1/",
        cause="Connection error",
        remedy="check the judge model, or choose another with --judge-model",
    ),
]

MORE_MISTAKES = [
    Mistake(
        "a share with a percent sign",
        scenario="{name: a, input: x, threshold: 80%}",
        place="mine.yaml:3:36: scenarios[0].threshold",
        cause="expected a number above 0 and of at most 1, got '80%'",
        remedy="Write 0.8",
    ),
    Mistake(
        "a number in quotes",
        scenario="{name: a, input: x, trials: '5'}",
        place="mine.yaml:3:33: scenarios[0].trials",
        cause="expected a whole number of at least 1 or auto, got '5' (a string)",
        remedy="Remove the quotes",
    ),
    Mistake(
        "a number with its unit",
        scenario="{name: a, input: x, timeout_seconds: 30s}",
        place="mine.yaml:3:42: scenarios[0].timeout_seconds",
        cause="expected a number above 0, got '30s'",
        remedy="Write only the number: 30",
    ),
    Mistake(
        "yes instead of true",
        scenario="{name: a, input: x, must_pass: yes}",
        place="mine.yaml:3:36: scenarios[0].must_pass",
        cause="expected true or false, got 'yes'",
        remedy="Write true",
    ),
    Mistake(
        "turns that are texts",
        scenario="{name: a, turns: [hello]}",
        place="mine.yaml:3:23: scenarios[0].turns[0]",
        cause="got 'hello' (a string)",
        remedy="Write {user: 'hello'}",
    ),
    Mistake(
        "turns that are chat messages",
        scenario="{name: a, turns: [{role: user, content: hello}]}",
        place="mine.yaml:3:36: scenarios[0].turns[0].content",
        cause="unknown key 'content'",
        remedy="Did you mean 'user'?",
    ),
    Mistake(
        "a user that is a text",
        scenario="{name: a, user: An angry customer}",
        place="mine.yaml:3:21: scenarios[0].user",
        cause="got 'An angry customer' (a string)",
        remedy="Write {goal: 'An angry customer'}",
    ),
    Mistake(
        "an expectation that is a text",
        scenario="{name: a, input: x, expect: shipped}",
        place="mine.yaml:3:33: scenarios[0].expect",
        cause="got 'shipped' (a string)",
        remedy="Write {reply_contains_all: ['shipped']}",
    ),
    Mistake(
        "a forbidden text under a familiar name",
        scenario="{name: a, input: x, expect: {not_contains: sorry}}",
        place="mine.yaml:3:34: scenarios[0].expect.not_contains",
        cause="unknown key 'not_contains'",
        remedy="Did you mean 'reply_excludes'?",
    ),
    Mistake(
        "tool calls under a familiar name",
        scenario="{name: a, input: x, expect: {tool_calls: [lookup]}}",
        place="mine.yaml:3:34: scenarios[0].expect.tool_calls",
        cause="unknown key 'tool_calls'",
        remedy="Did you mean 'tool_calls_include'?",
    ),
    Mistake(
        "assertions of another tool",
        scenario="{name: a, input: x, assert: [{type: contains, value: x}]}",
        place="mine.yaml:3:25: scenarios[0].assert",
        cause="unknown key 'assert'",
        remedy="Did you mean 'expect'?",
    ),
    Mistake(
        "a limit beside the limits",
        scenario="{name: a, input: x, max_cost: 1}",
        place="mine.yaml:3:25: scenarios[0].max_cost",
        cause="unknown key 'max_cost'",
        remedy="Write 'cost_usd' under 'limits'",
    ),
    Mistake(
        "a rubric in the scenario",
        scenario="{name: a, input: x, rubric: It is polite}",
        place="mine.yaml:3:25: scenarios[0].rubric",
        cause="unknown key 'rubric'",
        remedy="Write 'judge' under 'expect'",
    ),
    Mistake(
        "a scorer that is taken for an expectation",
        scenario="{name: a, input: x, expect: {json_schema: {type: object}}}",
        place="mine.yaml:3:34: scenarios[0].expect.json_schema",
        cause="unknown key 'json_schema'",
        remedy="Write it in a scenario as scorers: [{json_schema: …}]",
    ),
    Mistake(
        "a tool with its arguments in a list of names",
        scenario="{name: a, input: x, expected_tools: [{name: lookup}]}",
        place="mine.yaml:3:42: scenarios[0].expected_tools[0]",
        cause="expected a string, got {'name': 'lookup'}",
        remedy="Write only the name: lookup",
    ),
    Mistake(
        "mocks as a list",
        scenario="{name: a, input: x, mocks: [{tool: lookup, returns: 1}]}",
        place="mine.yaml:3:32: scenarios[0].mocks",
        cause="got [{'tool': 'lookup', 'returns': 1}]",
        remedy="expected a mapping such as {lookup_order: {returns: …}}",
    ),
    Mistake(
        "one row instead of a list of rows",
        scenario="{name: a, input: 'x {id}', examples: {id: 7}}",
        place="mine.yaml:3:42: scenarios[0].examples",
        cause="expected a list of mappings, got {'id': 7}",
        remedy="Write it as a list: put `- ` before it",
    ),
    Mistake(
        "a world that is a file",
        scenario="{name: a, input: x, world: shop.json}",
        place="mine.yaml:3:32: scenarios[0].world",
        cause="got 'shop.json' (a string)",
        remedy="Write {seed: 'shop.json'}",
    ),
    Mistake(
        "a comma after the last entry of a JSON file",
        files={"mine.json": '{"suite": {"agent": "agent:answer"}, "scenarios": [{"name": "a", "input": "x"},]}'},
        command=("run", "mine.json"),
        place="mine.json:1:",
        cause="not JSON",
        remedy="Remove the comma after the last entry",
    ),
    Mistake(
        "a file that is not there",
        command=("run", "orders.yaml"),
        place="orders.yaml",
        cause="there is no such file, folder or module",
        remedy="Did you mean 'mine.yaml'?",
    ),
    Mistake(
        "the file of the agent instead of scenarios",
        command=("run", "agent.py"),
        place="agent.py",
        cause="there is no Scenario or Suite",
        remedy="Give a file of scenarios. An agent belongs into its suite, or behind --agent",
    ),
    Mistake(
        "a command of another tool",
        command=("test",),
        place="error: no such command 'test'",
        cause="no such command 'test'",
        remedy="Did you mean 'run'? See: seatrial --help",
    ),
    Mistake(
        "a misspelt choice of an option",
        command=("init", "--agent", "langchian"),
        place="seatrial init: invalid value for '--agent'",
        cause="'langchian' is not one of",
        remedy="Did you mean 'langchain'?",
    ),
    Mistake(
        "a relative import in the agent",
        agent="from .tools import lookup\n",
        place="agent.py:1",
        cause="attempted relative import with no known parent package",
        remedy="Name the package as well, 'package.agent:…', or import without the leading dot",
    ),
    Mistake(
        "a variable that the agent needs",
        agent="import os\nKEY = os.environ['SHOP_KEY']\n",
        place="agent.py:2",
        cause="KeyError: 'SHOP_KEY'",
        remedy='The whole traceback: python -c "import agent"',
    ),
    Mistake(
        "the agent returns a mapping of its own",
        agent="def answer(input):\n    return {'text': 'It was shipped.'}\n",
        place="in turn 1",
        cause="the agent returned a dict with the keys ['text']",
        remedy="try: do what the error says",
    ),
    Mistake(
        "a text that begins with a column",
        scenario="name: a\n    input: {order} please\n    examples: [{order: 7}]",
        place="mine.yaml:4:20",
        cause="not YAML",
        remedy="A text that begins with { or [ needs quotes around it",
    ),
    Mistake(
        "a suite that is a list",
        suite="[{agent: 'agent:answer'}]",
        place="mine.yaml:1:8: suite",
        cause="got [{'agent': 'agent:answer'}] (a list)",
        remedy="Remove the `- ` before it",
    ),
    Mistake(
        "a setting that this type of agent does not have",
        suite="{agent: {type: openai, base_url: 'http://127.0.0.1:9', url: 'http://x'}}",
        place="mine.yaml:1:16: suite.agent",
        cause="unknown key 'url'",
        remedy="Known: base_url, ",
    ),
    Mistake(
        "a program with its arguments as one text",
        suite="{agent: {type: command, argv: python agent.py}}",
        place="mine.yaml: agent 'mine'.argv",
        cause="expected a program and its arguments as a list, got 'python agent.py'",
        remedy="Write [python, agent.py]",
    ),
    Mistake(
        "an option of another tool",
        flags=("-n", "4"),
        place="seatrial run",
        cause="no such option '-n'",
        remedy="Did you mean '--concurrency'?",
    ),
]


def test_there_are_thirty() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == 30


@pytest.mark.parametrize("mistake", [*MISTAKES, *MORE_MISTAKES], ids=str)
def test_a_message_names_place_cause_and_remedy(folder: Any, mistake: Mistake) -> None:
    folder.write("agent.py", mistake.agent)
    folder.write("mine.yaml", f"suite: {mistake.suite}\nscenarios:\n  - {mistake.scenario}\n")
    for name, text in mistake.files.items():
        folder.write(name, text)

    ended = folder.seatrial(*mistake.command, *mistake.flags)

    said = ended.out + ended.err
    assert ended.code in (1, 2), said
    assert "Traceback" not in said
    for part in (mistake.place, mistake.cause, mistake.remedy):
        assert part in said, said


@pytest.mark.parametrize("check", ["expect: {judge: {rubric: It is polite.}}", "metrics: [default]"])
def test_an_unreadable_answer_of_a_judge_is_shown_and_exported(folder: Any, check: str) -> None:
    folder.write("agent.py", AGENT)
    folder.write("mine.yaml", f"suite: {{agent: 'agent:answer'}}\nscenarios:\n  - {{name: a, input: x, {check}}}\n")
    with ModelServer(lambda request: "I would say it is fine, 4 of 5.") as server:
        ended = folder.seatrial("run", "mine.yaml", "--judge-model", f"openai:small@{server.base_url}")
    folder.seatrial("export", "latest", "-o", "run.jsonl")

    assert ended.code == 1
    assert "unreadable, twice" in ended.out
    assert "I would say it is fine, 4 of 5." in ended.out
    exported = [json.loads(line) for line in (folder.path / "run.jsonl").read_text("utf-8").splitlines()]
    assert "I would say it is fine, 4 of 5." in json.dumps(exported)
