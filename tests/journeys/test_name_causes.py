"""`seatrial explain --name-with`: a model gives causes a title, and nothing else."""

import json
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ServerReply

from .conftest import Folder

SECRET = "sk-live-1234567890abcdef"
SUITE = """
    suite: {agent: "agent:reply"}
    scenarios:
      - {name: asks, input: Where is W1?, expected_output: shipped}
      - {name: greets, input: Hello, expected_output: Ada}
"""


@pytest.fixture
def failed(folder: Folder) -> Folder:
    folder.write("agent.py", "def reply(input):\n    return 'no'\n")
    folder.write("two.trial.yaml", SUITE)
    assert folder.seatrial("run").code == 1
    return folder


def explain(folder: Folder, server: ModelServer, *args: str) -> Any:
    return folder.seatrial("explain", "--name-with", f"openai:m@{server.base_url}", *args)


def test_a_model_gives_each_cause_a_title_and_changes_nothing_else(failed: Folder) -> None:
    plain = json.loads(failed.seatrial("explain", "--json").out)["causes"]
    titles = {"titles": [{"id": "C1", "title": "Never looks the order up"}, {"id": "C9", "title": "invented"}]}
    with ModelServer([json.dumps(titles)]) as server:
        named = json.loads(explain(failed, server, "--json").out)["causes"]
        said = explain(failed, server).out
    assert [cause["title"] for cause in named] == ["Never looks the order up", None]
    assert [{**cause, "title": None} for cause in named] == plain
    assert "✗ asks: Never looks the order up" in said
    assert plain[0]["symptom"] in said


def test_if_the_model_fails_the_causes_keep_their_own_words(failed: Folder) -> None:
    plain = failed.seatrial("explain").out
    with ModelServer([ServerReply(status=400, body='{"error": {"message": "no such model"}}')]) as server:
        ended = explain(failed, server)
    assert (ended.code, ended.out) == (0, plain)
    assert "note: the causes have no titles" in ended.err


def test_a_model_that_cannot_be_named_is_an_error(failed: Folder) -> None:
    ended = failed.seatrial("explain", "--name-with", "nobody:m")
    assert ended.code == 2
    assert "nobody" in ended.err


def test_the_model_sees_no_secret_of_the_environment(failed: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    failed.write("leaks.py", f"def reply(input):\n    raise ValueError('bad {SECRET}')\n")
    failed.seatrial("run", "--agent", "leaks:reply")
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    with ModelServer(['{"titles": []}']) as server:
        assert SECRET in failed.seatrial("explain").out
        explain(failed, server)
    sent = json.dumps(server.requests[0].body)
    assert "bad [redacted]" in sent
    assert SECRET not in sent
