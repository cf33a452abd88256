"""`ModelSpec`: which model to ask, with its settings. `Question` and `Answer`: what to ask it."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from seatrial.errors import SeatrialError, UsageError
from seatrial.model.content import Attachment
from seatrial.model.results import ModelUse

from .providers import ALIASES, NAME_PREFIXES, PROVIDERS

_KEYS = ("model", "base_url", "api_key", "settings", "output", "price", "attachments", "timeout", "retries")
_SHOWN = 20
"""Providers take this many attachments."""
_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "thinking", "extra_headers", "extra_body")
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model to ask, as written in a file or on the command line; see `parse_model`."""

    provider: str
    name: str
    base_url: str | None = None
    """None: the provider's own address."""
    api_key: str | None = field(default=None, repr=False)
    """None: the provider's environment variable. It is never sent to another base_url."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """temperature, top_p, max_tokens, seed, thinking, extra_headers, extra_body."""
    output: Literal["prompt", "native"] = "prompt"
    """native: the server also enforces the JSON Schema, if it can."""
    price: tuple[float, float] | None = None
    """US dollars for a million input and output tokens; None: from the price list."""
    attachments: bool = True
    """False: it takes only text."""
    timeout: float | None = None
    """Seconds for one request; None: what the question says."""
    retries: int | None = None
    """Requests after the first, if it fails; None: what the question says."""
    places: tuple[str, ...] = ()
    """Environment variables with which the SDK finds the server, as `NAME=value`."""

    @property
    def label(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def identity(self) -> str:
        """Everything that influences an answer, as text; without the key."""
        parts = [self.provider, self.name, self.base_url, dict(self.settings), self.output, *self.places]
        return json.dumps(parts, sort_keys=True, ensure_ascii=False)


def parse_model(spec: str | Mapping[str, Any] | ModelSpec, *, environ: Mapping[str, str] = os.environ) -> ModelSpec:
    """The model that a string or mapping names.

    A string is `provider:name`, with `@` and the address of your own server: `openai:gpt-5-mini`,
    `openai:qwen3@http://127.0.0.1:8000/v1`. A mapping has `model` (such a string) and may have `base_url`, `api_key`,
    `settings`, `output`, `price`, `attachments`, `timeout` and `retries`. `${VARIABLE}` and `${VARIABLE:-default}` are
    filled in the first three.
    """
    if isinstance(spec, ModelSpec):
        return spec
    given = {"model": spec} if isinstance(spec, str) else spec
    _refuse_unknown(given, where="model")
    text = given.get("model")
    provider, name, base_url = _split(_fill(text, key="model", environ=environ) if text else text)
    if given.get("base_url") is not None:
        if base_url is not None:
            raise UsageError(f"model {given['model']!r}: the address is given twice; drop the '@…' or the base_url")
        base_url = _fill(given["base_url"], key="base_url", environ=environ)
    _check_address(provider, base_url)
    known = PROVIDERS[provider]
    api_key = given.get("api_key")
    return ModelSpec(
        provider=provider,
        name=name,
        base_url=base_url or environ.get(known.base_url_variable) or known.base_url,
        api_key=None if api_key is None else _fill(api_key, key="api_key", environ=environ),
        settings=_settings(given.get("settings")),
        output=_output(given.get("output")),
        price=_price(given.get("price")),
        attachments=_takes_attachments(given.get("attachments")),
        timeout=_timeout(given.get("timeout")),
        retries=_retries(given.get("retries")),
        places=tuple(f"{variable}={environ[variable]}" for variable in known.places if environ.get(variable)),
    )


def _split(text: Any) -> tuple[str, str, str | None]:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"model: expected a string like 'openai:gpt-5-mini', got {text!r}")
    model, at, address = text.strip().partition("@http")
    provider, colon, name = model.partition(":")
    if not colon or not name:
        guess = next((known for prefix, known in NAME_PREFIXES.items() if text.startswith(prefix)), "openai")
        raise UsageError(f"model {text!r}: no provider is named. Write it as 'provider:model', e.g. '{guess}:{text}'.")
    if provider not in PROVIDERS:
        raise UsageError(f"model {text!r}: unknown provider {provider!r}.{_did_you_mean(provider)}")
    return provider, name, f"http{address}" if at else None


def _did_you_mean(provider: str) -> str:
    close = ALIASES.get(provider) or next(iter(get_close_matches(provider, PROVIDERS, n=1)), None)
    guess = f" Did you mean {close!r}?" if close else ""
    return (
        f"{guess} Known: {', '.join(PROVIDERS)}. "
        "Any other OpenAI-compatible server: 'openai:<model>@http://host:port/v1'."
    )


def _check_address(provider: str, base_url: str | None) -> None:
    if base_url is None:
        return
    if not PROVIDERS[provider].takes_base_url:
        takers = ", ".join(name for name, known in PROVIDERS.items() if known.takes_base_url)
        raise UsageError(
            f"model: {provider!r} takes no base_url; these do: {takers}. Use 'openai' for your own server."
        )
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"model: base_url must begin with http:// or https://, got {base_url!r}")


def _fill(text: Any, *, key: str, environ: Mapping[str, str]) -> str:
    if not isinstance(text, str) or not text:
        raise UsageError(f"model: {key} must be a text, got {text!r}")

    def value(match: re.Match[str]) -> str:
        # As in a shell, the default of `:-` also replaces an empty variable.
        found = environ.get(match["name"])
        found = match["default"] if not found and match["default"] is not None else found
        if found is None:
            raise UsageError(f"model: {key}: the environment variable {match['name']} is not set")
        return found

    return _VARIABLE.sub(value, text)


def _settings(settings: Any) -> Mapping[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise UsageError(f"model: settings must be a mapping, e.g. {{temperature: 0}}, got {settings!r}")
    _refuse_unknown(settings, where="model: settings", known=_SETTINGS)
    return dict(settings)


def _output(output: Any) -> Literal["prompt", "native"]:
    if output is None or output == "prompt":
        return "prompt"
    if output == "native":
        return "native"
    raise UsageError(f"model: output must be 'prompt' or 'native', got {output!r}")


def _takes_attachments(given: Any) -> bool:
    if given is not None and not isinstance(given, bool):
        raise UsageError(f"model: attachments must be true or false, got {given!r}")
    return given is not False


def _timeout(given: Any) -> float | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not given > 0):
        raise UsageError(f"model: timeout must be a number of seconds above 0, got {given!r}")
    return None if given is None else float(given)


def _retries(given: Any) -> int | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise UsageError(f"model: retries must be a whole number from 0, got {given!r}")
    return given


def _price(price: Any) -> tuple[float, float] | None:
    if price is None:
        return None
    expected = "model: price must be the dollars for a million tokens, as {input: 0.25, output: 2}"
    if not isinstance(price, Mapping) or set(price) != {"input", "output"}:
        raise UsageError(f"{expected}, got {price!r}")
    for value in price.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise UsageError(f"{expected}, got {price!r}")
    return float(price["input"]), float(price["output"])


def _refuse_unknown(given: Mapping[str, Any], *, where: str, known: tuple[str, ...] = _KEYS) -> None:
    for key in given:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"{where}: unknown key {key!r}.{guess} Known: {', '.join(known)}.")


T = TypeVar("T")
Role: TypeAlias = Literal["user", "judge", "dedup"]
ChatMessage: TypeAlias = tuple[Literal["user", "assistant"], str]
"""Role and text of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[T]):
    """One question whose answer is an object of a given type."""

    role: Role
    model: ModelSpec
    system: str
    messages: tuple[ChatMessage, ...]
    """The first and the last one have the role `user`."""
    schema: type[T]
    """A pydantic model, dataclass or TypedDict. Its JSON Schema is sent, and the answer must fit it."""
    attachments: tuple[Attachment, ...] = ()
    """Images and PDF files that follow the first message; see `shown_to`."""
    salt: str = ""
    """Separates cached answers that must differ: the vote index, the trial index."""
    timeout: float = 30.0
    """Seconds for one request."""
    attempts: int = 3
    """How many requests may fail. One more is sent to repair a malformed answer."""
    fallback: type[T] | None = None
    """A schema with fewer fields. It is accepted if the model does not give the full answer when asked again."""

    def __post_init__(self) -> None:
        if not self.messages or self.messages[0][0] != "user" or self.messages[-1][0] != "user":
            raise ValueError("messages must begin and end with the user's side")
        if self.attempts < 1 or self.timeout <= 0:
            raise ValueError(f"attempts and timeout must be positive, got {self.attempts!r} and {self.timeout!r}")

    @property
    def seconds(self) -> float:
        """For one request: what the model's settings say, else the question."""
        return self.timeout if self.model.timeout is None else self.model.timeout

    @property
    def most_failures(self) -> int:
        """How many requests may fail: what the model's settings say, else the question."""
        return self.attempts if self.model.retries is None else self.model.retries + 1


def shown_to(model: ModelSpec, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """The attachments that the model is shown: images and PDF files, each once; none if it takes only text."""
    if not model.attachments:
        return ()
    fitting = [each for each in attachments if each.is_image or each.media_type == "application/pdf"]
    return tuple(dict.fromkeys(fitting))[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """A validated answer and its use."""

    value: T
    use: ModelUse
    raw: str
    """The text of the model."""
    model: str
    """The model's name in the response, or the requested one."""


class ModelFailure(SeatrialError):
    """There is no answer: the model could not be reached, refused, or wrote an unreadable answer."""

    def __init__(self, message: str, *, attempts: int, use: ModelUse) -> None:
        super().__init__(message)
        self.attempts = attempts
        """How many requests were made."""
        self.use = use
        """Their use."""
