"""The shape of what must be true: expectations of a turn or a trial, judges' rubrics, trajectories."""

from collections.abc import Mapping
from typing import Any

from seatrial.evaluators.validation import check_expected
from seatrial.model.scenario import Expect, ExpectedCall, Judge, ToolArgs, TrajectorySpec, Turn

from .problems import Complaints, Where, show
from .schema_types import Anything, Choice, Flag, Key, ListOf, MapOf, Number, Record, Schema, Text

NOTHING = "an empty list asserts nothing; remove the key or fill the list"
NAME = Text(blank=False)
NAMES = ListOf(item=NAME, of="strings")
TEXTS = ListOf(item=Text(empty=False), of="strings", empty=NOTHING)
PATTERNS = ListOf(item=Text(pattern=True, empty=False), of="strings", empty=NOTHING)
TOOLS = ListOf(item=NAME, of="tool names", empty=NOTHING)


def check_matchers(value: Any, where: Where, complaints: Complaints) -> None:
    """Complain about `{$op: value}` matchers that do not exist or cannot work."""
    if not isinstance(value, Mapping) or any(str(key).startswith("$") for key in value):
        for text in check_expected(value):
            complaints.add(where, text)
        return
    for key, item in value.items():
        for text in check_expected(item):
            complaints.add((*where, key), text)


ARGUMENTS = MapOf(value=Anything(), of="argument names to values", check=check_matchers)

MODEL_KEYS = {
    "model": Key(kind=NAME, means="provider:name", required=True),
    "base_url": Key(kind=NAME, means="the address of a server of your own"),
    "api_key": Key(kind=NAME, means="its key, such as ${MY_KEY}"),
    "settings": Key(kind=MapOf(value=Anything(), of="settings to values"), means="temperature, max_tokens, …"),
    "output": Key(kind=Choice(("prompt", "native")), means="whether the server is held to the schema (prompt)"),
    "price": Key(
        kind=Record(
            "price",
            {
                "input": Key(kind=Number(minimum=0), means="that are read", required=True),
                "output": Key(kind=Number(minimum=0), means="that are written", required=True),
            },
            make=dict,
        ),
        means="US dollars for a million tokens, where the price list does not know",
    ),
}


class Model:
    """`provider:name`, or a mapping with `model`, `base_url` and the like."""

    _record = Record("model", MODEL_KEYS, make=dict)

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        kind = self._record if isinstance(value, Mapping) else NAME
        return kind.read(value, where, complaints)

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), self._record.schema()]}


JUDGE = Record(
    "judge",
    {
        "rubric": Key(kind=Text(blank=False), means="what the judge must find to be true", required=True),
        "model": Key(kind=Model(), means="the judge's model, instead of models.judge"),
        "votes": Key(kind=Number(whole=True, odd=True, minimum=1), means="how many verdicts are taken; most win"),
        "timeout": Key(kind=Number(above=0), means="seconds for one attempt (30)"),
        "retries": Key(kind=Number(whole=True, minimum=0), means="attempts after the first (2)"),
    },
    make=Judge,
)


