"""Model providers: their keys, SDKs and addresses, and the price of an answer.

Prices come from the list that pydantic-ai installs. It is never downloaded.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from .model import ModelSpec


def usage_of(response: "ModelResponse") -> Usage | None:
    """The tokens; None if the provider does not report them."""
    if response.usage.unmeasured_requests:
        return None
    return Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)


def has_price(spec: "ModelSpec") -> bool:
    """Whether the price of the model is known in advance."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    if spec.price is not None:
        return True
    tokens = Tokens(input_tokens=1, output_tokens=1)
    try:
        if spec.base_url:
            calc_price(tokens, spec.name, provider_api_url=spec.base_url)
        else:
            calc_price(tokens, spec.name, provider_id=spec.provider.removesuffix("-responses"))
    except (LookupError, ValueError):
        return False
    return True


def cost_of(response: "ModelResponse", *, price: tuple[float, float] | None = None) -> float | None:
    """US dollars; None if the tokens or their price are not known. `price` is for a million input and output tokens.

    The address decides the price: a local server with a model named gpt-4o does not cost the same.
    """
    from genai_prices import calc_price

    usage = usage_of(response)
    if price is not None:
        if usage is None:
            return None
        return ((usage.input_tokens or 0) * price[0] + (usage.output_tokens or 0) * price[1]) / 1_000_000
    if response.usage.cost is not None:
        return float(response.usage.cost)
    if usage is None or not response.model_name or not response.provider_url:
        return None
    try:
        found = calc_price(
            response.usage,
            response.model_name,
            provider_api_url=response.provider_url,
            genai_request_timestamp=response.timestamp,
        )
    except (LookupError, ValueError):  # no such provider or model; token counts that cannot be priced
        return None
    return float(found.total_price)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What a provider needs."""

    keys: tuple[str, ...] = ()
    """Environment variables that may hold the key; none: it needs no key."""
    package: str = "openai"
    """The SDK that must be importable."""
    extra: str | None = None
    """The extra of pydantic-ai-slim that installs the SDK, if ours does not."""
    takes_base_url: bool = False
    base_url_variable: str = ""
    base_url: str | None = None
    """The address, if none is given and the SDK has none."""
    also: tuple[str, ...] = ()
    """Further environment variables that must be set."""
    places: tuple[str, ...] = ()
    """Environment variables with which the SDK finds the server."""


# Only providers whose SDK can switch off its own retries: otherwise retries would multiply.
PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(keys=("OPENAI_API_KEY",), takes_base_url=True, base_url_variable="OPENAI_BASE_URL"),
    "openai-responses": Provider(keys=("OPENAI_API_KEY",), takes_base_url=True, base_url_variable="OPENAI_BASE_URL"),
    "anthropic": Provider(
        keys=("ANTHROPIC_API_KEY",),
        package="anthropic",
        takes_base_url=True,
        base_url_variable="ANTHROPIC_BASE_URL",
    ),
    "google": Provider(
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        package="google.genai",
        takes_base_url=True,
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
    ),
    "ollama": Provider(takes_base_url=True, base_url_variable="OLLAMA_BASE_URL", base_url="http://localhost:11434/v1"),
    "azure": Provider(
        keys=("AZURE_OPENAI_API_KEY",),
        also=("AZURE_OPENAI_ENDPOINT",),
        places=("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"),
    ),
    "cerebras": Provider(keys=("CEREBRAS_API_KEY",)),
    "cohere": Provider(keys=("CO_API_KEY",), package="cohere", extra="cohere", places=("CO_BASE_URL",)),
    "deepseek": Provider(keys=("DEEPSEEK_API_KEY",)),
    "fireworks": Provider(keys=("FIREWORKS_API_KEY",)),
    "groq": Provider(keys=("GROQ_API_KEY",), package="groq", extra="groq", places=("GROQ_BASE_URL",)),
    "mistral": Provider(keys=("MISTRAL_API_KEY",), package="mistralai", extra="mistral"),
    "moonshotai": Provider(keys=("MOONSHOTAI_API_KEY",), places=("MOONSHOTAI_BASE_URL",)),
    "openrouter": Provider(keys=("OPENROUTER_API_KEY",)),
    "together": Provider(keys=("TOGETHER_API_KEY",)),
}

ALIASES = {"claude": "anthropic", "gemini": "google", "google-gla": "google", "gpt": "openai", "local": "ollama"}
NAME_PREFIXES = {"claude": "anthropic", "gemini": "google", "llama": "ollama", "qwen": "ollama"}


def key_of(spec: "ModelSpec", *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key to send: the given one, or the provider's from the environment, but never to another address."""
    known = PROVIDERS[spec.provider]
    own_address = spec.base_url in (None, known.base_url, environ.get(known.base_url_variable))
    if spec.api_key is not None or not own_address:
        return spec.api_key
    return next((environ[name] for name in known.keys if environ.get(name)), None)


def check_model(spec: "ModelSpec", *, environ: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError if a package or a key is missing. Makes no network call."""
    known = PROVIDERS[spec.provider]
    if find_spec("pydantic_ai") is None:
        raise MissingExtra("llm", needed_for=f"The model {spec.label!r}")
    if not _importable(known.package):
        if known.extra is None:
            raise MissingExtra("llm", needed_for=f"The model {spec.label!r}")
        raise UsageError(
            f"model {spec.label!r}: its SDK is not installed. Install it: pip install 'pydantic-ai-slim[{known.extra}]'"
        )
    if spec.base_url is None and known.keys and key_of(spec, environ=environ) is None:
        name = known.keys[0]
        others = f" (or {', '.join(known.keys[1:])})" if known.keys[1:] else ""
        raise UsageError(
            f"model {spec.label!r}: no API key, the environment variable {name}{others} is not set. "
            f"Set it: export {name}=…"
        )
    for name in known.also:
        if not environ.get(name):
            raise UsageError(
                f"model {spec.label!r}: the environment variable {name} is not set. Set it: export {name}=…"
            )


def _importable(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
