"""Which texts are secrets: values of telling environment variables, and of headers that authorise."""

from collections.abc import Iterator, Mapping
from typing import Any

_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "cookie")


def find_secrets(environ: Mapping[str, str], agents: Mapping[str, Any]) -> Iterator[str]:
    """Everything that must be in no file, report or log."""
    for name, value in environ.items():
        if name.upper().endswith(_ENDINGS):
            yield value
    for agent in agents.values():
        for name, value in (getattr(agent, "headers", None) or {}).items():
            if name.lower() in _HEADERS or name.upper().replace("-", "_").endswith(_ENDINGS):
                yield value
                yield from value.split()[1:]
