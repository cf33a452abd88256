"""The types of judges' answers, and the majority of several answers.

The type is made for each question: every metric, turn and outcome is a key. A missing key, an unknown key or a score
off the scale is refused, so a valid answer answers each question exactly once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.llm.client import LLM, full_system
from seatrial.llm.model import ModelFailure, ModelSpec, Question, parse_model, shown_to
from seatrial.model.content import Attachment
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.results import (
    BehaviourFailure,
    Check,
    EvalResult,
    JudgeExchange,
    ModelUse,
    Severity,
    TrialError,
    sum_model_use,
)
from seatrial.model.struct import Struct

from .metrics import Category, Metric, Scale, Scope
from .prompts import mention_attachments
from .rubric import Judge

Answer: TypeAlias = dict[str, Any]


class TrialQuestion(Struct, frozen=True, kw_only=True):
    """What a judge is asked about a trial."""

    metrics: tuple[tuple[str, Scope, Scale], ...] = ()
    turns: int
    outcomes: int = 0
    outcomes_optional: bool = False
    """An answer without outcomes is valid too, because a score can decide."""
    categories: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def opinion_type() -> type[Answer]:
    """The answer to one question. The reasoning comes first, so that the verdict follows from it."""
    kind: type[Answer] = _form("Opinion", {"reasoning": str, "passed": _strict_bool()})
    return kind


def turn_key(index: int) -> str:
    return f"turn_{index + 1}"


def outcome_ids(statements: tuple[str, ...]) -> dict[str, str]:
    """The statements by id."""
    return {f"o{number}": statement for number, statement in enumerate(statements, 1)}


def scale_of(metric: Metric) -> tuple[str, Scope, Scale]:
    return metric.name, metric.scope, metric.scale


@lru_cache(maxsize=64)
def answer_type(asked: TrialQuestion) -> type[Answer]:
    """A typed dictionary that only a complete answer matches."""
    from pydantic import BeforeValidator

    fields: dict[str, Any] = {}
    if asked.metrics:
        metrics = {name: _scores(scope, scale, asked.turns) for name, scope, scale in asked.metrics}
        fields["metrics"] = _form("Metrics", metrics, closed=True)
    if asked.outcomes:
        one = _form("Outcome", {"justification": str, "passed": _strict_bool()})
        outcomes = _form("Outcomes", dict.fromkeys(outcome_ids(("",) * asked.outcomes), one), closed=True)
        none_for_empty = BeforeValidator(lambda given: None if given == {} else given)
        fields["outcomes"] = (
            NotRequired[Annotated[outcomes | None, none_for_empty]] if asked.outcomes_optional else outcomes
        )
    if asked.categories:
        fields["failures"] = list[_failure_model(asked)]  # type: ignore[misc]
    fields["summary"] = str
    kind: type[Answer] = _form("Judgement", fields)
    if asked.outcomes and not asked.outcomes_optional:
        named = BeforeValidator(_require_outcomes(tuple(outcome_ids(("",) * asked.outcomes))))
        kind = Annotated[kind, named]  # type: ignore[assignment]
    return kind


def _require_outcomes(ids: tuple[str, ...]) -> Callable[[Any], Any]:
    """A check that names every missing outcome. Pydantic names only the missing object."""

    def check(given: Any) -> Any:
        outcomes = (given.get("outcomes") or {}) if isinstance(given, dict) else None
        missing = [id for id in ids if id not in outcomes] if isinstance(outcomes, dict) else []
        if missing:
            raise ValueError(f"outcomes that are not answered: {', '.join(missing)}")
        return given

    return check


@lru_cache(maxsize=64)
def _scores(scope: Scope, scale: Scale, turns: int) -> Any:
    score = _score(scale)
    if scope == "trial":
        return score
    return _form(f"{score.__name__}PerTurn", {turn_key(index): score for index in range(turns)}, closed=True)


@lru_cache(maxsize=8)
def _score(scale: Scale) -> Any:
    from pydantic import Field

    if scale == "binary":
        return _form("Decision", {"reason": str, "passed": _strict_bool()})
    number = Annotated[int, Field(strict=True, ge=1 if scale == "1-5" else 0, le=5)]
    return _form(f"Score{scale.replace('-', 'to')}", {"reason": str, "score": number})


def _failure_model(asked: TrialQuestion) -> Any:
    from pydantic import Field

    words = Annotated[str, Field(min_length=1)]
    return _form(
        "Failure",
        {
            "turn": Annotated[int, Field(strict=True, ge=1, le=asked.turns)],
            "category": Literal[asked.categories],
            "label": words,
            "explanation": words,
        },
    )


def _strict_bool() -> Any:
    """JSON true or false only: pydantic also accepts "no" and 1."""
    from pydantic import StrictBool

    return StrictBool


def _form(name: str, fields: Mapping[str, Any], *, closed: bool = False) -> Any:
    """A typed dictionary with required keys; closed: no other keys."""
    # Pydantic refuses typing.TypedDict before Python 3.12.
    from typing_extensions import TypedDict

    make: Any = TypedDict
    form = make(name, dict(fields))
    # Set in both cases: by default a nested type inherits the setting of its parent.
    form.__pydantic_config__ = {"extra": "forbid" if closed else "ignore"}
    return form


NO_MODEL = "no judge model is set"
SET_MODEL = (
    "Set one: --judge-model openai:gpt-5-mini, or models: {judge: …} in the suite, or judge_model in [tool.seatrial], "
    "or model= where the judge is made."
)
Model: TypeAlias = str | Mapping[str, Any] | ModelSpec | None
NOT_THE_AGENT = "The agent is not to blame; check the judge model, or choose another with --judge-model."


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One answer, or the reason why there is none."""

    passed: bool | None
    text: str
    use: ModelUse | None = None
    sent: JudgeExchange | None = None
    """What was sent, and the answer if there is one."""


