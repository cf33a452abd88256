"""Settings with their environment variables, and the keys of model providers."""

from seatrial.llm.providers import PROVIDERS
from seatrial.settings import SETTINGS

from .tables import table


def settings() -> str:
    return table(
        ("`[tool.seatrial]`", "variable", "default", "means"),
        (
            (
                f"`{name}`",
                f"`{setting.variable}`" if setting.variable else "",
                f"`{setting.default}`" if setting.default not in (None, (), False) else "",
                setting.help,
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
