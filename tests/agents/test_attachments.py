"""Images and files in messages: from a scenario to every kind of agent, and from an agent into the transcript."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Attachment, Scenario, Turn
from seatrial.errors import UsageError
from seatrial.model.content import MAX_BYTES
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Status, Trial
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

from .model_apis import answer_converse, answer_messages, answer_responses, serve

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"
)
INVOICE = b"%PDF-1.4\n" + bytes(range(256)) * 19_532
"""A file of 5 MB."""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "receipt.png").write_bytes(PICTURE)
    (tmp_path / "invoice.pdf").write_bytes(INVOICE)
    (tmp_path / "notes.txt").write_text("Paid in cash.", encoding="utf-8")
    return [str(tmp_path / name) for name in ("receipt.png", "invoice.pdf", "notes.txt")]


def play(agent: Any, **scenario: Any) -> Trial:
    (trial,) = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None).trials()
    return trial


def test_a_function_gets_images_and_files_with_their_names(files: list[str]) -> None:
    seen: list[tuple[str | None, str, bytes]] = []

    def agent(ctx: Any) -> str:
        seen.extend((each.name, each.media_type, each.content) for each in ctx.attachments)
        return "Thanks."

    trial = play(agent, input="What is this?", attach=files)

    assert seen == [
        ("receipt.png", "image/png", PICTURE),
        ("invoice.pdf", "application/pdf", INVOICE),
        ("notes.txt", "text/plain", b"Paid in cash."),
    ]
    assert [each.name for each in trial.transcript.turns[0].attachments] == ["receipt.png", "invoice.pdf", "notes.txt"]
    assert trial.transcript.turns[0].user == "What is this?"


def test_the_messages_of_a_function_have_parts_as_in_chat_completions(files: list[str]) -> None:
    seen: list[Any] = []

    def agent(messages: Sequence[Any]) -> str:
        seen.append(messages[-1]["content"])
        return "Thanks."

    play(agent, turns=[Turn(user="Hello"), Turn(user="And this?", attach=files[:2])])

    assert seen[0] == "Hello"
    text, image, file = seen[1]
    assert text == {"type": "text", "text": "And this?"}
    assert image["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    assert file["file"]["filename"] == "invoice.pdf"


FORMS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "messages": (answer_messages, {"type": "anthropic", "model": "claude"}),
    "responses": (answer_responses, {"type": "openai", "api": "responses", "model": "gpt"}),
    "converse": (answer_converse, {"type": "bedrock", "model": "nova"}),
}


def sent_in(body: Mapping[str, Any], kind: str) -> Any:
    return body["input"][0]["content"] if kind == "responses" else body["messages"][0]["content"]


@pytest.mark.parametrize("kind", FORMS)
def test_an_endpoint_gets_them_in_the_form_of_its_api(kind: str, files: list[str]) -> None:
    answer, settings = FORMS[kind]
    with serve(answer) as api:
        trial = play({**settings, "base_url": api.url}, input="Hello", attach=files)

    assert trial.error is None, "the server checks requests with the types of the provider's package"
    picture, invoice = (base64.b64encode(content).decode() for content in (PICTURE, INVOICE))
    text = base64.b64encode(b"Paid in cash.").decode()
    assert (
        sent_in(api.bodies[0], kind)[1:]
        == {
            "messages": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": invoice},
                    "title": "invoice.pdf",
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Paid in cash."},
                    "title": "notes.txt",
                },
            ],
            "responses": [
                {"type": "input_image", "image_url": f"data:image/png;base64,{picture}", "detail": "auto"},
                {
                    "type": "input_file",
                    "filename": "invoice.pdf",
                    "file_data": f"data:application/pdf;base64,{invoice}",
                },
                {"type": "input_file", "filename": "notes.txt", "file_data": f"data:text/plain;base64,{text}"},
            ],
            "converse": [
                {"image": {"format": "png", "source": {"bytes": picture}}},
                {"document": {"format": "pdf", "name": "file 3", "source": {"bytes": invoice}}},
                {"document": {"format": "txt", "name": "file 4", "source": {"bytes": text}}},
            ],
        }[kind]
    )


def test_a_chat_completions_endpoint_gets_parts_and_may_answer_with_an_image(files: list[str]) -> None:
    url = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    message = {"role": "assistant", "content": "Here.", "images": [{"type": "image_url", "image_url": {"url": url}}]}
    completion = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    with serve(lambda body: completion) as api:
        agent = {"type": "openai", "base_url": api.url, "model": "gpt"}
        trial = play(agent, input="Draw it.", attach=files[:2])

    kinds = [part["type"] for part in api.bodies[0]["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "file"]
    (drawn,) = trial.transcript.turns[0].reply_attachments
    assert (drawn.media_type, drawn.content) == ("image/png", PICTURE)


def test_an_agent_returns_files_by_content_and_by_path(files: list[str]) -> None:
    def agent(input: str) -> AgentResult:
        return AgentResult("Here.", attachments=[Attachment.of(b"a,b", name="table.csv"), files[0]])

    table, receipt = play(agent, input="Export it.").transcript.turns[0].reply_attachments

    assert (table.name, table.media_type, table.content) == ("table.csv", "text/csv", b"a,b")
    assert (receipt.name, receipt.content) == ("receipt.png", PICTURE)


@pytest.mark.parametrize(
    "wrong",
    [
        "receipt.png",
        [3],
        ["missing.png"],
        [Attachment(media_type="image/png", data='"><script>')],
        [Attachment.of(bytes(9), name="a"), Attachment(media_type="text/plain", data="A" * (4 * MAX_BYTES // 3 + 4))],
    ],
    ids=["text", "number", "no file", "no base64", "too large"],
)
def test_an_attachment_of_an_agent_that_cannot_be_read_is_its_error(wrong: Any) -> None:
    trial = play(lambda input: AgentResult("Here.", attachments=wrong), input="Export it.")

    assert trial.error is not None
    assert trial.error.kind is ErrorKind.AGENT
    assert "attach" in trial.error.message


@pytest.mark.parametrize(
    "agent",
    [lambda input: "hi", {"type": "http", "url": "http://127.0.0.1:9/", "body": {"q": "{{input}}"}}],
    ids=["function", "http"],
)
def test_an_agent_that_takes_only_text_is_refused(agent: Any, files: list[str]) -> None:
    with pytest.raises(UsageError, match="takes only text"):
        play(agent, input="What is this?", attach=files)


def write_suite(folder: Path, **scenario: Any) -> Path:
    file = folder / "suite.json"
    scenarios = [{"name": "x", "input": "What is this?", **scenario}]
    file.write_text(json.dumps({"suite": {"agent": "a:b"}, "scenarios": scenarios}), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"attach": ["recept.png"]}, "there is no file 'recept.png'. Did you mean 'receipt.png'?"),
        ({"attach": ["empty.png"]}, "cannot be attached: it is empty"),
        ({"attach": ["large.bin"]}, "cannot be attached: it has 20,000,001 bytes; an attachment has at most 20 MB"),
        ({"attach": [{"file": "receipt.png", "media_type": "png"}]}, "expected a type such as image/png, got 'png'"),
        ({"attach": []}, "attach"),
        ({"input": None, "turns": [{"user": "Hi"}], "attach": ["receipt.png"]}, "belongs to a turn"),
    ],
)
def test_a_wrong_attachment_is_refused_when_the_suite_is_loaded(
    keys: dict[str, Any], message: str, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "large.bin").write_bytes(bytes(MAX_BYTES + 1))
    given = {"input": "Hi", **keys}
    file = write_suite(tmp_path, **{key: value for key, value in given.items() if value is not None})
    if "input" in keys:
        document = json.loads(file.read_text("utf-8"))
        del document["scenarios"][0]["input"]
        file.write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(UsageError) as refused:
        seatrial.load(str(file))

    assert message in str(refused.value)


def test_a_large_file_is_stored_once_for_all_trials_and_comes_back(files: list[str], tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    scenario = Scenario(name="x", input="What is this?", attach=files[1:2], trials=4)

    report = seatrial.run(scenario, agent=lambda messages: "A file.", store=str(store))

    assert store.stat().st_size < 2 * len(INVOICE)
    stored = [each.content for trial in report.trials() for each in trial.transcript.turns[0].attachments]
    assert stored == [INVOICE] * 4


def judge_sees(agent: Any, files: list[str], **model: Any) -> list[Any]:
    """The content of the judge's message, as its server got it."""
    seen: list[Any] = []

    def answer(request: ReceivedRequest) -> ServerReply | str:
        seen.append(request.body["messages"][-1]["content"])
        return json.dumps({"reasoning": "so it is", "passed": True})

    with ModelServer(answer) as server:
        judge = {"model": f"openai:judge@{server.base_url}", **model}
        expect = seatrial.Expect(judge=seatrial.Judge("Names the amount.", judge))
        trial = play(agent, input="How much?", attach=files, expect=expect)
    assert trial.status is Status.PASSED, trial
    return seen


