import asyncio
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.llm.client import LLM
from seatrial.llm.model import Answer, ModelFailure, ModelSpec, Question, parse_model
from seatrial.llm.pydantic_ai_backend import open_model
from seatrial.model.conversation import Usage
from seatrial.model.results import ModelUse
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

GOOD = '{"passed": true, "reason": "fine"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    passed: bool
    reason: str


def local(server: ModelServer, **more: Any) -> ModelSpec:
    return parse_model({"model": "openai:scripted", "base_url": server.base_url, **more}, environ={})


def a_question(server: ModelServer, **more: Any) -> Question[Opinion]:
    given: dict[str, Any] = {"model": local(server), "system": "Judge this.", "messages": (("user", "Hello?"),), **more}
    return Question(role="judge", schema=Opinion, **given)


def ask(server: ModelServer, *, cache: Path | None = None, **more: Any) -> Answer[Opinion]:
    async def main() -> Answer[Opinion]:
        async with LLM(backoff=0.0, cache=cache) as llm:
            return await llm.ask(a_question(server, **more))

    return asyncio.run(main())


def fail(server: ModelServer, **more: Any) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        ask(server, **more)
    return caught.value


def test_an_answer_is_the_validated_object_with_what_it_took() -> None:
    with ModelServer([GOOD]) as server:
        answer = ask(server)
    assert answer.value == Opinion(passed=True, reason="fine")
    assert answer.raw == GOOD
    assert answer.model == "scripted"
    assert answer.use == ModelUse(calls=1, usage=Usage(input_tokens=10, output_tokens=5), cost_usd=None)


def test_the_request_carries_system_schema_and_messages_in_order() -> None:
    with ModelServer([GOOD]) as server:
        ask(server, messages=(("user", "one"), ("assistant", "two"), ("user", "three")))
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    (role, system), *rest = request.messages
    assert role == "system"
    assert system.startswith("Judge this.")
    assert '"passed"' in system
    assert rest == [("user", "one"), ("assistant", "two"), ("user", "three")]
    assert "response_format" not in request.body


def test_native_output_makes_the_server_hold_to_the_schema() -> None:
    with ModelServer([GOOD]) as server:
        ask(server, model=local(server, output="native"))
    assert server.requests[0].body["response_format"]["type"] == "json_schema"


def test_model_settings_are_sent() -> None:
    with ModelServer([GOOD]) as server:
        ask(server, model=local(server, settings={"temperature": 0.25, "seed": 7}))
    assert server.requests[0].body["temperature"] == 0.25
    assert server.requests[0].body["seed"] == 7


def test_the_key_given_is_sent_and_the_providers_own_key_never_goes_to_a_foreign_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with ModelServer([GOOD]) as server:
        ask(server, model=local(server, api_key="of-this-server"))
        ask(server)
    assert server.requests[0].headers["authorization"] == "Bearer of-this-server"
    assert "sk-of-openai" not in str(server.requests[1].headers)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_passing_trouble_is_asked_again(status: int) -> None:
    with ModelServer([ServerReply(status=status, body="{}"), GOOD]) as server:
        answer = ask(server)
    assert answer.value.passed
    assert answer.use.calls == len(server.requests) == 2


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_a_lasting_trouble_is_asked_exactly_as_often_as_allowed(attempts: int) -> None:
    with ModelServer([ServerReply(status=500, body='{"error": {"message": "boom"}}')]) as server:
        failure = fail(server, attempts=attempts)
    assert len(server.requests) == attempts
    assert failure.attempts == failure.use.calls == attempts
    assert "HTTP 500" in str(failure)
    assert "boom" in str(failure)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refused_request_is_final_at_once(status: int) -> None:
    with ModelServer([ServerReply(status=status, body='{"error": {"message": "no such thing"}}')]) as server:
        failure = fail(server)
    assert len(server.requests) == 1
    assert str(failure).startswith(f"openai:scripted: HTTP {status}: no such thing")


