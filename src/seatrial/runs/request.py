"""The request for a run."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import field

from seatrial.model.protocols import Event
from seatrial.model.struct import Struct

Listener = Callable[[Event], None]


class RunRequest(Struct, frozen=True, kw_only=True):
    """What to run, and how."""

    sources: tuple[Any, ...]
    """Paths, Suites and Scenarios."""
    agent: Any = None
    """Replaces the suite's own agent."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `suite.config`, as the command line sets them."""
    scenario_text: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    only: frozenset[tuple[str, str]] | None = None
    """(suite, scenario) pairs, for --failed."""
    name: str | None = None
    id: str | None = None
    """The id of the new run; None creates one."""
    store: str | None = ".seatrial/runs.db"
    """None stores nothing."""
    cache: str | None = ".seatrial/cache"
    environ: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    """Models by role, from settings; a scenario's own models take precedence."""
    default_agent: Any = None
    """For suites that name no agent; from settings."""
    not_redacted: tuple[str, ...] = ()
    """Variables whose values are not secret; from settings."""
    record: str | None = None
    """A file for the calls of real tools. Tools without a mock run, whatever `unmocked_tools` and `mocks_from` say."""
    resume: str | None = None
    retry_errors: bool = False
    """Repeat trials with instrument errors."""
    retry_agent_errors: bool = False
    """Repeat trials with agent errors too; these still count as failed."""
    shard: tuple[int, int] | None = None
    against: str | None = None
    """Test the run against the history of the baseline, or of a run: `baseline`, an id or a name."""
    confirms: str | None = None
    """The run whose suspects this run repeats. `latest` never means such a run."""
    fork: Mapping[str, Any] | None = None
    """What this run continues: run, scenario, trial, at. Such a run has `confirms` too, so it is never `latest`."""
    sweep: Mapping[str, Any] | None = None
    """Play variants of each scenario instead of it, as JSON: `kind` is attack or fault, and what each needs."""
    executor: Literal["local", "ray"] = "local"
    """Play trials in this process, or on a Ray cluster."""
    ray_address: str | None = None
    """The address of the cluster. Default: RAY_ADDRESS, or a new local cluster."""
    listeners: tuple[Listener, ...] = ()
    command: str = ""
    """The command line, stored with the run."""
