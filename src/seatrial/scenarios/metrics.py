"""The metrics a file may name: which exist, which names stand for several, and how high their scales reach."""

from collections.abc import Mapping, Sequence

from seatrial.vocabulary.scenario import MetricChoice

WEIGHTED = (
    "tool_routing",
    "parameter_extraction",
    "result_interpretation",
    "grounding_fidelity",
    "instruction_compliance",
    "information_gathering",
    "conversation_management",
    "response_delivery",
)
OF_TURNS = ("helpfulness", "coherence", "relevance", "faithfulness", "verbosity")
NEEDS_WEIGHT = "task_completion"
GROUPS: Mapping[str, tuple[str, ...]] = {"default": WEIGHTED, "conversation": (*OF_TURNS, "goal_completion")}
KNOWN = (*WEIGHTED, *OF_TURNS, "goal_completion", NEEDS_WEIGHT)
MAY_WEIGH = (*WEIGHTED, NEEDS_WEIGHT)


def select_metrics(choices: Sequence[MetricChoice]) -> tuple[MetricChoice, ...]:
    """One choice per metric, group names taken apart; a later entry for the same metric changes its weight."""
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


def top_of_scale(choice: MetricChoice) -> float:
    """The highest value the metric can have."""
    return 1.0 if choice.name == "goal_completion" else 5.0
