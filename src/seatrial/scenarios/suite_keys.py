"""The shape of scenario files: every key that may be written, what it holds and what it means."""

from collections.abc import Mapping
from typing import Any

from seatrial.model.scenario import Group, Scenario, Suite, SuiteConfig, Turn, User

from .keys import (
    CONFIG_ONLY,
    COUNT,
    EXPECT,
    METADATA,
    NAME,
    NAMES,
    REQUIRED_SHARE,
    SCORERS,
    SHARE,
    SHARED,
    TRAJECTORY,
    TURN,
    Reference,
    check_matchers,
)
from .problems import KeyPath, Problems, show
from .schema_types import Anything, Flag, Key, ListOf, MapOf, Record, Schema, Text, check_pattern

SIDES = ("input", "turns", "user")


class _UserSide:
    """A simulated user, or a programmed one."""

    _record = Record(
        "user",
        {
            "profile": Key(kind=Text(), means="who the user is"),
            "goal": Key(kind=Text(blank=False), means="what the user wants to achieve", required=True),
            "knowledge": Key(kind=ListOf(item=NAME, of="strings"), means="facts that the user knows"),
            "first_message": Key(kind=Text(blank=False), means="how the user begins, word for word"),
        },
        make=User,
    )

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, (Mapping, User)):
            return self._record.read(value, where, problems)
        if isinstance(value, str) and ":" not in value:
            hint = "A simulated user is a mapping: {goal: ...}"
            problems.add(where, f"expected a mapping or a function as 'pkg.mod:name', got {show(value)}", hint)
            return value
        return Reference().read(value, where, problems)

    def schema(self) -> Schema:
        return {"anyOf": [self._record.schema(), Reference().schema()]}


class _Message:
    """A chat message that stands before the first turn."""

    _roles = ("system", "user", "assistant", "tool")

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            problems.add(where, f"expected a message such as {{role: user, content: ...}}, got {show(value)}")
        elif value.get("role") not in self._roles:
            problems.add(where, f"expected a role of {', '.join(self._roles)}, got {show(value.get('role'))}")
        elif value.get("content") is None:
            if not value.get("tool_calls"):
                problems.add(where, "a message needs 'content'")
        elif not isinstance(value["content"], (list, tuple)):
            Text().read(value["content"], (*where, "content"), problems)
        return value

    def schema(self) -> Schema:
        return {
            "type": "object",
            "required": ["role"],
            "properties": {
                "role": {"enum": list(self._roles), "description": "who speaks"},
                "content": {"type": ["string", "array", "null"], "description": "what is said: a text, or its parts"},
                "tool_calls": {"type": "array", "description": "of an assistant: its calls, as in chat completions"},
                "tool_call_id": {"type": "string", "description": "of a tool: the id of the call that it answers"},
            },
        }


