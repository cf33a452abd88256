"""The options that several commands share, and what they mean: the environment, the store, the request for a run."""

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
from seatrial.reports.registry import FORMATS
from seatrial.runs.request import RunRequest
from seatrial.settings import SETTINGS, models_from, not_redacted, read_settings
from seatrial.store.store import Store, open_store

from . import shell_completion

DEFAULT_FOLDER = "scenarios"
_Command = TypeVar("_Command", bound=Callable[..., Any])

_STORE = SETTINGS["store"]
store_option = click.option("--store", help=f"{_STORE.help} ({_STORE.default}).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
env_file_option = click.option("--env-file", metavar="FILE", help="Read environment variables from a file.")
judge_model_option = click.option("--judge-model", help="Model of the judge, such as openai:gpt-5-mini.")
report_option = click.option(
    "--report", "reports", multiple=True, metavar="FORMAT[=PATH]", help=f"Write a report: {', '.join(FORMATS)}, …"
)
verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Show whole transcripts, tool calls and all results."
)


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


def read_environment(env_file: str | None) -> dict[str, str]:
    """The process environment, plus the variables of the file that are not set."""
    if env_file is not None:
        for name, value in _read_env_file(env_file).items():
            os.environ.setdefault(name, value)
    return dict(os.environ)


def _read_env_file(env_file: str) -> dict[str, str]:
    try:
        lines = Path(env_file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--env-file {env_file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--env-file {env_file}: is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("export ")
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"{env_file}:{number}: expected NAME=value, got {line!r}")
        found.setdefault(name.strip(), _read_value(value))
    return found


def _read_value(text: str) -> str:
    """The text in quotes. Without quotes: the text before a `#` that follows white space."""
    quoted = re.fullmatch(r"""(['"])(.*?)\1(\s+#.*)?""", text.strip())
    return quoted[2] if quoted else re.split(r"\s#", text, maxsplit=1)[0].strip()


def default_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """The given paths. Without any: the folder `scenarios` if it exists, else the current folder."""
    return tuple(paths) or ((DEFAULT_FOLDER,) if Path(DEFAULT_FOLDER).is_dir() else (".",))


def read_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """`--set limits.latency_ms=500` as nested keys. Values are read as in a file."""
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
            # It would silently change nothing, for example if a shell variable is not set.
            raise UsageError(f"--set {text!r}: the value is empty. If it comes from a variable, check that it is set")
    return made


def read_agent(text: str | None) -> Any:
    """An import path as it is; `{type: openai, …}` as settings, read as in a file."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    from seatrial.scenarios.yaml_files import parse_value

    spec = parse_value(text)
    if not isinstance(spec, Mapping):
        raise UsageError(f"--agent {text!r}: expected settings such as {{type: command, argv: [./agent]}}")
    return spec


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`2/5` as (2, 5)."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text!r}: expected i/n with i from 1 to n, such as 2/5")
    return int(found[1]), int(found[2])


def check_run_name(text: str | None) -> str | None:
    """The name, if a run can be found by it. Raises UsageError."""
    if text is None or (text.strip() and text not in RESERVED_NAMES):
        return text
    raise UsageError(f"--name {text!r}: expected a name that is not blank, latest or baseline")


def check_run_id(text: str | None) -> str | None:
    """The id, if it can be used in URLs and commands. Raises UsageError."""
    if text is None or is_run_id(text):
        return text
    raise UsageError(f"--id {text!r}: {RUN_ID_RULE}")


def make_request(
    paths: Sequence[str], *, environ: Mapping[str, str], overrides: Mapping[str, Any], **more: Any
) -> RunRequest:
    """A request for a run. Settings fill in what the options leave open."""
    settings = read_settings(Path.cwd(), environ)
    store = more.pop("store", None) or settings["store"]
    return RunRequest(
        sources=default_paths(paths),
        overrides={key: value for key, value in overrides.items() if value is not None},
        store=store,
        cache=settings["cache"],
        environ=environ,
        models=models_from(settings),
        default_agent=settings["agent"],
        not_redacted=not_redacted(settings),
        command=_command_line(sys.argv[1:]),
        **more,
    )


def _command_line(args: Sequence[str]) -> str:
    """The command to store. The address of --notify is left out: everybody who knows it can post there."""
    shown = [re.sub(r"^--notify=.*", "--notify=…", arg, flags=re.DOTALL) for arg in args]
    secret = {place + 1 for place, arg in enumerate(args) if arg == "--notify"}
    return shlex.join(["seatrial", *("…" if place in secret else arg for place, arg in enumerate(shown))])


def store_url(store: str | None) -> str:
    """The store of the option, else of the settings."""
    found = store or read_settings(Path.cwd(), os.environ)["store"]
    assert isinstance(found, str)
    return found


def open_stored(store: str | None) -> Store:
    """An existing store. Reading must not create one."""
    url = store_url(store)
    scheme, separator, rest = url.partition("://")
    file = rest[1:] if separator and scheme == "sqlite" else None if separator else url
    if file is not None and not Path(file).expanduser().exists():
        raise UsageError(f"{url}: no run is stored there yet. Run something first: seatrial run")
    return open_store(url)
