"""What can check a trial: evaluators, matchers, metrics and categories of behaviour failures."""

import inspect

from seatrial.evaluators.registry import EVALUATORS
from seatrial.judges.metrics import GROUPS, load_categories, load_metrics

from .python_names import default_text
from .tables import table


def evaluators() -> str:
    """Each evaluator under the name that files use."""
    return table(
        ("name", "Python", "parameters", "meaning"),
        (
            (f"`{name}`", f"`{kind.__name__}`", _parameters(kind), _first_line(kind))
            for name, kind in EVALUATORS.items()
        ),
    )


def metrics() -> str:
    """Each metric with the question, and what each score means."""
    groups = table(
        ("name", "stands for"),
        ((f"`{name}`", ", ".join(f"`{one}`" for one in members)) for name, members in GROUPS.items()),
    )
    sections = (
        f"### `{metric.name}`\n\n{metric.asks}\n\n"
        f"Scope: {metric.scope}. Scale: {metric.scale}. Weight: {_weight(metric.weight)}.\n\n"
        + table(("score", "meaning"), ((f"`{score}`", text) for score, text in metric.scores.items()))
        for metric in load_metrics().values()
    )
    return "\n".join((groups, *sections))


def failures() -> str:
    return table(
        ("category", "severity", "meaning"),
        ((f"`{one.name}`", str(one.severity), one.means) for one in load_categories().values()),
    )


def _parameters(kind: type) -> str:
    return ", ".join(
        f"`{name}`" if one.default is one.empty else f"`{name}={default_text(one.default)}`"
        for name, one in inspect.signature(kind).parameters.items()
    )


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0]


def _weight(weight: float | None) -> str:
    return "none, it is not part of the overall score" if weight is None else f"{weight:g}"
