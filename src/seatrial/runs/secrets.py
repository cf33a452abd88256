"""A simulated user is told nothing secret: what it hears goes to a model, and what that answers goes to a cache."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.engine.redact import Redaction, Secret
from seatrial.model.protocols import PreparedScenario, TrialUser, UserMove
from seatrial.model.scenario import User
from seatrial.scenarios.loaded_suite import LoadedSuite


def discreet(prepared: PreparedScenario, redaction: Redaction) -> PreparedScenario:
    """The scenario, with a simulated user that hears replies without the secrets in them."""
    if not isinstance(prepared.scenario.user, User):
        return prepared
    make_user = prepared.make_user
    return replace(prepared, make_user=lambda index, seed: _DiscreetUser(make_user(index, seed), redaction))


class _DiscreetUser:
    def __init__(self, user: TrialUser, redaction: Redaction) -> None:
        self._user = user
        self._redaction = redaction

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        heard = [(self._redaction.text(said), self._redaction.text(reply)) for said, reply in conversation]
        return await self._user.next(heard)


_TELLING = re.compile(
    r"(?:(?P<key>key)|token|secret|password|passwd|pwd|pass|auth|authorization|cookie|credentials?)(?:[_-]?\d+)?\Z",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(?:Bearer|Basic|Token|Digest|ApiKey)\s+(\S+)", re.IGNORECASE)
_LONG_KEY = 16
"""A shorter `*_KEY` value without a digit is a word: `SORT_KEY=customer`."""
_NEVER = ("PWD", "OLDPWD")
_COMMON = frozenset(
    (
        *("password", "passwords", "passphrase", "passwort", "secret", "secrets", "topsecret", "credentials"),
        *("changeme", "change-me", "change_me", "changeit", "replaceme", "replace-me", "placeholder"),
        *("your-api-key", "your-token", "your-password", "username", "anonymous", "administrator"),
        *("postgres", "postgresql", "localhost", "undefined", "disabled", "required", "optional", "redacted"),
    )
)
"""Words that stand in for a secret, or are one that everybody knows."""


def find_secrets(
    environ: Mapping[str, str], settings: Iterable[Any], *, exempt: Collection[str] = ()
) -> Iterator[Secret]:
    """Every secret, with the name of its variable or setting. `settings` may hold anything: agents, models, addresses.

    `exempt` names variables whose values are no secrets, wherever they are.
    """
    found = [secret for each in (environ, *settings) for secret in _inside(each, "")]
    exempted = {secret.value for secret in found if secret.name in exempt}
    return (secret for secret in found if secret.value not in exempted)


def model_settings(suite: LoadedSuite) -> Iterator[Mapping[str, Any]]:
    """What a suite and its scenarios say of models; for `find_secrets`."""
    for given in (suite.config.models, *suite.own_models):
        if given is not None:
            yield {name: getattr(given, name) for name in given.__struct_fields__}


def is_telling(name: str) -> bool:
    """Whether values of this name authorise: `OPENAI_API_KEY`, `PGPASSWORD`, `API_KEY_2`, `accessToken`."""
    return _ending(name) is not None


def _ending(name: str) -> re.Match[str] | None:
    """The part of the name that tells; None where none does."""
    if name in _NEVER or name.upper().endswith("ASKPASS"):
        return None
    return _TELLING.search(name)


def _is_secret(name: str, value: str) -> bool:
    ending = _ending(name)
    if ending is None:
        return False
    return ending["key"] is None or len(value) >= _LONG_KEY or any(letter.isdigit() for letter in value)


def _inside(value: Any, name: str) -> Iterator[Secret]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item, name)
    elif isinstance(value, str):
        yield from (Secret(name, secret) for secret in _in_text(value, name) if secret.lower() not in _COMMON)


def _in_text(text: str, name: str) -> Iterator[str]:
    if _is_secret(name, text):
        yield text
        header = _HEADER.fullmatch(text.strip())
        if header is not None:
            yield header[1]
    if "://" in text:
        yield from _in_address(text)


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
        if _is_secret(name, value):
            yield value
