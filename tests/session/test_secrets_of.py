"""Which texts are taken for secrets, and which are not."""

from typing import Any

import pytest

from seatrial import Scenario
from seatrial.session import RunPlan, RunRequest
from seatrial.session.secrets_of import find_secrets, is_telling


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "x-api-key", "apiKey", "accessToken", "Authorization", "Proxy-Authorization", "cookie", "key",
     "db_password", "CLIENT_SECRET"],
)  # fmt: skip
def test_names_that_tell(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize("name", ["keywords", "monkey", "max_tokens", "author", "tokenizer", "", "path"])
def test_names_that_do_not(name: str) -> None:
    assert not is_telling(name)


@pytest.mark.parametrize(
    ("setting", "secrets"),
    [
        ({"headers": {"Authorization": "Bearer abcdefgh"}}, ["Bearer abcdefgh", "abcdefgh"]),
        ({"env": {"SHOP_TOKEN": "abcdefgh", "LANG": "en_GB.UTF-8"}}, ["abcdefgh"]),
        ({"body": {"auth": [{"token": ["abcdefgh"]}]}}, ["abcdefgh"]),
        ("postgresql://me:abc%40defgh@host/db", ["abc%40defgh", "abc@defgh"]),
        ({"url": "https://host/v1?api_key=abcdefgh&q=weather"}, ["abcdefgh"]),
        ("http://[broken", []),
        ({"model": "openai:gpt-5", "temperature": 1}, []),
        (None, []),
    ],
)
def test_secrets_are_found_in_settings(setting: Any, secrets: list[str]) -> None:
    assert list(find_secrets({}, [setting])) == secrets


def test_secrets_are_found_in_the_environment() -> None:
    environ = {"SHOP_API_KEY": "abcdefgh", "HOME": "/home/me"}

    assert list(find_secrets(environ, ())) == ["abcdefgh"]


def test_a_run_has_secrets_in_its_store_its_models_and_its_overrides() -> None:
    request = RunRequest(
        sources=(Scenario(name="a", input="x", models={"judge": {"model": "openai:j", "api_key": "of the scenario"}}),),
        agent=lambda input: "hi",
        overrides={"models": {"user": {"model": "openai:u", "api_key": "of an override"}}},
        models={"dedup": {"model": "openai:d", "api_key": "of the settings"}},
        store="postgresql://me:of-the-store@host/db",
    )

    found = set(RunPlan(request).secrets())

    assert {"of the scenario", "of an override", "of the settings", "of-the-store"} <= found
