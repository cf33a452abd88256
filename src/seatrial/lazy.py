"""Packages whose names are fetched when they are first asked for, so that a run loads only what it uses."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from sys import modules
from typing import Any


def lazy(
    package: str, where: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` for a package, given which of its files has which names.

    Beside it, the package repeats the imports under `if TYPE_CHECKING`, for type checkers and editors.
    """
    file_of = {name: file for file, names in where.items() for name in names}

    def get(name: str) -> Any:
        file = file_of.get(name)
        if file is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{file}", package), name)
        setattr(modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(modules[package]), *file_of})

    return sorted(file_of), get, names
