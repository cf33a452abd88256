"""Write lines to a terminal, and escape agent text that a terminal, parser or CI system could run as a command."""

import json
import os
import re
from typing import Any, TextIO

from seatrial.model.run import Status

# Control characters, marks that change the writing direction, invisible characters, lone surrogates and the two code
# points that XML forbids. Not tab and newline, and not U+200C and U+200D, which Persian and emoji need.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
# CI systems read commands from a step's output: `::set-output` where a line begins, `##[group]`, `##vso[…]` anywhere.
_COLONS = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_HASHES = re.compile(r"##(?=\w*\[)")


def escape_controls(text: str) -> str:
    r"""The text with control and invisible characters escaped: \x1b, \udc80, \u202e."""
    return _UNSEEN.sub(_escape, text)


def one_line(text: str) -> str:
    r"""The escaped text on one line, with \n and \t escaped too."""
    return escape_controls(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_ci_commands(text: str) -> str:
    """The text with every workflow command of a CI system escaped."""
    if ":" in text:
        text = _COLONS.sub(r"\1\\x3a", text)
    return _HASHES.sub(r"#\\x23", text) if "##" in text else text


def safe_text(text: str) -> str:
    """The text for a terminal: control characters and CI commands are escaped."""
    return escape_ci_commands(escape_controls(text))


def escape_markup(text: str) -> str:
    """The escaped text for XML and for HTML in Markdown. CI commands become character references."""
    text = escape_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _HASHES.sub("#&#35;", _COLONS.sub(r"\1&#58;", text))


def json_text(value: Any) -> str:
    """The value as JSON in ASCII, on one line, without CI commands."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).replace("##", "#\\u0023")


def shorten(text: str, limit: int) -> str:
    """The text up to the limit, then how many characters are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_COLOURS = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1"}
_MARKS = {
    Status.PASSED: ("✓", "green"),
    Status.FAILED: ("✗", "red"),
    Status.ERRORED: ("✗", "red"),
    Status.INCONCLUSIVE: ("?", "yellow"),
    Status.NOT_RUN: ("-", "yellow"),
}
_ASCII = str.maketrans({"✓": "+", "✗": "x", "…": "..."})


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class TerminalWriter:
    """Writes lines, with marks and a few colours if the stream can show them."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = wants_colour(stream) if colour is None else colour
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._is_ascii = "✓✗…".encode(self._encoding, "ignore").decode(self._encoding) != "✓✗…"

    def line(self, text: str = "", *, indent: int = 0, mark: Status | None = None, style: str | None = None) -> None:
        """Write the escaped text. Further lines of it are indented below the first."""
        first, *more = escape_controls(text).split("\n")
        glyph, colour = ("", None) if mark is None else _MARKS[mark]
        head = f"{self._paint(glyph, colour)} " if glyph else ""
        # After a mark the text is not at the start of a line, so `::` cannot start a CI command there.
        shown = escape_ci_commands(first if head else " " * indent + first)
        self._write((" " * indent + head if head else "") + self._paint(shown, style))
        for rest in more:
            self._write(self._paint(escape_ci_commands(" " * (indent + 2) + rest), style))

    def _paint(self, text: str, style: str | None) -> str:
        if not self._colour or style is None or not text.strip():
            return text
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        if self._is_ascii:
            text = text.translate(_ASCII)
        # An escape is better than a crash at the end of a long run.
        self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding).rstrip() + "\n")
