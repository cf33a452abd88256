"""What `seatrial doctor` looks at before any suite: the installation, its extras, keys, settings and the store."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from seatrial.errors import SeatrialError, UsageError
from seatrial.model.struct import Struct
from seatrial.settings import SETTINGS, read_settings
from seatrial.version import __version__

_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?(?P<limits>[^;]*);.*extra == ['\"](?P<extra>[\w-]+)")
_OTHER_VARIABLES: Final = ("SEATRIAL_TOKEN", "SEATRIAL_REQUIRE_BROWSER")
_LOOKED_THROUGH: Final = 200
"""The trials of this many runs are read, the newest."""


class Finding(Struct, frozen=True, kw_only=True):
    """One line of what the doctor says."""

    state: Literal["ok", "warning", "problem"]
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    return Finding(state="ok", text=text)


def problem(error: SeatrialError) -> Finding:
    """Our own errors say what to do in their own words."""
    return Finding(state="problem", text=str(error))


def check_installation() -> Iterator[Finding]:
    python = f"Python {platform.python_version()} at {sys.executable}"
    yield ok(f"seatrial {__version__}, {python}, {platform.system()} {platform.release()} {platform.machine()}")
    found = shutil.which("seatrial")
    if found is not None and Path(found).resolve().parent != Path(sys.executable).absolute().parent:
        yield Finding(
            state="warning",
            text=f"the command `seatrial` is {found}, which belongs to another Python than this one",
            remedy=f"activate the environment you mean, or type: {sys.executable} -m seatrial",
        )


def check_extras() -> Iterator[Finding]:
    """What is installed of each extra; extras are optional, so a missing one is no fault."""
    try:
        required = metadata.requires("seatrial") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            state="warning", text="seatrial runs from its sources, not as a package", remedy="pip install seatrial"
        )
        return
    absent = []
    for extra, packages in _packages_by_extra(required).items():
        versions = {name: _version(name) for name in packages}
        here = {name: version for name, version in versions.items() if version is not None}
        if len(here) < len(versions):
            absent.append(extra)
            continue
        shown = f"extra {extra}: {', '.join(f'{name} {version}' for name, version in here.items())}"
        old = [f"{name}{limits}" for name, limits in packages.items() if _is_below(here[name], limits)]
        if old:
            yield Finding(
                state="warning",
                text=f"{shown}; it needs {', '.join(old)}",
                remedy=f"pip install --upgrade 'seatrial[{extra}]'",
            )
        else:
            yield ok(shown)
    if absent:
        yield ok(f"extras that are not installed: {', '.join(absent)} (pip install 'seatrial[NAME]')")


def _packages_by_extra(required: list[str]) -> dict[str, dict[str, str]]:
    """Extra -> package -> the versions it may have. `all` has nothing of its own."""
    extras: dict[str, dict[str, str]] = {}
    for line in required:
        found = _REQUIREMENT.match(line)
        if found and found["name"] != "seatrial" and found["extra"] != "all":
            extras.setdefault(found["extra"], {})[found["name"]] = found["limits"].strip()
    return extras


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _is_below(version: str, limits: str) -> bool:
    least = re.search(r">=\s*([\d.]+)", limits)
    return least is not None and _numbers(version) < _numbers(least[1])


def _numbers(version: str) -> list[int]:
    leading = re.match(r"[\d.]*", version)
    return [int(part) for part in (leading[0] if leading else "").split(".") if part]


def check_keys(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which keys of model providers are set: their names, never their values."""
    from seatrial.llm.providers import PROVIDERS

    known = dict.fromkeys(name for provider in PROVIDERS.values() for name in provider.keys)
    there = [name for name in known if environ.get(name)]
    empty = [name for name in known if environ.get(name) == ""]
    yield ok(f"keys of models: {', '.join(there) or 'none is set; only judges and simulated users ask models'}")
    for name in empty:
        yield Finding(state="warning", text=f"{name} is set, but empty", remedy=f"export {name}=…, or unset it")


def check_settings(folder: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The settings that hold here, and where they come from."""
    try:
        read_settings(folder, environ)
    except UsageError as error:
        yield problem(error)
        return
    file = next((place / "pyproject.toml" for place in (folder, *folder.parents) if _has_table(place)), None)
    yield ok(f"settings: {file or 'no [tool.seatrial] in a pyproject.toml here or above; the defaults hold'}")
    variables = [setting.variable for setting in SETTINGS.values() if setting.variable]
    there = [name for name in variables if environ.get(name)]
    if there:
        yield ok(f"settings from the environment: {', '.join(there)}")
    for name in environ:
        if name.startswith("SEATRIAL_") and name not in variables and name not in _OTHER_VARIABLES:
            close = get_close_matches(name, variables, n=1)
            yield Finding(
                state="warning",
                text=f"nothing reads the variable {name}",
                remedy=f"did you mean {close[0]}?" if close else f"known: {', '.join(variables)}",
            )


def _has_table(folder: Path) -> bool:
    file = folder / "pyproject.toml"
    return file.is_file() and "[tool.seatrial" in file.read_text(encoding="utf-8", errors="replace")


def check_store(url: str) -> Iterator[Finding]:
    """Whether runs can be kept there, and what is kept already. Looking makes no store."""
    from seatrial.runs.report import find_damaged
    from seatrial.store.opening import open_store
    from seatrial.store.schema import VERSION

    file = (
        None if url.startswith(("postgres://", "postgresql://")) else Path(url.removeprefix("sqlite:///")).expanduser()
    )
    if file is not None and not file.exists() and "://" not in str(file):
        yield _check_place(file)
        return
    try:
        with open_store(url) as store:
            newest = store.runs(1)
            last = f"last run {newest[0].id}" if newest else "no run yet"
            size = "" if file is None else f", {_size(file)}"
            yield ok(f"store {store.name}: schema {VERSION}{size}, {last}")
            for _, text in find_damaged(store, _LOOKED_THROUGH):
                yield Finding(state="problem", text=text)
    except SeatrialError as error:
        yield problem(error)


def _check_place(file: Path) -> Finding:
    nearest = next(place for place in file.absolute().parents if place.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return ok(f"store {file}: not there yet; the first run makes it")
    return Finding(
        state="problem",
        text=f"store {file}: cannot be made, since {nearest} is {'read-only' if nearest.is_dir() else 'no folder'}",
        remedy="give --store a path that can be written to, or set `store` in [tool.seatrial]",
    )


def _size(file: Path) -> str:
    """With what waits in the log beside it."""
    parts = [file, file.with_name(f"{file.name}-wal")]
    total = float(sum(part.stat().st_size for part in parts if part.exists()))
    for unit in ("B", "kB", "MB"):
        if total < 1000:
            return f"{total:.0f} {unit}"
        total /= 1000
    return f"{total:.1f} GB"
