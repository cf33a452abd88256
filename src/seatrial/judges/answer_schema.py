"""The form of the judge's answer about a trial: made for what is asked, so that nothing can be left out or invented.

Every metric, turn and outcome is a key of its own. An object cannot hold a key twice, a missing or unknown key does not
fit, a score off the scale does not fit either; so whatever fits answers each question exactly once.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from seatrial.model.struct import Struct

from .metrics import Metric, Scale, Scope

Answer: TypeAlias = dict[str, Any]


class Asked(Struct, frozen=True, kw_only=True):
    """What the answer must hold."""

    metrics: tuple[tuple[str, Scope, Scale], ...] = ()
    turns: int
    outcomes: int = 0
    outcomes_optional: bool = False
    """An answer without any outcome fits too, because a score can decide instead."""
    categories: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def opinion_type() -> type[Answer]:
    """Yes or no about one question. The reasons come first, so that the verdict follows from them."""
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
def answer_type(asked: Asked) -> type[Answer]:
    """A typed dictionary that only a complete answer fits."""
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
        fields["failures"] = list[_failure(asked)]  # type: ignore[misc]
    fields["summary"] = str
    kind: type[Answer] = _form("Judgement", fields)
    if asked.outcomes and not asked.outcomes_optional:
        named = BeforeValidator(_require_outcomes(tuple(outcome_ids(("",) * asked.outcomes))))
        kind = Annotated[kind, named]  # type: ignore[assignment]
    return kind


def _require_outcomes(ids: tuple[str, ...]) -> Callable[[Any], Any]:
    """Names every outcome that is not answered: pydantic says of an object that is not there only that it is not."""

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


def _failure(asked: Asked) -> Any:
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
    """True or false of JSON: else pydantic would take "no" or 1 for one of them."""
    from pydantic import StrictBool

    return StrictBool


def _form(name: str, fields: Mapping[str, Any], *, closed: bool = False) -> Any:
    """Keys that must be there; in a closed form no others may be."""
    # The one of typing_extensions: pydantic refuses that of the standard library before Python 3.12.
    from typing_extensions import TypedDict

    make: Any = TypedDict
    form = make(name, dict(fields))
    # Said in both cases: without, a form takes over what holds for the form it stands in.
    form.__pydantic_config__ = {"extra": "forbid" if closed else "ignore"}
    return form
