"""Sessions of Claude Code: lines with messages of the Anthropic API, times and the session's id."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import anthropic
from .documents import flatten
from .parsing import Omissions, mapping, parts_of, read_time, words_in
from .transcript_builder import RecordedConversation, TranscriptBuilder

_COMMANDS = ("<command-name>", "<command-message>", "<local-command-")
"""Commands of the terminal, such as /clear, that the program logs as messages of the user."""


def matches(documents: list[Any]) -> bool:
    """Whether a line is a message of a session."""
    return any(_is_message(mapping(each)) for each in flatten(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each session."""
    sessions: dict[str, list[Mapping[str, Any]]] = {}
    for each in flatten(documents):
        if _is_message(mapping(each)):
            sessions.setdefault(str(each["sessionId"]), []).append(each)
    for name, lines in sessions.items():
        builder = TranscriptBuilder(omissions)
        for line in _of_main_agent(lines, omissions):
            _add_line(line, builder)
        found = builder.build(name, recorded=lines)
        if found is not None:
            yield found


def _is_message(line: Mapping[str, Any]) -> bool:
    return "sessionId" in line and line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)


def _of_main_agent(lines: list[Mapping[str, Any]], omissions: Omissions) -> Iterator[Mapping[str, Any]]:
    """The lines without those of subagents, which have no user; all lines if the file is of a subagent."""
    whole = all(line.get("isSidechain") is True for line in lines)
    # Each part of a message is a line, and repeats the tokens of the message.
    last = {str(mapping(line.get("message")).get("id")): place for place, line in enumerate(lines)}
    for place, line in enumerate(lines):
        identity = mapping(line.get("message")).get("id")
        if line.get("isSidechain") is True and not whole:
            omissions.add("message", "of subagents")
        elif line.get("isMeta") is not True:
            yield line if identity is None or last[str(identity)] == place else {**line, "usage": None}


def _add_line(line: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    message = line["message"]
    builder.at = read_time(line.get("timestamp"))
    if line.get("isApiErrorMessage") is True:
        words = [words_in(part) for part in parts_of(message.get("content"))]
        builder.add_error(" ".join(filter(None, words)) or "the model's API failed")
    elif not _is_command(message):
        anthropic.add_message(message, builder, with_usage="usage" not in line)


def _is_command(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return message.get("role") == "user" and isinstance(content, str) and content.startswith(_COMMANDS)
