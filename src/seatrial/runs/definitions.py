"""The definition of a scenario as JSON, stored with the run so that its page shows what was tested."""

import json
from collections.abc import Mapping
from os.path import exists, isabs, normpath, relpath
from typing import Any

from seatrial.model.conversation import REDACTED
from seatrial.model.scenario import Scenario
from seatrial.model.struct import field_names
from seatrial.scenarios.value_readers import given

from .agents import describe_agent
from .secrets import is_secret_name

_USER = ("description", "input", "turns", "user", "history", "system")
_TOOLS = ("mocks", "mocks_from", "tools", "unmocked_tools", "world")
_SETTINGS = (
    *("trials", "sequential", "threshold", "gate", "must_pass", "max_turns", "timeout_seconds", "retries", "models"),
    *("trial_timeout_seconds", "pass_threshold", "judge_votes", "setup", "teardown", "skip", "xfail", "metadata"),
)
_LAST = ("metrics", "scorers", "failures")
"""Below what this scenario alone expects."""
_ELSEWHERE = ("name", "tags", "source", "examples")
"""What the page shows in its head, and rows that became scenarios of their own."""
_LONGEST = 8_000
"""Characters of one key. A seed with thousands of records tells a reader nothing."""


def definition_name(fingerprint: str) -> str:
    """The name under which a store keeps the definition: equal fingerprints have equal definitions."""
    return f"definition {fingerprint}"


def definition_of(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """The keys that the scenario gives, in groups: the user's side, tools, expectations, settings."""
    groups: dict[str, dict[str, Any]] = {"user": {}, "tools": {}, "expectations": {}, "settings": {}}
    for name, value in sorted(given(scenario).items(), key=lambda one: one[0] in _LAST):
        if name not in _ELSEWHERE:
            groups[_group(name)][name] = _shortened(_plain(value))
    return {name: keys for name, keys in groups.items() if keys}


def _group(name: str) -> str:
    if name in _USER:
        return "user"
    return "tools" if name in _TOOLS else "settings" if name in _SETTINGS else "expectations"


def _plain(value: Any) -> Any:
    """JSON with the keys that were given; an object that JSON cannot hold becomes its import path."""
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if isinstance(item, str) and is_secret_name(str(key)) else _plain(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return _short_path(value)
    if value is None or isinstance(value, int | float | bool):
        return value
    if not isinstance(value, type) and field_names(value) is not None:
        return {name: _plain(item) for name, item in given(value).items()}
    return describe_agent(value)


def _short_path(text: str) -> str:
    """The path of a file as seen from the folder of the run; other texts as they are."""
    if not isabs(text) or not exists(text):
        return text
    near = relpath(text)
    return normpath(text) if near.startswith("..") else near


def _shortened(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} more characters)"
