"""YAML with the scalars of YAML 1.2, without duplicate keys, merge keys and tags, and with bounded aliases.

Values are built from the parser's events, in about a third of the time of `yaml.load` with the C loader. Lines and
columns are only searched for if there is a problem.
"""

import re
from collections.abc import Callable
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

from .problems import KeyPath, PathProblem, Place, Positions, UnreadableFile

MAX_DEPTH = 100
MAX_ALIASED = 1_000_000
"""The greatest number of values that aliases of a file may expand to."""

_STR = "tag:yaml.org,2002:str"
_WORDS = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS = frozenset("-+.0123456789")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NO_KEY = object()


class Document(Struct, frozen=True, kw_only=True):
    """The content of a file."""

    data: Any
    lines: list[int]
    """The lines of the items of top-level lists: of each scenario."""
    doubtful_keys: bool
    """A key is given twice, is not text, or is a merge key: the positions show which."""


def read_scalar(text: str) -> Any:
    """The value of an unquoted scalar by YAML 1.2: NO, 10:30 and 2024-05-01 are strings, 010 is ten."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special is None:
        return text
    return float("nan") if text.lower() == ".nan" else float(f"{special.group(1)}inf")


def parse_value(text: str) -> Any:
    """A value from the command line, read as in a file: a scalar, or a list or mapping in brackets."""
    try:
        return parse(text).data
    except UnreadableFile as error:
        raise UsageError(f"{text!r}: {error.message}. Put quotes around a text with special characters") from None


def parse(text: str) -> Document:
    """The content of a YAML text. Raises UnreadableFile if it is not YAML, or not the YAML that is allowed here."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        builder = _Builder()
        parser = loader(text)
        try:
            builder.follow(parser.get_event)
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not YAML: {error.problem or error.context}"

        raise UnreadableFile(message, _place(mark), hint_for(error, text)) from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise UnreadableFile(f"not YAML: {' '.join(str(error).split())}") from None
    return Document(data=builder.root[0] if builder.root else None, lines=builder.lines, doubtful_keys=builder.doubtful)


class _Builder:
    """Builds the value from the parser's events, without recursion."""

    def __init__(self) -> None:
        self.root: list[Any] = []
        self.lines: list[int] = []
        self.doubtful = False
        self._known_keys: set[str] = set()
        self._named: set[str] = set()
        """All anchors; those whose value is complete are in `_anchors`."""
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0

    def follow(self, get_event: Callable[[], Any]) -> None:
        """Read all events."""
        from yaml import events

        container: Any = self.root
        key: Any = _NO_KEY
        stack: list[tuple[Any, str | None, int]] = []
        size = 0
        while True:
            event = get_event()
            kind = type(event)
            opened: Any = None
            grown = 1
            if kind is events.ScalarEvent:
                if type(container) is dict and key is _NO_KEY:
                    key = self._read_key(event, container)
                    continue
                value = self._read_value(event)
            elif kind is events.MappingStartEvent or kind is events.SequenceStartEvent:
                value = opened = {} if kind is events.MappingStartEvent else []
                self._check_collection(event, key is _NO_KEY and type(container) is dict, len(stack))
                if len(stack) == 2 and type(container) is list:
                    self.lines.append(event.start_mark.line + 1)
            elif kind is events.MappingEndEvent or kind is events.SequenceEndEvent:
                ended, (container, anchor, began) = container, stack.pop()
                if anchor is not None:
                    self._anchors[anchor] = (ended, size - began + 1)
                continue
            elif kind is events.AliasEvent:
                value, grown = self._read_alias(event, is_key=type(container) is dict and key is _NO_KEY)
            elif kind is events.StreamEndEvent:
                return
            else:
                self._check_document(event, begins=kind is events.DocumentStartEvent)
                continue
            size += grown
            if type(container) is list:
                container.append(value)
            else:
                container[key] = value
                key = _NO_KEY
            if opened is not None:
                if event.anchor is not None:
                    self._claim_anchor(event)
                stack.append((container, event.anchor, size))
                container = opened
            elif kind is events.ScalarEvent and event.anchor is not None:
                self._claim_anchor(event)
                self._anchors[event.anchor] = (value, 1)

    def _read_key(self, event: Any, container: dict[str, Any]) -> str:
        name: str = event.value
        if name in container:
            self.doubtful = True
        elif name not in self._known_keys:
            _check_tag(event)
            if event.implicit[0] and (name == "<<" or not isinstance(_read_plain(event), str)):
                self.doubtful = True
            self._known_keys.add(name)
        if event.anchor is not None:
            self._claim_anchor(event)
            self._anchors[event.anchor] = (name, 1)
        return name

    def _claim_anchor(self, event: Any) -> None:
        if event.anchor in self._named:
            message = f"the anchor &{event.anchor} is given twice, so *{event.anchor} is ambiguous"
            raise UnreadableFile(message, _place(event.start_mark), "Give one of them another name")
        self._named.add(event.anchor)

    def _read_value(self, event: Any) -> Any:
        if event.tag is not None:
            _check_tag(event)
        return _read_plain(event) if event.implicit[0] else event.value

    def _check_document(self, event: Any, *, begins: bool) -> None:
        if begins and self.root:
            hint = "Put all scenarios into one document, without ---"
            raise UnreadableFile("the file holds several documents", _place(event.start_mark), hint)

    def _check_collection(self, event: Any, is_key: bool, depth: int) -> None:
        if is_key:
            raise UnreadableFile("a key must be a text, not a list or mapping", _place(event.start_mark))
        if event.tag is not None:
            _check_tag(event)
        if depth >= MAX_DEPTH:
            raise UnreadableFile(f"nested more than {MAX_DEPTH} levels deep", _place(event.start_mark))

    def _read_alias(self, event: Any, *, is_key: bool) -> tuple[Any, int]:
        place = _place(event.start_mark)
        if is_key:
            raise UnreadableFile(f"an alias (*{event.anchor}) cannot be a key", place, "Write the key out")
        if event.anchor not in self._anchors:
            message = f"the alias *{event.anchor} has no complete value before it"
            raise UnreadableFile(message, place, "A text that begins with * needs quotes around it")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise UnreadableFile(f"the aliases of this file expand to more than {MAX_ALIASED:,} values", place)
        return value, size


