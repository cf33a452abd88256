"""What an answer cost, from the price list that pydantic-ai brings along; it is read from disk, never downloaded."""

from typing import TYPE_CHECKING

from seatrial.vocabulary.conversation import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def usage_of(response: "ModelResponse") -> Usage | None:
    """The tokens, or None when the provider did not say."""
    if response.usage.unmeasured_requests:
        return None
    return Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)


def cost_of(response: "ModelResponse") -> float | None:
    """US dollars, or None when the tokens or their price are not known.

    Prices are found by the address that answered: a local server that calls its model gpt-4o is not billed like one.
    """
    from genai_prices import calc_price

    if response.usage.cost is not None:
        return float(response.usage.cost)
    if usage_of(response) is None or not response.model_name or not response.provider_url:
        return None
    try:
        price = calc_price(
            response.usage,
            response.model_name,
            provider_api_url=response.provider_url,
            genai_request_timestamp=response.timestamp,
        )
    except (LookupError, ValueError):  # no such provider or model; token counts that cannot be priced
        return None
    return float(price.total_price)
