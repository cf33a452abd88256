"""Data in JavaScript and TypeScript source: the arguments of calls, as far as they are literals."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.scenarios.problems import KeyPath, Place

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))*")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*)?\.?\d[\d_]*(?:[eE][+-]?\d+)?)")
_ARROW = re.compile(r"(?:async\s*)?(?:\([^()]*\)|[A-Za-z_$][\w$]*)\s*(?::[^=]*)?=>\s*")
_SUFFIX = re.compile(r"(?:\s*(?:as|satisfies)\s+[\w.<>\[\]| ]+)?")
_ENVIRONMENT = re.compile(r"process\.env\.([A-Za-z_]\w*)!?")
_IN_TEMPLATE = re.compile(r"\$\{([^}]*)\}")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|\r?\n|([\s\S]))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
_CLOSING = {"{": "}", "[": "]", "(": ")"}


class Code(str):
    """Source text that is not data."""

    __slots__ = ()


class NotJavaScript(ValueError):
    """The text ends where more was expected."""


class Source:
    """The text of a file, its calls, and the places of the values in their arguments."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.places: dict[KeyPath, Place] = {}

    def calls(self, *names: str) -> Iterator[str]:
        """The name of each call of one of these functions, in order. Read its arguments with `arguments`.

        `export default {…}` counts as a call of `default`.
        """
        while self._at < len(self._text):
            self._skip()
            word = _WORD.match(self._text, self._at)
            if word is None:
                if self._peek() in _CLOSING:
                    self._at += 1  # calls may stand in blocks
                else:
                    self._leave_character()
                continue
            self._at = word.end()
            self._skip()
            opening = "{" if word[0] == "default" else "("
            if word[0] in names and self._peek() == opening:
                if opening == "(":
                    self._at += 1
                yield word[0]

    def arguments(self, paths: Sequence[KeyPath]) -> list[Any]:
        """The next arguments of a call, one for each path."""
        found = []
        for where in paths:
            self._skip()
            if self._peek() in (")", ""):
                break
            found.append(self._value(where))
            self._skip()
            if self._peek() == ",":
                self._at += 1
        return found

    def _value(self, where: KeyPath) -> Any:
        self._skip()
        start = self._at
        self.places[where] = self._place(start)
        value = self._literal(where)
        self._at = _SUFFIX.match(self._text, self._at).end()  # type: ignore[union-attr]
        end = self._at
        self._skip()
        if not isinstance(value, Code) and self._peek() in (",", "}", "]", ")", ";", ""):
            self._at = end
            return value
        self._at = start
        return self._code()

    def _literal(self, where: KeyPath) -> Any:
        char = self._peek()
        if char == "{":
            return self._object(where)
        if char == "[":
            return self._array(where)
        if char in ("'", '"', "`"):
            return self._string(where)
        arrow = _ARROW.match(self._text, self._at)
        if arrow is not None:
            return self._arrow(arrow, where)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return _number(number[0])
        return self._word(where)

    def _word(self, where: KeyPath) -> Any:
        variable = _ENVIRONMENT.match(self._text, self._at)
        if variable is not None and _is_agent(where):
            self._at = variable.end()
            return f"${{{variable[1]}}}"
        word = _WORD.match(self._text, self._at)
        if word is None:
            return Code("")
        self._at = word.end()
        if word[0] in _CONSTANTS:
            return _CONSTANTS[word[0]]
        if word[0] == "sequence" and self._peek() == "(":
            self._at += 1
            values = self.arguments([(*where, "sequence")])
            self._skip()
            self._at += 1
            return {"sequence": values[0]} if values and not has_code(values[0]) else Code("")
        return Code("")

    def _arrow(self, arrow: re.Match[str], where: KeyPath) -> Any:
        """The value of a function that always returns the same: `() => ({ok: true})`."""
        self._at = arrow.end()
        if self._peek() == "{":
            return Code("")
        if self._peek() == "(":
            self._at += 1
            value = self._value(where)
            self._skip()
            self._at += 1
        else:
            value = self._value(where)
        return Code("") if has_code(value) else value

    def _object(self, where: KeyPath) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while True:
            self._skip()
            if self._ends("}"):
                return found
            start = self._at
            key = self._key(where)
            self._skip()
            if self._peek() == ":" and not isinstance(key, Code):
                self._at += 1
                found[key] = self._value((*where, key))
            else:  # a method, a spread, a shorthand
                rest = self._code()
                self.places[(*where, str(key))] = self.places.get(where, (1, 1))
                found[str(key)] = Code(f"{key}{rest}")
            self._go_on(start)

    def _key(self, where: KeyPath) -> str:
        if self._peek() in ("'", '"'):
            return str(self._string(where))
        word = _WORD.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if word is None:
            return Code(self._code())
        self._at = word.end()
        return word[0]

    def _array(self, where: KeyPath) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while True:
            self._skip()
            if self._ends("]"):
                return found
            start = self._at
            found.append(self._value((*where, len(found))))
            self._go_on(start)

    def _go_on(self, start: int) -> None:
        """Go behind the comma after an entry that began at `start`."""
        self._skip()
        if self._peek() == ",":
            self._at += 1
        if self._at == start:
            raise NotJavaScript(f"{self._peek()!r} is not expected in line {self._place(start)[0]}")

    def _ends(self, closing: str) -> bool:
        if self._at >= len(self._text):
            raise NotJavaScript(f"{closing!r} is missing at the end of the file")
        if self._peek() != closing:
            return False
        self._at += 1
        return True

    def _string(self, where: KeyPath) -> str:
        quote, start = self._peek(), self._at + 1
        self._leave_character()
        text = self._text[start : self._at - 1]
        if quote == "`":
            names = [_ENVIRONMENT.fullmatch(inner.strip()) for inner in _IN_TEMPLATE.findall(text)]
            if names and not (_is_agent(where) and all(names)):
                return Code(text)
            text = _IN_TEMPLATE.sub(lambda match: f"${{{match[1].strip().removeprefix('process.env.')}}}", text)
        return _ESCAPE.sub(_unescape, text)

    def _code(self) -> Code:
        """The text up to the next comma or closing bracket."""
        start = self._at
        while self._at < len(self._text) and self._peek() not in (",", "}", "]", ")", ";"):
            self._leave_character()
        return Code(self._text[start : self._at].strip())

    def _leave_character(self) -> None:
        """Go behind the next character; behind the whole of a string, a bracket or a comment."""
        char = self._peek()
        if char in ("'", '"', "`"):
            self._at += 1
            while self._at < len(self._text) and self._peek() != char:
                self._at += 2 if self._peek() == "\\" else 1
            self._at += 1
        elif char in _CLOSING:
            self._at += 1
            while self._at < len(self._text) and self._peek() != _CLOSING[char]:
                self._leave_character()
            self._at += 1
        elif self._text.startswith(("//", "/*"), self._at):
            self._skip()
        else:
            self._at += 1

    def _skip(self) -> None:
        self._at = _SKIPPED.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _place(self, at: int) -> Place:
        before = self._text[:at]
        return before.count("\n") + 1, at - before.rfind("\n")


def has_code(value: Any) -> bool:
    """Whether any part of the value is code."""
    if isinstance(value, dict):
        return any(map(has_code, value.values()))
    return any(map(has_code, value)) if isinstance(value, list) else isinstance(value, Code)


def _is_agent(where: KeyPath) -> bool:
    """Whether ${NAME} is filled in at this place."""
    return bool(where) and where[0] in ("agent", "agents", "compare")


def _number(text: str) -> int | float:
    plain = text.replace("_", "")
    if plain.lstrip("+-").lower().startswith("0x"):
        return int(plain, 16)
    return float(plain) if any(char in plain for char in ".eE") else int(plain)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else "\ufffd"
    return _ESCAPES.get(match[4], match[4]) if match[4] else ""