class _AgentSpec:
    """`pkg.mod:attr`, a mapping with a type, or from Python the agent itself."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if problems.python and not isinstance(value, (str, Mapping, list, tuple, int, float)):
            return value
        if isinstance(value, Mapping):
            if not isinstance(value.get("type"), str):
                problems.add(where, f"expected a 'type' such as openai, http or command, got {show(value)}")
                return value
        elif not isinstance(value, str) or not value.strip():
            problems.add(where, f"expected 'pkg.mod:attr' or a mapping with a type, got {show(value)}")
            return value
        # What a variable of the environment stands for is not known here.
        if "${" not in (value if isinstance(value, str) else value["type"]):
            from seatrial.agents.resolve import check_agent_spec

            for problem in check_agent_spec(value):
                problems.add(where, problem.removesuffix("."))
        return value

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), {"type": "object", "required": ["type"]}]}


def _check_metadata(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    pattern = made.get("regex_pattern")
    if isinstance(pattern, str):
        check_pattern(pattern, (*where, "regex_pattern"), problems)
    elif pattern is not None:
        problems.add((*where, "regex_pattern"), f"expected a regular expression, got {show(pattern)}")
    if "exact_normalize" in made:
        Flag().read(made["exact_normalize"], (*where, "exact_normalize"), problems)
    if "similarity_threshold" in made:
        SHARE.read(made["similarity_threshold"], (*where, "similarity_threshold"), problems)


def _check_scenario(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    sides = [key for key in SIDES if key in made]
    if not sides:
        problems.add(where, "what does the user say? Give exactly one of 'input', 'turns' and 'user'")
    elif len(sides) > 1:
        problems.add((*where, sides[1]), f"{' and '.join(map(repr, sides))} exclude each other", on_key=True)


def _check_state(made: Any, where: KeyPath, problems: Problems) -> None:
    check_matchers(made, where, problems)


_NOTHING = "an empty list asserts nothing; remove the key or fill the list"
SCENARIO_KEYS: dict[str, Key] = {
    "name": Key(kind=NAME, means="its name, unique in the suite", required=True),
    "description": Key(kind=Text(), means="for people"),
    "tags": Key(kind=NAMES, means="to select by"),
    "metadata": Key(
        kind=MapOf(value=Anything(), of="names to values", check=_check_metadata),
        means="for people and for scorers (regex_pattern, exact_normalize, similarity_threshold)",
    ),
    "input": Key(kind=Text(blank=False), means="what the user says, once"),
    "turns": Key(kind=ListOf(item=TURN, of="turns", empty="a script needs at least one turn"), means="a script"),
    "user": Key(kind=_UserSide(), means="a simulated or programmed user"),
    "history": Key(kind=ListOf(item=_Message(), of="messages"), means="messages before the first turn"),
    "system": Key(kind=Text(blank=False), means="a system message before everything"),
    "examples": Key(
        kind=ListOf(
            item=MapOf(value=Anything(), of="columns to values", empty="a row needs at least one column"),
            of="rows",
            empty="an empty list makes no scenario at all; remove the key or add a row",
        ),
        means="one scenario per row; {column} stands in its texts",
    ),
    "skip": Key(kind=Text(blank=False), means="why it is not run"),
    "xfail": Key(kind=Text(blank=False), means="why it is expected to fail"),
    "expected_output": Key(kind=Text(), means="must be in the reply, whatever the case"),
    "expected_tools": Key(kind=ListOf(item=NAME, of="tool names"), means="tools that must be called"),
    "expected_tool_args": Key(
        kind=MapOf(
            value=MapOf(value=Anything(), of="argument names to values", check=check_matchers),
            of="tool names to arguments",
        ),
        means="with which arguments they must be called first",
    ),
    "scorers": Key(kind=SCORERS, means="evaluators of the whole trial: names or {name: parameters}"),
    "expect": Key(kind=EXPECT, means="what must be true of the trial: the last reply, all calls"),
    "trajectory": Key(kind=TRAJECTORY, means="the tool calls of the trial"),
    "expected_state": Key(
        kind=MapOf(
            value=Anything(), of="names to values", empty="an empty mapping asserts nothing", check=_check_state
        ),
        means="what the mocks' state must contain at the end",
    ),
    "expected_outcomes": Key(
        kind=ListOf(item=NAME, of="statements", empty=_NOTHING), means="statements that must be true of the trial"
    ),
    "must_pass": Key(kind=Flag(), means="the run cannot pass without it"),
    **SHARED,
}
SCENARIO = Record(
    "scenario",
    SCENARIO_KEYS,
    make=Scenario,
    check=_check_scenario,
    schema={"oneOf": [{"required": [key]} for key in SIDES]},
)


def _make_config(**made: Any) -> SuiteConfig:
    if "default_timeout" in made:
        made["timeout_seconds"] = made.pop("default_timeout")
    return SuiteConfig(**made)


def _check_config(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "default_timeout" in made and "timeout_seconds" in made:
        problems.add((*where, "default_timeout"), "'default_timeout' and 'timeout_seconds' are the same; give one")


CONFIG = Record("config", {**SHARED, **CONFIG_ONLY}, make=_make_config, of=SuiteConfig, check=_check_config)

GROUP = Record(
    "group",
    {
        "name": Key(kind=NAME, means="the group's name", required=True),
        "tags": Key(kind=NAMES, means="scenarios that carry one of these belong to it"),
        "threshold": Key(kind=REQUIRED_SHARE, means="the share of its scenarios that must pass (1.0)"),
        "must_pass": Key(kind=NAMES, means="names of scenarios that must pass"),
    },
    make=Group,
)


def _check_suite(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "agent" in made and "agents" in made:
        problems.add((*where, "agents"), "'agent' and 'agents' exclude each other", on_key=True)


SUITE_KEYS: dict[str, Key] = {
    "name": Key(kind=NAME, means="the suite's name; the file's without it"),
    "description": Key(kind=Text(), means="for people"),
    "tags": Key(kind=NAMES, means="carried by every scenario"),
    "metadata": Key(kind=METADATA, means="for people"),
    "agent": Key(kind=_AgentSpec(), means="the system under test"),
    "agents": Key(
        kind=MapOf(value=_AgentSpec(), of="names to agents", empty="an empty mapping names no agent"),
        means="several agents, run side by side",
    ),
    "config": Key(kind=CONFIG, means="defaults for every scenario, and how the run goes about it"),
    "reports": Key(kind=NAMES, means="reports to write: kind or kind=PATH"),
    "evaluators": Key(kind=NAMES, means="modules with custom evaluators"),
    "groups": Key(kind=ListOf(item=GROUP, of="groups"), means="gates over scenarios by tag"),
    "baseline": Key(kind=NAME, means="the run that others are compared with"),
    "setup": SHARED["setup"],
    "teardown": SHARED["teardown"],
}
SUITE = Record("suite", SUITE_KEYS, make=Suite, check=_check_suite)
FILE_KEYS = {
    "suite": Key(kind=SUITE, means="settings that the scenarios share"),
    "scenarios": Key(
        kind=ListOf(item=SCENARIO, of="scenarios", empty="no scenario is given, so nothing would run"),
        means="what is tested",
        required=True,
    ),
}


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of YAML and JSON files, with what every key means."""
    native = Record("file", FILE_KEYS, make=dict).schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Seatrial scenarios",
        "description": "A suite of scenarios, or one transcript of pytest-agent-eval.",
        "type": "object",
        "if": {"required": ["id"]},
        "then": TRANSCRIPT.schema(),
        "else": native,
    }


