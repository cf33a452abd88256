"""Which metrics a `metrics:` list selects, and how a scenario's list changes the suite's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.scenario import MetricChoice


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
