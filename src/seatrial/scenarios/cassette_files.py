"""Read and write cassettes: YAML files with recorded tool calls."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from seatrial.errors import UsageError
from seatrial.files import replacing
from seatrial.model.scenario import Scenario
from seatrial.tools.cassettes import Document, RecordedTools, check_cassette, read_recorded

_HEAD = (
    "# Calls of real tools, recorded by Seatrial. Edit them as you like; `seatrial run --verify-mocks` finds drift.\n"
)
_WIDTH = 110


def find_cassette(scenario: Scenario) -> Path | None:
    """The file that `mocks_from` names, from the folder of the suite's file; None without one."""
    if scenario.mocks_from is None:
        return None
    source = (scenario.source or "").rpartition(":")[0]
    return Path(source).parent / scenario.mocks_from if source else Path(scenario.mocks_from)


def load_recorded(scenario: Scenario) -> RecordedTools | None:
    """The recorded tools of the scenario. Raises UsageError if the file cannot be used."""
    path = find_cassette(scenario)
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError as error:
        raise UsageError(
            f"mocks_from: {str(path)!r} cannot be read: {error.strerror}. Record it: seatrial run --record {path}"
        ) from None
    return _load(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _load(path: str, _changed: int, _size: int) -> RecordedTools:
    return read_recorded(read_cassette(Path(path)), path)


def read_cassette(path: Path) -> Document:
    """The content of a cassette. Raises UsageError with all problems."""
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    problems = list(check_cassette(document))
    if problems:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems[:20]))
    assert isinstance(document, dict)
    return document


def write_cassette(path: Path, document: Mapping[str, Any]) -> None:
    """Write the cassette. The file is never left half written. Raises UsageError."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as place:
            place.write_text(_HEAD + text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}. Choose another path") from None


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: equal answers are written out, so that each can be edited."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
