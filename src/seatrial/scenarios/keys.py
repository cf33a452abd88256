"""Which metrics a `metrics:` list selects, and what is left of the suite's list under a scenario's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.evaluators.limits import Limits
from seatrial.evaluators.tool_calls import ToolArgs
from seatrial.evaluators.trajectory import Trajectory
from seatrial.evaluators.validation import check_expected
from seatrial.judges.rubric import Judge
from seatrial.model.scenario import (
    Expect,
    ExpectedCall,
    GateSpec,
    MetricChoice,
    ModelRoles,
    SequentialSpec,
    Turn,
)

from .problems import KeyPath, Problems, did_you_mean, show
from .schema_types import Anything, Choice, Flag, Key, ListOf, MapOf, Number, Percent, Record, Schema, Text


def known_metrics() -> tuple[str, ...]:
    """The names that may stand in a list without a definition: groups first, then metrics."""
    from seatrial.judges.metrics import GROUPS, load_metrics

    return (*GROUPS, *load_metrics())


def metrics_problem(choices: Sequence[MetricChoice]) -> str | None:
    """Why these could not be graded together; None when they can."""
    from seatrial.judges.metrics import resolve_metrics

    try:
        resolve_metrics(choices)
    except UsageError as error:
        return str(error).removeprefix("metrics: ")
    return None


def threshold_problem(choice: MetricChoice, minimum: float) -> tuple[str, str | None] | None:
    """Why that minimum of the metric's average does not decide what it seems to, and what would; None if it does."""
    from seatrial.judges.metrics import resolve_metrics

    name = choice.name
    try:
        [metric] = resolve_metrics([choice])
    except UsageError:  # which is another complaint
        return None
    binary = metric.scale == "binary"
    lowest, highest = metric.lowest, metric.pass_value if binary else 5.0
    if minimum > highest:
        return f"{name!r} cannot reach {minimum:g}: its scale ends at {highest:g}", None
    if 0 < minimum <= lowest:
        scale = f"its scale is from {lowest:g} to {highest:g}"
        return f"{name!r} always reaches {minimum:g}: {scale}", "Give the average on that scale; 0 asks for none"
    if binary and 0 < minimum <= 1 < highest:
        share = f"{100 * minimum / highest:.3g} % of the trials"
        message = f"{name!r} would need a pass in {share}: a pass counts {highest:g}"
        return message, f"For {100 * minimum:.3g} % write {minimum * highest:.4g}"
    return None


def is_weighted(choices: Sequence[MetricChoice]) -> bool:
    """Whether some of them make an overall score; also where they are not right, which is another complaint."""
    from seatrial.judges.metrics import resolve_metrics

    try:
        return any(metric.weight is not None for metric in resolve_metrics(choices))
    except UsageError:
        return True


def find_definitions(config: Any, folder: Path) -> Mapping[str, Any]:
    """What the `metrics_file` of a suite's config defines, by name. Raises UsageError when it cannot be read."""
    name = config.get("metrics_file") if isinstance(config, Mapping) else getattr(config, "metrics_file", None)
    if not isinstance(name, str):
        return {}
    from seatrial.judges.metrics import load_definitions

    return load_definitions(folder / name)


def define(choices: Sequence[MetricChoice], definitions: Mapping[str, Any]) -> tuple[MetricChoice, ...]:
    """The choices, with what the suite's own file says of them."""
    return tuple(
        replace(choice, definition=definitions[choice.name])
        if choice.name in definitions and choice.rubric is None
        else choice
        for choice in choices
    )


def select_metrics(choices: Sequence[MetricChoice]) -> tuple[MetricChoice, ...]:
    """One choice per metric, group names taken apart; a later entry for the same metric changes its weight."""
    from seatrial.judges.metrics import GROUPS

    selected: dict[str, MetricChoice] = {}
    for choice in choices:
        if choice.name in GROUPS:
            for name in GROUPS[choice.name]:
                selected.setdefault(name, MetricChoice(name=name))
        elif choice.name not in selected or choice.weight is not None or choice.rubric is not None:
            selected[choice.name] = choice
    return tuple(selected.values())


