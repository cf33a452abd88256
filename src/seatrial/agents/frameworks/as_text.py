"""What a framework's agent returns, as text."""

import json
from typing import Any

from seatrial.model.json_values import plain_value


def as_text(value: Any) -> str | None:
    """An agent's output as the user would read it: text as it is, anything else as JSON."""
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
