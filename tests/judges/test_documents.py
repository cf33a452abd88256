"""What docs/judges.md lists is what there is."""

from pathlib import Path

from seatrial.judges.labels import _KNOWN

TEXT = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")


def test_every_column_of_labels_is_listed() -> None:
    listed = TEXT.partition("| column | means |")[2]
    assert all(f"`{column}`" in listed for column in _KNOWN)
