"""Text that came from agents, made harmless to look at: what a terminal or a parser would obey is spelt out."""

import json
import re
from typing import Any

# Control characters (ESC, NUL, carriage return, C1), marks that turn the direction of writing, invisible characters,
# lone surrogates and the two code points XML forbids. Tab and newline are left to the caller; so are U+200C and
# U+200D, which Persian and emoji need.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
# CI systems read commands from a step's output: `::set-output` where a line begins, `##[group]`, `##vso[…]` anywhere.
_COLONS = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_HASHES = re.compile(r"##(?=\w*\[)")


def visible(text: str) -> str:
    r"""The text with every character that acts instead of showing spelt out, as in \x1b, \udc80 or \u202e."""
    return _UNSEEN.sub(_spell, text)


def one_line(text: str) -> str:
    r"""The visible text on one line, with \n and \t spelt out."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def defused(text: str) -> str:
    """The text without anything that a CI system would take for a command."""
    if ":" in text:
        text = _COLONS.sub(r"\1\\x3a", text)
    return _HASHES.sub(r"#\\x23", text) if "##" in text else text


def markup_text(text: str) -> str:
    """The visible text for XML, and for the HTML in Markdown: no tag and no CI command.

    What a CI system would obey becomes a character reference, so that the text still reads as it was said.
    """
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _HASHES.sub("#&#35;", _COLONS.sub(r"\1&#58;", text))


def json_text(form: Any) -> str:
    """The form as JSON in ASCII, on one line, without anything that a CI system would take for a command."""
    return json.dumps(form, ensure_ascii=True, allow_nan=False).replace("##", "#\\u0023")


def cut(text: str, limit: int) -> str:
    """The text up to the limit, and how much of it is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
