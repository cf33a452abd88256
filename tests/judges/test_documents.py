"""What docs/judges.md shows can be loaded, and what it lists is what there is."""

import re
from pathlib import Path

import pytest

from seatrial.judges.labels import _KNOWN
from seatrial.judges.metrics import load_definitions
from seatrial.scenarios import load

TEXT = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_suite_of_the_document_loads(block: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(block, "utf-8")
    [suite] = load(file)
    assert suite.count == 1


@pytest.mark.parametrize("block", blocks("toml"))
def test_every_metric_of_the_document_can_be_read(block: str, tmp_path: Path) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(block, "utf-8")
    assert load_definitions(file)


def test_every_column_of_labels_is_listed() -> None:
    listed = TEXT.partition("| column | means |")[2]
    assert all(f"`{column}`" in listed for column in _KNOWN)
