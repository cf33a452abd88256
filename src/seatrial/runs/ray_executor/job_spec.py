"""What a worker is told before its first trial: everything that the plan of the run is made from, as JSON.

No object is pickled: a worker imports agents and evaluators by their paths and reads the same files, so that what it
plays is what a reader of the files would expect.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct
from seatrial.runs.request import RunRequest

_OF_THE_MACHINE = re.compile(
    r"(?:PATH|HOME|PWD|OLDPWD|USER|LOGNAME|SHELL|SHLVL|HOSTNAME|TMPDIR|TEMP|TMP|VIRTUAL_ENV|_"
    r"|(?:LD|DYLD|PYTHON|RAY|CONDA|XDG|SSH|CUDA|DBUS)_?\w*)"
)
"""Variables that say where things are on one machine, or how Ray runs there; all others are as on the driver."""


class Order(Struct, frozen=True, kw_only=True):
    """How a worker comes to the same scenarios, and what all its trials share."""

    request: RunRequest
    run_id: str
    seed: int
    folder: str
    """Where the paths begin."""
    imports: tuple[str, ...]
    """Where modules are looked for."""


def write_order(request: RunRequest, *, run_id: str, seed: int) -> bytes:
    """The order as it travels. Raises UsageError where the request holds what cannot leave this process."""
    sources = [_path(source) for source in request.sources]
    asked = {
        "sources": sources,
        "agent": request.agent,
        "overrides": request.overrides,
        "scenario_text": request.scenario_text,
        "tags": request.tags,
        "only": None if request.only is None else sorted(request.only),
        "cache": request.cache,
        "environ": {name: text for name, text in request.environ.items() if not _OF_THE_MACHINE.fullmatch(name)},
        "models": request.models,
        "default_agent": request.default_agent,
        "not_redacted": list(request.not_redacted),
        "shard": request.shard,
    }
    order = {
        "request": asked,
        "run_id": run_id,
        "seed": seed,
        "folder": os.getcwd(),
        "imports": [os.path.abspath(place) for place in sys.path],
    }
    return json.dumps(order, default=_refuse).encode("ascii")


def read_order(text: bytes, environ: Mapping[str, str]) -> Order:
    """The order as a worker understands it; `environ` is what the worker has itself."""
    said: dict[str, Any] = json.loads(text)
    asked: dict[str, Any] = said.pop("request")
    lists = {name: tuple(asked[name]) for name in ("sources", "scenario_text", "tags", "not_redacted")}
    only, shard = asked["only"], asked["shard"]
    request = RunRequest(
        **{
            **asked,
            **lists,
            "only": None if only is None else frozenset((suite, name) for suite, name in only),
            "shard": None if shard is None else (shard[0], shard[1]),
            "environ": {**environ, **asked["environ"]},
            "store": None,
        }
    )
    return Order(**{**said, "request": request, "imports": tuple(said["imports"])})


def _path(source: Any) -> str:
    if isinstance(source, str | Path):
        return str(source)
    raise UsageError(
        f"--executor ray: {type(source).__name__} {getattr(source, 'name', '')!r} is a Python object, and cannot leave "
        "this process. Put it into a file that workers can read, such as shop_trials.py, and give its path"
    )


def _refuse(value: Any) -> Any:
    raise UsageError(
        f"--executor ray: {value!r} is a Python object, and cannot leave this process. Give what workers can import: "
        "package.module:attribute"
    )
