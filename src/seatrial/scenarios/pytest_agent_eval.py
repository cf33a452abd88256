"""Files of pytest-agent-eval: one transcript per file, taken as they are."""

from collections.abc import Mapping
from typing import Any

from seatrial.model.scenario import Turn

from .expectations import EXPECT, NAME, NAMES
from .problems import Complaints, Where
from .schema_types import Key, ListOf, Record, Text
from .settings import COUNT, REQUIRED_SHARE

THRESHOLD = 0.8
"""What pytest-agent-eval takes when a file names none."""


def is_foreign(data: Any) -> bool:
    """Whether a file is one of pytest-agent-eval's: a transcript at the top level."""
    return isinstance(data, Mapping) and "scenarios" not in data and ("id" in data or "turns" in data)


def _refuse_audio(made: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    if "audio" in made:
        complaints.add((*where, "audio"), "'audio' is not supported: Seatrial talks in text", on_key=True)


TURN = Record(
    "turn",
    {
        "user": Key(kind=Text(blank=False), means="what the user says", required=True),
        "audio": Key(kind=Text(), means="a sound file (not supported)"),
        "expect": Key(kind=EXPECT, means="what must be true after the agent's reply"),
    },
    make=lambda **made: made,
    check=_refuse_audio,
)
TRANSCRIPT = Record(
    "transcript",
    {
        "id": Key(kind=NAME, means="the scenario's name", required=True),
        "threshold": Key(kind=REQUIRED_SHARE, means="the share of runs that must pass (0.8)"),
        "runs": Key(kind=COUNT, means="how often it is played (1)"),
        "tags": Key(kind=NAMES, means="to select by"),
        "turns": Key(
            kind=ListOf(item=TURN, of="turns", empty="a script needs at least one turn"),
            means="the script",
            required=True,
        ),
    },
    make=lambda **made: made,
)


def read_transcript(data: Any, complaints: Complaints) -> dict[str, Any] | None:
    """The keys of our scenario that the file says; None when something is wrong with it."""
    made = TRANSCRIPT.read_keys(data, (), complaints)
    if made is None:
        return None
    return {
        "name": made["id"],
        "threshold": made.get("threshold", THRESHOLD),
        "trials": made.get("runs", 1),
        "tags": made.get("tags", ()),
        "turns": tuple(Turn(**turn) for turn in made["turns"]),
    }
