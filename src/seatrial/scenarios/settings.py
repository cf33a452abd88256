"""The shape of the keys that a suite may set for all and a scenario for itself."""

from collections.abc import Mapping
from typing import Any

from seatrial.evaluators.validation import check_expected
from seatrial.model.scenario import GateSpec, LimitSpec, MetricChoice, Models, SequentialSpec

from .expectations import NAME, Model
from .metrics import known_metrics, metrics_problem
from .problems import Complaints, Where, did_you_mean, show
from .schema_types import Anything, Choice, Flag, Key, ListOf, MapOf, Number, Percent, Record, Schema, Text

SHARE = Number(minimum=0, maximum=1)
_NOTHING_ASKED = "0 asks for nothing: all could fail and it would still pass"
REQUIRED_SHARE = Number(above=0, maximum=1, zero=_NOTHING_ASKED)
"""The share that must pass."""
PERCENT = Percent(minimum=0, maximum=100)
SECONDS = Number(above=0)
COUNT = Number(whole=True, minimum=1)


class Reference:
    """`pkg.mod:name`, or from Python the function itself."""

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if isinstance(value, str):
            module, _, name = value.partition(":")
            if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
                complaints.add(where, f"expected a function as 'pkg.mod:name', got {show(value)}")
        elif not (complaints.python and callable(value)):
            complaints.add(where, f"expected a function as 'pkg.mod:name', got {show(value)}")
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}


class _Trials:
    """A number, or `auto`."""

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if value == "auto":
            return value
        if isinstance(value, str):
            complaints.add(where, f"expected a whole number of at least 1 or auto, got {show(value)}")
            return None
        return COUNT.read(value, where, complaints)

    def schema(self) -> Schema:
        return {"anyOf": [COUNT.schema(), {"const": "auto"}]}


class _Mocks:
    """Tool names to mocks; what a mock may say is the mocks room's business."""

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if value is None:
            complaints.add(where, "expected a mapping of tool names to mocks, got null")
        from seatrial.tools.problems import find_problems

        for problem in find_problems(value, check_args=check_expected):
            complaints.add((*where, *problem.path), problem.message)
        return value

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "object"}}


class _Tools:
    """JSON Schemas of tools; what they may say is the mocks room's business."""

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if not isinstance(value, (list, tuple)):
            complaints.add(where, f"expected a list of tool definitions, got {show(value)}")
            return ()
        from seatrial.tools.tool_schemas import check_tools

        for text in check_tools(value):
            complaints.add(where, text)
        return tuple(value)

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "object"}}


def _check_metric(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if made["name"] in complaints.metrics and "rubric" not in made:
        return  # defined in the suite's metrics_file; what does not fit together shows when all is merged
    known = (*known_metrics(), *complaints.metrics)
    if made["name"] not in known and "rubric" not in made:
        hint = f"{did_you_mean(made['name'], known)} A metric of your own needs a 'rubric'."
        complaints.add(where, f"unknown metric {made['name']!r}", hint)
        return
    if "weight" in made or "rubric" in made or "scale" in made or "scope" in made:
        problem = metrics_problem([MetricChoice(**made)])
        if problem is not None:
            complaints.add(where, problem)


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

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if isinstance(value, str):
            _check_metric({"name": value}, where, complaints)
            return MetricChoice(name=value)
        return self._record.read(value, where, complaints)

    def schema(self) -> Schema:
        return {"anyOf": [{"enum": list(known_metrics())}, self._record.schema()]}


class _Metrics:
    """A list of metrics in which no name stands twice; a group may stand beside one of its own, to change it."""

    _list = ListOf(item=_Metric(), of="metrics", empty="an empty list of metrics asserts nothing; remove the key")

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        made = self._list.read(value, where, complaints)
        names = [choice.name for choice in made if choice is not None]
        for index, name in enumerate(names):
            if name in names[:index]:
                complaints.add((*where, index), f"the metric {name!r} is chosen twice", "Keep one entry")
        return made

    def schema(self) -> Schema:
        return self._list.schema()


class Scorer:
    """An evaluator of the whole trial: its name, `{name: parameters}`, or from Python the evaluator itself."""

    def read(self, value: Any, where: Where, complaints: Complaints) -> Any:
        if complaints.python and not isinstance(value, (str, Mapping, list, tuple, int, float, type(None))):
            return value
        if isinstance(value, Mapping) and len(value) != 1:
            complaints.add(where, f"expected one {{name: parameters}} pair, got {show(value)}")
        elif not isinstance(value, (str, Mapping)):
            complaints.add(where, f"expected a scorer's name or {{name: parameters}}, got {show(value)}")
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


def _refuse_empty(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if not made:
        complaints.add(where, "an empty mapping says nothing; remove the key or fill it")


SEVERITIES = ("low", "medium", "high", "critical")


def _check_categories(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    from seatrial.judges.failure_categories import load_categories

    known = tuple(load_categories())
    for name in made:
        if name not in known:
            complaints.add((*where, name), f"unknown failure category {name!r}", did_you_mean(name, known))


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
        kind=Record("limits", LIMIT_KEYS, make=LimitSpec, check=_refuse_empty),
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
        kind=Record("models", MODEL_KEYS, make=Models, check=_refuse_empty), means="which model plays which role"
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
