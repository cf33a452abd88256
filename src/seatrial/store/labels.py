"""What people say of trials, for judges to be held against."""

from datetime import datetime

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct

from . import schema
from .codec import decode, encode, write
from .connection import Connection
from .trials import name_scenario, place_of


class Label(Struct, frozen=True, kw_only=True):
    """One person's opinion of one trial."""

    run_id: str
    key: ScenarioKey
    index: int
    metric: str
    """A metric, or a name for the trial as a whole, such as `passed`."""
    value: float
    """On the metric's scale; 1 and 0 for yes and no."""
    who: str
    at: datetime


def put_label(connection: Connection, label: Label) -> None:
    """Store the label inside the transaction under way; it takes the place of the person's earlier one."""
    scenario = name_scenario(label.key)
    if not connection.row(schema.BODY, place_of(label.run_id, label.key, label.index)):
        raise UsageError(
            f"run {label.run_id}: has no trial-{label.index + 1} of {label.key.label!r} to label. "
            f"See: seatrial show {label.run_id}"
        )
    place = (label.run_id, scenario, label.index, write(label.metric), write(label.who))
    connection.execute(schema.PUT_LABEL, (*place, encode(label)))


def read_labels(connection: Connection, run_id: str, *, key: ScenarioKey | None, metric: str | None) -> list[Label]:
    labels = [decode(Label, body) for (body,) in connection.rows(schema.LABELS, (run_id,))]
    return [
        label for label in labels if (key is None or label.key == key) and (metric is None or label.metric == metric)
    ]
