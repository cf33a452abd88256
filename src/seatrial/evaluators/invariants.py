"""Invariants: rules about the order, number and arguments of events that hold in every scenario.

never: P                      no event matches P
never: P, before: Q           every P has an earlier successful Q
after: P, always: Q           every P is followed by a successful Q
at_most: n, of: P, per: args  at most n successful P for each combination of these arguments
every: P, where: args         the arguments of every P match
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.keys import Format, Key
from seatrial.model.protocols import Context, TrialContext
from seatrial.model.results import Check, EvalResult, InvariantCheck
from seatrial.model.scenario import Count, Name
from seatrial.model.struct import InputStruct, set_field
from seatrial.model.transcript_events import AgentSaid, CallMade, TranscriptEvent, decoded, events_of, history_events
from seatrial.model.value_paths import ValuePath, parse_path

from .built_in import (
    arguments_not_recorded,
    calls_not_known,
    check_arguments,
    check_expected,
    is_surely_absent,
    no_answer,
    texts,
)
from .event_patterns import Pattern, fits, in_words, names_calls, names_texts, read_pattern, successful
from .matchers import OPERATORS, Answer, every, mismatch, operator_of, shown, some
from .redacted_evidence import holds_redaction, matches_surely, secret_in_arguments, secret_in_reply

EventSpec = Annotated[Any, Format("event pattern")]
ALL_ARGUMENTS = "*"
_FROM = "$from"
_MAX_COMBINATIONS = 1_000
"""Of the values to which the paths of one `where` lead."""
_SHOWN = 3
"""Violations in a message."""
_FORMS = {"never": (), "after": ("always",), "at_most": ("of",), "every": ("where",)}
"""The first key of each form, and the keys that it needs."""
_BELONGS = {"before": "never", "always": "after", "of": "at_most", "per": "at_most", "where": "every"}
_EXAMPLE = "Write one such as {never: refund, before: verify_identity}."


class Invariant(InputStruct, frozen=True, kw_only=True):
    """A rule for every scenario: what never happens, what comes before or after, how often, with which arguments."""

    name: Annotated[Name | None, Key("its name in reports and in `exempt`; without it, the rule in words")] = None
    never: Annotated[EventSpec, Key("an event that never happens; with `before`, not before that one")] = None
    before: Annotated[EventSpec, Key("of `never`: the successful event that must come first")] = None
    after: Annotated[EventSpec, Key("an event that needs another one after it")] = None
    always: Annotated[EventSpec, Key("of `after`: the event that must follow")] = None
    at_most: Annotated[Count | None, Key("how often an event may succeed")] = None
    of: Annotated[EventSpec, Key("of `at_most`: the event that is counted")] = None
    per: Annotated[
        Sequence[Name] | None,
        Meta(min_length=1),
        Key("of `at_most`: counted for each combination of these arguments; `*`: of all arguments"),
    ] = None
    every: Annotated[EventSpec, Key("calls whose arguments must match `where`")] = None
    where: Annotated[
        Annotated[Mapping[str, Any], Meta(min_length=1)] | None,
        Key("of `every`: matchers by argument; {$from: tool.path} is a value of that tool's latest result"),
    ] = None
    match: Annotated[
        Sequence[Name] | None, Meta(min_length=1), Key("arguments that are equal in both calls, or in call and result")
    ] = None
    within_turns: Annotated[
        Annotated[int, Meta(ge=0)] | None, Key("the greatest distance of the two events, in turns; 0: the same turn")
    ] = None

    evaluator_name: ClassVar[str] = "invariant"

    def __post_init__(self) -> None:
        form = self.form
        for key in ("never", "before", "after", "always", "of", "every"):
            given = getattr(self, key)
            if given is not None:
                set_field(self, key, read_pattern(key, given))
        for key in ("per", "match"):
            if getattr(self, key) is not None:
                set_field(self, key, texts(key, getattr(self, key)))
        _check_numbers(self)
        _CHECKS[form](self)

    @property
    def form(self) -> str:
        """The key that begins the rule. Raises UsageError if the keys make no rule."""
        found = [form for form in _FORMS if getattr(self, form) is not None]
        if len(found) != 1:
            what = f"{' and '.join(found)} are different rules" if found else "it says nothing"
            raise UsageError(f"{what}: give exactly one of {', '.join(_FORMS)}. {_EXAMPLE}")
        for key in _FORMS[found[0]]:
            if getattr(self, key) is None:
                raise UsageError(f"{found[0]!r} needs {key!r}. {_EXAMPLE}")
        for key, form in _BELONGS.items():
            if getattr(self, key) is not None and form != found[0]:
                raise UsageError(f"{key!r} belongs to {form!r}, not to {found[0]!r}. {_EXAMPLE}")
        return found[0]

    @property
    def title(self) -> str:
        """The name, or the rule in words."""
        return self.name or _rule(self)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All its patterns."""
        given = (self.never, self.before, self.after, self.always, self.of, self.every)
        return tuple(pattern for pattern in given if pattern is not None)

    @property
    def is_about_calls_only(self) -> bool:
        """Whether texts and turns have no part in it."""
        return self.within_turns is None and not any(map(names_texts, self.patterns))

    @property
    def sources(self) -> tuple[str, ...]:
        """The tools of `$from`."""
        return tuple(tool for tool, _ in map(_source, _froms(self.where or {})))

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not isinstance(ctx, TrialContext):
            return no_answer(f"{self.title}: a rule is about a whole trial", hint="Give it to the scenario or suite.")
        if self.after is not None and ctx.transcript.error is not None:
            return no_answer(
                f"{self.title}: the trial ended with an error, before what must follow", hint="Run it again."
            )
        found = _Findings(self, ctx)
        _FINDERS[self.form](self, found)
        return found.result()


