"""The options of a session: from flags, ini, environment and `[tool.seatrial]`, in this order."""

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.struct import Struct
from seatrial.settings import models_from, not_redacted, read_settings, read_switch
from seatrial_pytest import is_trial_file

_KEY = pytest.StashKey["Options"]()
_INI = ("seatrial_live", "seatrial_trials", "seatrial_agent", "seatrial_report", "seatrial_testpaths")


class Options(Struct, frozen=True, kw_only=True):
    """All options."""

    live: bool
    require_live: bool
    trials: Any
    """Replaces the trials of scenarios and markers."""
    against: str | None
    """Test scenarios of files against the history of `baseline`, or of a run."""
    agent: Any
    """Replaces all other agents; from the command line."""
    default_agent: Any
    reports: tuple[str, ...]
    mutate: bool
    attack: bool
    testpaths: tuple[Path, ...]
    groups: Mapping[str, Any]
    store: str
    cache: str
    models: Mapping[str, Any]
    environ: Mapping[str, str]
    not_redacted: tuple[str, ...]


def options_of(config: pytest.Config) -> Options:
    """The session's options, read once. Raises pytest.UsageError."""
    if _KEY not in config.stash:
        try:
            config.stash[_KEY] = _read(config)
        except UsageError as problem:
            raise pytest.UsageError(str(problem)) from None
    return config.stash[_KEY]


def configure(config: pytest.Config) -> None:
    """Read the options, so that pytest reports mistakes at once, and apply `testpaths` and `groups`."""
    options = options_of(config)
    if options.testpaths:
        config.pluginmanager.register(TestpathsCollector(options.testpaths), "seatrial-testpaths")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args.extend(str(folder) for folder in options.testpaths if not _is_covered(config, folder))
    if options.groups:
        from .groups import read_groups
        from .session_plugin import session_plugin

        session_plugin(config).groups = read_groups(options.groups)


def _is_covered(config: pytest.Config, folder: Path) -> bool:
    given = [(config.invocation_params.dir / each).resolve() for each in config.args]
    return any(folder.is_relative_to(each) for each in given)


class TestpathsCollector:
    """Collects every scenario file in the folders of `testpaths`, whatever its name."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._found: dict[Path, Path] = {}
        """By their real paths: the paths by which pytest found the files first."""

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        from seatrial.scenarios.load import belongs_to_folder

        if is_trial_file(file_path) or not belongs_to_folder(file_path) or not self._is_within(file_path):
            return None
        if self._found.setdefault(file_path.resolve(), file_path) != file_path:
            return None
        from .files import ScenarioFile

        return ScenarioFile.from_parent(parent, path=file_path)

    def _is_within(self, path: Path) -> bool:
        """Compares real paths: pytest may have followed links."""
        return any(each.resolve() in self._folders for each in (path, *path.parents))


def _read(config: pytest.Config) -> Options:
    _refuse_unknown(config)
    environ = dict(os.environ)
    settings = read_settings(config.rootpath, environ)
    flags = config.option
    live = config.getini("seatrial_live")
    if "SEATRIAL_LIVE" in environ or live is None:
        live = settings["live"]
    elif not isinstance(live, bool):
        live = read_switch("seatrial_live", str(live))
    testpaths = config.getini("seatrial_testpaths") or settings["testpaths"]
    return Options(
        live=bool(flags.seatrial_live or live),
        require_live=flags.seatrial_require_live,
        trials=_trials(config.getini("seatrial_trials") if flags.seatrial_trials is None else flags.seatrial_trials),
        against=flags.seatrial_against,
        agent=_agent(flags.seatrial_agent),
        default_agent=_agent(config.getini("seatrial_agent")) or settings["agent"],
        mutate=flags.seatrial_mutate,
        attack=flags.seatrial_attack,
        reports=_reports(flags.seatrial_report or config.getini("seatrial_report") or ()),
        testpaths=tuple(_folder(config.rootpath, each) for each in testpaths),
        groups=settings["groups"] or {},
        store=_place(config.rootpath, settings["store"]),
        cache=_place(config.rootpath, settings["cache"]),
        models=models_from(settings),
        environ=environ,
        not_redacted=not_redacted(settings),
    )


def _refuse_unknown(config: pytest.Config) -> None:
    for key in getattr(config, "_inicfg", None) or ():
        if str(key).startswith("seatrial") and key not in _INI:
            close = get_close_matches(str(key), _INI, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(_INI)}."
            raise UsageError(f"{config.inipath}: unknown key {key!r}. {hint}")


def _trials(given: Any) -> Any:
    if given is None or given == "auto":
        return given
    if not str(given).isdigit() or int(given) < 1:
        raise UsageError(f"--seatrial-trials {given!r}: expected a number from 1, or auto")
    return int(given)


def _agent(text: str | None) -> Any:
    """An import path, or `{type: openai, …}` parsed as in a file."""
    if not text or not text.lstrip().startswith("{"):
        return text
    from seatrial.scenarios.yaml_files import parse_value

    spec = parse_value(text)
    if not isinstance(spec, Mapping):
        raise UsageError(f"--seatrial-agent {text!r}: expected settings as in a file, such as {{type: openai, …}}")
    return spec


def _reports(given: Iterable[str]) -> tuple[str, ...]:
    """The reports as written. Raises UsageError for an unknown kind."""
    from seatrial.reports.registry import parse_report_option

    asked = tuple(given)
    for text in asked:
        parse_report_option(text)
    return asked


def _folder(root: Path, given: Any) -> Path:
    if not isinstance(given, str) or not (root / given).exists():
        raise UsageError(f"{root / 'pyproject.toml'}: testpaths: there is no file or folder {given!r}")
    return (root / given).resolve()


def _place(root: Path, given: str) -> str:
    """A path relative to the project's root, wherever pytest was started; a URL stays as it is."""
    return given if "://" in given else str(root / Path(given).expanduser())