def merge_metrics(base: Sequence[MetricChoice] | None, own: Sequence[MetricChoice]) -> tuple[MetricChoice, ...]:
    """The metrics after an override: a list replaces, but one of nothing but weights for selected metrics reweighs."""
    chosen = select_metrics(own)
    selected = {choice.name: choice for choice in select_metrics(base or ())}
    only_weights = all(choice.weight is not None and choice.rubric is None for choice in own)
    if not selected or not only_weights or not selected.keys() >= {choice.name for choice in chosen}:
        return chosen
    for choice in chosen:
        before = selected[choice.name]
        selected[choice.name] = MetricChoice(
            name=choice.name, weight=choice.weight, scale=before.scale, scope=before.scope, rubric=before.rubric
        )
    return tuple(selected.values())


NOTHING = "an empty list asserts nothing; remove the key or fill the list"
NAME = Text(blank=False)
NAMES = ListOf(item=NAME, of="strings")
TEXTS = ListOf(item=Text(empty=False), of="strings", empty=NOTHING)
PATTERNS = ListOf(item=Text(pattern=True, empty=False), of="strings", empty=NOTHING)
TOOLS = ListOf(item=NAME, of="tool names", empty=NOTHING)


def check_matchers(value: Any, where: KeyPath, problems: Problems) -> None:
    """Report `{$op: value}` matchers that do not exist or cannot work."""
    if not isinstance(value, Mapping) or any(str(key).startswith("$") for key in value):
        for text in check_expected(value):
            problems.add(where, text)
        return
    for key, item in value.items():
        for text in check_expected(item):
            problems.add((*where, key), text)


ARGUMENTS = MapOf(value=Anything(), of="argument names to values", check=check_matchers)

JUDGE_MODEL_KEYS = {
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

    _record = Record("model", JUDGE_MODEL_KEYS, make=dict)

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        kind = self._record if isinstance(value, Mapping) else NAME
        return kind.read(value, where, problems)

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


def _check_tool_args(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "args" not in made and "judge" not in made:
        problems.add(where, "neither 'args' nor 'judge' is given, so nothing is asserted of the arguments")


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


def _check_expect(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if made.get("tool_calls_ordered") and "tool_calls_args" in made and "tool_calls_include" not in made:
        message = "is the order of 'tool_calls_include', which is not given; that of 'tool_calls_args' is not looked at"
        problems.add((*where, "tool_calls_ordered"), message, "Write a trajectory, whose calls have args")


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


def _check_call(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if ("name" in made) == ("any_of" in made):
        problems.add(where, "exactly one of 'name' and 'any_of' is needed")
    if "any_of" in made and ("args" in made or "arg_match" in made):
        problems.add(where, "arguments belong to the alternatives under 'any_of'")
    how_often = [key for key in ("count", "min", "max") if key in made]
    if made.get("optional") and how_often:
        problems.add(where, f"'optional' already says how often, so {how_often[0]!r} cannot stand beside it")
    if "count" in made and len(how_often) > 1:
        problems.add(where, f"'count' is exact, so {how_often[1]!r} cannot stand beside it")
    if made.get("min", 0) > made.get("max", float("inf")):
        problems.add((*where, "min"), f"min {made['min']} is more than max {made['max']}")


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

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, str):
            return ExpectedCall(name=NAME.read(value, where, problems))
        if not isinstance(value, (Mapping, ExpectedCall)):
            problems.add(where, f"expected a call such as {{name: search}}, got {show(value)}")
            return None
        return self._record.read(value, where, problems)

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

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, str):
            return ExpectedCall(name=NAME.read(value, where, problems))
        return self._record.read(value, where, problems)

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), self._record.schema()]}