THRESHOLD = 0.8
"""What pytest-agent-eval takes when a file names none."""


def is_foreign(data: Any) -> bool:
    """Whether a file is one of pytest-agent-eval's: a transcript at the top level."""
    return isinstance(data, Mapping) and "scenarios" not in data and ("id" in data or "turns" in data)


def _refuse_audio(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "audio" in made:
        problems.add((*where, "audio"), "'audio' is not supported: Seatrial talks in text", on_key=True)


PYTEST_AGENT_EVAL_TURN = Record(
    "turn",
    {
        "user": Key(kind=Text(blank=False), means="what the user says", required=True),
        "audio": Key(kind=Text(), means="a sound file (not supported)"),
        "expect": Key(kind=EXPECT, means="what must be true after the agent's reply"),
    },
    make=lambda **made: made,
    check=_refuse_audio,
)
TRANSCRIPT = Record(
    "transcript",
    {
        "id": Key(kind=NAME, means="the scenario's name", required=True),
        "threshold": Key(kind=REQUIRED_SHARE, means="the share of runs that must pass (0.8)"),
        "runs": Key(kind=COUNT, means="how often it is played (1)"),
        "tags": Key(kind=NAMES, means="to select by"),
        "turns": Key(
            kind=ListOf(item=PYTEST_AGENT_EVAL_TURN, of="turns", empty="a script needs at least one turn"),
            means="the script",
            required=True,
        ),
    },
    make=lambda **made: made,
)


def read_transcript(data: Any, problems: Problems) -> dict[str, Any] | None:
    """The keys of our scenario that the file says; None when something is wrong with it."""
    made = TRANSCRIPT.read_keys(data, (), problems)
    if made is None:
        return None
    return {
        "name": made["id"],
        "threshold": made.get("threshold", THRESHOLD),
        "trials": made.get("runs", 1),
        "tags": made.get("tags", ()),
        "turns": tuple(Turn(**turn) for turn in made["turns"]),
    }
