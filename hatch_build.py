"""The version of a package that is built: of its git tag, and written into it as the constant it stays.

`v1.2.0` is 1.2.0. Three commits later it is 1.2.1.dev3+g1a2b3c4: before the next release, after the last. Without a
tag, and in a source distribution, which has no git, it is what src/seatrial/version.py says. An editable install runs
with that one as well: a version that was written into the sources would be wrong after the next commit.
"""

import re
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
FILE = "seatrial/version.py"
_CONSTANT = re.compile(r'(?m)^__version__ = "(.+)"$')
_DESCRIBED = re.compile(r"v((?:\d+\.)+(?:\d+(?:a|b|rc))?)(\d+)-(\d+)-g([0-9a-f]+)(-dirty)?")


def find_version() -> str:
    """What the package that is being built is called."""
    written = _CONSTANT.search(_source())
    assert written is not None
    # A source distribution that is unpacked inside somebody's repository must not take that one's tags for ours.
    return (_from_tag() if (ROOT / ".git").exists() else "") or written[1]


def _source() -> str:
    return (ROOT / "src" / FILE).read_text(encoding="utf-8")


def _from_tag() -> str:
    """Empty where there is no git, no tag, or a tag that names no version."""
    command = ["git", "describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    found = _DESCRIBED.fullmatch(done.stdout.strip())
    if found is None:
        return ""
    beginning, last, distance, commit, dirty = found.groups()
    if distance == "0" and not dirty:
        return f"{beginning}{last}"
    return f"{beginning}{int(last) + 1}.dev{distance}+g{commit}{'.dirty' if dirty else ''}"


class VersionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts a version.py with the version into the package, and leaves the one of the sources alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        made = Path(mkdtemp(prefix="seatrial-build-")) / "version.py"
        made.write_text(_CONSTANT.sub(f'__version__ = "{self.metadata.version}"', _source()), encoding="utf-8")
        place = FILE if self.target_name == "wheel" else f"src/{FILE}"
        build_data["force_include"][str(made)] = place
