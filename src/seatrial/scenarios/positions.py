"""Where keys and values stand in a file; looked up only when there is a problem to place."""

from msgspec import field

from seatrial.model.struct import Struct

from .problems import Complaint, Complaints, Place, Where


class UnreadableFile(Exception):
    """The text is not what its format asks for; carries the place and what to do."""

    def __init__(self, message: str, place: Place | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.suggestion = suggestion


class Positions(Struct, frozen=True):
    """The places of a file, by path."""

    values: dict[Where, Place] = field(default_factory=dict)
    keys: dict[Where, list[Place]] = field(default_factory=dict)
    """Every place where a key was given: more than one is a mistake."""
    odd_keys: list[Complaint] = field(default_factory=list)
    """Keys that are no text."""

    def locate(self, complaint: Complaint) -> Place | None:
        """The place of a complaint: its key, its value, or the nearest thing around it."""
        where = complaint.where
        if complaint.on_key and where in self.keys:
            return self.keys[where][-1]
        while where not in self.values:
            if not where:
                return (1, 1)
            where = where[:-1]
        return self.values[where]

    def complain(self, complaints: Complaints) -> None:
        """Complain of keys that are given twice or are no text."""
        odd = {complaint.where for complaint in self.odd_keys}
        complaints.found[:] = [each for each in complaints.found if each.where not in odd] + self.odd_keys
        for where, places in self.keys.items():
            if len(places) > 1:
                first = f"line {places[0][0]}, column {places[0][1]}"
                complaints.add(where, f"the key {where[-1]!r} is given twice; first at {first}", on_key=True)
