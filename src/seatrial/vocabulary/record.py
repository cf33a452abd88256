"""`@record`: a frozen, slotted, keyword-only dataclass that costs a quarter to define and half to make.

`@dataclass(frozen=True, slots=True, kw_only=True)` compiles six methods for every class, half a millisecond each time
Python starts; with more than a hundred classes that was a fifth of the time `seatrial run` took to begin. Here only
`__init__` is compiled, when the first object is made; the other methods are the same functions for all records, and
slots are set directly. `dataclasses.fields`, `replace` and `is_dataclass` work as ever.
"""

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[_T]) -> type[_T]:
    """The class as a record. Equality, hash and repr go by the fields, unless the class has its own."""
    return _made(cls, kw_only=True)


@dataclass_transform(frozen_default=True)
def record_by_position(cls: type[_T]) -> type[_T]:
    """The same, for the few whose fields people may give without their names."""
    return _made(cls, kw_only=False)


def _made(cls: type[_T], *, kw_only: bool) -> type[_T]:
    own = set(vars(cls))
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    made.__init__ = _init_on_demand(made)
    made.__signature__ = _Signature()
    for name, method in _METHODS.items():
        if name not in own:
            setattr(made, name, method)
    if "__eq__" in own and "__hash__" not in own:
        made.__hash__ = None
    return made  # type: ignore[no-any-return]


def _init_on_demand(cls: Any) -> Any:
    """Stands in until the first object is made: most runs make objects of few of the classes."""

    def init(self: Any, *args: Any, **values: Any) -> None:
        cls.__init__ = _compile_init(cls, fields(cls))
        cls.__init__(self, *args, **values)

    return init


class _Signature:
    """What `help` and notebooks show before the first object is made."""

    def __get__(self, instance: object, owner: Any) -> Any:
        from inspect import signature

        compiled = signature(_compile_init(owner, fields(owner)))
        return compiled.replace(parameters=list(compiled.parameters.values())[1:])


def altered(instance: _T, **changes: Any) -> _T:
    """The record with some fields changed: `dataclasses.replace` without its checks, in half the time."""
    values = {name: getattr(instance, name) for name in type(instance).__dataclass_fields__}  # type: ignore[attr-defined]
    values.update(changes)
    return type(instance)(**values)


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a record's fields, in order."""
    return tuple(field.name for field in fields(cls))


def _compile_init(cls: Any, parts: tuple[Field[Any], ...]) -> Any:
    """An `__init__` that sets the fields while the object is of a class that is not frozen but has the same slots.

    Going round the frozen class field by field takes half as long again; only derived classes, whose slots are laid
    out otherwise, need that.
    """
    names: dict[str, Any] = {"cls": cls, "become": object.__dict__["__class__"].__set__, "MISSING": MISSING}
    names["thawed"] = type(cls.__name__, (), {"__slots__": [part.name for part in parts]})
    parameters, directly, around = [], [], []
    for part in parts:
        value = part.name
        if part.default_factory is not MISSING:
            names[f"make_{part.name}"] = part.default_factory
            parameters.append(f"{part.name}=MISSING")
            value = f"make_{part.name}() if {part.name} is MISSING else {part.name}"
        elif part.default is MISSING:
            parameters.append(part.name)
        else:
            names[f"default_{part.name}"] = part.default
            parameters.append(f"{part.name}=default_{part.name}")
        names[f"set_{part.name}"] = getattr(cls, part.name).__set__
        directly.append(f"  self.{part.name} = {value}")
        around.append(f" set_{part.name}(self, {value})")
    star = "*, " if parameters and all(part.kw_only for part in parts) else ""
    end = " self.__post_init__()" if hasattr(cls, "__post_init__") else " return"
    lines = [f"def __init__(self, {star}{', '.join(parameters)}):"]
    if cls.__bases__ == (object,):
        lines += [" if type(self) is cls:", "  become(self, thawed)", *directly, "  self.__class__ = cls", f" {end}"]
        lines += ["  return"]
    exec("\n".join([*lines, *around, end]), names)
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _values(instance: Any) -> tuple[Any, ...]:
    return tuple(getattr(instance, name) for name in type(instance).__dataclass_fields__)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__dataclass_fields__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: object, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented  # type: ignore[no-any-return]
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> tuple[Any, ...]:
    return _values(self)


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(type(self).__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_METHODS = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