async def ask_judge(
    judge: Judge, *, system: str, message: str, trial: int, attached: Sequence[Attachment] = ()
) -> EvalResult:
    """What the majority of the votes says; an error of class judge if there is no majority."""
    llm: LLM | None = getattr(judge, "llm", None)
    try:
        given = judge.model if judge.model is not None or llm is not None else _model_of_settings()
        if given is None:
            error = ErrorInfo(kind=ErrorKind.CONFIG, message=NO_MODEL, hint=SET_MODEL)
            return EvalResult(passed=False, reasoning=f"{NO_MODEL}. {SET_MODEL}", error=error)
        model = parse_model(given)
        if llm is not None:
            votes = await _collect(judge, llm, model, (system, message), trial, attached)
        else:
            async with LLM() as own:
                votes = await _collect(judge, own, model, (system, message), trial, attached)
    except UsageError as mistake:
        error = ErrorInfo(kind=ErrorKind.CONFIG, message=str(mistake))
        return EvalResult(passed=False, reasoning=str(mistake), error=error)
    except TrialError as stop:
        return EvalResult(passed=False, reasoning=stop.info.message, error=stop.info)
    return _count(votes, judge.votes)


async def _collect(
    judge: Judge, llm: LLM, model: ModelSpec, prompt: tuple[str, str], trial: int, attached: Sequence[Attachment]
) -> list[Vote]:
    system, message = prompt
    votes: list[Vote] = []
    shown = shown_to(model, attached)
    message += mention_attachments(attached, shown)
    for index in range(judge.votes):
        question: Question[Answer] = Question(
            role="judge",
            model=model,
            system=system,
            messages=(("user", message),),
            attachments=shown,
            schema=opinion_type(),
            salt=f"trial {trial} vote {index}",
            timeout=judge.timeout,
            attempts=judge.retries + 1,
        )
        votes.append(await _vote(llm, question))
        if _is_certain(votes, judge.votes):
            break
    return votes


def _model_of_settings() -> Model:
    """The judge model of the settings, for a judge that is used outside of a run."""
    from os import environ
    from pathlib import Path

    from seatrial.settings import read_settings

    model: Model = read_settings(Path.cwd(), environ)["judge_model"]
    return model


def attempts_in_words(attempts: int) -> str:
    return f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts"


async def _vote(llm: LLM, question: Question[Answer]) -> Vote:
    try:
        answer = await llm.ask(question)
    except ModelFailure as failure:
        return Vote(passed=None, text=str(failure), use=failure.use, sent=exchange_of(question))
    text = answer.value["reasoning"].strip()
    return Vote(passed=answer.value["passed"], text=text, use=answer.use, sent=exchange_of(question, answer.raw))