def test_an_exhausted_quota_is_final_though_its_status_is_429() -> None:
    body = '{"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    with ModelServer([ServerReply(status=429, body=body)]) as server:
        fail(server)
    assert len(server.requests) == 1


def test_retry_after_is_obeyed_in_place_of_the_back_off() -> None:
    async def main(server: ModelServer) -> None:
        async with LLM(backoff=3600.0) as llm:
            await asyncio.wait_for(llm.ask(a_question(server)), 20)

    with ModelServer([ServerReply(status=429, body="{}", headers={"retry-after": "0"}), GOOD]) as server:
        asyncio.run(main(server))
    assert len(server.requests) == 2


def test_a_retry_after_beyond_a_minute_is_not_waited_for() -> None:
    with ModelServer([ServerReply(status=429, body="{}", headers={"retry-after": "3600"}), GOOD]) as server:
        failure = fail(server)
    assert len(server.requests) == 1
    assert "wait 3600 s" in str(failure)


def test_a_silent_server_is_a_failure_after_the_timeout_with_unknown_cost() -> None:
    with ModelServer([ServerReply(content=GOOD, hold=threading.Event())]) as server:
        failure = fail(server, timeout=0.2, attempts=2)
    assert len(server.requests) == 2
    assert "no answer within 0.2 s" in str(failure)
    assert failure.use == ModelUse(calls=2, cost_usd=None)


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with ModelServer([GOOD]) as server:
        pass
    assert "could not be reached" in str(fail(server))


@pytest.mark.parametrize(
    "reply",
    [
        ServerReply(body="<html>Bad gateway</html>", headers={"content-type": "text/html"}),
        ServerReply(body="<html>Bad gateway</html>"),
        ServerReply(body="{}"),
        ServerReply(body='{"choices": []}'),
        ServerReply(body='{"choices": null}'),
        ServerReply(body="[]"),
        ServerReply(body='"hello"'),
        ServerReply(body=""),
    ],
)
def test_a_response_that_is_no_completion_is_a_failure_of_the_request(reply: ServerReply) -> None:
    with ModelServer([reply]) as server:
        failure = fail(server, attempts=2)
    assert len(server.requests) == 2
    assert failure.attempts == 2


def test_a_completion_without_an_answer_is_asked_again_and_its_cost_is_unknown() -> None:
    empty = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    price = {"input": 100, "output": 0}
    with ModelServer([ServerReply(body=json.dumps(empty)), GOOD]) as server:
        answer = ask(server, model=local(server, price=price))
    assert answer.value.passed
    assert (answer.use.calls, answer.use.cost_usd) == (2, None)


def test_a_malformed_answer_is_repaired_once_with_its_problem_named() -> None:
    with ModelServer(['{"passed": "perhaps"}', GOOD]) as server:
        answer = ask(server)
    assert answer.value.passed
    assert answer.use.calls == 2
    *_, shown, request = server.requests[1].messages
    assert shown == ("assistant", '{"passed": "perhaps"}')
    assert "passed" in request[1]
    assert "reason" in request[1]


def test_an_answer_malformed_twice_is_a_failure_that_says_what_it_took() -> None:
    with ModelServer(["Certainly!"]) as server:
        failure = fail(server)
    assert len(server.requests) == 2
    assert "unreadable" in str(failure)
    assert failure.use == ModelUse(calls=2, usage=Usage(input_tokens=20, output_tokens=10), cost_usd=None)


def test_an_empty_answer_is_repaired_without_showing_an_empty_message() -> None:
    with ModelServer(["", GOOD]) as server:
        ask(server)
    assert all(text for _, text in server.requests[1].messages)


def test_failures_before_and_in_a_repair_share_one_allowance() -> None:
    broken = ServerReply(status=500, body="{}")
    with ModelServer([broken, "nonsense", broken, GOOD]) as server:
        fail(server, attempts=2)
    assert len(server.requests) == 3