def _check_trajectory(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    mode = made.get("mode", "in_order")
    required = [call for call in made.get("expected", ()) if call is None or call.min != 0 or call.max is not None]
    if mode in ("contains", "in_order") and not required and not made.get("forbidden"):
        problems.add(where, f"a {mode!r} trajectory with nothing expected and nothing forbidden asserts nothing")
    for index, call in enumerate(made.get("expected", ()) if mode == "within" else ()):
        if call is not None and call.min:
            message = "'min' is without effect: a 'within' trajectory requires no call"
            problems.add((*where, "expected", index), message, "Use another mode")
    for index, call in enumerate(made.get("forbidden", ())):
        if call.optional or (call.count, call.min, call.max) != (None, None, None):
            problems.add((*where, "forbidden", index), "a forbidden call may not happen at all, so it has no count")


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
    make=Trajectory,
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


SHARE = Number(minimum=0, maximum=1)
_NOTHING_ASKED = "0 asks for nothing: all could fail and it would still pass"
REQUIRED_SHARE = Number(above=0, maximum=1, zero=_NOTHING_ASKED)
"""The share that must pass."""
PERCENT = Percent(minimum=0, maximum=100)
SECONDS = Number(above=0)
COUNT = Number(whole=True, minimum=1)


class Reference:
    """`pkg.mod:name`, or from Python the function itself."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, str):
            module, _, name = value.partition(":")
            if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
                problems.add(where, f"expected a function as 'pkg.mod:name', got {show(value)}")
        elif not (problems.python and callable(value)):
            problems.add(where, f"expected a function as 'pkg.mod:name', got {show(value)}")
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}


class _Trials:
    """A number, or `auto`."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if value == "auto":
            return value
        if isinstance(value, str):
            problems.add(where, f"expected a whole number of at least 1 or auto, got {show(value)}")
            return None
        return COUNT.read(value, where, problems)

    def schema(self) -> Schema:
        return {"anyOf": [COUNT.schema(), {"const": "auto"}]}


class _Mocks:
    """Tool names to mocks; what a mock may say is the mocks room's business."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if value is None:
            problems.add(where, "expected a mapping of tool names to mocks, got null")
        from seatrial.tools.problems import find_problems

        for problem in find_problems(value, check_args=check_expected):
            problems.add((*where, *problem.path), problem.message)
        return value

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "object"}}


class _Tools:
    """JSON Schemas of tools; what they may say is the mocks room's business."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, (list, tuple)):
            problems.add(where, f"expected a list of tool definitions, got {show(value)}")
            return ()
        from seatrial.tools.tool_schemas import check_tools

        for text in check_tools(value):
            problems.add(where, text)
        return tuple(value)

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "object"}}


def _check_metric(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if made["name"] in problems.metrics and "rubric" not in made:
        return  # defined in the suite's metrics_file; what does not fit together shows when all is merged
    known = (*known_metrics(), *problems.metrics)
    if made["name"] not in known and "rubric" not in made:
        hint = f"{did_you_mean(made['name'], known)} A metric of your own needs a 'rubric'."
        problems.add(where, f"unknown metric {made['name']!r}", hint)
        return
    if "weight" in made or "rubric" in made or "scale" in made or "scope" in made:
        problem = metrics_problem([MetricChoice(**made)])
        if problem is not None:
            problems.add(where, problem)


class _Metric:
    """A metric's name, its name and weight, or a definition of one's own."""

    _record = Record(
        "metric",
        {
            "name": Key(kind=NAME, means="the metric's name", required=True),
            "weight": Key(kind=Number(minimum=0), means="its share in the overall score"),
            "scale": Key(kind=Choice(("0-5", "1-5", "binary")), means="the scale of a metric of your own"),
            "scope": Key(kind=Choice(("turn", "trial")), means="what a metric of your own looks at"),
            "rubric": Key(kind=Text(blank=False), means="how the judge grades a metric of your own"),
        },
        make=MetricChoice,
        check=_check_metric,
    )

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, str):
            _check_metric({"name": value}, where, problems)
            return MetricChoice(name=value)
        return self._record.read(value, where, problems)

    def schema(self) -> Schema:
        return {"anyOf": [{"enum": list(known_metrics())}, self._record.schema()]}


