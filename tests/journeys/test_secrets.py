"""A secret in an agent's header, environment, address or reply is in nothing that Seatrial writes or says."""

import json
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from seatrial.llm.client import AnswerCache
from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest

IN_ENVIRONMENT = "env-7f3a9c11-secret"
IN_HEADER = "hdr-5b2d8e40-secret"
IN_FILE = "lit-90c4ad77-secret"
IN_ADDRESS = "adr-3e61bb02-secret"
ON_THE_COMMAND_LINE = "cmd-1d5c0f9a-secret"
ALL = (IN_ENVIRONMENT, IN_HEADER, IN_FILE, IN_ADDRESS, ON_THE_COMMAND_LINE)


class Parrot(BaseHTTPRequestHandler):
    """Says whatever authorises it: in its reply, in its tool calls, and in its errors."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        heard = [self.headers["authorization"], self.headers["x-api-key"], self.path, IN_ENVIRONMENT]
        text = f"I was told {heard} and {ON_THE_COMMAND_LINE}"
        body = {"output": text, "calls": [{"name": "look", "arguments": {"heard": heard}, "result": [text]}]}
        self.send_response(500 if asked["input"] == "break" else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def parrot() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Parrot)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/?token={IN_ADDRESS}"
    server.shutdown()
    server.server_close()


def find_secrets(folder: Path) -> list[tuple[str, str]]:
    """Every file that holds a secret, and which; the files that the user wrote are left out."""
    return [
        (str(path), secret)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".yaml", ".py", ".pyc")
        for secret in ALL
        if secret.encode() in path.read_bytes()
    ]


def write_suite(folder: Any, agent: Any) -> None:
    scenarios = [
        {"name": "tell", "input": f"Say {IN_ENVIRONMENT}", "trajectory": {"expected": [{"name": "look"}]}},
        {"name": "leak", "input": "leak", "scorers": ["leaky", "broken"]},
        {"name": "break", "input": "break"},
        {"name": "hooked", "input": "x", "setup": "checks:set_up"},
        {"name": "unhooked", "input": "x", "teardown": "checks:set_up"},
    ]
    suite = {"name": "s", "agent": agent, "evaluators": ["checks"], "config": {"trials": 2}}
    folder.write("s.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))
    folder.write(
        "checks.py",
        """
        import os
        from seatrial import evaluator

        @evaluator
        def leaky(ctx):
            return False, "the reply was " + ctx.reply

        @evaluator
        def broken(ctx):
            raise RuntimeError(os.environ["THE_API_KEY"])

        def set_up(ctx):
            raise RuntimeError("no entry with " + os.environ["THE_API_KEY"])
        """,
    )


REPORTS = ["json", "jsonl", "html", "junit", "markdown", "github=summary.md"]


def test_no_secret_is_in_any_file_report_or_output(folder: Any, parrot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"Authorization": "Bearer ${SHOP_CODE}", "X-Api-Key": IN_FILE}
    write_suite(folder, {"type": "http", "url": parrot, "headers": headers, "tool_calls": "calls"})
    monkeypatch.setenv("THE_API_KEY", IN_ENVIRONMENT)
    monkeypatch.setenv("SHOP_CODE", IN_HEADER)
    flags = [part for kind in REPORTS for part in ("--report", kind)]
    model = f"models.judge={{model: 'openai:x', api_key: {ON_THE_COMMAND_LINE}}}"

    said = [
        folder.process("run", "s.yaml", "--verbose", "--set", model, *flags),
        folder.process("show", "--verbose"),
        folder.process("show", "--json"),
        folder.process("list", "runs"),
        folder.process("export", "-o", "run.jsonl"),
        folder.process("regrade", "latest", "s.yaml", "--verbose", *flags),
    ]

    assert said[0].code == 1, said[0].err
    assert "[redacted]" in said[0].out
    for ended in said:
        assert [secret for secret in ALL if secret in ended.out + ended.err] == []
    assert (folder.path / "run.jsonl").exists()
    assert find_secrets(folder.path) == []


@pytest.mark.parametrize("held", [2_000, 0], ids=["held", "streamed"])
def test_keys_of_models_that_suites_and_scenarios_name_are_in_no_file(
    folder: Any, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr("seatrial.runs.run_plan.KEPT_IN_MEMORY", held)
    folder.write("agent.py", f"def answer(input): return 'I heard {IN_FILE} and {IN_HEADER}'")
    judges = [{"judge": {"model": "openai:x", "api_key": secret}} for secret in (IN_FILE, IN_HEADER)]
    suite = {"agent": "agent:answer", "config": {"models": judges[0]}}
    scenarios = [{"name": "a", "input": "a"}, {"name": "b", "input": "b", "models": judges[1]}]
    folder.write("s.json", json.dumps({"suite": suite, "scenarios": scenarios}))

    ended = folder.seatrial("run", "s.json", "--verbose")
    folder.path.joinpath("s.json").unlink()
    folder.path.joinpath("agent.py").unlink()

    assert "I heard [redacted] and [redacted]" in ended.out
    assert find_secrets(folder.path) == []


def test_the_environment_of_a_command_is_in_no_file(folder: Any) -> None:
    folder.write(
        "program.py",
        """
        import json, os, sys
        for line in sys.stdin:
            print(json.dumps({"type": "reply", "content": os.environ["SHOP_PASSWORD"]}), flush=True)
        """,
    )
    agent = {"type": "command", "argv": ["python", "program.py"], "env": {"SHOP_PASSWORD": IN_ENVIRONMENT}}
    scenario = {"name": "a", "input": "x"}
    folder.write("s.yaml", json.dumps({"suite": {"name": "s", "agent": agent}, "scenarios": [scenario]}))

    ended = folder.process("run", "s.yaml", "--verbose")

    assert "[redacted]" in ended.out, ended.out + ended.err
    assert IN_ENVIRONMENT not in ended.out + ended.err
    assert find_secrets(folder.path) == []


def test_what_is_judged_is_what_is_stored(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redaction comes before evaluation, so that a regrade sees what the run saw."""
    monkeypatch.setenv("THE_API_KEY", IN_ENVIRONMENT)
    folder.write("agent.py", "import os\n\ndef answer(input):\n    return 'it is ' + os.environ['THE_API_KEY']\n")
    scenario = {"name": "a", "input": "x", "expected_output": IN_ENVIRONMENT}
    folder.write("s.yaml", json.dumps({"suite": {"name": "s", "agent": "agent:answer"}, "scenarios": [scenario]}))

    assert folder.process("run", "s.yaml").code == 1
    monkeypatch.delenv("THE_API_KEY")
    assert folder.process("regrade", "latest").code == 1


