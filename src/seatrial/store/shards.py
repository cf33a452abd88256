"""Which runs are parts of one: `seatrial run --shard I/N` on several machines makes a run on each."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from seatrial.model.run import Run, RunState

_OWN = ("shard", "shards", "command", "scenarios")
"""What each shard has for itself in its config."""
_TOGETHER = timedelta(days=1)
"""Shards that started further apart are of different runs."""


def is_shard(run: Run) -> bool:
    """Whether the run played only its share of the scenarios."""
    return _number(run) is not None


def find_whole(stored: Iterable[Run], shard: Run) -> Run | None:
    """The run of those that this one is part of, or may become part of; None when there is none."""
    if not is_shard(shard):
        return None
    for run in stored:
        parts = _parts(run)
        if not parts or not _is_family(run, shard):
            continue
        if shard.id in (part["id"] for part in parts.values()):
            return run
        if str(_number(shard)) not in parts and abs(run.started_at - shard.started_at) < _TOGETHER:
            return run
    return None


def merge_shard(whole: Run, shard: Run) -> Run:
    """The stored run with one more part. It is finished once every part is there and was finished."""
    parts = _parts(whole) | _parts(shard)
    of = (shard.config or {})["shard"][1]
    shards = {"of": of, "parts": parts}
    states = {RunState(part["state"]) for part in parts.values()}
    complete = len(parts) == of
    ends = (whole.finished_at, shard.finished_at)
    counts = [part["scenarios"] for part in parts.values()]
    return replace(
        whole,
        config={**(whole.config or {}), "shard": None, "shards": shards, "scenarios": sum(counts)},
        state=RunState.FINISHED if complete and states == {RunState.FINISHED} else RunState.INTERRUPTED,
        started_at=min(whole.started_at, shard.started_at),
        finished_at=max(end for end in ends if end is not None) if any(ends) else None,
        problem=whole.problem or shard.problem,
    )


def missing_shards(run: Run) -> list[int]:
    """The numbers of the shards that a merged run still lacks."""
    shards = (run.config or {}).get("shards")
    return [] if not shards else [each for each in range(1, shards["of"] + 1) if str(each) not in shards["parts"]]


def _number(run: Run) -> int | None:
    shard = (run.config or {}).get("shard")
    return None if not shard else int(shard[0])


def _parts(run: Run) -> dict[str, dict[str, Any]]:
    """By number: the shards that make up the run so far."""
    config = run.config or {}
    number = _number(run)
    if number is None:
        return dict((config.get("shards") or {}).get("parts") or {})
    return {str(number): {"id": run.id, "state": run.state.value, "scenarios": config.get("scenarios") or 0}}


def _is_family(run: Run, shard: Run) -> bool:
    return _common(run) == _common(shard)


def _common(run: Run) -> tuple[Any, ...]:
    config = run.config or {}
    shards = config.get("shards")
    of = shards["of"] if shards else (config.get("shard") or (None, None))[1]
    shared = {name: value for name, value in config.items() if name not in _OWN}
    return of, shared, run.gates, run.git_commit, run.parent, run.versions
