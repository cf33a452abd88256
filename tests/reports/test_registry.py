"""Which reports there are, where they go, and how they become files."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.reports.registry import FORMATS, parse_report_option, write_report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("html=out.html", ("html", Path("out.html"))),
        ("json", ("json", Path(".seatrial/results.json"))),
        ("jsonl", ("jsonl", Path(".seatrial/results.jsonl"))),
        ("junit", ("junit", Path(".seatrial/junit.xml"))),
        ("markdown", ("markdown", Path(".seatrial/report.md"))),
        ("html", ("html", Path(".seatrial/report.html"))),
        ("json=a=b.json", ("json", Path("a=b.json"))),
        ("console", ("console", None)),
        ("github", ("github", None)),
    ],
)
def test_a_report_option_names_a_kind_and_a_path(text: str, expected: tuple[str, Path | None]) -> None:
    assert parse_report_option(text) == expected


def test_an_unknown_report_names_the_closest_known_one() -> None:
    with pytest.raises(UsageError, match=r"unknown report 'htlm'\. Did you mean 'html'\? Known: console, json, "):
        parse_report_option("htlm=x")


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(UsageError, match="the path after '=' is empty"):
        parse_report_option("json=")


def test_folders_are_made_and_nothing_else_is_left(build: SimpleNamespace, tmp_path: Path) -> None:
    for kind in FORMATS:
        write_report(kind, build.record(build.scenario(), trials=(build.trial(),)), tmp_path / "new" / kind)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(FORMATS)
    assert all(path.stat().st_size for path in (tmp_path / "new").iterdir())


def test_a_report_that_breaks_off_leaves_the_old_file_as_it_was(build: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("old", encoding="utf-8")
    record = build.record(build.scenario(), trials=(build.trial(),))

    def broken(_: Any) -> Iterator[Any]:
        yield build.trial()
        raise RuntimeError("the store is gone")

    record.trials = broken
    with pytest.raises(RuntimeError, match="the store is gone"):
        write_report("json", record, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_explained(build: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path, tmp_path / "file" / "results.json"):
        with pytest.raises(UsageError, match=r"cannot write the json report to .* --report json=PATH"):
            write_report("json", build.record(), path)


def test_a_link_is_kept_and_its_target_written(build: SimpleNamespace, tmp_path: Path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "real.json")
    write_report("json", build.record(), link)
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text(encoding="utf-8").startswith("{")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_a_pipe_that_a_shell_hands_over_is_written_to(build: SimpleNamespace) -> None:
    """As `--report json=/dev/stdout | jq .` and `--report json=>(jq .)` have it: the pipe has no other path."""
    reading, writing = os.pipe()
    write_report("json", build.record(), f"/dev/fd/{writing}")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read().startswith('{"schema_version": 1')


def test_a_dash_is_standard_output(build: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    write_report("json", build.record(), "-")
    assert capsys.readouterr().out.startswith('{"schema_version": 1')


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "html"])
def test_nothing_an_agent_says_is_a_command_to_a_ci_system(
    kind: str, build: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """GitHub obeys `::add-mask::` where a line begins and `##[error]` anywhere in it, Azure `##vso[…]`."""
    write_report(kind, build.hostile_record(), "-")
    lines = capsys.readouterr().out.splitlines()
    ours = [line for line in lines if line.startswith("::error title=")]
    assert len(ours) == (kind == "github")
    assert [line for line in lines if line.lstrip().startswith("::") and line not in ours] == []
    assert [line for line in lines if re.search(r"##\w*\[", line)] == []


def test_showing_a_run_at_the_terminal_loads_no_third_party() -> None:
    code = "import sys, seatrial.reports; print({'rich', 'jinja2', 'click', 'pydantic', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