def exchange_of(question: Question[Answer], *answers: str) -> JudgeExchange:
    """What the judge is sent, and its answers."""
    return JudgeExchange(system=full_system(question), message=question.messages[-1][1], answers=answers)


def join_exchanges(sent: Iterable[JudgeExchange | None]) -> JudgeExchange | None:
    """One exchange of all votes: they are sent the same."""
    known = [one for one in sent if one is not None]
    return replace(known[0], answers=tuple(text for one in known for text in one.answers)) if known else None


def _is_certain(votes: Sequence[Vote], total: int) -> bool:
    """Whether more votes change nothing: there is a majority, or it has become impossible."""
    need = total // 2 + 1
    most = max(sum(vote.passed is answer for vote in votes) for answer in (True, False))
    return most >= need or most + total - len(votes) < need


def _count(votes: Sequence[Vote], total: int) -> EvalResult:
    use, exchange = sum_model_use(vote.use for vote in votes), join_exchanges(vote.sent for vote in votes)
    checks = tuple(
        Check(
            name=f"vote {number}" if total > 1 else "judge",
            passed=vote.passed is True,
            detail=vote.text if vote.passed is not None else f"no answer: {vote.text}",
        )
        for number, vote in enumerate(votes, 1)
    )
    for answer in (True, False):
        same = [vote for vote in votes if vote.passed is answer]
        if len(same) >= total // 2 + 1:
            against = [vote.text for vote in votes if vote.passed is (not answer)]
            reasoning = same[0].text if total == 1 else _with_votes(same[0].text, len(same), len(votes), against)
            return EvalResult(passed=answer, reasoning=reasoning, checks=checks, use=use, exchange=exchange)
    missing = [vote for vote in votes if vote.passed is None]
    message = f"Judge failed after {attempts_in_words(use.calls)}: {missing[-1].text}"
    if total > 1:
        message += f" ({len(missing)} of {len(votes)} votes have no answer, and the others make no majority of {total})"
    error = ErrorInfo(kind=ErrorKind.JUDGE, message=message, hint=NOT_THE_AGENT)
    return EvalResult(passed=False, reasoning=message, checks=checks, error=error, use=use, exchange=exchange)


def _with_votes(text: str, same: int, asked: int, against: Sequence[str]) -> str:
    said = f"{text} ({same} of {asked} votes"
    return f"{said}; disagreeing: {' / '.join(against)})" if against else f"{said})"


Value: TypeAlias = int | bool | None


class Item(NamedTuple):
    """One question of the votes."""

    kind: str
    """score, outcome or failure."""
    name: str
    turn: int | None = None

    def __str__(self) -> str:
        return f"{self.name} in turn {self.turn + 1}" if self.turn is not None else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """One answer: the value and the reason of each item."""

    items: Mapping[Item, tuple[int | bool, str]]
    failures: tuple[BehaviourFailure, ...] = ()
    summary: str = ""
    outcomes_given: bool = True

    def value(self, item: Item) -> Value:
        # A failure that is not named did not happen. A missing outcome was not answered.
        return self.items[item][0] if item in self.items else (False if item.kind == "failure" else None)


class Undecided(Exception):
    """The votes have no majority for these items."""

    def __init__(self, items: Sequence[Item]) -> None:
        super().__init__(", ".join(map(str, items)))


def parse_answer(
    answer: Answer, *, metrics: Sequence[Metric], turns: int, categories: Mapping[str, Category]
) -> ParsedAnswer:
    """The items of a valid answer."""
    items: dict[Item, tuple[int | bool, str]] = {}
    for metric in metrics:
        given = answer["metrics"][metric.name]
        if metric.scope == "trial":
            items[Item("score", metric.name)] = _graded(given)
        else:
            for turn in range(turns):
                items[Item("score", metric.name, turn)] = _graded(given[turn_key(turn)])
    outcomes = answer.get("outcomes")
    for id, said in (outcomes or {}).items():
        items[Item("outcome", id)] = (said["passed"], said["justification"])
    failures = tuple(_failure(given, categories) for given in answer.get("failures", ()))
    for failure in failures:
        items[_item(failure)] = (True, failure.explanation)
    return ParsedAnswer(items=items, failures=failures, summary=answer["summary"], outcomes_given=bool(outcomes))


