"""Move the files of changes/ into CHANGELOG.md, under a version: `make changelog VERSION=1.2.0`."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "## Unreleased"
_VERSION = re.compile(r"\d+(\.\d+)+((a|b|rc)\d+)?")


def collect(root: Path, version: str, *, date: str) -> list[Path]:
    """Write the section of the version, delete the files that it was made of, and return them.

    Entries under "Unreleased" become part of the version. Nothing is written if something is wrong: then this exits
    with a message.
    """
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    files = sorted(file for file in (root / "changes").glob("*.md") if file.name != "README.md")
    _require(_VERSION.fullmatch(version) is not None, f"{version!r} is not a version such as 1.2.0")
    _require(f"\n## {version} " not in text, f"CHANGELOG.md already has a section for {version}")
    entries = [_entry(file) for file in files]
    head, _, rest = text.partition("\n## ")
    if f"\n{UNRELEASED}\n" in text:
        head, _, rest = text.partition(f"\n{UNRELEASED}\n")
        waiting, mark, older = rest.partition("\n## ")
        entries = [waiting.strip(), *entries] if waiting.strip() else entries
        rest = older if mark else ""
    _require(bool(entries), "there is nothing to release: changes/ is empty")
    section = f"## {version} ({date})\n\n" + "\n".join(entries) + "\n"
    older = f"\n## {rest.rstrip()}\n" if rest.strip() else ""
    changelog.write_text(f"{head.rstrip()}\n\n{section}{older}", encoding="utf-8")
    for file in files:
        file.unlink()
    return files


def _entry(file: Path) -> str:
    """The one paragraph of the file, as an item of a list on one line."""
    text = file.read_text(encoding="utf-8").strip().removeprefix("- ")
    _require(bool(text), f"changes/{file.name} is empty; write one sentence")
    _require(
        "\n\n" not in text and "\n- " not in text, f"changes/{file.name} has several entries; use one file for each"
    )
    return "- " + " ".join(text.split())


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"changelog: {otherwise}")


if __name__ == "__main__":
    _require(len(sys.argv) == 2 and bool(sys.argv[1]), "name the version: make changelog VERSION=1.2.0")
    moved = collect(ROOT, sys.argv[1], date=f"{datetime.now(UTC):%Y-%m-%d}")
    print(f"changelog: wrote {sys.argv[1]}, with {len(moved)} files of changes/")
