"""Whether what would be released works: `make release-check`.

Builds the source distribution, builds the wheel from that, installs the wheel into an empty environment without any
extra, and uses it there as somebody would who has nothing else.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE = {"seatrial", "click", "jinja2", "markupsafe", "msgspec", "pyyaml", "rich", "pygments"}
CORE |= {"markdown-it-py", "mdurl", "colorama", "pip", "setuptools"}
"""All that may be installed without an extra; the last two come with some versions of Python."""
LOADED_BY_A_RUN = {"click", "msgspec", "yaml", "agent", "seatrial"}
IN_THE_WHEEL = [
    "seatrial/py.typed",
    "seatrial/cli/templates/function/agent.py.template",
    "seatrial/reports/results.schema.json",
    "seatrial_pytest/__init__.py",
]
IN_THE_SOURCES = ["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "hatch_build.py", "pyproject.toml"]
FOREIGN = """
import json, sys
from seatrial.cli import main
try: main(["run"])
except SystemExit as end: assert end.code == 0, end.code
names = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps(sorted(names)))
"""


def call(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """What a command prints. Ends the check where its exit code is another one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SEATRIAL_"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    require(done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{said}")
    return said


def json_in(said: str) -> Any:
    """The list that stands on a line of its own."""
    return json.loads(next(line for line in said.splitlines() if line.startswith("[")))


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"release-check: {otherwise}")


def check_versions(place: Path) -> None:
    """A tag names the version; what comes after it is named after it."""
    (place / "src/seatrial").mkdir(parents=True)
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "src/seatrial/version.py"):
        shutil.copy(ROOT / name, place / name)

    def git(*arguments: str) -> None:
        call("git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments, cwd=place)

    def version() -> str:
        return call(sys.executable, "-m", "hatchling", "version", cwd=place).strip()

    untagged = version()
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    require(version() == untagged, "a commit without a tag has a version of its own")
    for tag, following in (("v1.2.0", "1.2.1.dev1+g"), ("v1.3.0rc1", "1.3.0rc2.dev1+g")):
        git("tag", tag)
        require(version() == tag[1:], f"the tag {tag} gives the version {version()}")
        git("commit", "-q", "--allow-empty", "-m", "next")
        require(version().startswith(following), f"a commit after {tag} gives {version()}")
    (place / "README.md").write_text("edited")
    require(version().endswith(".dirty"), "an edited tree gives the version of a clean one")


def build(place: Path) -> tuple[Path, str]:
    """The wheel, built from the source distribution, and its version."""
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place, cwd=ROOT)
    (sources,) = place.glob("seatrial-*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(place, filter="data")
    unpacked = place / sources.name.removesuffix(".tar.gz")
    missing = [name for name in IN_THE_SOURCES if not (unpacked / name).is_file()]
    require(not missing, f"{sources.name} lacks {missing}")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=unpacked)
    (wheel,) = place.glob("seatrial-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    require(len(names) == len(set(names)), f"{wheel.name} has files twice")
    require(set(IN_THE_WHEEL) <= set(names), f"{wheel.name} lacks {set(IN_THE_WHEEL) - set(names)}")
    strangers = {name.partition("/")[0] for name in names} - {"seatrial", "seatrial_pytest"}
    require(all(name.endswith(".dist-info") for name in strangers), f"{wheel.name} has {strangers}")
    return wheel, wheel.name.split("-")[1]


def install(wheel: Path, place: Path) -> Path:
    """The folder of the commands of an environment that has the wheel and what it requires."""
    venv.create(place, with_pip=True)
    commands = place / ("Scripts" if sys.platform == "win32" else "bin")
    call(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=place)
    listed = call(commands / "python", "-m", "pip", "list", "--format", "json", cwd=place)
    installed = {package["name"].lower() for package in json_in(listed)}
    require(installed <= CORE, f"without any extra these are installed: {installed - CORE}")
    return commands


def use(commands: Path, folder: Path, version: str) -> None:
    """The first ten minutes, and what is said where an extra is missing."""
    seatrial = commands / "seatrial"

    def says(text: str, *arguments: str, code: int = 0) -> None:
        said = call(seatrial, *arguments, cwd=folder, code=code)
        require(text in said, f"seatrial {' '.join(arguments)} does not say {text!r}:\n{said}")

    says(version, "--version")
    says("wrote agent.py", "init")
    says("3/3 scenarios passed\nPASS", "run", "--report", "html=report.html", "--report", "junit=report.xml")
    says("3/3 scenarios passed", "show")
    says('"$schema"', "schema")
    says("no problem found", "doctor", "scenarios")
    says("pip install 'seatrial[server]'", "serve", code=2)
    says("pip install 'seatrial[http]'", "init", "endpoint", "--agent", "openai", "--ci", "github")
    says("pip install 'seatrial[http]'", "run", "endpoint/scenarios", code=2)
    says("pip install 'seatrial[llm]'", "run", "judged.yaml", "--judge-model", "openai:x", code=2)
    # Names that begin so are Python's own, or parts of PyYAML's C loader.
    named = json_in(call(commands / "python", "-c", FOREIGN, cwd=folder))
    loaded = {name for name in named if not name.startswith(("_", "cython_runtime", "sitecustomize"))}
    require(loaded <= LOADED_BY_A_RUN, f"a plain run loads {loaded - LOADED_BY_A_RUN}")


def main() -> None:
    with TemporaryDirectory() as place:
        check_versions(Path(place) / "versions")
        (Path(place) / "dist").mkdir()
        wheel, version = build(Path(place) / "dist")
        commands = install(wheel, Path(place) / "environment")
        folder = Path(place) / "empty"
        folder.mkdir()
        (folder / "judged.yaml").write_text(
            "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, expected_outcomes: [It is so.]}]\n"
        )
        use(commands, folder, version)
    print(f"release-check: seatrial {version} builds, installs and works without extras")


if __name__ == "__main__":
    main()
