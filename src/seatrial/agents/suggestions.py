"""What somebody may have meant who named an object that is not there. Loaded only to explain a mistake."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

_FORM = "is not of the form 'package.module:attribute'"


def explain_kind(kind: str, required: Iterable[str]) -> str:
    """What stands beside the kind of an agent that was named alone."""
    return f"is a type, and needs its settings: {{type: {kind}, {', '.join(f'{key}: …' for key in required)}}}"


def explain_form(path: str) -> str:
    """Why a text names no object, and how it would."""
    if "://" in path:
        return f"{_FORM}. An address stands in settings: {{type: openai, base_url: …}}, or {{type: http, url: …}}"
    file = _module(path)
    if path.endswith(".py") and _is_dotted(file):
        return f"{_FORM}. Name what is in the file as well: '{file}:answer'"
    named, colon, inside = path.rpartition(":")
    if colon and named.endswith(".py") and _is_dotted(module := _module(named)):
        return f"{_FORM}. Did you mean '{module}:{inside}'?"
    module, dot, attribute = path.rpartition(".")
    if dot and _is_dotted(path):
        return f"{_FORM}. Did you mean '{module}:{attribute}'?"
    return f"{_FORM}. Name what is in the module as well: '{path}:answer'" if _is_dotted(path) else _FORM


def explain_missing(module: str) -> str:
    """Where a module is that is not in the current folder, or what is there instead."""
    here = Path.cwd()
    top = module.partition(".")[0]
    for place in (*list(here.parents)[:3], *_folders(here)):
        if (place / f"{top}.py").is_file() or (place / top / "__init__.py").is_file():
            there = os.path.relpath(place, here)
            return f". There is one in {there}; go there first: cd {there}"
    known = [file.stem for file in here.glob("*.py")] + [file.parent.name for file in here.glob("*/__init__.py")]
    close = get_close_matches(top, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _folders(place: Path) -> list[Path]:
    return sorted(folder for folder in place.iterdir() if folder.is_dir() and not folder.name.startswith("."))
