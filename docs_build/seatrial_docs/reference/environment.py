"""Settings with their environment variables, and the keys of model providers."""

from collections.abc import Mapping

from seatrial.llm.providers import PROVIDERS
from seatrial.settings import SETTINGS

from .tables import sentence, table

_TYPES: Mapping[type, str] = {str: "text", dict: "table", list: "list of texts", bool: "`true` or `false`"}


def settings() -> str:
    return table(
        ("`[tool.seatrial]`", "variable", "type", "default", "meaning"),
        (
            (
                f"`{name}`",
                f"`{setting.variable}`" if setting.variable else "",
                _type(setting.kind),
                _default(setting.default),
                sentence(setting.help),
            )
            for name, setting in SETTINGS.items()
        ),
    )


def providers() -> str:
    return table(
        ("provider", "key", "address"),
        (
            (
                f"`{name}`",
                " and ".join(
                    [" or ".join(f"`{key}`" for key in one.keys) or "none needed", *map("`{}`".format, one.also)]
                ),
                f"`{one.base_url_variable}`" if one.base_url_variable else "",
            )
            for name, one in PROVIDERS.items()
        ),
    )


def _type(kind: type | tuple[type, ...]) -> str:
    return " or ".join(_TYPES[one] for one in (kind if isinstance(kind, tuple) else (kind,)))


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value not in (None, ()) else ""