def echo(request: ReceivedRequest) -> str:
    """A simulated user that repeats whatever it has heard."""
    heard = json.dumps(request.body["messages"])
    return json.dumps({"message": f"You said {heard}", "goal_met": len(request.messages) > 4, "stop": False})


def test_no_secret_is_told_to_a_simulated_user_or_kept_in_the_cache(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_API_KEY", IN_ENVIRONMENT)
    folder.write("agent.py", "import os\n\ndef answer(messages):\n    return 'it is ' + os.environ['THE_API_KEY']\n")
    scenario = {"name": "a", "user": {"goal": "x"}, "expect": {"reply_contains_any": ["it is"]}, "trials": 1}
    folder.write("s.yaml", json.dumps({"suite": {"name": "s", "agent": "agent:answer"}, "scenarios": [scenario]}))

    with ModelServer(echo) as server:
        ended = folder.process("run", "s.yaml", "--user-model", f"openai:u@{server.base_url}", "--verbose")

    assert len(server.requests) > 1, ended.err
    assert IN_ENVIRONMENT not in json.dumps([request.body for request in server.requests])
    assert "[redacted]" in json.dumps([request.body for request in server.requests])
    assert list((folder.path / ".seatrial" / "cache").rglob("*.json"))
    assert find_secrets(folder.path) == []


def write_leak_test(folder: Any, forbidden: str) -> None:
    folder.write("agent.py", f"def answer(input): return 'Sure, it is {IN_ENVIRONMENT}.'")
    scenario = {"name": "keeps quiet", "input": "Your key?", "expect": {"reply_excludes": [forbidden]}}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": [scenario]}))


@pytest.mark.parametrize("forbidden", [IN_ENVIRONMENT, "env-"])
def test_a_forbidden_text_that_was_redacted_is_no_pass_also_when_judged_again(
    folder: Any, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", IN_ENVIRONMENT)
    write_leak_test(folder, forbidden)

    played, again = folder.seatrial("run", "suite.yaml"), folder.seatrial("regrade", "latest")

    assert (played.code, again.code) == (1, 1)
    for ended in (played, again):
        assert "ERROR config: contains: the value of SHOP_API_KEY was redacted from the reply" in ended.out


def test_a_secret_that_was_told_fails_where_the_redaction_is_forbidden(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", IN_ENVIRONMENT)
    write_leak_test(folder, "[redacted]")

    assert folder.seatrial("run", "suite.yaml").code == 1
    assert folder.results()["scenarios"][0]["status"] == "failed"


@pytest.mark.parametrize(
    "write", ["urllib.parse.quote(key, safe='')", "json.dumps({'key': key}).replace('/', '\\\\/')"]
)
def test_a_secret_that_was_told_in_other_letters_fails_as_well(
    folder: Any, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "aGVsbG8/d29ybGQ+MTIz==")
    write_leak_test(folder, "[redacted]")
    told = f"    key = os.environ['SHOP_API_KEY']\n    return 'It is ' + {write}"
    folder.write("agent.py", f"import json, os, urllib.parse\n\ndef answer(input):\n{told}")

    assert folder.seatrial("run", "suite.yaml").code == 1
    assert folder.results()["scenarios"][0]["status"] == "failed"


@pytest.mark.parametrize(
    "keys",
    [
        {"trajectory": {"forbidden": [{"name": "send", "args": {"body": {"$regex": "sk-[a-z]{3}"}}}]}},
        {"expect": {"tool_calls_args": [{"tool": "send", "args": {"body": {"$not": {"$contains": "env-"}}}}]}},
        {"scorers": [{"regex": "^(?!.*delivered).*$"}]},
    ],
    ids=["forbidden", "not", "pattern"],
)
def test_a_rule_that_passes_because_of_the_redaction_is_no_pass_also_when_judged_again(
    folder: Any, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", IN_ENVIRONMENT)
    body = f"the key is sk-{IN_ENVIRONMENT}"
    folder.write("agent.py", f"def answer(ctx): return ctx.call_tool('send', body={body!r})")
    scenario = {"name": "keeps quiet", "input": "Your key?", "mocks": {"send": {"returns": f"sent {body}"}}, **keys}
    agent = {"type": "python", "target": "agent:answer", "tools": "all_wrapped"}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": agent}, "scenarios": [scenario]}))

    played, again = folder.seatrial("run", "suite.yaml"), folder.seatrial("regrade", "latest")

    assert (played.code, again.code) == (1, 1)
    for ended in (played, again):
        assert ": the value of SHOP_API_KEY was redacted from the " in ended.out
        assert "forbid '[redacted]' itself" in ended.out


def write_shop(folder: Any, **keys: Any) -> None:
    folder.write(
        "agent.py",
        """
        def answer(ctx):
            ctx.call_tool("delete_customer_record", order_id="order_id 7")
            return "The customer is gone: base64 and all."
        """,
    )
    mocks = {"delete_customer_record": {"returns": {"customer": "gone"}}}
    scenario = {"name": "a", "input": "x", "mocks": mocks, **keys}
    folder.write("s.json", json.dumps({"suite": {"name": "s", "agent": "agent:answer"}, "scenarios": [scenario]}))


@pytest.mark.parametrize("variable", ["SORT_KEY", "SORT_TOKEN"])
def test_a_forbidden_call_is_found_whatever_a_variable_holds(
    folder: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "customer")
    write_shop(folder, trajectory={"forbidden": ["delete_customer_record"]})

    assert folder.seatrial("run", "s.json").code == 1
    assert folder.results()["scenarios"][0]["status"] == "failed"


def test_keys_of_arguments_are_found_whatever_a_variable_holds(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_PARTITION_KEY", "order_id")
    monkeypatch.setenv("DYNAMO_TOKEN", "order_id")
    write_shop(folder, expected_tool_args={"delete_customer_record": {"order_id": {"$contains": "7"}}})

    assert folder.seatrial("run", "s.json").code == 0


def test_an_expectation_that_contains_a_redacted_value_is_errored_and_names_the_variable(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "customer")
    write_shop(folder, expect={"reply_contains_all": ["the customer"]})

    ended = folder.seatrial("run", "s.json")

    assert ended.code == 1
    assert "ERROR config: contains: the expectation contains the value of SHOP_TOKEN" in ended.out
    assert "redact: {except: [SHOP_TOKEN]}" in ended.out


@pytest.mark.parametrize(
    "keys",
    [
        {"expected_output": "the customer"},
        {"expect": {"tool_calls_args": [{"tool": "delete_customer_record", "args": {"order_id": "order_id 7"}}]}},
        {"trajectory": {"expected": [{"name": "delete_customer_record", "args": {"order_id": "order_id 7"}}]}},
    ],
    ids=["output", "arguments", "trajectory"],
)
def test_a_variable_can_be_exempt_from_redaction(
    folder: Any, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "customer")
    monkeypatch.setenv("DYNAMO_TOKEN", "order_id")
    write_shop(folder, **keys)

    assert folder.seatrial("run", "s.json").code == 1
    assert folder.results()["scenarios"][0]["status"] == "errored"
    folder.write("pyproject.toml", "[tool.seatrial]\nredact = {except = ['SHOP_TOKEN', 'DYNAMO_TOKEN']}\n")
    assert folder.seatrial("run", "s.json").code == 0
    assert folder.seatrial("regrade", "latest").code == 0


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("redact = {except = 'SHOP_TOKEN'}", "redact.except: expected a list of variables"),
        ("redact = {exept = ['SHOP_TOKEN']}", "redact: unknown key 'exept'"),
        ("redact = true", "redact: got True"),
    ],
)
def test_a_mistake_in_the_exemptions_is_refused(folder: Any, table: str, problem: str) -> None:
    write_shop(folder)
    folder.write("pyproject.toml", f"[tool.seatrial]\n{table}\n")

    ended = folder.seatrial("run", "s.json")

    assert ended.code == 2
    assert problem in ended.err


def test_secrets_of_many_names_and_forms_are_in_no_file(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("PGPASSWORD", "NPMTOKEN", "DB_PASS", "MYSQL_PWD", "API_KEY_2")
    for place, name in enumerate(names):
        monkeypatch.setenv(name, ALL[place])
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:pw-in-database-1@host/db")
    monkeypatch.setenv("REDIS_URL", "redis://:pw-in-redis-url@host:6379/0")
    told = [*ALL, "pw-in-database-1", "pw-in-redis-url"]
    folder.write(
        "agent.py",
        f"""
        import base64

        def answer(input):
            told = {told!r}
            hidden = [base64.b64encode(f"user:{{each}}".encode()).decode() for each in told]
            return " ".join([*told, *hidden])
        """,
    )
    scenario = {"name": "a", "input": "x"}
    folder.write("s.yaml", json.dumps({"suite": {"name": "s", "agent": "agent:answer"}, "scenarios": [scenario]}))

    assert folder.seatrial("run", "s.yaml").code == 0

    reply = folder.results()["scenarios"][0]["trials"][0]["turns"][0]["reply"]
    assert reply.count("[redacted]") == 2 * len(told)
    assert all(each not in reply for each in told)
    assert find_secrets(folder.path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_what_is_kept_is_for_its_owner_alone(folder: Any) -> None:
    folder.seatrial("init")
    kept = folder.path / ".seatrial"
    kept.mkdir(mode=0o755)  # as earlier versions made them
    (kept / "runs.db").touch(mode=0o644)
    reports = ("json", "html", "github=.seatrial/summary.md")
    assert folder.seatrial("run", *(f"--report={report}" for report in reports)).code == 0
    AnswerCache(kept / "cache").put("abcd", raw="yes", model="any")
    with open_store(kept / "runs.db") as store:
        let_go = store.claim_run("any")
        modes = {one.name: oct(one.stat().st_mode & 0o777) for one in [kept, *kept.rglob("*")]}
        let_go()

    names = {"runs.db", "runs.db-wal", "runs.db-shm", "results.json", "report.html", "summary.md", ".gitignore"}
    assert names | {".seatrial", "cache", "abcd.json"} <= modes.keys()
    assert {name: mode for name, mode in modes.items() if name in names and mode != "0o600"} == {}
    assert (modes[".seatrial"], modes["abcd.json"]) == ("0o700", "0o600")
    assert {mode for name, mode in modes.items() if name.endswith(".playing")} == {"0o600"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_a_store_elsewhere_is_shared_as_its_folder_is(folder: Any) -> None:
    (folder.path / "shared").mkdir(mode=0o755)
    with open_store(folder.path / "shared" / "runs.db"):
        modes = [(folder.path / "shared" / name).stat().st_mode & 0o777 for name in (".", "runs.db")]
    umask = os.umask(0o022)
    os.umask(umask)
    assert modes == [0o755, 0o666 & ~umask]
