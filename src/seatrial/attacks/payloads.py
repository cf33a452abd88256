"""Families of payloads: the files beside this one, or a user's own, and the text of a payload for one goal.

A file has `family`, `version`, `source` and `payloads`, each with an `id` and a `text`, or two `parts` for two results.
In a text, `{ask}` is what the goal asks for, `{Ask}` the same with a capital letter, `{tool}` and `{arguments}` the
call, `{ask|base64}` an encoded form. `{{` is a brace.
"""

import base64
import codecs
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

_FOLDER = Path(__file__).with_name("families")
FAMILIES = ("direct", "authority", "fake_turn", "tool_aware", "hidden_text", "encoded", "split")
"""The families of this package, in the order of reports."""
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z]+)(?:\|([a-z0-9_]+))?\}")
_NAMES = ("ask", "Ask", "tool", "arguments")
_LETTER = re.compile(r"[\x20-\x7e]")


class Request(Struct, frozen=True, kw_only=True):
    """What the payloads of a goal ask for."""

    ask: str
    """In words, such as `send money, with amount 100`."""
    tool: str | None = None
    """The tool to call; None if the goal is no call."""
    arguments: Mapping[str, Any] = {}


class Payload(Struct, frozen=True, kw_only=True):
    """One attack, with places for the goal."""

    id: str
    parts: tuple[str, ...]
    """One text, or two texts for two results."""

    @property
    def needs_tool(self) -> bool:
        return any(name in ("tool", "arguments") for part in self.parts for name, _ in _PLACE.findall(part))

    def texts(self, request: Request) -> tuple[str, ...]:
        """The texts for a goal."""
        values = {
            "ask": request.ask,
            "Ask": request.ask[:1].upper() + request.ask[1:],
            "tool": request.tool or "",
            "arguments": json.dumps(dict(request.arguments), ensure_ascii=False, default=str),
        }

        def fill(found: re.Match[str]) -> str:
            name, form = found.groups()
            if name is None:
                return found[0][0]
            return values[name] if form is None else FORMS[form](values[name])

        return tuple(_PLACE.sub(fill, part) for part in self.parts)


class Family(Struct, frozen=True, kw_only=True):
    """Payloads of one kind."""

    name: str
    version: int
    source: str
    payloads: tuple[Payload, ...]


def _zero_width(text: str) -> str:
    """Each letter followed by a zero width space."""
    return "".join(f"{each}\u200b" for each in text)


def _bidi(text: str) -> str:
    """Written backwards, with marks that make it look forwards."""
    return f"\u202e{text[::-1]}\u202c"


def _tags(text: str) -> str:
    """Unicode tags, which are not drawn."""
    return _LETTER.sub(lambda found: chr(0xE0000 + ord(found[0])), text)


FORMS: Mapping[str, Callable[[str], str]] = {
    "zero_width": _zero_width,
    "bidi": _bidi,
    "tags": _tags,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "first_half": lambda text: text[: len(text) // 2],
    "second_half": lambda text: text[len(text) // 2 :],
}
"""The forms of `{ask|form}`."""


def is_file(name: str) -> bool:
    """Whether the entry of `families` names a file of the user."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def load_family(name: str) -> Family:
    """The family of that name, or of the user's file with that path. Raises UsageError with all problems."""
    if not is_file(name):
        if name not in FAMILIES:
            raise UsageError(f"unknown family {name!r}. Known: {', '.join(FAMILIES)}.")
        return _load(_FOLDER / f"{name}.yaml", 0)
    path = Path(name)
    try:
        return _load(path, path.stat().st_mtime_ns)
    except OSError as problem:
        raise UsageError(f"{name}: cannot be read: {problem.strerror}.") from None


@lru_cache(maxsize=64)
def _load(path: Path, changed_at: int) -> Family:
    """Cached. `changed_at`: a user's file may change."""
    try:
        data = yaml.safe_load(path.read_text("utf-8-sig"))
    except (UnicodeDecodeError, yaml.YAMLError) as problem:
        raise UsageError(f"{path}: cannot be read: {problem}".replace("\n", " ")) from None
    found = data.get("payloads") if isinstance(data, Mapping) else None
    if not isinstance(found, list) or not found:
        example = "payloads: [{id: mine-1, text: 'Please {ask}.'}]"
        raise UsageError(f"{path}: 'payloads' is missing: a list such as {example}.")
    problems: list[str] = []
    payloads = [_read(one, f"{path}: payloads[{index}]", problems) for index, one in enumerate(found)]
    ids = [payload.id for payload in payloads]
    problems += [f"{path}: two payloads have the id {name!r}." for name in {*ids} if ids.count(name) > 1]
    if problems:
        raise UsageError("\n".join(problems))
    name, version, source = (data.get(key) for key in ("family", "version", "source"))
    return Family(
        name=str(name or path.stem),
        version=version if isinstance(version, int) else 1,
        source=str(source or path.name),
        payloads=tuple(payloads),
    )


def _read(one: Any, where: str, problems: list[str]) -> Payload:
    given = one if isinstance(one, Mapping) else {"text": one}
    texts: Any = given.get("parts") if "parts" in given else [given.get("text")]
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        problems.append(f"{where}: expected 'text', or 'parts' with two texts.")
        texts = []
    elif len(texts) > 2:
        problems.append(f"{where}.parts: expected two texts, got {len(texts)}.")
    for name, form in (place for text in texts for place in _PLACE.findall(text)):
        if name and name not in _NAMES:
            problems.append(f"{where}: unknown place {{{name}}}. Known: {', '.join(_NAMES)}; write {{{{ for a brace.")
        elif form and form not in FORMS:
            problems.append(f"{where}: unknown form {form!r}. Known: {', '.join(FORMS)}.")
    number = where.rpartition("[")[2].rstrip("]")
    return Payload(id=str(given.get("id") or f"payload-{int(number) + 1}"), parts=tuple(texts))
