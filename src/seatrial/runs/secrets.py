"""Find secrets in the environment and in settings, and keep them from the simulated user's model."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.engine.redact import Redaction, Secret
from seatrial.model.content import Attachment
from seatrial.model.protocols import PreparedScenario, TrialUser, UserMove
from seatrial.model.scenario import User
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.users.scripted import show_to


def redact_user_input(prepared: PreparedScenario, redaction: Redaction) -> PreparedScenario:
    """Redact replies before the simulated user's model reads them: its answers are cached on disk."""
    if not isinstance(prepared.scenario.user, User):
        return prepared
    make_user = prepared.make_user
    return replace(prepared, make_user=lambda index, seed: _RedactedUser(make_user(index, seed), redaction))


class _RedactedUser:
    def __init__(self, user: TrialUser, redaction: Redaction) -> None:
        self._user = user
        self._redaction = redaction

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        redacted = [(self._redaction.text(said), self._redaction.text(reply)) for said, reply in conversation]
        return await self._user.next(redacted)

    def skip(self, turns: int) -> None:
        skip = getattr(self._user, "skip", None)
        if skip is not None:
            skip(turns)

    def see(self, attachments: Sequence[Attachment]) -> None:
        show_to(self._user, [self._redaction.attachment(each) for each in attachments])


_SECRET_NAME = re.compile(
    r"(?:(?P<key>key)|token|secret|password|passwd|pwd|pass|auth|authorization|cookie|credentials?)(?:[_-]?\d+)?\Z",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(?:Bearer|Basic|Token|Digest|ApiKey)\s+(\S+)", re.IGNORECASE)
_LONG_KEY = 16
"""A shorter `*_KEY` value without a digit is a word: `SORT_KEY=customer`."""
_NEVER_SECRET = ("PWD", "OLDPWD")
_COMMON_WORDS = frozenset(
    (
        *("password", "passwords", "passphrase", "passwort", "secret", "secrets", "topsecret", "credentials"),
        *("changeme", "change-me", "change_me", "changeit", "replaceme", "replace-me", "placeholder"),
        *("your-api-key", "your-token", "your-password", "username", "anonymous", "administrator"),
        *("postgres", "postgresql", "localhost", "undefined", "disabled", "required", "optional", "redacted"),
    )
)
"""Placeholders, and well-known default passwords."""


def find_secrets(
    environ: Mapping[str, str], settings: Iterable[Any], *, exempt: Collection[str] = ()
) -> Iterator[Secret]:
    """Every secret, with the name of its variable or setting. `settings` may contain agents, models and URLs.

    `exempt` names variables whose values are never secret.
    """
    found = [secret for each in (environ, *settings) for secret in _find_in(each, "")]
    exempted = {secret.value for secret in found if secret.name in exempt}
    return (secret for secret in found if secret.value not in exempted)


def model_settings(suite: LoadedSuite) -> Iterator[Mapping[str, Any]]:
    """The model settings of a suite and its scenarios, for `find_secrets`."""
    for given in (suite.config.models, *suite.own_models):
        if given is not None:
            yield {name: getattr(given, name) for name in given.__struct_fields__}


def is_secret_name(name: str) -> bool:
    """Whether values of this name are secret: `OPENAI_API_KEY`, `PGPASSWORD`, `API_KEY_2`, `accessToken`."""
    return _match_name(name) is not None


def _match_name(name: str) -> re.Match[str] | None:
    """The ending that marks a secret; None for other names."""
    if name in _NEVER_SECRET or name.upper().endswith("ASKPASS"):
        return None
    return _SECRET_NAME.search(name)


def _is_secret(name: str, value: str) -> bool:
    ending = _match_name(name)
    if ending is None:
        return False
    return ending["key"] is None or len(value) >= _LONG_KEY or any(letter.isdigit() for letter in value)


def _find_in(value: Any, name: str) -> Iterator[Secret]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_in(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _find_in(item, name)
    elif isinstance(value, str):
        yield from (Secret(name, secret) for secret in _in_text(value, name) if secret.lower() not in _COMMON_WORDS)


def _in_text(text: str, name: str) -> Iterator[str]:
    if _is_secret(name, text):
        yield text
        header = _HEADER.fullmatch(text.strip())
        if header is not None:
            yield header[1]
    if "://" in text:
        yield from _in_url(text)


def _in_url(text: str) -> Iterator[str]:
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
