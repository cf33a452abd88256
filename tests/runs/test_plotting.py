"""`seatrial plot` and reports in notebooks, over real runs."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.web.sample_store import NAMES, fill_run

import seatrial
from seatrial.cli.main import seatrial as command
from seatrial.reports.run_plots import KINDS
from seatrial.store.store import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("plots") / "runs.db")
    with open_store(path) as opened:
        fill_run(opened, "before", day=0, trials=3)
        fill_run(opened, "after", day=5, trials=3)
        opened.set_baseline("before")
    return path


def plot(store: str, *args: str) -> tuple[int, str]:
    made = CliRunner().invoke(command, ["plot", "--store", store, *args], standalone_mode=False)
    if made.exception is not None:
        return 2, str(made.exception)
    return made.return_value, made.output


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_plot_is_written_as_a_file(store: str, tmp_path: Path, kind: str) -> None:
    more = ["--scenario", NAMES[9]] if kind == "curve" else []
    code, _ = plot(store, "after", "--kind", kind, "-o", str(tmp_path / "new" / "x.svg"), *more)

    assert code == 0
    assert ET.parse(tmp_path / "new" / "x.svg").getroot().get("aria-label")


def test_a_plot_goes_to_standard_output_unless_a_file_is_named(store: str) -> None:
    code, written = plot(store)

    assert code == 0
    assert written.startswith("<svg ")
    assert "scenarios passed" in written


def test_a_curve_of_several_scenarios_says_how_to_name_one(store: str) -> None:
    assert "--scenario NAME" in plot(store, "after", "--kind", "curve")[1]


def test_a_scenario_that_does_not_exist_is_an_error(store: str) -> None:
    assert "has no scenario 'nosuch'" in plot(store, "after", "--kind", "latency", "--scenario", "nosuch")[1]


def test_a_report_shows_its_trials_in_a_notebook(tmp_path: Path) -> None:
    scenario = seatrial.Scenario(name="<b>says hello</b>", input="hi", expected_output="hello", trials=2)
    report = seatrial.run([scenario], agent=lambda input: "hello", store=str(tmp_path / "runs.db"))
    shown = report._repr_html_()

    assert "PASS" in shown
    assert "<svg " in shown
    assert "<b>says hello" not in shown
