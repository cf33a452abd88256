"""URLs of pages. A scenario is identified by a hash, since its name may contain anything."""

from functools import lru_cache
from hashlib import blake2b
from json import dumps
from urllib.parse import quote, urlencode

from seatrial.model.run import ScenarioKey


@lru_cache(maxsize=16_384)
def scenario_id(key: ScenarioKey) -> str:
    """The id of a scenario, the same in every run."""
    return blake2b(dumps(list(key)).encode("ascii"), digest_size=8).hexdigest()


def run_url(run_id: str, **query: object) -> str:
    return f"/runs/{quote(run_id, safe='')}{_query(query)}"


def scenario_url(run_id: str, key: ScenarioKey, **query: object) -> str:
    return f"{run_url(run_id)}/scenarios/{scenario_id(key)}{_query(query)}"


def trial_url(run_id: str, key: ScenarioKey, index: int) -> str:
    """The page of a trial, at its failed step."""
    return f"{scenario_url(run_id, key)}/trials/{index + 1}#failed-step"


def compare_url(base: str, candidate: str, key: ScenarioKey | None = None) -> str:
    query = _query({"baseline_run_id": base, "candidate_run_id": candidate})
    return f"/compare{query}" if key is None else f"/compare/{scenario_id(key)}{query}"


def _query(query: dict[str, object]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""
