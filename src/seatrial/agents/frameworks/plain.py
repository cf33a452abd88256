"""What frameworks hand around, as JSON and as text."""

import json
from dataclasses import asdict, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """The value as JSON would have it, where it is one of the usual objects; else as it is."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def as_text(value: Any) -> str | None:
    """An agent's output as the user would read it: text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(plain(value), default=str, ensure_ascii=False)
