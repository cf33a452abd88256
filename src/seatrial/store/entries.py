"""Scenario entries as columns: what is a scenario's own, and the terms that it mostly shares with others.

A run of ten thousand scenarios has ten thousand fingerprints and very few sets of gates, so each set is read once.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from seatrial.vocabulary.run import ScenarioEntry, ScenarioKey

from .codec import read_fields, take_apart
from .connection import Row
from .marks import read_many, write
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
    keys = read_many(row[1] for row in rows)
    sources = read_many(row[4] or "null" for row in rows)
    for (position, _, fingerprint, trial_fingerprint, _, terms), key, source in zip(rows, keys, sources, strict=True):
        shared = _read_terms(bytes(terms))
        if fingerprint is None:  # written by an earlier version: everything is among the terms
            yield ScenarioEntry(**shared)
            continue
        yield ScenarioEntry(
            key=ScenarioKey(*key),
            position=position,
            fingerprint=fingerprint,
            trial_fingerprint=trial_fingerprint,
            source=source,
            **shared,
        )


def _write_terms(entry: ScenarioEntry) -> bytearray:
    if entry.sequential is not None or entry.gates.metric_thresholds is not None:
        return _encode_terms(entry)
    terms = (entry.trials, entry.gates, entry.tags, entry.skip, entry.xfail, entry.mocks, entry.must_not_call)
    written = _WRITTEN.get(terms)
    if written is None:
        if len(_WRITTEN) >= _KEPT:
            _WRITTEN.clear()
        written = _WRITTEN[terms] = _encode_terms(entry)
    return written


_KEPT = 1_000
_WRITTEN: dict[Any, bytearray] = {}


def _encode_terms(entry: ScenarioEntry) -> bytearray:
    raw = take_apart(ScenarioEntry, entry)
    written = write({name: value for name, value in raw.items() if name not in _OWN})
    return bytearray(written, "ascii")  # which sqlite3 takes as it is, unlike bytes


@lru_cache(maxsize=_KEPT)
def _read_terms(terms: bytes) -> dict[str, Any]:
    return read_fields(ScenarioEntry, [terms])[0]
