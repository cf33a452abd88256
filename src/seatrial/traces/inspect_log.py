"""Logs of Inspect: `.json`, and `.eval`, which is a zip archive with one JSON file for each sample."""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.errors import MissingExtra

from .documents import MAX_BYTES, flatten
from .parsing import Omissions, listed, mapping, name_in, read_result, read_time, read_usage, read_words, text
from .transcript_builder import RecordedConversation, TraceError, TranscriptBuilder

_ZSTD = 93
"""The number of Zstandard in zip archives, which Python's zipfile reads from 3.14 on."""


def matches(documents: list[Any]) -> bool:
    """Whether a document is a log."""
    return any(isinstance(mapping(each).get("eval"), Mapping) and "samples" in each for each in flatten(documents))


def read_archive(content: bytes, *, where: str) -> dict[str, Any]:
    """The log in a zip archive, in the form of a JSON log. Raises TraceError."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = archive.infolist()
            if sum(file.file_size for file in files) > MAX_BYTES:
                raise TraceError(f"{where}: unpacks to more than {MAX_BYTES // 1_000_000} MB; split it")
            names = {file.filename: file for file in files}
            start = names.get("header.json") or names.get("_journal/start.json")
            if start is None:
                raise TraceError(f"{where}: is a zip archive, but no log of Inspect (.eval)")
            header = _load(content, archive, start, where)
            samples = [file for file in files if file.filename.startswith("samples/")]
            return {**mapping(header), "samples": [_load(content, archive, file, where) for file in samples]}
    except (zipfile.BadZipFile, EOFError, ValueError, RecursionError) as error:
        raise TraceError(f"{where}: the archive cannot be read: {error}") from None


def _load(content: bytes, archive: zipfile.ZipFile, file: zipfile.ZipInfo, where: str) -> Any:
    try:
        return json.loads(archive.read(file))
    except NotImplementedError as error:
        if file.compress_type != _ZSTD:
            raise TraceError(f"{where}: {file.filename} cannot be unpacked: {error}") from None
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("traces", needed_for=f"{where}: a log compressed with Zstandard") from None
    # The name and extra field before the data may differ in length from those of the directory.
    at = file.header_offset
    begin = at + 30 + sum(int.from_bytes(content[at + place : at + place + 2], "little") for place in (26, 28))
    packed = content[begin : begin + file.compress_size]
    try:
        return json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    except zstandard.ZstdError as error:
        raise TraceError(f"{where}: {file.filename} cannot be unpacked: {error}") from None


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each sample, with the name of the sample. Epochs have the same name."""
    for document in flatten(documents):
        log = mapping(document)
        model = text(mapping(log.get("eval")).get("model"))
        for each in listed(log.get("samples")):
            sample = mapping(each)
            builder = TranscriptBuilder(omissions)
            _add_sample(sample, model, builder)
            found = builder.build(name_in(sample, "id") or "", recorded=sample)
            if found is not None:
                yield found


def _add_sample(sample: Mapping[str, Any], model: str | None, builder: TranscriptBuilder) -> None:
    messages = [message for message in listed(sample.get("messages")) if isinstance(message, Mapping)]
    users = [message for message in messages if message.get("role") == "user"]
    # A sample has its times and tokens as a whole, so they are those of a turn only if there is one.
    single = len(users) == 1
    for message in messages:
        builder.at = read_time(sample.get("started_at")) if single and message.get("role") == "user" else None
        _add_message(message, builder)
    error = text(mapping(sample.get("error")).get("message"))
    if error is not None:
        builder.add_error(error)
    if single:
        builder.extend_turn(read_time(sample.get("completed_at")))
        builder.add_usage(read_usage(mapping(sample.get("model_usage")).get(model or "")))


def _add_message(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    role = message.get("role")
    words = read_words(message, builder.omissions)
    if role != "tool":
        builder.add_text(role, words)
        for call in map(mapping, listed(message.get("tool_calls"))):
            builder.add_call(call.get("function"), call.get("arguments") or {}, call_id=call.get("id"))
        return
    error = mapping(message.get("error")).get("message")
    builder.add_result(
        message.get("tool_call_id"),
        None if error is not None else read_result(words),
        error=None if error is None else str(error),
        name=message.get("function"),
    )