def _rule(rule: Invariant) -> str:
    if rule.never is not None:
        text = f"never {in_words(rule.never)}"
        return text if rule.before is None else f"{text} before {in_words(rule.before)}"
    if rule.after is not None:
        return f"after {in_words(rule.after)} always {in_words(rule.always)}"
    if rule.of is not None:
        return f"at most {rule.at_most} {in_words(rule.of)}{_per_words(rule.per)}"
    return f"every {in_words(rule.every)} where {', '.join(rule.where or ())} fits"


def _per_words(per: Sequence[str] | None) -> str:
    if per is None:
        return ""
    return " per equal arguments" if ALL_ARGUMENTS in per else f" per {', '.join(per)}"


def _check_numbers(rule: Invariant) -> None:
    for key, least in (("at_most", 1), ("within_turns", 0)):
        value = getattr(rule, key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise UsageError(f"{key}: expected a whole number of at least {least}, got {shown(value)}.")


def _check_pair(rule: Invariant) -> None:
    """A rule about two events, or `never` alone."""
    first, second = rule.never or rule.after, rule.before or rule.always
    for key in ("match", "within_turns"):
        if getattr(rule, key) is not None and second is None:
            raise UsageError(f"{key!r} compares two events, and this rule has one. Add 'before'.")
    if rule.match is not None and (names_texts(first) or names_texts(second)):
        raise UsageError("'match' compares arguments of calls, and a text has none. Name calls only, or remove it.")


def _check_count(rule: Invariant) -> None:
    if rule.per is not None and names_texts(rule.of):
        raise UsageError("'per' is about arguments of calls, and a text has none. Name calls only, or remove it.")
    for key in ("match", "within_turns"):
        if getattr(rule, key) is not None:
            raise UsageError(f"{key!r} compares two events, and 'at_most' counts one. Remove it.")


def _check_every(rule: Invariant) -> None:
    if names_texts(rule.every):
        raise UsageError("'every' checks arguments of calls, and a text has none. Write {never: {says: …}} instead.")
    if not isinstance(rule.where, Mapping) or not rule.where:
        raise UsageError(f"where: expected matchers by argument, got {shown(rule.where)}.")
    froms = list(_froms(rule.where))
    for key in ("match", "within_turns"):
        if getattr(rule, key) is not None and not froms:
            raise UsageError(f"{key!r} compares the call with a result, and 'where' has no {{{_FROM}: tool.path}}.")
    for text in froms:
        _source(text)
    problems = [f"where.{text}" for key, value in rule.where.items() for text in _where_problems(str(key), value)]
    if problems:
        raise UsageError("\n".join(problems))


def _where_problems(key: str, value: Any) -> list[str]:
    if not list(_froms(value)):
        return check_arguments({key: value})
    name = operator_of(value) if isinstance(value, Mapping) else None
    if name not in (None, _FROM, *OPERATORS):
        return check_expected(value, path=key)
    return []


_CHECKS = {"never": _check_pair, "after": _check_pair, "at_most": _check_count, "every": _check_every}


def _froms(value: Any) -> Iterator[Any]:
    """What each `$from` in the value names."""
    if isinstance(value, Mapping):
        if operator_of(value) == _FROM:
            yield value[_FROM]
            return
        for item in value.values():
            yield from _froms(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _froms(item)


def _source(text: Any) -> tuple[str, ValuePath]:
    """The tool and the path into its result. Raises UsageError if the text is not `tool.path`."""
    if not isinstance(text, str):
        raise UsageError(f"{_FROM}: expected a tool and a path such as lookup_order.total, got {shown(text)}.")
    path = parse_path(text)
    tool, *steps = path.steps
    if not isinstance(tool, str) or not steps:
        raise UsageError(f"{_FROM}: expected a tool and a path such as lookup_order.total, got {text!r}.")
    return tool, ValuePath(text=text, steps=tuple(steps))


class _Findings:
    """What one trial shows about one rule."""

    def __init__(self, rule: Invariant, ctx: TrialContext) -> None:
        self.rule = rule
        self.ctx = ctx
        earlier = list(history_events(ctx.transcript)) if ctx.transcript.history else []
        self.events: list[TranscriptEvent] = [*earlier, *events_of(ctx.transcript)]
        self.begin = len(earlier)
        """The first event of the trial; those before it are history, which the agent did not cause."""
        self.triggered = 0
        self.violations: list[str] = []
        self._open: list[EvalResult] = []
        """Why the trial does not answer the question."""

    def own(self) -> Iterator[tuple[int, TranscriptEvent]]:
        """The events of the trial, with their places."""
        return ((place, self.events[place]) for place in range(self.begin, len(self.events)))

    def leave_open(self, event: TranscriptEvent) -> None:
        """The evidence about this event does not decide."""
        what = self.rule.title
        if not isinstance(event, CallMade):
            part = "reply" if isinstance(event, AgentSaid) else "user's message"
            self._open.append(secret_in_reply(what, self.ctx, searched_for="patterns", part=part))
        elif event.call.args is None:
            self._open.append(arguments_not_recorded(what, tool=event.call.name))
        else:
            self._open.append(secret_in_arguments(what, self.ctx, tool=event.call.name))

    def lacks(self, pattern: Pattern, message: str) -> None:
        """No event fits the pattern: a violation if its calls would have been seen."""
        if all(is_surely_absent(name, self.ctx) for one in pattern for name in one.tools):
            self.violations.append(message)
        else:
            self._open.append(calls_not_known(self.rule.title, self.ctx))

    def result(self) -> EvalResult:
        title = self.rule.title
        if self.violations:
            different = list(dict.fromkeys(self.violations))
            more = len(different) - _SHOWN
            shown_ones = [*different[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
            return self._made(f"{title}: {'; '.join(shown_ones)}", passed=False)
        if self._open:
            return self._open[0]
        about_calls = any(map(names_calls, self.rule.patterns))
        of_calls = names_calls(self.rule.never or self.rule.after or self.rule.of or self.rule.every)
        if (about_calls and self.ctx.tool_calls is None) or (of_calls and not self.ctx.knows_all_calls):
            return calls_not_known(title, self.ctx)
        if self.rule.form == "never" and self.rule.before is None:
            return self._made(f"{title}: holds", passed=True)
        count = "not triggered" if not self.triggered else f"holds, triggered {_times(self.triggered)}"
        return self._made(f"{title}: {count}", passed=True)

    def _made(self, reasoning: str, *, passed: bool) -> EvalResult:
        title = self.rule.title
        alone = self.rule.form == "never" and self.rule.before is None
        return EvalResult(
            passed=passed,
            reasoning=reasoning,
            checks=(Check(name=title, passed=passed),),
            invariant=InvariantCheck(
                name=title, triggered=None if alone else self.triggered, violations=len(self.violations)
            ),
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _find_pairs(rule: Invariant, found: _Findings) -> None:
    """`never: P`, `never: P, before: Q` and `after: P, always: Q`."""
    first: Pattern = rule.never or rule.after
    second: Pattern | None = rule.before or rule.always
    needed = None if second is None else successful(second)
    for place, event in found.own():
        is_first = fits(first, event)
        if is_first is False:
            continue
        found.triggered += is_first is True
        if needed is None:
            _note_forbidden(is_first, event, found)
            continue
        others = found.events[:place] if rule.never is not None else found.events[place + 1 :]
        answers = [_belongs(rule, needed, event, other) for other in others]
        if True in answers:
            continue
        if is_first is None:
            found.leave_open(event)
        elif None in answers:
            found.leave_open(others[answers.index(None)])
        else:
            assert second is not None
            found.lacks(second, _lacking(rule, event, second))


def _note_forbidden(is_first: Answer, event: TranscriptEvent, found: _Findings) -> None:
    if is_first is None:
        found.leave_open(event)
    else:
        found.violations.append(_told(event))


def _belongs(rule: Invariant, needed: Pattern, event: TranscriptEvent, other: TranscriptEvent) -> Answer:
    """Whether the other event is the one that this event needs."""
    if not _is_near(rule, event, other):
        return False
    answer = fits(needed, other)
    if answer is False or rule.match is None:
        return answer
    assert isinstance(event, CallMade)
    assert isinstance(other, CallMade)
    return every((answer, _has_equal(rule.match, event.call, [other.call.arguments])))


def _is_near(rule: Invariant, event: TranscriptEvent, other: TranscriptEvent) -> bool:
    return rule.within_turns is None or abs(event.turn - other.turn) <= rule.within_turns


_MISSING = object()


def _has_equal(names: Sequence[str], call: ToolCall, others: Sequence[Any]) -> Answer:
    """Whether these arguments have equal values in the call and in the first of the others that has them."""
    if call.arguments is None or all(other is None for other in others):
        return None
    answers: list[Answer] = []
    for name in names:
        ours = (call.args or {}).get(name, _MISSING)
        holders = [other for other in others if isinstance(other, Mapping) and name in other]
        theirs = holders[0][name] if holders else _MISSING
        if ours is _MISSING or theirs is _MISSING:
            answers.append(False)
        elif holds_redaction(ours) or holds_redaction(theirs):
            answers.append(None)
        else:
            answers.append(_canonical(ours) == _canonical(theirs))
    return every(answers)


def _canonical(value: Any) -> Any:
    """A value that is equal and hashed as in JSON: 1 is 1.0, and true is not 1."""
    if isinstance(value, Mapping):
        return frozenset((key, _canonical(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_canonical, value))
    return ("bool", value) if isinstance(value, bool) else value


def _lacking(rule: Invariant, event: TranscriptEvent, second: Pattern) -> str:
    same = f" with the same {', '.join(rule.match)}" if rule.match else ""
    near = "" if rule.within_turns is None else f" within {rule.within_turns} turns"
    if rule.never is not None:
        return f"{_told(event)} without an earlier successful {in_words(second)}{same}{near}"
    return f"{_told(event)} without {in_words(second)} after it{same}{near}"


def _told(event: TranscriptEvent) -> str:
    """`refund({'order_id': 'W1'}) in turn 2`."""
    if isinstance(event, CallMade):
        arguments = "…" if event.call.arguments is None else shown(event.call.arguments)
        return f"{event.call.name}({arguments}) in turn {event.turn + 1}"
    return f"{shown(event.text)} in turn {event.turn + 1}"


def _find_counts(rule: Invariant, found: _Findings) -> None:
    """`at_most: n, of: P, per: args`."""
    counts: Counter[Any] = Counter()
    last: dict[Any, TranscriptEvent] = {}
    pattern = successful(rule.of)
    for _, event in found.own():
        answer = fits(pattern, event)
        unknown = rule.per is not None and isinstance(event, CallMade) and event.call.arguments is None
        if answer is None or (answer and unknown):
            found.leave_open(event)
        elif answer:
            found.triggered += 1
            key = _combination(rule, event)
            counts[key] += 1
            last[key] = event
    limit = rule.at_most or 0
    for key, count in counts.items():
        event = last[key]
        if count <= limit:
            continue
        if rule.per is not None and isinstance(event, CallMade) and holds_redaction(event.call.arguments):
            found.leave_open(event)  # the secrets may have been different
        else:
            found.violations.append(f"{_told(event)}: {_times(count)}, and at most {_times(limit)} is allowed")


def _combination(rule: Invariant, event: TranscriptEvent) -> Any:
    if rule.per is None or not isinstance(event, CallMade):
        return None
    arguments = event.call.args
    if arguments is None:
        return _canonical(event.call.arguments)
    if ALL_ARGUMENTS in rule.per:
        return event.call.name, _canonical(arguments)
    return tuple(_canonical(arguments[name]) if name in arguments else _MISSING for name in rule.per)


def _find_mismatches(rule: Invariant, found: _Findings) -> None:
    """`every: P, where: args`."""
    for place, event in found.own():
        is_first = fits(rule.every, event)
        if is_first is False:
            continue
        assert isinstance(event, CallMade)
        found.triggered += is_first is True
        if is_first is None or event.call.arguments is None:
            found.leave_open(event)
        elif event.call.args is None:
            found.violations.append(f"{_told(event)}: the arguments are no mapping")
        else:
            _check_where(rule, found, place, event)


def _check_where(rule: Invariant, found: _Findings, place: int, event: CallMade) -> None:
    assert rule.where is not None
    assert event.call.args is not None
    for name, expected in rule.where.items():
        if name not in event.call.args:
            found.violations.append(f"{_told(event)}: {name} is missing")
            continue
        values: dict[str, list[Any]] = {}
        for text in _froms(expected):
            source = _latest(rule, found, place, _source(text)[0])
            if source is None:
                return
            values[text] = _values_at(_source(text)[1], source)
        actual = event.call.args[name]
        options = list(islice(_filled(expected, values), _MAX_COMBINATIONS))
        answer = some(matches_surely(option, actual) for option in options)
        if answer is None:
            found.leave_open(event)
        elif not answer:
            why = mismatch(options[0], actual) if options else f"no value at {', '.join(values)}"
            found.violations.append(f"{_told(event)}: {name}: {why}")


def _latest(rule: Invariant, found: _Findings, place: int, tool: str) -> ToolCall | None:
    """The latest earlier successful call of the tool that belongs to this one; notes why there is none."""
    event = found.events[place]
    assert isinstance(event, CallMade)
    for other in reversed(found.events[:place]):
        if not isinstance(other, CallMade) or other.call.name != tool or other.call.error is not None:
            continue
        if not _is_near(rule, event, other):
            continue
        held = (decoded(other.call.result), other.call.arguments)
        answer = True if rule.match is None else _has_equal(rule.match, event.call, held)
        if answer is None:
            found.leave_open(event)
            return None
        if answer:
            return other.call
    needed = read_pattern(_FROM, tool)
    found.lacks(needed, _lacking_result(rule, event, tool))
    return None


def _lacking_result(rule: Invariant, event: CallMade, tool: str) -> str:
    same = f" with the same {', '.join(rule.match)}" if rule.match else ""
    return f"{_told(event)} without an earlier result of {tool}{same}"


def _values_at(path: ValuePath, call: ToolCall) -> list[Any]:
    """The values in the result. One that looks like a matcher is left out: it would match what it likes."""
    found = (value for _, value in path.find(decoded(call.result)))
    return [value for value in found if not _looks_like_matcher(value)]


def _looks_like_matcher(value: Any) -> bool:
    if isinstance(value, Mapping):
        return operator_of(value) is not None or any(map(_looks_like_matcher, value.values()))
    return isinstance(value, list | tuple) and any(map(_looks_like_matcher, value))


def _filled(expected: Any, values: Mapping[str, list[Any]]) -> Iterator[Any]:
    """The expectation with each combination of the values for its `$from`."""
    names = list(values)
    for chosen in product(*values.values()):
        yield _with_values(expected, dict(zip(names, chosen, strict=True)))


def _with_values(expected: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(expected, Mapping):
        if operator_of(expected) == _FROM:
            return values[expected[_FROM]]
        return {key: _with_values(item, values) for key, item in expected.items()}
    if isinstance(expected, list | tuple):
        return [_with_values(item, values) for item in expected]
    return expected


_FINDERS = {"never": _find_pairs, "after": _find_pairs, "at_most": _find_counts, "every": _find_mismatches}


def irreversible(tools: Sequence[str]) -> tuple[Invariant, ...]:
    """The rules for tools that must not run twice with equal arguments."""
    return tuple(Invariant(name=f"{tool} at most once", at_most=1, of=tool, per=(ALL_ARGUMENTS,)) for tool in tools)
