"""What somebody asks for when they ask for a run."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import field

from seatrial.model.protocols import Event
from seatrial.model.struct import Struct

Listener = Callable[[Event], None]


class RunRequest(Struct, frozen=True, kw_only=True):
    """Files or objects to run, and how."""

    sources: tuple[Any, ...]
    """Paths, Suites, Scenarios."""
    agent: Any = None
    """Instead of the suite's own."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `suite.config`, as the command line sets them."""
    scenario_text: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    only: frozenset[tuple[str, str]] | None = None
    """(suite, scenario) pairs, for --failed."""
    name: str | None = None
    id: str | None = None
    """Of the new run; made up where it is not given."""
    store: str | None = ".seatrial/runs.db"
    """None: keep nothing."""
    cache: str | None = ".seatrial/cache"
    environ: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    """Models by role from settings; a scenario's own come first."""
    default_agent: Any = None
    """From settings: for suites that name none."""
    not_redacted: tuple[str, ...] = ()
    """From settings: variables whose values are no secrets."""
    resume: str | None = None
    retry_errors: bool = False
    """Play trials again that an instrument spoiled."""
    retry_agent_errors: bool = False
    """Also those in which the agent errored; they still count as failed."""
    shard: tuple[int, int] | None = None
    confirms: str | None = None
    """The run whose suspects are run again; such a run is never taken for the latest one to compare."""
    executor: Literal["local", "ray"] = "local"
    """Where trials are played: in this process, or on a Ray cluster."""
    ray_address: str | None = None
    """The cluster; else RAY_ADDRESS, else one that is started here."""
    listeners: tuple[Listener, ...] = ()
    command: str = ""
    """What was typed, for the record."""
