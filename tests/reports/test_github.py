"""What GitHub Actions gets: the step summary and the annotations."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from seatrial.model.run import Status
from seatrial.reports.registry import write_report


def test_the_summary_is_added_to_what_the_step_wrote_before(
    build: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    write_report("github", build.record(build.scenario(), trials=(build.trial(),)), path)
    assert path.read_text(encoding="utf-8").startswith("before\n## ✅ PASS\n")
    assert capsys.readouterr().out == ""


def test_the_summary_stays_within_one_mebibyte(build: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("é" * 300_000, encoding="utf-8")
    long = "ü|" * 100_000
    names = [f"{'n|ä' * 100}{number}" for number in range(1_200)]
    record = build.record(
        *(build.scenario(Status.FAILED, name=name, reasons=(long,)) for name in names),
        trials=tuple(
            build.trial(Status.FAILED, name=name, results=(build.result(False, long),)) for name in names[:60]
        ),
        status=Status.FAILED,
    )
    write_report("github", record, path)
    assert 900_000 < path.stat().st_size <= 1024 * 1024
    assert path.read_text(encoding="utf-8").endswith("See all of it: `seatrial show r-1`\n")


def test_a_full_summary_does_not_grow_with_further_runs(build: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * (1024 * 1024 - 10), encoding="utf-8")
    write_report("github", build.record(build.scenario(), trials=(build.trial(),)), path)
    assert path.stat().st_size == 1024 * 1024 - 10


def test_annotations_point_at_the_scenario_and_are_escaped(
    build: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = build.scenario(
        Status.FAILED, name="a: b, 100%", reasons=("one\n::error::two",), entry={"source": "suites/a.yaml:12"}
    )
    write_report("github", build.record(scenario, status=Status.FAILED), io.StringIO())
    assert capsys.readouterr().out == (
        "::error title=a%3A b%2C 100%25,file=suites/a.yaml,line=12::one%0A::error::two\n"
    )


def test_annotations_keep_to_their_number(build: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    record = build.record(
        *(build.scenario(Status.FAILED, name=f"f{number}", reasons=("r",)) for number in range(12)),
        *(build.scenario(name=f"p{number}", notes=("1 errored trial tolerated",)) for number in range(10)),
        status=Status.FAILED,
    )
    write_report("github", record, io.StringIO())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 10
    assert lines[9] == "::error title=seatrial::3 more scenarios; the summary lists them"


def test_a_run_that_fails_without_a_failing_scenario_is_annotated(
    build: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report("github", build.record(status=Status.NOT_RUN, reasons=("nothing was run",)), io.StringIO())
    assert capsys.readouterr().out == "::error title=seatrial::NOT RUN: nothing was run\n"


def test_hostile_text_makes_no_further_command(build: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    write_report("github", build.hostile_record(), io.StringIO())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("::error title=<script>alert(1)")
    properties = lines[0].split("::")[1].removeprefix("error ")
    assert [one.partition("=")[0] for one in properties.split(",")] == ["title", "file", "line"]


def test_a_comment_stays_within_its_length(build: SimpleNamespace) -> None:
    many = [build.scenario(Status.FAILED, name=f"f{number}", reasons=("r" * 280,)) for number in range(300)]
    stream = io.StringIO()
    record = build.record(*many, status=Status.FAILED)

    write_report("comment", record, stream)

    assert 30_000 < len(stream.getvalue()) <= 60_000
    assert f"See all of it: `seatrial show {record.run.id}`" in stream.getvalue()
