"""What an answer cost, from the price list that pydantic-ai brings along; it is read from disk, never downloaded."""

from typing import TYPE_CHECKING

from seatrial.model.conversation import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from .model import ModelSpec


def usage_of(response: "ModelResponse") -> Usage | None:
    """The tokens, or None when the provider did not say."""
    if response.usage.unmeasured_requests:
        return None
    return Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)


def has_price(spec: "ModelSpec") -> bool:
    """Whether what the model costs is known before it is asked."""
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
    """US dollars, or None when the tokens or their price are not known. `price` is for a million tokens in and out.

    Prices are found by the address that answered: a local server that calls its model gpt-4o is not billed like one.
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