def is_settled(answers: Sequence[ParsedAnswer], total: int) -> bool:
    """Whether every item has a majority of all votes already."""
    # Count the answers first: those without failures have no items, but the next one may name some.
    return len(answers) > total // 2 and all(
        _majority(values, total) is not None for _, values in (*_votes(answers), *_severities(answers))
    )


def combine(answers: Sequence[ParsedAnswer], total: int) -> ParsedAnswer:
    """The majority of the answers. Raises Undecided."""
    if total == 1 and len(answers) == 1:
        return answers[0]
    decided: dict[Item, tuple[int | bool, str]] = {}
    open_items: list[Item] = []
    for item, values in _votes(answers):
        winner = _majority(values, total)
        if winner is None and item.kind == "score" and len(answers) == total:
            winner = (sorted(values)[total // 2],)
        if winner is None:
            open_items.append(item)
        elif winner[0] is not None:
            decided[item] = (winner[0], _reason(answers, item, winner[0]))
    open_items += [item for item, values in _severities(answers) if _majority(values, total) is None]
    if open_items or len(answers) <= total // 2:
        raise Undecided(open_items)
    seen = {item for item, (value, _) in decided.items() if item.kind == "failure" and value}
    return ParsedAnswer(
        items=decided,
        failures=_failures_seen(answers, seen, total),
        summary=answers[0].summary,
        outcomes_given=any(item.kind == "outcome" for item in decided),
    )


def _failures_seen(answers: Sequence[ParsedAnswer], seen: set[Item], total: int) -> tuple[BehaviourFailure, ...]:
    """The failures that a majority names. If a majority names failures of some severity, but each another failure,
    the most frequent one is reported."""
    named = {_item(failure): failure for answer in reversed(answers) for failure in reversed(answer.failures)}
    kept = {item: failure for item, failure in named.items() if item in seen}
    for severity in reversed(Severity):
        seeing = [_as_severe(answer, severity) for answer in answers]
        told = any(failure.severity.rank >= severity.rank for failure in kept.values())
        if sum(map(bool, seeing)) > total // 2 and not told:
            (most, _), *_ = Counter(item for items in seeing for item in dict.fromkeys(items)).most_common(1)
            kept[most] = named[most]
    return tuple(sorted(kept.values(), key=lambda failure: (failure.turn or 0, failure.category)))


def _severities(answers: Sequence[ParsedAnswer]) -> Iterator[tuple[Item, list[Any]]]:
    """For each severity, which answers name any failure that is at least as severe."""
    for severity in Severity:
        seen = [bool(_as_severe(answer, severity)) for answer in answers]
        if any(seen):
            yield Item("severity", f"whether a failure is {severity} or worse"), seen


def _as_severe(answer: ParsedAnswer, severity: Severity) -> list[Item]:
    return [_item(failure) for failure in answer.failures if failure.severity.rank >= severity.rank]


def _item(failure: BehaviourFailure) -> Item:
    return Item("failure", failure.category, failure.turn)


def disagreements(answers: Sequence[ParsedAnswer]) -> list[str]:
    """The items on which the votes differ, in words."""
    return [
        f"{item}: {', '.join(str(value) for value in values)}"
        for item, values in _votes(answers)
        if len(set(values)) > 1
    ]


def _votes(answers: Sequence[ParsedAnswer]) -> Iterator[tuple[Item, list[Any]]]:
    items = dict.fromkeys(item for answer in answers for item in answer.items)
    for item in items:
        yield item, [answer.value(item) for answer in answers]


def _majority(values: Sequence[Value], total: int) -> tuple[Value] | None:
    """The value that more than half of all votes give, as a tuple because the value itself can be None."""
    value, count = Counter(values).most_common(1)[0]
    return (value,) if count > total // 2 else None


def _reason(answers: Sequence[ParsedAnswer], item: Item, value: int | bool) -> str:
    return next(
        (answer.items[item][1] for answer in answers if item in answer.items and answer.value(item) == value), ""
    )


def _graded(given: Mapping[str, Any]) -> tuple[int | bool, str]:
    return given["passed"] if "passed" in given else given["score"], given["reason"]


def _failure(given: Mapping[str, Any], categories: Mapping[str, Category]) -> BehaviourFailure:
    return BehaviourFailure(
        category=given["category"],
        severity=categories[given["category"]].severity,
        label=given["label"],
        explanation=given["explanation"],
        turn=given["turn"] - 1,
    )
