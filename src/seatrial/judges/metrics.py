"""Metrics that a judge grades, and categories of behaviour failures with their severity."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from math import fsum, isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import field
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.results import FULL_MARKS, MetricScore, Severity, weighted_score
from seatrial.model.scenario import MetricChoice
from seatrial.model.struct import Struct

_CATEGORIES_FILE = Path(__file__).with_name("failures.toml")


class Category(Struct, frozen=True, kw_only=True):
    """A kind of behaviour failure, with its severity. The judge names only the category."""

    name: str
    severity: Severity
    means: str


def load_categories(path: Path | None = None, *, severities: Mapping[str, str] | None = None) -> Mapping[str, Category]:
    """The categories by name, from the package or the user's file, with the user's severities."""
    categories = dict(_load_categories(path or _CATEGORIES_FILE))
    for name, severity in (severities or {}).items():
        if name not in categories:
            close = get_close_matches(name, categories, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"severities: unknown category {name!r}.{guess} Known: {', '.join(categories)}.")
        categories[name] = replace(categories[name], severity=_severity(f"severities: {name}", severity))
    return categories


def _severity(where: str, word: Any) -> Severity:
    try:
        return Severity(word)
    except ValueError:
        raise UsageError(f"{where}: unknown severity {word!r}. Known: {', '.join(Severity)}.") from None


@lru_cache(maxsize=8)
def _load_categories(path: Path) -> Mapping[str, Category]:
    import tomllib

    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the categories cannot be read: {error}") from error
    if not tables:
        raise UsageError(f"{path}: no category is defined, so no failure could be found.")
    return {name: _read(name, table, where=f"{path}: [{name}]") for name, table in tables.items()}


def _read(name: str, table: Any, *, where: str) -> Category:
    if not isinstance(table, dict) or set(table) != {"severity", "means"} or not isinstance(table["means"], str):
        raise UsageError(f"{where}: expected exactly 'severity' and 'means', got {table!r}.")
    return Category(name=name, severity=_severity(where, table["severity"]), means=table["means"])


Scale: TypeAlias = Literal["0-5", "1-5", "binary"]
Scope: TypeAlias = Literal["turn", "trial"]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "default": (
        "tool_routing",
        "parameter_extraction",
        "result_interpretation",
        "grounding_fidelity",
        "instruction_compliance",
        "information_gathering",
        "conversation_management",
        "response_delivery",
    ),
    "conversation": ("helpfulness", "coherence", "relevance", "faithfulness", "verbosity", "goal_completion"),
}
"""Names for several metrics."""
LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")
_METRICS_FILE = Path(__file__).with_name("metrics.toml")
_KEYS = ("asks", "scope", "scale", "weight", "tier", "scores", "pass", "needs")


class Metric(Struct, frozen=True, kw_only=True):
    """Something a judge grades on a scale, per turn or per trial."""

    name: str
    asks: str
    scale: Scale = "0-5"
    scope: Scope = "trial"
    weight: float | None = None
    """The share in the overall score (`resolve_metrics` makes the sum 1); None: not part of the score."""
    tier: str | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    """What each score means, by the score; `pass` and `fail` for binary metrics."""
    pass_value: float = FULL_MARKS
    """The value of a pass, for binary metrics; a fail is 0."""
    needs: Literal["contexts"] | None = None
    """What the agent must return, so that it can be graded."""

    @property
    def lowest(self) -> int:
        return 1 if self.scale == "1-5" else 0

    def value_of(self, answer: int | bool) -> float:
        """The judge's answer as a number on the metric's scale."""
        if self.scale == "binary":
            return self.pass_value if answer else 0.0
        return float(answer)

    def label_of(self, value: float) -> str:
        """The value in words."""
        if self.scale == "binary":
            return "pass" if value else "fail"
        return LABELS[int(value)]


def load_metrics(path: Path | None = None) -> Mapping[str, Metric]:
    """The metrics by name, from the package or the user's file."""
    return _load_metrics(path or _METRICS_FILE)


def resolve_metrics(
    choices: Sequence[MetricChoice], *, known: Mapping[str, Metric] | None = None
) -> tuple[Metric, ...]:
    """The metrics of a `metrics:` list, with weights that sum to 1."""
    if not choices:
        raise UsageError("metrics: the list is empty, which would grade nothing. Leave it out, or write [default].")
    metrics = load_metrics() if known is None else known
    found: dict[str, Metric] = {}
    for metric in (metric for choice in choices for metric in _expand(choice, metrics)):
        if metric.name in found:
            raise UsageError(f"metrics: {metric.name!r} is chosen twice. Keep one entry.")
        found[metric.name] = metric
    return _normalised(tuple(found.values()))


def overall_score(scores: Iterable[MetricScore]) -> float:
    """0 to 100: the weighted mean of the scores that have a weight, at two decimals."""
    score = weighted_score(scores)
    if score is None:
        raise UsageError("metrics: no score has a weight above 0, so there is no overall score. Give one a weight.")
    return round(score, 2)


def _expand(choice: MetricChoice, metrics: Mapping[str, Metric]) -> list[Metric]:
    where = f"metrics: {choice.name!r}"
    _check_weight(where, choice.weight)
    if choice.name in GROUPS:
        if choice != MetricChoice(name=choice.name):
            raise UsageError(f"{where} stands for several metrics. List a metric by its own name to change it.")
        return [_known(MetricChoice(name=name), metrics) for name in GROUPS[choice.name]]
    return [_known(choice, metrics) if choice.rubric is None else _custom(choice, metrics)]


