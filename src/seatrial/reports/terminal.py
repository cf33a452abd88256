"""What the console report is written on: every line goes through here, so no text reaches a terminal unescaped."""

import os
from typing import TextIO

from seatrial.model.run import Status

from .escaping import defused, visible

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
    """Whether the stream is a terminal whose user has not asked for plain text."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Paper:
    """Lines of text on a stream, with marks and a few colours where the stream can show them."""

    def __init__(self, stream: TextIO, *, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = wants_colour(stream) if colour is None else colour
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._plain = not _can_encode("✓✗…", self._encoding)

    def line(self, text: str = "", *, indent: int = 0, mark: Status | None = None, style: str | None = None) -> None:
        """Write the text, made visible; further lines of it are indented below the first."""
        first, *more = visible(text).split("\n")
        glyph, colour = ("", None) if mark is None else _MARKS[mark]
        head = f"{self._paint(glyph, colour)} " if glyph else ""
        # A mark before the text already keeps it from the start of the line, where CI commands would stand.
        shown = defused(first if head else " " * indent + first)
        self._write((" " * indent + head if head else "") + self._paint(shown, style))
        for rest in more:
            self._write(self._paint(defused(" " * (indent + 2) + rest), style))

    def _paint(self, text: str, style: str | None) -> str:
        if not self._colour or style is None or not text.strip():
            return text
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        if self._plain:
            text = text.translate(_ASCII)
        # Where a terminal cannot show a character, its escape is better than a crash at the end of a long run.
        self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding).rstrip() + "\n")


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