def test_a_judge_sees_images_and_the_text_of_text_files(files: list[str]) -> None:
    (content,) = judge_sees(lambda messages: "12 euros.", [files[0], files[2]])

    text, picture = content
    assert picture["type"] == "image_url"
    assert '"user attached": "receipt.png (image/png, 78 bytes)"' in text["text"]
    assert '"content": "Paid in cash."' in text["text"]


def test_a_judge_that_takes_only_text_is_told_so(files: list[str]) -> None:
    (content,) = judge_sees(lambda messages: "12 euros.", files[:1], attachments=False)

    assert isinstance(content, str)
    assert "cannot be shown to you" in content


def test_a_simulated_user_sees_what_the_agent_attached(files: list[str]) -> None:
    seen: list[Any] = []

    def answer(request: ReceivedRequest) -> str:
        seen.append(request.body["messages"][1]["content"])
        first = len(request.body["messages"]) == 2
        return json.dumps({"message": "Draw a chart." if first else "", "goal_met": not first, "stop": not first})

    with ModelServer(answer) as server:
        trial = play(
            lambda messages: AgentResult("Here.", tool_calls=[], attachments=files[:1]),
            user=seatrial.User(goal="a chart"),
            attach=files[2:],
            models={"user": f"openai:user@{server.base_url}"},
            expect=seatrial.Expect(reply_contains_all=["Here"]),
            trials=1,
        )

    assert trial.status is Status.PASSED, trial
    assert isinstance(seen[0], str)
    assert [part["type"] for part in seen[1]] == ["text", "image_url"]
    assert [each.name for each in trial.transcript.turns[0].attachments] == ["notes.txt"]


def test_secrets_in_text_files_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-1234567890abcdef")
    make: Callable[[str], AgentResult] = lambda input: AgentResult(  # noqa: E731
        "Here.",
        contexts=["the key is sk-1234567890abcdef"],
        attachments=[Attachment.of(b"key: sk-1234567890abcdef", name="settings.txt")],
    )

    (turn,) = play(make, input="Export it.").transcript.turns

    assert turn.reply_attachments[0].text == "key: [redacted]"
    assert turn.contexts is not None
    assert turn.contexts[0].text == "the key is [redacted]"
