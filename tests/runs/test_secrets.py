"""Which texts are taken for secrets, and which are not."""

from typing import Any

import pytest

from seatrial import Scenario
from seatrial.engine.redact import Secret
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.runs.secrets import find_secrets, is_secret_name


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "x-api-key", "apiKey", "accessToken", "Authorization", "Proxy-Authorization", "cookie", "key",
     "db_password", "CLIENT_SECRET", "PGPASSWORD", "NPMTOKEN", "DB_PASS", "MYSQL_PWD", "API_KEY_2", "TOKEN2",
     "api-key-2", "SMTP_PASSWD", "REGISTRY_AUTH", "AWS_CREDENTIAL", "AWS_CREDENTIALS", "pwd"],
)  # fmt: skip
def test_names_that_tell(name: str) -> None:
    assert is_secret_name(name)
    assert values({name: "hunter22-long-enough"}) == ["hunter22-long-enough"]


@pytest.mark.parametrize(
    "name",
    ["keywords", "max_tokens", "author", "tokenizer", "", "path", "PWD", "OLDPWD", "SSH_ASKPASS", "GIT_ASKPASS",
     "KEYBOARD", "PASSENGER", "API_KEYS", "SECRETS_DIR", "TOKEN_URL"],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)
    assert values({name: "hunter22-long-enough"}) == []


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ("customer", False),
        ("order_id", False),
        ("customer_name_id", True),
        ("customer-nameid", False),
        ("custom3r", True),
    ],
)
def test_the_value_of_a_key_counts_with_a_digit_or_sixteen_characters(value: str, counts: bool) -> None:
    assert values({"SORT_KEY": value}) == values({"SORT_KEY_2": value}) == ([value] if counts else [])
    assert values({"SORT_TOKEN": value}) == [value]


@pytest.mark.parametrize("word", ["password", "PASSWORD", "Secret", "changeme", "undefined", "postgres"])
def test_common_words_are_no_secrets(word: str) -> None:
    assert values({"DB_PASSWORD": word, "DATABASE_URL": f"postgresql://me:{word}@host/db"}) == []


def values(environ: dict[str, str], *settings: Any) -> list[str]:
    return [secret.value for secret in find_secrets(environ, settings)]


@pytest.mark.parametrize(
    ("setting", "secrets"),
    [
        ({"headers": {"Authorization": "Bearer abcdefgh"}}, ["Bearer abcdefgh", "abcdefgh"]),
        ({"headers": {"X-Auth": "Basic dTpwdw=="}}, ["Basic dTpwdw==", "dTpwdw=="]),
        ({"env": {"SHOP_TOKEN": "abcdefgh", "LANG": "en_GB.UTF-8"}}, ["abcdefgh"]),
        ({"env": {"SHOP_PASSWORD": "four score and seven"}}, ["four score and seven"]),
        ({"body": {"auth": [{"token": ["abcdefgh"]}]}}, ["abcdefgh"]),
        ("postgresql://me:abc%40defgh@host/db", ["abc%40defgh", "abc@defgh"]),
        ({"url": "https://host/v1?api_key=abcdefg8&q=weather"}, ["abcdefg8"]),
        ("http://[broken", []),
        ({"model": "openai:gpt-5", "temperature": 1}, []),
        (None, []),
    ],
)
def test_secrets_are_found_in_settings(setting: Any, secrets: list[str]) -> None:
    assert values({}, setting) == secrets


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("SHOP_API_KEY", "abcdefg8", ["abcdefg8"]),
        ("HOME", "/home/me", []),
        ("DATABASE_URL", "postgresql://me:hunter22@host/db", ["hunter22", "hunter22"]),
        ("REDIS_URL", "redis://:hunter22@host:6379/0", ["hunter22", "hunter22"]),
        ("WEBHOOK", "https://host/hook?token=hunter22", ["hunter22"]),
        ("SERVICE_AUTH", "Bearer hunter22", ["Bearer hunter22", "hunter22"]),
    ],
)
def test_secrets_are_found_in_the_environment_with_their_names(name: str, value: str, secrets: list[str]) -> None:
    assert list(find_secrets({name: value}, ())) == [Secret(name, secret) for secret in secrets]


def test_the_value_of_an_exempt_variable_is_no_secret_wherever_it_is() -> None:
    environ = {"PARTITION_KEY": "order_id_2", "SHOP_TOKEN": "abcdefgh", "DATABASE_URL": "redis://:hunter22@host"}
    settings = [{"api_key": "order_id_2"}, {"token": "another-token"}]

    kept = find_secrets(environ, settings, exempt=["PARTITION_KEY", "DATABASE_URL"])

    assert [secret.value for secret in kept] == ["abcdefgh", "another-token"]


def test_a_run_has_secrets_in_its_store_its_models_and_its_overrides() -> None:
    request = RunRequest(
        sources=(Scenario(name="a", input="x", models={"judge": {"model": "openai:j", "api_key": "a scenario's 1"}}),),
        agent=lambda input: "hi",
        overrides={"models": {"user": {"model": "openai:u", "api_key": "of an override 1"}}},
        models={"dedup": {"model": "openai:d", "api_key": "of the settings 1"}},
        store="postgresql://me:of-the-store@host/db",
    )

    redaction = RunPlan(request).open_session().redaction

    for secret in ("a scenario's 1", "of an override 1", "of the settings 1", "of-the-store"):
        assert redaction.text(f"It is {secret}.") == "It is [redacted]."