def _check_tool_args(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if "args" not in made and "judge" not in made:
        complaints.add(where, "neither 'args' nor 'judge' is given, so nothing is asserted of the arguments")


TOOL_ARGS = Record(
    "tool_calls_args",
    {
        "tool": Key(kind=NAME, means="the tool's name", required=True),
        "args": Key(kind=ARGUMENTS, means="the arguments it must have been called with"),
        "mode": Key(kind=Choice(("subset", "exact")), means="whether other arguments may be there (subset)"),
        "calls": Key(kind=Choice(("any", "first", "all")), means="which calls of the tool must match (any)"),
        "judge": Key(kind=JUDGE, means="a rubric for the arguments"),
    },
    make=ToolArgs,
    check=_check_tool_args,
    schema={"anyOf": [{"required": ["args"]}, {"required": ["judge"]}]},
)


def _check_expect(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if made.get("tool_calls_ordered") and "tool_calls_args" in made and "tool_calls_include" not in made:
        message = "is the order of 'tool_calls_include', which is not given; that of 'tool_calls_args' is not looked at"
        complaints.add((*where, "tool_calls_ordered"), message, "Write a trajectory, whose calls have args")


EXPECT = Record(
    "expect",
    {
        "reply_contains_any": Key(kind=TEXTS, means="at least one of these is in the reply, whatever the case"),
        "reply_contains_all": Key(kind=TEXTS, means="each of these is in the reply, whatever the case"),
        "reply_matches_any": Key(kind=PATTERNS, means="at least one of these regular expressions is found"),
        "reply_matches_all": Key(kind=PATTERNS, means="each of these regular expressions is found"),
        "reply_excludes": Key(kind=TEXTS, means="none of these is in the reply, whatever the case"),
        "tool_calls_include": Key(kind=TOOLS, means="tools that must be called"),
        "tool_calls_exclude": Key(kind=TOOLS, means="tools that must not be called"),
        "tool_calls_ordered": Key(kind=Flag(), means="the included tools must be called in this order"),
        "tool_calls_args": Key(
            kind=ListOf(item=TOOL_ARGS, of="{tool, args} entries", empty=NOTHING),
            means="with which arguments tools must be called",
        ),
        "judge": Key(kind=JUDGE, means="a rubric that the judge must find to be true"),
        "evaluators": Key(
            kind=ListOf(item=Anything(), of="evaluators", empty=NOTHING),
            means="evaluator objects or functions",
            python_only=True,
        ),
    },
    make=Expect,
    check=_check_expect,
)


def _check_call(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if ("name" in made) == ("any_of" in made):
        complaints.add(where, "exactly one of 'name' and 'any_of' is needed")
    if "any_of" in made and ("args" in made or "arg_match" in made):
        complaints.add(where, "arguments belong to the alternatives under 'any_of'")
    how_often = [key for key in ("count", "min", "max") if key in made]
    if made.get("optional") and how_often:
        complaints.add(where, f"'optional' already says how often, so {how_often[0]!r} cannot stand beside it")
    if "count" in made and len(how_often) > 1:
        complaints.add(where, f"'count' is exact, so {how_often[1]!r} cannot stand beside it")
    if made.get("min", 0) > made.get("max", float("inf")):
        complaints.add((*where, "min"), f"min {made['min']} is more than max {made['max']}")


class _Call:
    """An expected call: its name, or a mapping."""

    def __init__(self) -> None:
        self._record = Record(
            "call",
            {
                "name": Key(kind=NAME, means="the tool's name"),
                "args": Key(kind=ARGUMENTS, means="the arguments"),
                "arg_match": Key(
                    kind=Choice(("partial", "exact", "ignore")), means="how arguments are compared (partial)"
                ),
                "count": Key(kind=Number(whole=True, minimum=1), means="exactly so many calls"),
                "min": Key(kind=Number(whole=True, minimum=0), means="at least so many calls"),
                "max": Key(kind=Number(whole=True, minimum=1), means="at most so many calls; alone it requires none"),
                "optional": Key(kind=Flag(), means="at most one call, none is fine"),
                "any_of": Key(
                    kind=ListOf(item=_Alternative(), of="calls", empty=NOTHING), means="alternatives for this call"
                ),
            },
            make=ExpectedCall,
            check=_check_call,
        )

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if isinstance(value, str):
            return ExpectedCall(name=NAME.read(value, where, complaints))
        if not isinstance(value, (Mapping, ExpectedCall)):
            complaints.add(where, f"expected a call such as {{name: search}}, got {show(value)}")
            return None
        return self._record.read(value, where, complaints)

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), self._record.schema()]}


class _Alternative:
    """An entry of `any_of`: a name, or a mapping of name and arguments."""

    _record = Record(
        "alternative",
        {
            "name": Key(kind=NAME, means="the tool's name", required=True),
            "args": Key(kind=ARGUMENTS, means="the arguments"),
            "arg_match": Key(kind=Choice(("partial", "exact", "ignore")), means="how arguments are compared"),
        },
        make=ExpectedCall,
        check=_check_call,
    )

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if isinstance(value, str):
            return ExpectedCall(name=NAME.read(value, where, complaints))
        return self._record.read(value, where, complaints)

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), self._record.schema()]}


def _check_trajectory(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    mode = made.get("mode", "in_order")
    required = [call for call in made.get("expected", ()) if call is None or call.min != 0 or call.max is not None]
    if mode in ("contains", "in_order") and not required and not made.get("forbidden"):
        complaints.add(where, f"a {mode!r} trajectory with nothing expected and nothing forbidden asserts nothing")
    for index, call in enumerate(made.get("expected", ()) if mode == "within" else ()):
        if call is not None and call.min:
            message = "'min' is without effect: a 'within' trajectory requires no call"
            complaints.add((*where, "expected", index), message, "Use another mode")
    for index, call in enumerate(made.get("forbidden", ())):
        if call.optional or (call.count, call.min, call.max) != (None, None, None):
            complaints.add((*where, "forbidden", index), "a forbidden call may not happen at all, so it has no count")


TRAJECTORY = Record(
    "trajectory",
    {
        "mode": Key(
            kind=Choice(("strict", "unordered", "contains", "in_order", "within")),
            means="how the calls that were made are compared with those expected (in_order)",
        ),
        "expected": Key(kind=ListOf(item=_Call(), of="calls"), means="the calls that are expected"),
        "forbidden": Key(kind=ListOf(item=_Call(), of="calls"), means="calls that may not happen"),
    },
    make=TrajectorySpec,
    check=_check_trajectory,
)

TURN = Record(
    "turn",
    {
        "user": Key(kind=Text(blank=False), means="what the user says", required=True),
        "expect": Key(kind=EXPECT, means="what must be true after the agent's reply"),
        "trajectory": Key(kind=TRAJECTORY, means="the tool calls of this turn"),
        "reply": Key(kind=Choice(("required", "optional")), means="whether the agent must say something (required)"),
    },
    make=Turn,
)
