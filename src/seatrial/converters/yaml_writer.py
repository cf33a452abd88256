"""The native YAML file, with what could not be carried over as comments where it belongs."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.errors import UsageError
from seatrial.scenarios import yaml_files

from .target_suite import Draft, Note

_WIDTH = 110


def write(draft: Draft) -> str:
    """The text of the file."""
    lines = [f"# Converted from {draft.tool}: {draft.source.path.name}", *_comments(draft.notes)]
    suite = {**draft.suite, **({"config": draft.config} if draft.config else {})}
    text = "\n".join(lines) + "\n" + _dump({"suite": suite}) + "\nscenarios:\n"
    blocks = ["".join([*_block(scenario.keys, scenario.notes)]) for scenario in draft.scenarios]
    text += "\n".join(blocks)
    data = {"suite": suite, "scenarios": [scenario.keys for scenario in draft.scenarios]}
    if yaml_files.parse(text).data != data:
        raise UsageError(f"{draft.source.path}: holds something that a scenario file cannot hold, such as .nan")
    return text


def _block(keys: dict[str, Any], notes: Sequence[Note]) -> Iterator[str]:
    for comment in _comments(notes):
        yield f"  {comment}\n"
    first, *rest = _dump(keys).splitlines()
    yield f"  - {first}\n"
    for line in rest:
        yield f"    {line}\n" if line else "\n"


def _comments(notes: Sequence[Note]) -> Iterator[str]:
    for note in notes:
        what = "not carried over" if note.lost else "changed"
        place = f" (line {note.line})" if note.line is not None else ""
        text = "".join(char if char.isprintable() else " " for char in note.text)
        yield from textwrap.wrap(
            f"{what}{place}: {text}", _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
        )


def _dump(data: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what our reader, which follows YAML 1.2, reads as it was."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        is_plain = bool(value) and isinstance(yaml_files.read_scalar(value), str)
        style = "|" if "\n" in value else None if is_plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
