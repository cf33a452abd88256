"""Scenario entries as columns: what is a scenario's own, and the terms that it mostly shares with others.

A run of ten thousand scenarios has ten thousand fingerprints and very few sets of gates, so each set is read once.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import UNSET

from seatrial.model.run import ScenarioEntry, ScenarioKey

from .codec import decode, encode, read, some_fields, write
from .connection import Row
from .trials import write_key

_OWN = ("key", "position", "fingerprint", "trial_fingerprint", "source")


def entry_columns(entry: ScenarioEntry) -> Row:
    """The columns from scenario_key on."""
    return (
        write_key(entry.key),
        entry.fingerprint,
        entry.trial_fingerprint,
        None if entry.source is None else write(entry.source),
        _write_terms(entry),
    )


def read_entry_rows(rows: Sequence[Row]) -> Iterator[ScenarioEntry]:
    """The entries of rows: position, and the columns from scenario_key on."""
    for position, key, fingerprint, trial_fingerprint, source, terms in rows:
        if fingerprint is None:  # written by an earlier version: everything is among the terms
            yield decode(ScenarioEntry, bytes(terms))
            continue
        yield ScenarioEntry(
            key=ScenarioKey(*read(key)),
            position=position,
            fingerprint=fingerprint,
            trial_fingerprint=trial_fingerprint,
            source=None if source is None else read(source),
            **_read_terms(bytes(terms)),
        )


def _write_terms(entry: ScenarioEntry) -> bytes:
    if entry.sequential is not None or entry.gates.metric_thresholds is not None:
        return _encode_terms(entry)
    terms = (entry.trials, entry.gates, entry.tags, entry.skip, entry.xfail, entry.mocks, entry.must_not_call)
    written = _WRITTEN.get(terms)
    if written is None:
        if len(_WRITTEN) >= _KEPT:
            _WRITTEN.clear()
        written = _WRITTEN[terms] = _encode_terms(entry)
    return written


_Terms = some_fields("Terms", ScenarioEntry, [name for name in ScenarioEntry.__struct_fields__ if name not in _OWN])
"""What a scenario mostly shares with others."""
_KEPT = 1_000
_WRITTEN: dict[Any, bytes] = {}


def _encode_terms(entry: ScenarioEntry) -> bytes:
    terms = _Terms(**{name: getattr(entry, name) for name in _Terms.__struct_fields__})
    return encode(terms)


@lru_cache(maxsize=_KEPT)
def _read_terms(terms: bytes) -> dict[str, Any]:
    found = decode(_Terms, terms)
    return {name: value for name in _Terms.__struct_fields__ if (value := getattr(found, name)) is not UNSET}
