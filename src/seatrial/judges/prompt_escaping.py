"""Text of others in a prompt, fenced so that it cannot get out.

What an agent, a tool or a user said stands between two markers whose number is a hash of the text itself: whoever
writes the text cannot know the number, and the same text gives the same prompt, so that answers can be cached. The
text is lines of JSON, so nothing in it can begin a line of its own, and the first letters of a marker are escaped.
"""

import json
from hashlib import sha256
from typing import Any

_MARK = "<<<"
_ESCAPED_MARK = "\\u003c\\u003c\\u003c"
# JSON leaves these as they are, but some readers take them for the end of a line.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def fence(name: str, lines: str) -> str:
    """The lines of JSON between their markers."""
    safe = lines.replace(_MARK, _ESCAPED_MARK)
    number = sha256(safe.encode()).hexdigest()[:16]
    return f"{_MARK}{name} {number}>>>\n{safe}\n{_MARK}end of {name} {number}>>>"


def as_json(value: Any) -> str:
    """The value as one line of JSON that can be sent anywhere; what JSON cannot hold is shown as text."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):  # odd keys, a value that holds itself
        text = json.dumps(repr(value), ensure_ascii=False)
    # Lone surrogates cannot be encoded; as JSON escapes they can, and mean the same.
    return text.translate(_LINE_ENDS).encode("utf-8", "backslashreplace").decode()
