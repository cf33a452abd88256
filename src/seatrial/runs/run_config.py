"""Everything that was set when a run started, for the record: redacted, and enough to resume it."""

from collections.abc import Mapping
from typing import Any

from seatrial.model.conversation import REDACTED
from seatrial.model.scenario import Scenario, Suite
from seatrial.model.struct import field_names

from .agents import describe_agent
from .run_plan import RunPlan
from .secrets import is_telling


def snapshot(plan: RunPlan) -> Mapping[str, Any]:
    """What was asked for and what held, as plain JSON."""
    request = plan.request
    return {
        "sources": [_source(source) for source in request.sources],
        "agent": None if request.agent is None else redact_spec(request.agent),
        "agents": {suite.name: redact_spec(suite.suite.agents or suite.suite.agent) for suite in plan.suites},
        "baselines": {suite.name: suite.suite.baseline for suite in plan.suites if suite.suite.baseline},
        "overrides": redact_spec(plain(request.overrides)),
        "scenario_text": list(request.scenario_text),
        "tags": list(request.tags),
        "only": None if request.only is None else sorted([suite, name] for suite, name in request.only),
        "shard": list(request.shard) if request.shard else None,
        "scenarios": plan.count()[0],
        "run": plain(plan.config),
        "confirms": request.confirms,
        "models": redact_spec(plain(request.models)),
        "command": request.command,
    }


def _source(source: Any) -> str:
    if isinstance(source, Suite | Scenario):
        return f"<{type(source).__name__} {source.name}>"
    return str(source)


def redact_spec(spec: Any) -> Any:
    """An agent's settings without the values that authorise."""
    if isinstance(spec, Mapping):
        return {
            key: REDACTED if isinstance(value, str) and is_telling(str(key)) else redact_spec(value)
            for key, value in spec.items()
        }
    if isinstance(spec, list | tuple):
        return [redact_spec(item) for item in spec]
    if spec is None or isinstance(spec, str | int | float | bool):
        return spec
    return describe_agent(spec)


def plain(value: Any) -> Any:
    """JSON for settings; what JSON cannot hold becomes its description."""
    names = None if isinstance(value, type) else field_names(value)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return describe_agent(value)
