"""Sweeps: each scenario is played in variants, which differ in what a tool answers.

A sweep is a run whose plan has more scenarios. `expand` makes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario, ToolBox
from seatrial.model.run import ScenarioEntry, Variant
from seatrial.scenarios.models import RunModels
from seatrial.tools.altered_tools import Alteration, AlteredTools

from .request import RunRequest

Expander = Callable[[Sequence[PreparedScenario], Mapping[str, Any], RunModels], Iterator[PreparedScenario]]


def expand(
    prepared: Iterable[PreparedScenario], sweep: Mapping[str, Any], *, models: RunModels
) -> Iterator[PreparedScenario]:
    """The variants of the scenarios. Equal settings give equal variants, in the same order, so a sweep can resume."""
    variants_of = _find_expander(sweep.get("kind"))
    played = [each for each in prepared if each.entry.skip is None]
    found = variants_of(played, sweep, models)
    yield from sample(found, sweep.get("limit"), seed=sweep.get("seed") or 0)


def _find_expander(kind: Any) -> Expander:
    """The function that makes the variants of all scenarios, and refuses settings that fit none of them."""
    if kind == "attack":
        from .attack import attack_variants

        return lambda prepared, sweep, models: (made for each in prepared for made in attack_variants(each, sweep))
    if kind == "fault":
        from .faults import find_variants

        return find_variants
    raise UsageError(f"a sweep of the kind {kind!r} is not known")


def refuse(request: RunRequest) -> None:
    """Raise UsageError for settings that no sweep has."""
    if request.executor == "ray":
        raise UsageError("--executor ray: cannot play a sweep. Leave it out: the local executor plays it.")
    if request.against is not None:
        raise UsageError("--against: a sweep has no history, because its scenarios are changed. Leave it out.")
    if request.overrides.get("fail_fast"):
        raise UsageError("--fail-fast: a sweep plays all its scenarios. Leave it out.")
    if request.record is not None:
        raise UsageError("--record: a sweep changes what tools answer, so there is nothing to record. Leave it out.")


def make_variant(
    prepared: PreparedScenario, variant: Variant, label: str, alter: Callable[[], Alteration]
) -> PreparedScenario:
    """The scenario with altered tools, as a scenario of its own: `reads mail / read_email.body, direct-3`.

    `alter` makes the alteration of each trial.
    """
    open_tools = prepared.make_tools

    def make_tools(trial_id: str, seed: int) -> ToolBox:
        return AlteredTools(open_tools(trial_id, seed), alter())

    return replace(prepared, entry=_variant_entry(prepared.entry, variant, label), make_tools=make_tools)


def _variant_entry(entry: ScenarioEntry, variant: Variant, label: str) -> ScenarioEntry:
    """Its trials are not comparable with those of the unchanged scenario, so its fingerprints differ."""
    settings = msgspec.json.encode(variant, order="sorted").decode()

    def changed(fingerprint: str) -> str:
        return sha256(f"{fingerprint}\n{settings}".encode()).hexdigest()[: len(fingerprint) or None]

    return replace(
        entry,
        key=entry.key._replace(name=f"{variant.scenario} / {label}"),
        fingerprint=changed(entry.fingerprint),
        trial_fingerprint=changed(entry.trial_fingerprint),
        variant=variant,
        sequential=None,
        history=None,
    )


def sample(variants: Iterable[PreparedScenario], limit: int | None, *, seed: int = 0) -> list[PreparedScenario]:
    """At most `limit` of the variants, chosen by the seed, in their order. The same ones each time."""
    found = list(variants)
    if limit is None or len(found) <= limit:
        return found
    numbers = sorted(range(len(found)), key=lambda number: _draw(found[number], seed))
    return [found[number] for number in sorted(numbers[:limit])]


def _draw(variant: PreparedScenario, seed: int) -> bytes:
    return sha256(f"{seed}\n{variant.entry.key}".encode()).digest()