class _Metrics:
    """A list of metrics in which no name stands twice; a group may stand beside one of its own, to change it."""

    _list = ListOf(item=_Metric(), of="metrics", empty="an empty list of metrics asserts nothing; remove the key")

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        made = self._list.read(value, where, problems)
        names = [choice.name for choice in made if choice is not None]
        for index, name in enumerate(names):
            if name in names[:index]:
                problems.add((*where, index), f"the metric {name!r} is chosen twice", "Keep one entry")
        return made

    def schema(self) -> Schema:
        return self._list.schema()


class Scorer:
    """An evaluator of the whole trial: its name, `{name: parameters}`, or from Python the evaluator itself."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if problems.python and not isinstance(value, (str, Mapping, list, tuple, int, float, type(None))):
            return value
        if isinstance(value, Mapping) and len(value) != 1:
            problems.add(where, f"expected one {{name: parameters}} pair, got {show(value)}")
        elif not isinstance(value, (str, Mapping)):
            problems.add(where, f"expected a scorer's name or {{name: parameters}}, got {show(value)}")
        return value

    def schema(self) -> Schema:
        return {"anyOf": [NAME.schema(), {"type": "object", "minProperties": 1, "maxProperties": 1}]}


SCORERS = ListOf(item=Scorer(), of="scorers", empty="an empty list of scorers asserts nothing; remove the key")
LIMIT_KEYS = {
    "latency_ms": Key(kind=Number(above=0), means="of the slowest turn"),
    "cost_usd": Key(kind=Number(minimum=0), means="of the agent over the trial"),
    "tokens": Key(kind=Number(whole=True, minimum=0), means="of the agent over the trial"),
    "tool_calls": Key(kind=Number(whole=True, minimum=0), means="over the trial"),
    "turns": Key(kind=COUNT, means="of the conversation"),
}
GATE_KEYS = {
    "pass_rate": Key(kind=Number(above=0, below=1), means="the true pass rate that must be shown; never quite 1"),
    "confidence": Key(kind=Number(above=0, below=1), means="how sure one must be (0.95)"),
}
_OPEN_SHARE = Number(above=0, below=1)
SEQUENTIAL_KEYS = {
    "good": Key(kind=_OPEN_SHARE, means="the pass rate of an agent that shall pass (0.9)"),
    "bad": Key(kind=_OPEN_SHARE, means="the pass rate of an agent that shall fail (0.7)"),
    "alpha": Key(kind=_OPEN_SHARE, means="the chance allowed for failing a good one (0.05)"),
    "beta": Key(kind=_OPEN_SHARE, means="the chance allowed for passing a bad one (0.05)"),
    "max_trials": Key(kind=COUNT, means="where it gives up, undecided (60)"),
}
MODEL_KEYS = {
    "judge": Key(kind=Model(), means="the model that judges"),
    "user": Key(kind=Model(), means="the model that plays the user"),
    "dedup": Key(kind=Model(), means="the model that merges equal errors"),
}


def _refuse_empty(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if not made:
        problems.add(where, "an empty mapping says nothing; remove the key or fill it")


SEVERITIES = ("low", "medium", "high", "critical")


def _check_categories(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    from seatrial.judges.metrics import load_categories

    known = tuple(load_categories())
    for name in made:
        if name not in known:
            problems.add((*where, name), f"unknown failure category {name!r}", did_you_mean(name, known))


SHARED: dict[str, Key] = {
    "mocks": Key(kind=_Mocks(), means="what the agent's tools answer"),
    "tools": Key(kind=_Tools(), means="JSON Schemas of the tools"),
    "unmocked_tools": Key(
        kind=Choice(("error", "passthrough")),
        means="what a tool without a mock does: error, or passthrough, which lets it run (error where there are mocks)",
    ),
    "trials": Key(kind=_Trials(), means="how often it is played; 3 with a simulated user, else 1"),
    "sequential": Key(
        kind=Record("sequential", SEQUENTIAL_KEYS, make=SequentialSpec, check=_refuse_empty),
        means="the test of `trials: auto`: which rates to tell apart, how surely",
    ),
    "threshold": Key(kind=REQUIRED_SHARE, means="the share of trials that must pass (1.0)"),
    "gate": Key(
        kind=Record("gate", GATE_KEYS, make=GateSpec, check=_refuse_empty),
        means="the pass rate that must be shown, and how surely",
    ),
    "max_turns": Key(kind=COUNT, means="where a conversation stops (8); a script is played whole"),
    "timeout_seconds": Key(kind=SECONDS, means="for one agent call with its tool rounds (30)"),
    "trial_timeout_seconds": Key(kind=SECONDS, means="for a whole trial (600)"),
    "retries": Key(kind=Number(whole=True, minimum=0), means="after errors of the agent (0)"),
    "limits": Key(
        kind=Record("limits", LIMIT_KEYS, make=Limits, check=_refuse_empty),
        means="what a trial may take; more is failed",
    ),
    "metrics": Key(kind=_Metrics(), means="what a judge grades"),
    "thresholds": Key(
        kind=MapOf(value=Number(minimum=0), of="metrics to minimum averages", empty="an empty mapping asserts nothing"),
        means="the average that a metric must reach",
    ),
    "pass_threshold": Key(kind=PERCENT, means="the overall score that passes a trial (75)"),
    "failures": Key(kind=Flag(), means="whether the judge looks for behaviour failures"),
    "fail_on_error_severity": Key(kind=Choice(SEVERITIES), means="from which severity an error fails the scenario"),
    "severities": Key(
        kind=MapOf(
            value=Choice(SEVERITIES),
            of="failure categories to severities",
            empty="an empty mapping changes nothing; remove the key",
            check=_check_categories,
        ),
        means="how bad a category of behaviour failure is, instead of the usual",
    ),
    "judge_votes": Key(
        kind=Number(whole=True, odd=True, minimum=1),
        means="how many verdicts are taken on a whole trial (1); most win",
    ),
    "models": Key(
        kind=Record("models", MODEL_KEYS, make=ModelRoles, check=_refuse_empty), means="which model plays which role"
    ),
    "setup": Key(kind=Reference(), means="a function pkg.mod:name, called before each trial"),
    "teardown": Key(kind=Reference(), means="a function pkg.mod:name, called after each trial"),
}

CONFIG_ONLY: dict[str, Key] = {
    "default_timeout": Key(kind=SECONDS, means="the same as timeout_seconds"),
    "default_scorers": Key(kind=SCORERS, means="the scorers of scenarios that name none"),
    "metrics_file": Key(kind=NAME, means="a TOML file that defines metrics, beside the suite's own file"),
    "cases_pass_threshold": Key(
        kind=Percent(above=0, maximum=100, zero=_NOTHING_ASKED),
        means="the share of trials, in percent, that passes the run",
    ),
    "metrics_pass_threshold": Key(kind=PERCENT, means="the mean overall score that passes the run (80)"),
    "concurrency": Key(kind=COUNT, means="trials at a time (20)"),
    "rpm": Key(kind=Number(above=0), means="agent calls per minute"),
    "budget": Key(kind=Number(above=0), means="US dollars that the run may cost"),
    "fail_fast": Key(kind=Flag(), means="stop at the first scenario that did not pass"),
    "seed": Key(kind=Number(whole=True), means="for everything random (random, stored)"),
    "isolation": Key(kind=Choice(("thread", "process")), means="where in-process agents run (thread)"),
}
METADATA = MapOf(value=Anything(), of="names to values")
