"""JSON values as YAML that people like to read, and that every reader of YAML 1.1 or 1.2 takes for the same values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 _.,'?!()/-]*[A-Za-z0-9_.?!)])?")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_BLOCK = re.compile(r"[^\s\x00-\x1f][^\x00-\x08\x0b-\x1f]*[^\s\x00-\x1f]")


def write_yaml(value: Any) -> str:
    """The text of a file, in blocks."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(str(key))}:", item, indent + "  ")
    elif isinstance(value, list) and value:
        for item in value:
            inner = list(_lines(item, indent + "  ")) if _is_block(item) else []
            if inner:
                yield f"{indent}- {inner[0].lstrip()}"
                yield from inner[1:]
            else:
                yield from _entry(f"{indent}-", item, indent + "  ")
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if _is_block(item):
        yield head
        yield from _lines(item, indent)
    elif isinstance(item, str) and _is_paragraph(item):
        yield f"{head} |-"
        yield from (f"{indent}{line}" if line else "" for line in item.split("\n"))
    else:
        yield f"{head} {_scalar(item)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _is_paragraph(text: str) -> bool:
    """Whether several lines can stand as they are."""
    return "\n" in text and _BLOCK.fullmatch(text) is not None and not _UNPRINTABLE.search(text)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    written = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
