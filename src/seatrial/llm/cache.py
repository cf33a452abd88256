"""Answers on disk, found by what was asked.

One small file per answer, named by the hash of the question and put in place by a rename: any number of processes may
read and write at once without locks, and a crash leaves either a whole answer or none. An entry that cannot be read
is a miss.
"""

import json
import os
import threading
import warnings
from pathlib import Path
from typing import Any

from seatrial.private_files import make_file, make_folder

from .structured import json_schema
from .types import Question

_FORM = 1
"""Goes into every key; raised when the form of prompts or entries changes."""


def cache_key(question: Question[Any], *, system: str) -> str:
    """The hash of everything that is sent, and of the salt."""
    import hashlib

    parts = [
        _FORM,
        question.model.identity,
        system,
        question.messages,
        json_schema(question.schema),
        question.salt,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class AnswerCache:
    """The answers kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False

    def get(self, key: str) -> tuple[str, str] | None:
        """(text, model) of the answer, or None."""
        try:
            entry = json.loads(self._path(key).read_text("utf-8"))
            raw, model = entry["raw"], entry["model"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (raw, model) if isinstance(raw, str) and isinstance(model, str) else None

    def put(self, key: str, *, raw: str, model: str) -> None:
        """Keep an answer. A folder that cannot be written costs money, not the run: it is warned about, once."""
        path = self._path(key)
        try:
            make_folder(path.parent)
            _replace(path, json.dumps({"raw": raw, "model": model}, ensure_ascii=False))
        except OSError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(f"answers cannot be cached in {self.folder}: {error}", stacklevel=2)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _replace(path: Path, text: str) -> None:
    # Not tempfile: importing it costs every run, and process and thread make the name unique already.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        make_file(draft)
        draft.write_text(text, "utf-8")
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