def test_requests_in_flight_stay_within_the_limit_for_one_address() -> None:
    release = threading.Event()
    let_out: list[ModelUse] = []

    async def main(server: ModelServer) -> None:
        async with LLM(concurrency=3, before_request=let_out.append) as llm:
            asking = [asyncio.create_task(llm.ask(a_question(server, salt=str(index)))) for index in range(9)]
            while len(server.requests) < 3:
                await asyncio.sleep(0.01)
            assert len(let_out) == 3
            release.set()
            await asyncio.gather(*asking)

    with ModelServer([ServerReply(content=GOOD, hold=release)]) as server:
        asyncio.run(asyncio.wait_for(main(server), 30))
    assert len(server.requests) == len(let_out) == 9
    assert server.most_at_once == 3


def test_addresses_do_not_share_one_limit() -> None:
    meeting = threading.Barrier(2)

    def answer(_: ReceivedRequest) -> str:
        meeting.wait(20)
        return GOOD

    async def main(one: ModelServer, other: ModelServer) -> None:
        async with LLM(concurrency=1) as llm:
            await asyncio.gather(llm.ask(a_question(one)), llm.ask(a_question(other)))

    with ModelServer(answer) as one, ModelServer(answer) as other:
        asyncio.run(main(one, other))
    assert len(one.requests) == len(other.requests) == 1


def test_the_hook_before_a_request_sees_the_totals_and_can_refuse() -> None:
    class BudgetSpent(Exception):
        pass

    def refuse_the_third(totals: ModelUse) -> None:
        if totals.calls == 2:
            raise BudgetSpent

    async def main(server: ModelServer) -> LLM:
        async with LLM(before_request=refuse_the_third) as llm:
            await llm.ask(a_question(server))
            await llm.ask(a_question(server))
            with pytest.raises(BudgetSpent):
                await llm.ask(a_question(server))
            return llm

    with ModelServer([GOOD]) as server:
        llm = asyncio.run(main(server))
    assert len(server.requests) == 2
    assert llm.totals() == ModelUse(calls=2, usage=Usage(input_tokens=20, output_tokens=10), cost_usd=None)


def test_tokens_that_the_server_does_not_state_are_unknown_and_not_nothing() -> None:
    with ModelServer([ServerReply(content=GOOD, usage=None)]) as server:
        answer = ask(server)
    assert answer.use == ModelUse(calls=1, usage=None, cost_usd=None)


def test_an_llm_can_be_used_on_one_event_loop_after_another() -> None:
    with ModelServer([GOOD]) as server:
        llm = LLM()

        async def once() -> None:
            await llm.ask(a_question(server))
            await llm.close()

        asyncio.run(once())
        asyncio.run(once())
    assert len(server.requests) == 2


@pytest.mark.parametrize("messages", [(), (("assistant", "hi"), ("user", "ho")), (("user", "hi"), ("assistant", "ho"))])
def test_a_question_begins_and_ends_with_the_users_side(messages: Any) -> None:
    with ModelServer([GOOD]) as server, pytest.raises(ValueError, match="begin and end"):
        a_question(server, messages=messages)


def test_other_work_goes_on_while_a_model_is_loaded_and_it_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    others_worked = threading.Event()
    opened: list[str] = []

    def slowly(spec: ModelSpec, client: Any) -> Any:
        opened.append(spec.label)
        assert others_worked.wait(10)
        return open_model(spec, client)

    monkeypatch.setattr("seatrial.llm.client.open_model", slowly)

    async def main(server: ModelServer) -> list[Answer[Opinion]]:
        async with LLM(backoff=0.0) as llm:
            asking = asyncio.gather(*(llm.ask(a_question(server)) for _ in range(2)))
            while not opened:
                await asyncio.sleep(0)
            others_worked.set()
            return await asking

    with ModelServer([GOOD]) as server:
        answers = asyncio.run(main(server))
    assert [answer.value.passed for answer in answers] == [True, True]
    assert opened == ["openai:scripted"]
