"""Readers and checks of values that a type alone cannot describe: metrics, mocks, matchers, scorers, functions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial import patterns
from seatrial.errors import UsageError
from seatrial.evaluators.built_in import check_expected
from seatrial.foreign.import_path import is_import_path
from seatrial.model.content import Attachment
from seatrial.model.scenario import MetricChoice
from seatrial.model.value_paths import parse_path

from .problems import KeyPath, Problems, closest, did_you_mean, show
from .value_readers import EMPTY_MAPPING, Check, Flag, Number, Reader, Schema, Text


def known_metrics() -> tuple[str, ...]:
    """The names that need no definition: groups first, then metrics."""
    from seatrial.judges.metrics import GROUPS, load_metrics

    return (*GROUPS, *load_metrics())


def metrics_problem(choices: Sequence[MetricChoice]) -> str | None:
    """Why these cannot be graded together; None if they can."""
    from seatrial.judges.metrics import resolve_metrics

    try:
        resolve_metrics(choices)
    except UsageError as error:
        return str(error).removeprefix("metrics: ")
    return None


def threshold_problem(choice: MetricChoice, minimum: float) -> tuple[str, str | None] | None:
    """(problem, hint) for a minimum average that the metric never or always reaches; None if it is fine."""
    from seatrial.judges.metrics import resolve_metrics

    name = choice.name
    try:
        [metric] = resolve_metrics([choice])
    except UsageError:  # reported elsewhere
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
    """Whether they make an overall score; True also for invalid choices, which are reported elsewhere."""
    from seatrial.judges.metrics import resolve_metrics

    try:
        return any(metric.weight is not None for metric in resolve_metrics(choices))
    except UsageError:
        return True


def find_definitions(config: Any, folder: Path) -> Mapping[str, Any]:
    """The metrics of the `metrics_file` of a suite's config, by name. Raises UsageError if it cannot be read."""
    name = config.get("metrics_file") if isinstance(config, Mapping) else getattr(config, "metrics_file", None)
    if not isinstance(name, str):
        return {}
    from seatrial.judges.metrics import load_definitions

    return load_definitions(folder / name)


def define(choices: Sequence[MetricChoice], definitions: Mapping[str, Any]) -> tuple[MetricChoice, ...]:
    """The choices, with the definitions of the suite's own file."""
    return tuple(
        replace(choice, definition=definitions[choice.name])
        if choice.name in definitions and choice.rubric is None
        else choice
        for choice in choices
    )


def select_metrics(choices: Sequence[MetricChoice]) -> tuple[MetricChoice, ...]:
    """One choice for each metric, also for those of a group; a later entry for the same metric changes its weight."""
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
    """The metrics after an override: a list replaces the other, unless it only gives weights of selected metrics."""
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


SIDES = ("input", "turns", "user")
"""Keys that say what the user does; a scenario has exactly one."""
_FILES = ("file", "image")
"""Keys of an attachment that name its file."""
_ROLES = ("system", "user", "assistant", "tool")


class _Function(Reader):
    """`pkg.mod:name`, or from Python the function itself."""

    words, plural = "a function as 'pkg.mod:name'", "functions as 'pkg.mod:name'"

    def fits(self, value: Any, problems: Problems) -> bool:
        if not isinstance(value, str):
            return problems.python and callable(value)
        module, _, name = value.partition(":")
        return all(part.isidentifier() for part in (*module.split("."), *name.split(".")))

    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}


class _Mocks(Reader):
    """Tool names to mocks."""

    words = "a mapping of tool names to mocks"

    def fits(self, value: Any, problems: Problems) -> bool:
        return value is not None

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        from seatrial.tools.mock_checks import find_problems

        for problem in find_problems(value, check_args=check_expected):
            problems.add((*where, *problem.path), problem.message)
        return value

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "object"}}


class _Tools(Reader):
    """Tool definitions: JSON Schemas with a name."""

    words = "a list of tool definitions"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, (list, tuple))

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        from seatrial.tools.tool_schemas import check_tools

        for text in check_tools(value):
            problems.add(where, text)
        return tuple(value)

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "object"}}


