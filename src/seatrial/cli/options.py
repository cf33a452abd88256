"""Which scenarios a command is about: flags that several commands have."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from seatrial.errors import UsageError
from seatrial.model.run import RESERVED_NAMES, RUN_ID_RULE, is_run_id
from seatrial.runs.request import RunRequest
from seatrial.settings import models_from, not_redacted, read_settings
from seatrial.store.store import Store, open_store

from . import shell_completion

_Command = TypeVar("_Command", bound=Callable[..., Any])


def selection_options(command: _Command) -> _Command:
    """`--scenario` and `--tag`."""
    by_name = click.option(
        "--scenario",
        "scenario_text",
        multiple=True,
        metavar="TEXT",
        shell_complete=shell_completion.scenario_names,
        help="Only scenarios whose name contains TEXT. Repeatable: any of them.",
    )
    by_tag = click.option(
        "--tag",
        "tags",
        multiple=True,
        shell_complete=shell_completion.tags,
        help="Only scenarios with this tag. Repeatable: any of them.",
    )
    return by_name(by_tag(command))


DEFAULT_FOLDER = "scenarios"


def read_environment(env_file: str | None) -> dict[str, str]:
    """The process environment; a file given by name fills in what is not set."""
    environ = dict(os.environ)
    if env_file is None:
        return environ
    try:
        lines = Path(env_file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--env-file {env_file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--env-file {env_file}: is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("export ")
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"{env_file}:{number}: expected NAME=value, got {line!r}")
        environ.setdefault(name.strip(), _read_value(value))
    os.environ.update({name: value for name, value in environ.items() if name not in os.environ})
    return environ


def _read_value(text: str) -> str:
    """What stands in quotes, as it is; without quotes, up to a `#` after white space, which begins a comment."""
    quoted = re.fullmatch(r"""(['"])(.*?)\1(\s+#.*)?""", text.strip())
    return quoted[2] if quoted else re.split(r"\s#", text, maxsplit=1)[0].strip()


def default_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """What was given; else the folder `scenarios`, where there is one, else the current folder."""
    return tuple(paths) or ((DEFAULT_FOLDER,) if Path(DEFAULT_FOLDER).is_dir() else (".",))


def read_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """`--set limits.latency_ms=500` as nested keys; the value as it would be read in a file."""
    from seatrial.scenarios.yaml_files import parse_value

    made: dict[str, Any] = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise UsageError(f"--set {text!r}: expected path=value, such as limits.latency_ms=500")
        *parents, last = path.split(".")
        place = made
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = parse_value(value)
        if place[last] is None:
            # It would change nothing without a word, where the shell's variable is not set and a gate was meant.
            raise UsageError(
                f"--set {text!r}: the value is empty. If it comes from a variable, check that the variable is set"
            )
    return made


def read_agent(text: str | None) -> Any:
    """An import path as it is; `{type: openai, …}` as it would be read in a file."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    from seatrial.scenarios.yaml_files import parse_value

    spec = parse_value(text)
    if not isinstance(spec, Mapping):
        raise UsageError(
            f"--agent {text!r}: expected settings as in a file, such as {{type: command, argv: [./agent]}}"
        )
    return spec


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`2/5` as (2, 5)."""
    if text is None:
        return None
    number, slash, of = text.partition("/")
    if not slash or not number.isdigit() or not of.isdigit() or not 1 <= int(number) <= int(of):
        raise UsageError(f"--shard {text!r}: expected i/n with i from 1 to n, such as 2/5")
    return int(number), int(of)


def check_run_name(text: str | None) -> str | None:
    """The name, if the run can be found by it. Raises UsageError."""
    if text is None or (text.strip() and text not in RESERVED_NAMES):
        return text
    raise UsageError(f"--name {text!r}: expected a name that is not blank, latest or baseline")


def check_run_id(text: str | None) -> str | None:
    """The id, if a run may have it: it stands in addresses and commands. Raises UsageError."""
    if text is None or is_run_id(text):
        return text
    raise UsageError(f"--id {text!r}: {RUN_ID_RULE}")


def make_request(
    paths: Sequence[str], *, environ: Mapping[str, str], overrides: Mapping[str, Any], **more: Any
) -> RunRequest:
    """A request with what the settings say where the flags say nothing."""
    settings = read_settings(Path.cwd(), environ)
    store = more.pop("store", None) or settings["store"]
    models = models_from(settings)
    return RunRequest(
        sources=default_paths(paths),
        overrides={key: value for key, value in overrides.items() if value is not None},
        store=store,
        cache=settings["cache"],
        environ=environ,
        models=models,
        default_agent=settings["agent"],
        not_redacted=not_redacted(settings),
        command=shlex.join(["seatrial", *sys.argv[1:]]),
        **more,
    )


def store_url(store: str | None) -> str:
    """The store that was named, else the one of the settings."""
    found = store or read_settings(Path.cwd(), os.environ)["store"]
    assert isinstance(found, str)
    return found


def open_stored(store: str | None) -> Store:
    """The store that runs are read from. Looking must not make one, so it has to be there."""
    url = store_url(store)
    scheme, separator, rest = url.partition("://")
    file = rest[1:] if separator and scheme == "sqlite" else None if separator else url
    if file is not None and not Path(file).expanduser().exists():
        raise UsageError(f"{url}: no run is stored there yet. Run something first: seatrial run")
    return open_store(url)
