"""An installed package can add a report format."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "ci.md"
WRITER = re.search(r'```python title="names_report.py"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def installed(folder: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project, and a package with the format of the docs, on sys.path as pip leaves it."""
    assert WRITER is not None
    packages = folder.path / "packages"
    info = packages / "names_report-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: names-report\nVersion: 1.0\n")
    points = "names = names_report:write\nbroken = names_report:nothing\nraises = names_report:raises\n"
    (info / "entry_points.txt").write_text(f"[seatrial.reports]\n{points}json = names_report:raises\n")
    raises = "def raises(record, stream):\n    raise SystemExit('no paper')\n"
    (packages / "names_report.py").write_text(f"{WRITER[1]}\n\n{raises}")
    monkeypatch.syspath_prepend(str(packages))
    folder.write("agent.py", "def answer(input): return f'You said {input}.'")
    folder.write("suite.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: greets, input: hello}]\n")
    return folder


@pytest.mark.parametrize(("option", "file"), [("names=out.txt", "out.txt"), ("names", ".seatrial/names.txt")])
def test_a_format_of_a_package_is_written(installed: Any, option: str, file: str) -> None:
    ended = installed.seatrial("run", "suite.yaml", "--report", option)

    assert ended.code == 0, ended.err
    assert (installed.path / file).read_text() == "greets: passed\n  trial-1: You said hello.\n"


def test_an_unknown_format_lists_those_of_packages(installed: Any) -> None:
    ended = installed.seatrial("run", "suite.yaml", "--report", "name")

    assert ended.code == 2
    assert "unknown report 'name'. Did you mean 'names'? Known: console, json, " in ended.err
    assert "github, broken, names, raises." in ended.err


def test_a_package_cannot_replace_a_built_in_format(installed: Any) -> None:
    assert installed.seatrial("run", "suite.yaml", "--report", "json=out.json").code == 0
    assert (installed.path / "out.json").read_text().startswith("{")


def test_a_format_that_cannot_be_loaded_is_refused_before_the_run(installed: Any) -> None:
    ended = installed.seatrial("run", "suite.yaml", "--report", "broken=out.txt")

    assert ended.code == 2
    assert "--report broken: cannot load 'names_report:nothing': AttributeError" in ended.err
    assert not installed.exists(".seatrial")


def test_a_format_that_fails_says_why_and_the_run_is_kept(installed: Any) -> None:
    ended = installed.seatrial("run", "suite.yaml", "--report", "raises=out.txt")

    assert ended.code == 1
    assert "--report raises: 'names_report:raises' failed: SystemExit: no paper" in ended.err
    assert not installed.exists("out.txt")
    assert "PASS" in installed.seatrial("show").out
