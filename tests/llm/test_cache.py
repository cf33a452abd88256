import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial import Scenario, run
from seatrial.llm.client import LLM
from seatrial.llm.model import Answer, ModelFailure, Question, parse_model
from seatrial.model.results import ModelUse
from seatrial.testing.model_server import ModelServer

GOOD = '{"passed": true}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    passed: bool
    doubts: str = ""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([GOOD]) as running:
        yield running


def ask(server: ModelServer, folder: Path, **more: Any) -> Answer[Any]:
    model = parse_model({"model": "openai:scripted", "base_url": server.base_url, **more.pop("spec", {})}, environ={})
    given = {"system": "Judge.", "messages": (("user", "Hello?"),), "schema": Opinion, "salt": "vote 1", **more}

    async def main() -> Answer[Any]:
        async with LLM(cache=folder, backoff=0.0) as llm:
            answer: Answer[Any] = await llm.ask(Question(role="judge", model=model, **given))
            assert llm.totals() == answer.use
            return answer

    return asyncio.run(main())


def test_a_warm_cache_makes_no_request(server: ModelServer, tmp_path: Path) -> None:
    cold = ask(server, tmp_path)
    warm = ask(server, tmp_path)
    assert len(server.requests) == 1
    assert (warm.value, warm.raw, warm.model) == (cold.value, cold.raw, cold.model)
    assert warm.use == ModelUse(cached=1, cost_usd=0.0)


@pytest.mark.parametrize(
    "edit",
    [
        {"system": "Judge hard."},
        {"messages": (("user", "Hello!"),)},
        {"messages": (("user", "Hello?"), ("assistant", "Yes?"), ("user", "Hello?"))},
        {"salt": "vote 2"},
        {"schema": Doubt},
        {"spec": {"model": "openai:another"}},
        {"spec": {"settings": {"temperature": 1}}},
        {"spec": {"output": "native"}},
    ],
)
def test_any_edit_of_what_is_sent_misses(server: ModelServer, tmp_path: Path, edit: dict[str, Any]) -> None:
    ask(server, tmp_path)
    ask(server, tmp_path, **edit)
    assert len(server.requests) == 2


def test_another_endpoint_in_the_environment_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key-of-azure")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-06-01")
    said = []
    yes, no = (f'{{"reasoning": "So.", "passed": {passed}}}' for passed in ("true", "false"))
    with ModelServer([yes]) as one, ModelServer([no]) as other:
        for each in (one, other):
            monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", each.base_url.removesuffix("/v1"))
            rubric = {"judge": {"rubric": "It is polite.", "model": "azure:judge"}}
            said.append(run(Scenario(name="x", input="Hello?", expect=rubric), agent=lambda input: "Hi.").passed)
    assert said == [True, False]
    assert (len(one.requests), len(other.requests)) == (1, 1)


def test_timeout_attempts_and_key_do_not_decide_an_answer(server: ModelServer, tmp_path: Path) -> None:
    ask(server, tmp_path)
    ask(server, tmp_path, timeout=5.0, attempts=1, spec={"api_key": "another"})
    assert len(server.requests) == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"raw": 1, "model": "x"}', '{"raw": "not json", "model": "x"}'])
def test_a_damaged_entry_is_a_miss_and_mended(server: ModelServer, tmp_path: Path, damage: str) -> None:
    ask(server, tmp_path)
    (entry,) = tmp_path.rglob("*.json")
    entry.write_text(damage)
    ask(server, tmp_path)
    ask(server, tmp_path)
    assert len(server.requests) == 2


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    with ModelServer(["nonsense", "nonsense", GOOD]) as server:
        with pytest.raises(ModelFailure):
            ask(server, tmp_path)
        assert ask(server, tmp_path).value.passed
    assert len(server.requests) == 3


def test_a_repaired_answer_is_kept_as_repaired(tmp_path: Path) -> None:
    with ModelServer(["nonsense", GOOD]) as server:
        ask(server, tmp_path)
        assert ask(server, tmp_path).raw == GOOD
    assert len(server.requests) == 2


def test_threads_share_a_cache_without_harm(server: ModelServer, tmp_path: Path) -> None:
    answers: list[Answer[Any]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server, tmp_path))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.value for answer in answers] == [Opinion(passed=True)] * 6
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_another_process_finds_the_answer(server: ModelServer, tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib
from dataclasses import dataclass
from seatrial.llm.client import LLM
from seatrial.llm.model import Question
from seatrial.llm.model import parse_model

@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    passed: bool

async def main():
    async with LLM(cache=pathlib.Path({str(tmp_path)!r})) as llm:
        model = parse_model("openai:scripted@{server.base_url}", environ={{}})
        messages = (("user", "Hello?"),)
        question = Question(
            role="judge", model=model, system="Judge.", messages=messages, schema=Opinion, salt="vote 1"
        )
        print((await llm.ask(question)).use.calls)

asyncio.run(main())
"""
    first = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    answer = ask(server, tmp_path)
    assert first.stdout.strip() == "1"
    assert answer.use.calls == 0
    assert len(server.requests) == 1


def test_a_folder_that_cannot_be_written_is_warned_about_and_the_answer_given(
    server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be cached"):
        assert ask(server, tmp_path / "file").value.passed
