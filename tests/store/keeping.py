"""Trials in a store, as a run leaves them there."""

from collections.abc import Sequence

from seatrial.model.run import ScenarioEntry, Trial
from seatrial.store.store import Store


def keep(store: Store, run_id: str, entries: Sequence[ScenarioEntry], trials: Sequence[Trial]) -> None:
    with store.writer(run_id, on_committed=lambda _: None) as writer:
        if entries:
            writer.plan(entries)
        for trial in trials:
            writer.submit(trial)
