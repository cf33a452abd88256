"""What to change where a text is not YAML. Loaded only to explain a mistake."""

from typing import Any

_INDENTED = "Indent it like the lines it belongs to"
_COLON = 'A text that has ": " in it needs quotes around it; a line that is indented too far looks the same'
_HINTS = (
    ("mapping values are not allowed", _COLON),
    ("cannot start any token", "A text that begins with @, % or a backtick needs quotes around it"),
    ("expected key", _INDENTED),
    ("'-' indicator", _INDENTED),
    ("block end", _INDENTED),
)


def hint_for(error: Any, text: str) -> str | None:
    """What would probably mend it, from a parser's error that has a place."""
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or ""
    if mark is None:
        return None
    line = (text.split("\n")[mark.line : mark.line + 1] or [""])[0]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "Indent with spaces, not tabs"
    opened = error.context_mark
    if opened is not None and "end of stream" in problem:
        return f"The quote in line {opened.line + 1}, column {opened.column + 1} is not closed"
    if opened is not None and "',' or" in problem:
        return f"The bracket in line {opened.line + 1}, column {opened.column + 1} is not closed, or a comma is missing"
    if line[: mark.column].rstrip().endswith(("'", '"')):
        return "A text goes on after its closing quote: put quotes around all of it"
    return next((hint for part, hint in _HINTS if part in problem), None)
