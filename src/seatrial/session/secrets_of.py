"""Which texts are secrets: values under telling names, in the environment and in settings, and parts of addresses."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seatrial.scenarios import LoadedSuite
from seatrial.vocabulary.value import field_names

_TELLING = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|AUTH|AUTHORIZATION|COOKIE|CREDENTIALS?)$", re.IGNORECASE
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find_secrets(environ: Mapping[str, str], settings: Iterable[Any]) -> Iterator[str]:
    """Everything that must be in no file, report or log. `settings` may hold anything: agents, models, addresses."""
    for name, value in environ.items():
        if is_telling(name):
            yield value
    for each in settings:
        yield from _inside(each, "")


def model_settings(suite: LoadedSuite) -> Iterator[Mapping[str, Any]]:
    """What a suite and its scenarios say of models; for `find_secrets`."""
    for given in (suite.config.models, *suite.own_models):
        if given is not None:
            yield {name: getattr(given, name) for name in field_names(type(given))}


def is_telling(name: str) -> bool:
    """Whether values of this name authorise: `OPENAI_API_KEY`, `x-api-key`, `accessToken`, `Authorization`."""
    return _TELLING.search(_HUMP.sub("_", name).replace("-", "_")) is not None


def _inside(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item, name)
    elif isinstance(value, str):
        if is_telling(name):
            yield value
            yield from value.split()[1:]  # `Bearer …`
        if "://" in value:
            yield from _in_address(value)


def _in_address(text: str) -> Iterator[str]:
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(text)
        password = parts.password
        query = parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
    for name, value in query:
        if is_telling(name):
            yield value
