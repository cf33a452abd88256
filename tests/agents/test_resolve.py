"""From what a user wrote for `agent` to an agent, and what is said when that cannot be."""

import asyncio
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from seatrial import Scenario, run
from seatrial.agents.resolve import AGENT_TYPES, check_agent_spec, resolve_agent
from seatrial.errors import UsageError
from seatrial.foreign.import_path import import_attribute


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the Python path with the user's own modules."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_path_names_the_agent(shop: Path) -> None:
    (shop / "resolved_shop.py").write_text("def answer(input): return 'hi'\n")
    agent = resolve_agent("resolved_shop:answer")
    assert agent.name == "resolved_shop:answer"


def test_a_path_may_lead_into_a_class(shop: Path) -> None:
    (shop / "nested_shop.py").write_text("class A:\n    class B:\n        def run(self, messages): return 'hi'\n")
    assert resolve_agent("nested_shop:A.B").keeps_conversation


def test_a_mapping_with_a_target_is_a_python_agent(shop: Path) -> None:
    (shop / "mapped_shop.py").write_text("def answer(input): return 'hi'\n")
    assert resolve_agent({"type": "python", "target": "mapped_shop:answer"}).name == "mapped_shop:answer"


def test_an_agent_is_taken_as_it_is() -> None:
    agent = resolve_agent(lambda input: "")
    assert resolve_agent(agent) is agent


def test_an_adapter_of_ones_own_needs_no_base_class() -> None:
    class Mine:
        name = "mine"
        answers_own_tools = True
        keeps_conversation = True

        def open(self, start: Any) -> Any: ...
        async def close(self) -> None: ...

    assert resolve_agent(Mine()).name == "mine"
    assert resolve_agent(Mine).name == "mine"


def test_a_missing_module_is_named_with_where_it_was_looked_for() -> None:
    with pytest.raises(UsageError, match=r"'no_such_shop:answer': there is no module 'no_such_shop'.*current folder"):
        resolve_agent("no_such_shop:answer")


def test_a_module_that_needs_a_missing_one_says_which(shop: Path) -> None:
    (shop / "needy_shop.py").write_text("import surely_not_installed\n")
    with pytest.raises(
        UsageError,
        match=r"importing 'needy_shop' failed at .*needy_shop.py:1, because it needs the module 'surely_not_in",
    ):
        resolve_agent("needy_shop:answer")


def test_a_missing_attribute_is_answered_with_the_closest(shop: Path) -> None:
    (shop / "typo_shop.py").write_text("def answer(input): return ''\n")
    with pytest.raises(UsageError, match=r"has no attribute 'anwser'. Did you mean 'answer'\?"):
        resolve_agent("typo_shop:anwser")


def test_a_module_that_fails_to_import_is_shown_with_its_line(shop: Path) -> None:
    (shop / "broken_shop.py").write_text("x = 1\n\nraise ValueError('no key')\n")
    with pytest.raises(UsageError, match=r"failed at .*broken_shop.py:3: ValueError: no key"):
        resolve_agent("broken_shop:answer")


def test_a_module_with_a_syntax_error_is_shown_with_its_line(shop: Path) -> None:
    (shop / "unwritten_shop.py").write_text("x = 1\n\ndef answer(:\n")
    with pytest.raises(UsageError, match=r"failed at .*unwritten_shop.py:3: SyntaxError"):
        resolve_agent("unwritten_shop:answer")


def test_a_module_that_exits_on_import_is_an_error_and_no_exit(shop: Path) -> None:
    (shop / "leaving_shop.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(UsageError, match="SystemExit: 0"):
        resolve_agent("leaving_shop:answer")


@pytest.mark.parametrize("path", ["", "shop", "shop.answer", ":answer", "shop:", "a b:c", "shop:answer()"])
def test_what_is_no_path_is_refused_with_the_form(path: str) -> None:
    with pytest.raises(UsageError, match=r"not of the form 'package.module:attribute'"):
        import_attribute(path, what="agent")
    assert check_agent_spec(path)


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ("shop.agent:answer", []),
        (lambda input: "", []),
        ({"type": "openai", "base_url": "http://x"}, []),
        ({}, [f"needs a type: {', '.join(AGENT_TYPES)}"]),
        ({"type": "langgraph", "target": "shop.agent:graph"}, []),
        ({"type": "langgraph"}, ["type 'langgraph' needs 'target'"]),
        ({"type": "opnai"}, [f"unknown type 'opnai'. Did you mean 'openai'? Known: {', '.join(AGENT_TYPES)}."]),
        ({"type": "http"}, ["type 'http' needs 'url'"]),
        ({"type": "http", "ulr": "x"}, ["type 'http' needs 'url'", "unknown key 'ulr'. Did you mean 'url'?"]),
        ({"target": "a:b", "scop": "run"}, ["unknown key 'scop'. Did you mean 'scope'?"]),
    ],
)
def test_a_spec_is_checked_without_importing_anything(spec: Any, problems: list[str]) -> None:
    assert check_agent_spec(spec) == problems


def test_a_wrong_spec_is_refused_with_all_its_problems() -> None:
    with pytest.raises(UsageError, match=r"agent 'mine': type 'http' needs 'url'\nagent 'mine': unknown key 'ulr'"):
        resolve_agent({"type": "http", "ulr": "x"}, name="mine")


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(UsageError, match="scope must be 'trial' or 'run', got 'session'"):
        resolve_agent({"target": lambda input: "", "scope": "session"})


def test_making_an_agent_runs_nothing_of_it() -> None:
    made = []

    class Mine:
        def __init__(self) -> None:
            made.append(1)

        def run(self, input: str) -> str:
            return input

    asyncio.run(resolve_agent(Mine).close())
    assert made == []


@pytest.mark.parametrize(
    "spec", [{"type": "openai", "base_url": "http://127.0.0.1:1/v1"}, {"type": "http", "url": "http://127.0.0.1:1/"}]
)
def test_an_endpoint_without_the_http_extra_says_what_to_install(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[http\]'"):
        resolve_agent(spec)


def test_a_mock_is_no_agent_of_ours_though_it_has_all_its_parts() -> None:
    with pytest.raises(UsageError, match="takes none of input, messages, ctx"):
        run(Scenario(name="one", input="Hello?"), agent=Mock(return_value="hello"), store=None)

    def answer(input: str) -> str: ...  # type: ignore[empty-body]

    assert run(Scenario(name="one", input="Hello?"), agent=create_autospec(answer, return_value="hello"), store=None)