def _read_plain(event: Any) -> Any:
    try:
        return read_scalar(event.value)
    except ValueError:
        raise UnreadableFile("a number with too many digits", _place(event.start_mark), "Put it in quotes") from None


def _check_tag(event: Any) -> None:
    if event.tag not in (None, "!", _STR):
        raise UnreadableFile(
            f"the tag {event.tag!r} is not allowed: files hold data, not objects",
            _place(event.start_mark),
            "Write the value without a tag",
        )


def _place(mark: Any) -> Place | None:
    return None if mark is None else (mark.line + 1, mark.column + 1)


def find_positions(text: str) -> Positions:
    """The place of every key and value, in a text that `parse` could read."""
    import yaml

    positions = Positions()
    todo: list[tuple[KeyPath, Any]] = [((), yaml.compose(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))]
    seen: set[int] = set()
    while todo:
        where, node = todo.pop()
        if node is None:
            continue
        positions.values[where] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                _note_key((*where, key.value), key, positions)
                todo.append(((*where, key.value), value))
        elif isinstance(node, yaml.SequenceNode):
            todo.extend(((*where, index), item) for index, item in enumerate(node.value))
    return positions


def _note_key(where: KeyPath, key: Any, positions: Positions) -> None:
    positions.keys.setdefault(where, []).append((key.start_mark.line + 1, key.start_mark.column + 1))
    if key.style:
        return
    if key.value == "<<":
        message = "merge keys (<<) are not part of YAML 1.2"
        positions.odd_keys.append(PathProblem(where, message, "Write the keys out, or use suite.config", True))
    elif not isinstance(read_scalar(key.value), str):
        hint = f"Put it in quotes: {key.value!r}" if key.value else "Give it a name"
        positions.odd_keys.append(PathProblem(where, f"the key {key.value!r} is not text", hint, True))


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
    """What would probably fix it, from a parser's error that has a place."""
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
    if line[: mark.column].rstrip().endswith(("}", "]")):
        return "A text that begins with { or [ needs quotes around it"
    return next((hint for part, hint in _HINTS if part in problem), None)
