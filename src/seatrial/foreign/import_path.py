"""Import paths of user code, `package.module:attribute`: the object, or what to correct in the path."""

import importlib
import os
import sysconfig
import traceback
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError

OUR_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FORM = "is not of the form 'package.module:attribute'"


def is_import_path(path: str) -> bool:
    module, colon, attribute = path.partition(":")
    return bool(colon) and _is_dotted(module) and _is_dotted(attribute)


def import_attribute(path: str, *, what: str) -> Any:
    """The object at the path. Raises UsageError with the module and the cause."""
    if not is_import_path(path):
        raise UsageError(f"{what} {path!r} {explain_form(path)}")
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        raise UsageError(f"{what} {path!r}: {_explain_missing(module_name, missing)}") from None
    except (Exception, SystemExit) as cause:
        problem = f"{type(cause).__name__}: {cause}"
        place = find_place(cause, function=False)
        said = f"{what} {path!r}: importing {module_name!r} failed at {place}: {problem}"
        raise UsageError(f"{said.rstrip('.')}. {_explain_failure(module_name, problem)}") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            close = get_close_matches(part, [name for name in dir(found) if not name.startswith("_")], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"{what} {path!r}: {module_name!r} has no attribute {part!r}.{hint}")
        found = getattr(found, part)
    return found


def _explain_failure(module: str, problem: str) -> str:
    """What to do if a module cannot be imported."""
    if "relative import" in problem:
        return f"Name the package as well, 'package.{module}:…', or import without the leading dot"
    return f'The whole traceback: python -c "import {module}"'


def explain_form(path: str) -> str:
    """Why a text is no import path, and the path that was probably meant."""
    if "://" in path:
        return f"{_FORM}. An address stands in settings: {{type: openai, base_url: …}}, or {{type: http, url: …}}"
    file = _as_module(path)
    if path.endswith(".py") and _is_dotted(file):
        return f"{_FORM}. Name what is in the file as well: '{file}:answer'"
    named, colon, attribute = path.rpartition(":")
    if colon and named.endswith(".py") and _is_dotted(module := _as_module(named)):
        return f"{_FORM}. Did you mean '{module}:{attribute}'?"
    module, dot, attribute = path.rpartition(".")
    if dot and _is_dotted(path):
        return f"{_FORM}. Did you mean '{module}:{attribute}'?"
    return f"{_FORM}. Name what is in the module as well: '{path}:answer'" if _is_dotted(path) else _FORM


def _as_module(file: str) -> str:
    return file.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _explain_missing(module: str, missing: ModuleNotFoundError) -> str:
    name = missing.name or ""
    if name and (module == name or module.startswith(f"{name}.")):
        searched = "it is looked for in the current folder and on the Python path"
        return f"there is no module {name!r}; {searched}{_find_nearby(name)}"
    line = find_place(missing, function=False)
    remedy = "Correct its name, or install its package here: pip install …"
    return f"importing {module!r} failed at {line}, because it needs the module {missing.name!r}. {remedy}"


def _find_nearby(module: str) -> str:
    """The folder nearby that has the module, or a module here with a similar name."""
    here, top = Path.cwd(), module.partition(".")[0]
    folders = sorted(folder for folder in here.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    for place in (*list(here.parents)[:3], *folders):
        if (place / f"{top}.py").is_file() or (place / top / "__init__.py").is_file():
            there = os.path.relpath(place, here)
            return f". There is one in {there}; go there first: cd {there}"
    known = [file.stem for file in here.glob("*.py")] + [file.parent.name for file in here.glob("*/__init__.py")]
    close = get_close_matches(top, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def find_place(cause: BaseException, *, function: bool = True) -> str | None:
    """The last line of the user's own code before the error, of any code if there is none: `agent.py:3 in answer`."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{cause.filename}:{cause.lineno}"
    installed = ("<", *{sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})
    frames = traceback.extract_tb(cause.__traceback__)
    others = [frame for frame in frames if not frame.filename.startswith(OUR_FOLDER)]
    own = [frame for frame in others if not frame.filename.startswith(installed)]
    if not (own or others or frames):
        return None
    frame = (own or others or frames)[-1]
    file = os.path.relpath(frame.filename) if frame.filename.startswith(os.getcwd() + os.sep) else frame.filename
    return f"{file}:{frame.lineno}" + (f" in {frame.name}" if function else "")