class _Scorer(Reader):
    """An evaluator of the whole trial: its name, `{name: parameters}`, or from Python the evaluator itself."""

    words, plural = "a scorer's name or {name: parameters}", "scorers"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, (str, Mapping)) or _is_object(value, problems)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, Mapping) and len(value) != 1:
            problems.add(where, f"expected one {{name: parameters}} pair, got {show(value)}")
        return value

    def schema(self) -> Schema:
        pair = {"type": "object", "minProperties": 1, "maxProperties": 1}
        return {"anyOf": [Text(pattern=r"\S").schema(), pair]}


class _Agent(Reader):
    """`pkg.mod:attr`, a mapping with a type, or from Python the agent itself."""

    words, plural = "'pkg.mod:attr' or a mapping with a 'type' such as openai, http or command", "agents"

    def fits(self, value: Any, problems: Problems) -> bool:
        if isinstance(value, Mapping):
            return isinstance(value.get("type"), str)
        return bool(value.strip()) if isinstance(value, str) else _is_object(value, problems)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        name = value["type"] if isinstance(value, Mapping) else value
        # The value of an environment variable is not known here.
        if isinstance(name, str) and "${" not in name:
            from seatrial.agents.resolve import check_agent_spec

            for problem in check_agent_spec(value):
                problems.add(where, problem.removesuffix("."))
        return value

    def schema(self) -> Schema:
        return {"anyOf": [Text(pattern=r"\S").schema(), {"type": "object", "required": ["type"]}]}


def _is_object(value: Any, problems: Problems) -> bool:
    """Whether it is an object of the user's own, given in Python."""
    return problems.python and not isinstance(value, (str, Mapping, list, tuple, int, float, type(None)))


class _Message(Reader):
    """A chat message before the first turn."""

    words, plural = "a message such as {role: user, content: ...}", "messages"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, Mapping)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if value.get("role") not in _ROLES:
            problems.add(where, f"expected a role of {', '.join(_ROLES)}, got {show(value.get('role'))}")
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
                "role": {"enum": list(_ROLES), "description": "who speaks"},
                "content": {"type": ["string", "array", "null"], "description": "what is said: a text, or its parts"},
                "tool_calls": {"type": "array", "description": "of an assistant: its calls, as in chat completions"},
                "tool_call_id": {"type": "string", "description": "of a tool: the id of the call that it answers"},
            },
        }


class _EventPattern(Reader):
    """An event of an invariant. The invariant itself checks it."""

    words = "a tool's name, a list, or a mapping with call, says or user"

    def schema(self) -> Schema:
        name = Text(pattern=r"\S").schema()
        names = {"type": "array", "items": name, "minItems": 1}
        keys: dict[str, Schema] = {
            "call": {"anyOf": [name, names], "description": "calls of these tools: names or globs"},
            "args": {"type": "object", "description": "of a call: the arguments that it must have"},
            "ok": {"type": "boolean", "description": "of a call: whether it succeeded; without this key, either"},
            "says": {"type": "object", "description": "replies of the agent that match, such as {$contains: sorry}"},
            "user": {"type": "object", "description": "messages of the user that match"},
        }
        event = {"type": "object", "minProperties": 1, "properties": keys, "additionalProperties": False}
        return {"anyOf": [name, event, {"type": "array", "items": {"anyOf": [name, event]}, "minItems": 1}]}


class _Audio(Text):
    """A sound file of pytest-agent-eval, which is refused."""

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        problems.add(where, "'audio' is not supported: Seatrial talks in text", on_key=True)


class _MetricName(Text):
    """The name of a metric. Editors suggest the known ones; a suite may define more."""

    def schema(self) -> Schema:
        return super().schema() | {"examples": list(known_metrics())}


def check_pattern(pattern: str, where: KeyPath, problems: Problems) -> None:
    """Report a text that is not a regular expression."""
    problem = patterns.problem(pattern)
    if problem is not None:
        problems.add(where, f"{pattern!r} is not a regular expression: {problem}")


def check_matchers(value: Any, where: KeyPath, problems: Problems) -> None:
    """Report `{$op: value}` matchers that do not exist or cannot work."""
    if not isinstance(value, Mapping) or any(str(key).startswith("$") for key in value):
        for text in check_expected(value):
            problems.add(where, text)
        return
    for key, item in value.items():
        for text in check_expected(item):
            problems.add((*where, key), text)


