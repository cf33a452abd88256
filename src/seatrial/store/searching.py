"""Finding trials by what was said in them."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct

from . import schema
from .codec import ENVELOPE, read
from .connection import Connections
from .trials import fetch_through, place_of

MOST_BYTES: Final = 32 * 1024 * 1024
_PAGE = 1_000
_WORD = re.compile("[a-z0-9_.@/+#-]+")
"""What stands in a body as it was said, however the JSON around it is written."""


class Said(Struct, frozen=True, kw_only=True):
    """Where something was said."""

    trials: frozenset[tuple[ScenarioKey, int]]
    looked_at: int
    """How many trials were looked through, from the first."""
    is_whole: bool
    """Whether those were all there are."""


def find_said(
    connections: Connections, run_id: str, text: str, *, key: ScenarioKey | None = None, most_bytes: int = MOST_BYTES
) -> Said:
    """The trials whose user, replies, or calls have the text, whatever its case; of one scenario or of all.

    Looks no further than `most_bytes` of bodies, so that it comes to an end soon.
    """
    wanted = text.lower()
    word = max(_WORD.findall(wanted), key=len, default="").encode("ascii")
    found: list[tuple[int, int]] = []
    looked_at, left = 0, most_bytes
    for number, index, body in _bodies(connections, run_id, key):
        if left <= 0:
            return Said(trials=_named(connections, run_id, found, key), looked_at=looked_at, is_whole=False)
        left -= len(body)
        looked_at += 1
        # Parsing takes ten times as long as looking for a word in the bytes.
        if (word in body.lower() or body.startswith(ENVELOPE)) and _says(connections, body, wanted):
            found.append((number, index))
    return Said(trials=_named(connections, run_id, found, key), looked_at=looked_at, is_whole=True)


def _bodies(connections: Connections, run_id: str, key: ScenarioKey | None) -> Iterator[tuple[int, int, bytes]]:
    """(number of the scenario, index, body), page by page."""
    number, trial = -1, -1
    while True:
        with connections.one() as connection:
            page = (
                connection.rows(schema.BODIES_PAGE, (run_id, number, number, trial, _PAGE))
                if key is None
                else [(0, *row) for row in connection.rows(schema.BODY_PAGE, (*place_of(run_id, key, trial), _PAGE))]
            )
        for number, trial, body in page:
            yield number, trial, bytes(body)
        if len(page) < _PAGE:
            return


def _says(connections: Connections, body: bytes, wanted: str) -> bool:
    def fetch(hashed: str) -> bytes:
        with connections.one() as connection:
            return fetch_through(connection)(hashed)

    transcript = read(body, fetch=fetch)["transcript"]
    return any(wanted in text.lower() for turn in transcript.get("turns", ()) for text in _texts(turn))


def _texts(turn: dict[str, Any]) -> Iterator[str]:
    yield turn.get("user") or ""
    yield turn.get("reply") or ""
    for call in turn.get("tool_calls") or ():
        # As pages write it, so that what is seen can be looked for.
        yield f"{call['name']}({json.dumps(call.get('arguments'), ensure_ascii=False, default=str)})"


def _named(
    connections: Connections, run_id: str, found: list[tuple[int, int]], key: ScenarioKey | None
) -> frozenset[tuple[ScenarioKey, int]]:
    if key is not None or not found:
        return frozenset((key, index) for _, index in found if key is not None)
    with connections.one() as connection:
        rows = connection.rows(schema.NUMBERS, (run_id, found[0][0], found[-1][0]))
    keys = {number: ScenarioKey(*read(written)) for number, written in rows}
    return frozenset((keys[number], index) for number, index in found)
