"""`Struct`: the base of all values, a frozen msgspec struct."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import force_setattr as set_field

from seatrial.errors import UsageError

__all__ = ["InputStruct", "Struct", "field_defaults", "field_names", "set_field"]


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Repeat `frozen=True, kw_only=True` in each subclass: they are not inherited."""


class _InputMeta(msgspec.StructMeta):
    if not TYPE_CHECKING:  # pyright would take this signature for that of every class

        def __call__(cls, *given: Any, **named: Any) -> Any:  # noqa: N805
            try:
                return super().__call__(*given, **named)
            except TypeError as refused:
                if refused.__traceback__ is None or refused.__traceback__.tb_next is not None:
                    raise  # by the class's own `__post_init__`
                raise UsageError(_mistake(cls, given, named, refused)) from None

    @property
    def __signature__(cls) -> Any:  # noqa: N805
        """With types as written, without what `Annotated` adds: names that only type checkers import stay names."""
        from inspect import Parameter, Signature

        texts: dict[str, Any] = {}
        for kind in reversed(cls.__mro__):
            texts |= vars(kind).get("__annotations__", {})
        parameters = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name in cls.__match_args__ else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if default is NODEFAULT else default,
                annotation=get_args(texts[name])[0] if get_origin(texts[name]) is Annotated else texts[name],
            )
            for name, default in field_defaults(cls).items()
        ]
        return Signature(parameters)


class InputStruct(Struct, frozen=True, metaclass=_InputMeta):
    """A value that users write in Python: its TypeErrors name the class and the closest field."""


def field_names(kind: Any) -> tuple[str, ...] | None:
    """The field names of a struct or dataclass (class or object); None for anything else."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    names = getattr(kind, "__struct_fields__", None)
    return names if isinstance(names, tuple) else None


def field_defaults(kind: type) -> dict[str, Any]:
    """The defaults of a struct or a dataclass by field; NODEFAULT for a field without one.

    Unlike `msgspec.structs.fields` this resolves no annotation, which may name types that are not imported.
    """
    if is_dataclass(kind):
        return {field.name: NODEFAULT if field.default is MISSING else field.default for field in fields(kind)}
    names = getattr(kind, "__struct_fields__", ())
    defaults = getattr(kind, "__struct_defaults__", ())
    return dict(zip(names, (NODEFAULT,) * (len(names) - len(defaults)) + defaults, strict=True))


def _mistake(cls: Any, given: tuple[Any, ...], named: Mapping[str, Any], refused: TypeError) -> str:
    names = cls.__struct_fields__
    unknown = next((name for name in named if name not in names), None)
    if unknown is not None:
        from difflib import get_close_matches

        close = get_close_matches(unknown, names, n=1)
        return f"{cls.__name__} has no {unknown!r}. " + (
            f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(names)}"
        )
    return f"{cls.__name__}: {refused}{'. Its fields are given by name' if given else ''}"