def _check_metadata(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    pattern = made.get("regex_pattern")
    if isinstance(pattern, str):
        check_pattern(pattern, (*where, "regex_pattern"), problems)
    elif pattern is not None:
        problems.add((*where, "regex_pattern"), f"expected a regular expression, got {show(pattern)}")
    if "exact_normalize" in made:
        Flag().read(made["exact_normalize"], (*where, "exact_normalize"), problems)
    if "similarity_threshold" in made:
        Number(ge=0, le=1).read(made["similarity_threshold"], (*where, "similarity_threshold"), problems)


def _check_metrics(made: tuple[MetricChoice, ...], where: KeyPath, problems: Problems) -> None:
    names = [choice.name for choice in made]
    for index, name in enumerate(names):
        if name in names[:index]:
            problems.add((*where, index), f"the metric {name!r} is chosen twice", "Keep one entry")


def _check_metric(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if made["name"] in problems.metrics and "rubric" not in made:
        return  # defined in the suite's metrics_file; checked after merging
    known = (*known_metrics(), *problems.metrics)
    if made["name"] not in known and "rubric" not in made:
        hint = f"{did_you_mean(made['name'], known)} A metric of your own needs a 'rubric'."
        problems.add(where, f"unknown metric {made['name']!r}", hint)
        return
    if made.keys() > {"name"}:
        problem = metrics_problem([MetricChoice(**made)])
        if problem is not None:
            problems.add(where, problem)


def _check_categories(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    from seatrial.judges.metrics import load_categories

    known = tuple(load_categories())
    for name in made:
        if name not in known:
            problems.add((*where, name), f"unknown failure category {name!r}", did_you_mean(name, known))


def _check_scenario(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "attach" in made and "turns" in made:
        problems.add((*where, "attach"), "belongs to a turn: write it beside 'user'", on_key=True)
    sides = [key for key in SIDES if key in made]
    if not sides:
        problems.add(where, "the user's side is missing: give exactly one of 'input', 'turns' and 'user'")
    elif len(sides) > 1:
        problems.add(
            (*where, sides[1]), f"{' and '.join(map(repr, sides))} exclude each other", "Give one of them", on_key=True
        )


def _check_suite(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "agent" in made and "agents" in made:
        problems.add((*where, "agents"), "'agent' and 'agents' exclude each other", on_key=True)


def _check_expect(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if made.get("tool_calls_ordered") and "tool_calls_args" in made and "tool_calls_include" not in made:
        message = "is the order of 'tool_calls_include', which is not given; 'tool_calls_args' has no order"
        problems.add((*where, "tool_calls_ordered"), message, "Write a trajectory, whose calls have args")
    if made.get("ended") is False:
        problems.add((*where, "ended"), "expected true: 'ended: false' asserts nothing", "Remove it")
    if "said_ignore" in made and not any(key in made for key in _SAID):
        problems.add((*where, "said_ignore"), f"is without effect: none of {', '.join(_SAID)} is given")
    for key in ("said_contains_all", "said_contains_any", "said_excludes"):
        for text in made.get(key, ()):
            if not set(text) - set(made.get("said_ignore") or ""):
                message = f"{text!r} has only characters of said_ignore, so it is in every reply"
                problems.add((*where, key), message, "Remove it")


_SAID = ("said_contains_all", "said_contains_any", "said_excludes", "said_matches_all")


def _check_turn(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    expect = made.get("expect")
    for key in (*_SAID, "ended"):
        if getattr(expect, key, None):
            hint = "Move it to the scenario's own 'expect'"
            hint += f", or use {key.replace('said_', 'reply_')}" if key != "ended" else ""
            problems.add((*where, "expect", key), "is about the whole conversation, not about one turn", hint)


def _check_call(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if ("name" in made) == ("any_of" in made):
        problems.add(where, "exactly one of 'name' and 'any_of' is needed")
    if "any_of" in made and ("args" in made or "arg_match" in made):
        problems.add(where, "arguments belong to the alternatives under 'any_of'")
    how_often = [key for key in ("count", "min", "max") if key in made]
    if made.get("optional") and how_often:
        problems.add(where, f"'optional' already says how often, so {how_often[0]!r} cannot be given as well")
    if "count" in made and len(how_often) > 1:
        problems.add(where, f"'count' is exact, so {how_often[1]!r} cannot be given as well")
    if made.get("min", 0) > made.get("max", float("inf")):
        problems.add((*where, "min"), f"min {made['min']} is more than max {made['max']}")


def _check_alternative(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if "name" not in made:
        problems.add(where, "'name' is missing: the tool's name")


def _check_trajectory(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    mode = made.get("mode", "in_order")
    expected = made.get("expected", ())
    required = [call for call in expected if call.min != 0 or call.max is not None]
    if mode in ("contains", "in_order") and not required and not made.get("forbidden"):
        problems.add(where, f"a {mode!r} trajectory with nothing expected and nothing forbidden checks nothing")
    for index, call in enumerate(expected if mode == "within" else ()):
        if call.min:
            message = "'min' is without effect: a 'within' trajectory requires no call"
            problems.add((*where, "expected", index), message, "Use another mode")
    for index, call in enumerate(made.get("forbidden", ())):
        if call.optional or (call.count, call.min, call.max) != (None, None, None):
            problems.add((*where, "forbidden", index), "a forbidden call must not be made at all, so it has no count")


def _check_not_empty(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if not made:
        problems.add(where, EMPTY_MAPPING)


class _System(Reader):
    """A system message: a text, or a file that holds it."""

    words = "a text or {file: PATH}"

    def fits(self, value: Any, problems: Problems) -> bool:
        return (isinstance(value, str) and bool(value.strip())) or (isinstance(value, Mapping) and [*value] == ["file"])

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, str):
            return value
        path = _find_file(value["file"], (*where, "file"), problems)
        try:
            text = "" if path is None else path.read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as problem:
            problems.add((*where, "file"), f"{path}: cannot be read: {problem}")
            return None
        if path is not None and not text:
            problems.add((*where, "file"), f"{path}: the file is empty")
        return text or None

    def schema(self) -> Schema:
        file = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
        return {"anyOf": [Text(pattern=r"\S").schema(), {**file, "additionalProperties": False}]}


class _Attachment(Reader):
    """An image or file: its path, or a mapping with the path and its type; from Python also an Attachment."""

    words = "the path of a file, or {file: PATH, media_type: TYPE}"

    def fits(self, value: Any, problems: Problems) -> bool:
        if isinstance(value, Mapping):
            return len(value.keys() & _FILES) == 1 and value.keys() <= {*_FILES, "media_type"}
        return isinstance(value, str) or (problems.python and isinstance(value, Path | Attachment))

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, Attachment):
            return value
        given = value if isinstance(value, Mapping) else {"file": str(value)}
        media_type = given.get("media_type")
        if media_type is not None and (not isinstance(media_type, str) or "/" not in media_type):
            problems.add((*where, "media_type"), f"expected a type such as image/png, got {show(media_type)}")
            return None
        path = _find_file(next(given[key] for key in _FILES if key in given), where, problems)
        if path is None:
            return None
        try:
            return Attachment.of(path.read_bytes(), name=path.name, media_type=media_type)
        except (OSError, ValueError) as problem:
            problems.add(where, f"{path.name}: cannot be attached: {problem}")
            return None

    def schema(self) -> Schema:
        keys = {key: {"type": "string"} for key in (*_FILES, "media_type")}
        return {"anyOf": [{"type": "string"}, {"type": "object", "properties": keys, "additionalProperties": False}]}


class _Seed(Reader):
    """A mapping, a file of JSON or YAML, or a function."""

    words = "a mapping, a file of JSON or YAML, or a function as 'pkg.mod:name'"

    def fits(self, value: Any, problems: Problems) -> bool:
        if isinstance(value, str):
            return bool(value.strip())
        return isinstance(value, Mapping) or (problems.python and (callable(value) or isinstance(value, Path)))

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, Path) or (isinstance(value, str) and not is_import_path(value)):
            path = _find_file(str(value), where, problems)
            return None if path is None else str(path)
        return value

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "object"}]}


def _find_file(name: Any, where: KeyPath, problems: Problems) -> Path | None:
    """The file, which a suite names relative to its own folder."""
    if not isinstance(name, str) or not name.strip():
        problems.add(where, f"expected the path of a file, got {show(name)}")
        return None
    path = (problems.folder / name).absolute()
    if path.is_file():
        return path
    names = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    close = closest(path.name, names)
    hint = f"Did you mean {close!r}?" if close else "The path begins at the folder of the suite"
    problems.add(where, f"there is no file {name!r}", hint)
    return None


class _WorldTools(Reader):
    """`pkg.mod`, `pkg.mod:name`, a list of these, or from Python the module, class, functions or objects."""

    words = "a module as 'pkg.mod', a class or function as 'pkg.mod:name', or a list of these"

    def fits(self, value: Any, problems: Problems) -> bool:
        if isinstance(value, str):
            return all(part.isidentifier() for part in value.replace(":", ".").split(".")) and value.count(":") < 2
        if isinstance(value, list | tuple):
            return bool(value) and all(self.fits(each, problems) for each in value)
        return problems.python and value is not None

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class _GoldCall(Reader):
    """`tool`, `{tool: arguments}` or `{tool: arguments, refused: true}`."""

    words, plural = "a call such as {refund: {order_id: W1}}", "calls such as {refund: {order_id: W1}}"

    def fits(self, value: Any, problems: Problems) -> bool:
        from seatrial.evaluators.end_state import read_gold_call

        try:
            read_gold_call(value)
        except UsageError:
            return False
        return True

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        from seatrial.evaluators.end_state import read_gold_call

        return read_gold_call(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 2}]}


def _check_path(path: str, where: KeyPath, problems: Problems) -> None:
    try:
        parse_path(path)
    except UsageError as problem:
        problems.add(where, str(problem).removesuffix("."))


def _check_moment(text: str, where: KeyPath, problems: Problems) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        problems.add(where, f"expected a time such as 2025-01-01T12:00:00, got {show(text)}")


def _check_world(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    _check_not_empty(made, where, problems)
    if made.get("errors") is not None and "{error}" not in made["errors"]:
        problems.add((*where, "errors"), "'{error}' is missing, so the agent would not see the error")


def _check_end_state(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    if made.get("as_after") is None and not made.get("contains") and not made.get("unchanged"):
        problems.add(where, "checks nothing", "Give it as_after, contains or unchanged")


class _AttackFamily(Reader):
    """A family of Seatrial, or a file of the user with payloads."""

    words, plural = "the name of a family or a file", "names of families or files"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, str) and bool(value.strip())

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        from seatrial.attacks.payloads import FAMILIES, is_file, load_family

        if not is_file(value):
            if value not in FAMILIES:
                problems.add(where, f"unknown family {value!r}", did_you_mean(value, FAMILIES))
            return value
        path = _find_file(value, where, problems)
        if path is None:
            return value
        try:
            load_family(str(path))
        except UsageError as problem:
            for line in str(problem).splitlines():
                problems.add(where, line.removesuffix("."))
        return str(path)

    def schema(self) -> Schema:
        return {"type": "string"}


def _check_goal(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    from .attacks import check_goal_keys

    check_goal_keys(made, where, problems)


READERS: Mapping[str, Reader] = {
    "agent": _Agent(),
    "attack family": _AttackFamily(),
    "attachment": _Attachment(),
    "audio": _Audio(),
    "event pattern": _EventPattern(),
    "function": _Function(),
    "gold call": _GoldCall(),
    "message": _Message(),
    "metric name": _MetricName(pattern=r"\S"),
    "mocks": _Mocks(),
    "scorer": _Scorer(),
    "seed": _Seed(),
    "system": _System(),
    "tools": _Tools(),
    "world tools": _WorldTools(),
}
CHECKS: Mapping[str, Check] = {
    "failure categories": _check_categories,
    "matchers": check_matchers,
    "metadata": _check_metadata,
    "metrics": _check_metrics,
    "moment": _check_moment,
    "path": _check_path,
    "regex": check_pattern,
    "alternative": _check_alternative,
    "AttackGoal": _check_goal,
    "EndState": _check_end_state,
    "Expect": _check_expect,
    "ExpectedCall": _check_call,
    "GateSpec": _check_not_empty,
    "Limits": _check_not_empty,
    "MetricChoice": _check_metric,
    "ModelRoles": _check_not_empty,
    "Scenario": _check_scenario,
    "SequentialSpec": _check_not_empty,
    "Suite": _check_suite,
    "Trajectory": _check_trajectory,
    "Turn": _check_turn,
    "World": _check_world,
}
SCHEMAS: Mapping[str, Schema] = {
    "regex": {"format": "regex"},
    "alternative": {"required": ["name"]},
    "ToolArgs": {"anyOf": [{"required": ["args"]}, {"required": ["judge"]}]},
    "Scenario": {"oneOf": [{"required": [key]} for key in SIDES]},
}
"""What a check adds to the JSON Schema."""
