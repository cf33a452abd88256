"""Running suspects again with the candidate's agent, on fresh trials."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.comparison.rerun_suspects import Rerun
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState, ScenarioKey, TrialSummary
from seatrial.store.store import Store

from .execute_run import execute
from .git_info import find_commit
from .request import RunRequest


def make_rerun(store: Store, candidate: Run, settings: RunRequest) -> Rerun:
    """A function that runs scenarios so often as the candidate ran them, and gives the run's id and its trials.

    `settings` says what only the caller knows: store, environment, default agent, listeners.
    Raises UsageError where the candidate cannot be run again as it was.
    """
    _refuse_other_code(candidate)
    request = _request(candidate, settings)
    known = {entry.key: entry.trial_fingerprint for entry in store.entries(candidate.id)}

    def rerun(keys: Sequence[ScenarioKey], trials: int) -> tuple[str, list[TrialSummary]]:
        only = frozenset((key.suite, key.name) for key in keys)
        overrides = {**request.overrides, "trials": trials}
        report = execute(replace(request, only=only, overrides=overrides))
        if report.run.state is not RunState.FINISHED:
            raise KeyboardInterrupt
        for entry in store.entries(report.run.id):
            if known.get(entry.key) != entry.trial_fingerprint:
                raise UsageError(
                    f"{entry.source or entry.key.suite}: scenario {entry.key.label!r} was edited since run "
                    f"{candidate.id}, so fresh trials say nothing of it. Run the suite again and compare that run."
                )
        wanted = set(keys)
        return report.run.id, [summary for summary in store.summaries(report.run.id) if summary.key in wanted]

    return rerun


def _refuse_other_code(candidate: Run) -> None:
    """Fresh trials must be played by the agent that is under suspicion."""
    here = find_commit(Path.cwd()).wait()
    where = f"run {candidate.id}"
    if here.sha is None or candidate.git_commit is None:
        return
    if here.sha != candidate.git_commit:
        raise UsageError(
            f"{where}: was made at commit {candidate.git_commit[:12]}, but {here.sha[:12]} is checked out, "
            f"so fresh trials would test another agent. First: git checkout {candidate.git_commit[:12]}"
        )
    if None not in (here.dirty, candidate.git_dirty) and here.dirty != candidate.git_dirty:
        had, has = ("with", "none") if candidate.git_dirty else ("without", "some")
        remedy = "Bring them back" if candidate.git_dirty else "First: git stash"
        raise UsageError(
            f"{where}: was made {had} uncommitted changes, and here are {has}, so fresh trials would test another "
            f"agent. {remedy}; or run the suite again and compare that run."
        )


def _request(candidate: Run, settings: RunRequest) -> RunRequest:
    config: Mapping[str, Any] = candidate.config or {}
    sources = config.get("sources") or []
    where = f"run {candidate.id}"
    if not sources or any(str(source).startswith("<") for source in sources):
        raise UsageError(f"{where}: was started from Python objects, so it cannot be run again from here.")
    agent = config.get("agent")
    if "[redacted]" in str(agent):
        raise UsageError(f"{where}: the secrets of its agent are not stored. Put the agent into the suite's file.")
    overrides = {
        **(config.get("overrides") or {}),
        # Fresh: another seed and no cached answers, else the trials would repeat those that raised the suspicion.
        "seed": secrets.randbelow(2**31),
        "fail_fast": False,
    }
    return replace(
        settings,
        sources=tuple(sources),
        agent=agent,
        overrides=overrides,
        models={**settings.models, **(config.get("models") or {})},
        name=f"confirm {candidate.name}",
        cache=None,
        confirms=candidate.id,
        scenario_text=(),
        tags=(),
        shard=None,
        resume=None,
    )
