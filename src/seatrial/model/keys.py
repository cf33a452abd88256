"""`Key`: the one declaration of a key of scenario files, in the annotation of the field that holds its value.

`threshold: Annotated[Share | None, Key("the share of trials that must pass", default=1.0)] = None` is all there is to
say about a key. Validation, JSON Schema, the reference page, the merge rule and the Python signature follow from it.
Bounds belong to the type, as `msgspec.Meta`.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin

from msgspec import NODEFAULT

from .struct import Struct, field_defaults


class Key(Struct, frozen=True):
    """What a key means. A field without a Key is not a key of files."""

    means: str
    """Completes the sentence "this key is ..." in the reference, in editors and in problems."""
    default: Any = None
    """The value after merging, if neither the scenario nor the suite nor a flag gives one."""
    merge: Literal["replace", "by key", "metrics"] = "replace"
    """How a scenario's value changes the suite's: it replaces it, or only those of its keys that are given."""
    python_only: bool = False
    optional: bool = False
    """Files may leave it out, although Python needs it."""


class Format(Struct, frozen=True):
    """Part of a type: its values have a special reader or check, which scenarios/formats.py has under this name."""

    name: str


class DeclaredKey(Struct, frozen=True, kw_only=True):
    """A key and the type of its values."""

    key: Key
    type: Any
    required: bool
    default: Any
    """The default of the field, or the value after merging; None if there is none."""


@lru_cache
def declared_keys(kind: type) -> dict[str, DeclaredKey]:
    """The keys of a struct or a TypedDict by name, its own before those that it inherits."""
    defaults = field_defaults(kind)
    required = getattr(kind, "__required_keys__", None)  # of a TypedDict
    found: dict[str, DeclaredKey] = {}
    for one in kind.__mro__:
        for name, annotation in vars(one).get("__annotations__", {}).items():
            if get_origin(annotation) in (Required, NotRequired):
                [annotation] = get_args(annotation)
            key = next((each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Key)), None)
            if key is None or name in found:
                continue
            default = defaults.get(name, NODEFAULT)
            needed = default is NODEFAULT if required is None else name in required
            found[name] = DeclaredKey(
                key=key,
                type=_without_key(annotation),
                required=needed and not key.optional,
                default=key.default if default in (NODEFAULT, None, (), "") else default,
            )
    return found


def _without_key(annotation: Any) -> Any:
    inner, *metadata = get_args(annotation)
    rest = [each for each in metadata if not isinstance(each, Key)]
    return Annotated[(inner, *rest)] if rest else inner
