"""`make changelog` collects the files of changes/ in CHANGELOG.md."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def changelog() -> ModuleType:
    spec = spec_from_file_location("changelog", ROOT / "scripts" / "changelog.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_repository(folder: Path, *, changelog: str, **changes: str) -> Path:
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    (folder / "changes").mkdir()
    (folder / "changes" / "README.md").write_text("How to write a change.\n", encoding="utf-8")
    for name, text in changes.items():
        (folder / "changes" / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def test_changes_become_the_section_of_a_version(changelog: ModuleType, tmp_path: Path) -> None:
    older = "# Changelog\n\n## 1.0.0 (2026-01-01)\n\n- You can run.\n"
    root = a_repository(tmp_path, changelog=older, b="You can stop,\nand go on.\n", a="- You can jump.\n")

    changelog.collect(root, "1.1.0", date="2026-02-03")

    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == (
        "# Changelog\n\n## 1.1.0 (2026-02-03)\n\n- You can jump.\n- You can stop, and go on.\n"
        "\n## 1.0.0 (2026-01-01)\n\n- You can run.\n"
    )
    assert [file.name for file in (root / "changes").iterdir()] == ["README.md"]


def test_unreleased_entries_become_part_of_the_version(changelog: ModuleType, tmp_path: Path) -> None:
    root = a_repository(tmp_path, changelog="# Changelog\n\n## Unreleased\n\n- You can run.\n", a="You can jump.")

    changelog.collect(root, "1.0.0rc1", date="2026-02-03")

    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == (
        "# Changelog\n\n## 1.0.0rc1 (2026-02-03)\n\n- You can run.\n- You can jump.\n"
    )


@pytest.mark.parametrize(
    ("version", "text", "problem"),
    [
        ("v1.0", "You can jump.", "not a version"),
        ("1.0.0", "You can jump.", "already has a section for 1.0.0"),
        ("1.1.0", "\n", "a.md is empty"),
        ("1.1.0", "You can jump.\n\nYou can run.", "several entries"),
        ("1.1.0", None, "nothing to release"),
    ],
)
def test_a_mistake_changes_nothing(
    changelog: ModuleType, tmp_path: Path, version: str, text: str | None, problem: str
) -> None:
    older = "# Changelog\n\n## 1.0.0 (2026-01-01)\n\n- You can run.\n"
    root = a_repository(tmp_path, changelog=older, **({} if text is None else {"a": text}))

    with pytest.raises(SystemExit, match=problem):
        changelog.collect(root, version, date="2026-02-03")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == older
    assert (root / "changes" / "a.md").exists() == (text is not None)


def test_every_waiting_change_can_be_collected(changelog: ModuleType) -> None:
    files = [file for file in (ROOT / "changes").glob("*.md") if file.name != "README.md"]

    assert all(changelog._entry(file) for file in files)
    assert "\n## " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_script_needs_nothing_but_python() -> None:
    source = (ROOT / "scripts" / "changelog.py").read_text(encoding="utf-8")
    imported = {
        line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import", "from"))
    }

    assert imported <= sys.stdlib_module_names
