import pytest

from seatrial.errors import UsageError
from seatrial.llm.model import ModelSpec, parse_model


def test_a_string_names_provider_and_model() -> None:
    assert parse_model("openai:gpt-5-mini", environ={}) == ModelSpec(provider="openai", name="gpt-5-mini")


def test_only_the_first_colon_separates() -> None:
    spec = parse_model("ollama:llama3:8b", environ={})
    assert (spec.provider, spec.name, spec.base_url) == ("ollama", "llama3:8b", "http://localhost:11434/v1")


def test_a_string_may_carry_the_address() -> None:
    spec = parse_model("openai:org/model@2024@http://127.0.0.1:8000/v1", environ={})
    assert (spec.name, spec.base_url) == ("org/model@2024", "http://127.0.0.1:8000/v1")


def test_a_mapping_is_filled_from_the_environment() -> None:
    spec = parse_model(
        {"model": "openai:local", "base_url": "http://${HOST:-127.0.0.1}/v1", "api_key": "${LOCAL_KEY}"},
        environ={"LOCAL_KEY": "secret-1"},
    )
    assert (spec.base_url, spec.api_key) == ("http://127.0.0.1/v1", "secret-1")


def test_a_string_is_filled_from_the_environment_too() -> None:
    spec = parse_model("openai:${MODEL:-local}@${SERVER}", environ={"SERVER": "http://127.0.0.1:8000/v1", "MODEL": ""})
    assert (spec.name, spec.base_url) == ("local", "http://127.0.0.1:8000/v1")


def test_the_key_is_neither_shown_nor_part_of_the_identity() -> None:
    spec = parse_model({"model": "openai:local", "api_key": "secret-1"}, environ={})
    assert "secret-1" not in repr(spec) + spec.identity


def test_the_providers_address_variable_counts_where_none_is_given() -> None:
    assert parse_model("openai:x", environ={"OPENAI_BASE_URL": "http://proxy/v1"}).base_url == "http://proxy/v1"


def test_a_spec_that_is_parsed_already_stays_as_it_is() -> None:
    spec = parse_model("openai:x", environ={})
    assert parse_model(spec, environ={}) is spec


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("opnai:gpt-5", "unknown provider 'opnai'. Did you mean 'openai'?"),
        ("gemini:gemini-2.5-pro", "unknown provider 'gemini'. Did you mean 'google'?"),
        ("gpt-5", "no provider is named. Write it as 'provider:model', e.g. 'openai:gpt-5'"),
        ("claude-sonnet-4-5", "e.g. 'anthropic:claude-sonnet-4-5'"),
        ("openai:", "no provider is named"),
        ("", "expected a string like 'openai:gpt-5-mini', got ''"),
        ({"modle": "openai:x"}, "unknown key 'modle'. Did you mean 'model'?"),
        ({"base_url": "http://x"}, "expected a string like"),
        ({"model": "openai:x", "settings": {"temprature": 0}}, "Did you mean 'temperature'?"),
        ({"model": "openai:x", "settings": {"max_retries": 9}}, "unknown key 'max_retries'"),
        ({"model": "openai:x", "settings": 3}, "settings must be a mapping"),
        ({"model": "openai:x", "output": "xml"}, "output must be 'prompt' or 'native', got 'xml'"),
        ({"model": "openai:x", "api_key": "${NOT_SET}"}, "the environment variable NOT_SET is not set"),
        ("openai:x@${NOT_SET}/v1", "model: the environment variable NOT_SET is not set"),
        ({"model": "openai:x", "base_url": "localhost:80"}, "must begin with http:// or https://"),
        ({"model": "openai:x@http://a/v1", "base_url": "http://b/v1"}, "the address is given twice"),
        ({"model": "groq:x", "base_url": "http://b/v1"}, "'groq' takes no base_url"),
    ],
)
def test_a_mistake_is_refused_with_what_would_work(spec: object, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model(spec, environ={})  # type: ignore[arg-type]
    assert problem in str(caught.value)