def _known(choice: MetricChoice, metrics: Mapping[str, Metric]) -> Metric:
    where = f"metrics: {choice.name!r}"
    metric = metrics.get(choice.name)
    if choice.definition is not None:
        metric = read_metric(choice.name, choice.definition, where=where)
    if metric is None:
        words = [*GROUPS, *metrics]
        close = get_close_matches(choice.name, words, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"metrics: unknown metric {choice.name!r}.{guess} Known: {', '.join(words)}. "
            "A metric of your own needs a rubric."
        )
    if choice.scale is not None or choice.scope is not None:
        raise UsageError(f"{where} is already defined; its scale and scope are fixed. Give your own another name.")
    if choice.weight is None:
        if metric.weight == 0:
            raise UsageError(f"{where} needs a weight. Write {{name: {choice.name}, weight: 0.2}}.")
        return metric
    if metric.weight is None:
        raise UsageError(f"{where} is not part of the overall score, so it has no weight. Set a threshold instead.")
    return replace(metric, weight=choice.weight)


def _custom(choice: MetricChoice, metrics: Mapping[str, Metric]) -> Metric:
    where = f"metrics: {choice.name!r}"
    if choice.name in metrics:
        raise UsageError(f"{where} is already defined. Give your own metric another name.")
    if not choice.rubric or not choice.rubric.strip():
        raise UsageError(f"{where} has an empty rubric. Say what the judge is to look at.")
    scope = choice.scope or "trial"
    if scope == "turn" and choice.weight is not None:
        raise UsageError(f"{where} is graded per turn, so it has no part in the overall score. Drop the weight.")
    return Metric(name=choice.name, asks=choice.rubric, scale=choice.scale or "0-5", scope=scope, weight=choice.weight)


def _check_weight(where: str, weight: float | None) -> None:
    if weight is None:
        return
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight) or weight < 0:
        raise UsageError(f"{where} has the weight {weight!r}. A weight is 0 or more.")


def _normalised(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    weights = [metric.weight for metric in metrics if metric.weight is not None]
    if not weights:
        return metrics
    total = fsum(weights)
    if total <= 0 or not isfinite(total):
        raise UsageError(f"metrics: the weights add up to {total!r}, so there is no overall score. Give one a weight.")
    return tuple(
        metric if metric.weight is None else replace(metric, weight=metric.weight / total) for metric in metrics
    )


def load_definitions(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The tables of a file of metrics, checked, as they are written."""
    import tomllib

    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the metrics cannot be read: {error}") from error
    for name, table in tables.items():
        if name in GROUPS:
            raise UsageError(f"{path}: [{name}] stands for several metrics. Define each by its own name.")
        read_metric(name, table, where=f"{path}: [{name}]")
    return tables


@lru_cache(maxsize=8)
def _load_metrics(path: Path) -> Mapping[str, Metric]:
    return {name: read_metric(name, table, where=f"{path}: [{name}]") for name, table in load_definitions(path).items()}


def read_metric(name: str, table: Any, *, where: str) -> Metric:
    """The metric that a table defines. Raises UsageError when it does not."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: expected a table of {', '.join(_KEYS)}, got {table!r}.")
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}. Known: {', '.join(_KEYS)}.")
    asks, scale, scope = table.get("asks"), table.get("scale", "0-5"), table.get("scope", "trial")
    if not isinstance(asks, str) or not asks.strip():
        raise UsageError(f"{where}: 'asks' must say what the judge is asked.")
    if scale not in ("0-5", "1-5", "binary") or scope not in ("turn", "trial"):
        raise UsageError(
            f"{where}: scale is '0-5', '1-5' or 'binary', scope 'turn' or 'trial'; got {scale!r}, {scope!r}."
        )
    _check_weight(where, table.get("weight"))
    if scope == "turn" and table.get("weight") is not None:
        raise UsageError(f"{where} is graded per turn, so it has no part in the overall score. Drop the weight.")
    scores = table.get("scores", {})
    if not isinstance(scores, Mapping):
        raise UsageError(f"{where}: 'scores' must be a table that says what each score means, got {scores!r}.")
    return Metric(
        name=name,
        asks=asks,
        scale=scale,
        scope=scope,
        weight=table.get("weight"),
        tier=table.get("tier"),
        scores={str(score): str(means) for score, means in scores.items()},
        pass_value=_read_pass_value(table, scale, where=where),
        needs=_read_needs(table.get("needs"), where=where),
    )


def _read_needs(needs: Any, *, where: str) -> Literal["contexts"] | None:
    if needs is None or needs == "contexts":
        return "contexts" if needs else None
    raise UsageError(f"{where}: 'needs' can only be 'contexts', got {needs!r}.")


def _read_pass_value(table: Mapping[str, Any], scale: Scale, *, where: str) -> float:
    if "pass" not in table:
        return FULL_MARKS
    if scale != "binary":
        raise UsageError(f"{where}: 'pass' is for binary metrics. Set a threshold for the score that passes.")
    value = table["pass"]
    # Above 5 it would hide bad scores of other metrics; at 0 a pass would equal a fail.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= FULL_MARKS:
        raise UsageError(f"{where}: 'pass' must be what a pass is worth, above 0 and at most 5, got {value!r}.")
    return float(value)
