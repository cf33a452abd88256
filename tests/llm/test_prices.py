import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from seatrial.llm.providers import cost_of, usage_of
from seatrial.model.conversation import Usage


def a_response(model: str, address: str, *, usage: RequestUsage | None = None) -> ModelResponse:
    return ModelResponse(
        parts=[TextPart("hi")],
        model_name=model,
        provider_url=address,
        provider_name="openai",
        usage=usage or RequestUsage(input_tokens=1_000_000, output_tokens=1_000_000),
    )


@pytest.mark.parametrize(
    ("model", "address"),
    [
        ("gpt-5-mini", "https://api.openai.com/v1/"),
        ("claude-sonnet-4-5", "https://api.anthropic.com"),
        ("gemini-2.5-flash", "https://generativelanguage.googleapis.com/"),
    ],
)
def test_known_models_have_a_price(model: str, address: str) -> None:
    cost = cost_of(a_response(model, address))
    assert cost is not None
    assert 0.1 < cost < 100


@pytest.mark.parametrize(
    ("model", "address"),
    [("gpt-5-mini", "http://127.0.0.1:8000/v1/"), ("gpt-99-imaginary", "https://api.openai.com/v1/")],
)
def test_an_unknown_price_is_absent_and_not_zero(model: str, address: str) -> None:
    response = a_response(model, address)
    assert cost_of(response) is None
    assert usage_of(response) == Usage(input_tokens=1_000_000, output_tokens=1_000_000)


def test_unmeasured_tokens_have_no_price() -> None:
    response = a_response("gpt-5-mini", "https://api.openai.com/v1/", usage=RequestUsage(unmeasured_requests=1))
    assert usage_of(response) is None
    assert cost_of(response) is None
