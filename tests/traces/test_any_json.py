"""Readers accept any JSON: they return a recording or raise our own error."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seatrial.scenarios.yaml_files import parse_value
from seatrial.traces.formats import FORMATS, read_trace
from seatrial.traces.scenario_file import write_scenarios, write_yaml
from seatrial.traces.transcript_builder import TraceError, TraceFile

FIXTURES = Path(__file__).parent / "fixtures"
SAMPLES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FIXTURES.glob("*.json"))}

TELLING = """
messages role content type text user assistant tool tool_calls function name arguments id call_id tool_use
input tool_result tool_use_id is_error kind parts part_kind request response user-prompt tool-call tool-return
args lc kwargs data human ai function_call function_call_output output choices message usage input_tokens
resourceSpans scopeSpans spans attributes key value stringValue intValue arrayValue kvlistValue values traceId
spanId parentSpanId startTimeUnixNano endTimeUnixNano status code gen_ai.operation.name chat execute_tool
invoke_agent gen_ai.tool.name gen_ai.input.messages gen_ai.output.messages openinference.span.kind LLM TOOL
AGENT llm.input_messages.0.message.role events timestamp trial transcript turns format seatrial-runs
mcp.method.name tools/call
"""
WORDS = st.sampled_from(TELLING.split())
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), WORDS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), inner, max_size=5)
    ),
    max_leaves=25,
)


def read(text: str, format: str | None) -> TraceFile | None:
    """The recordings in a text; None if the reader refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.json"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            return read_trace(file, format=format)
        except TraceError:
            return None


def require_usable(trace: TraceFile | None) -> None:
    """Whatever was read can be written as a scenario file that says the same, or is refused."""
    if trace is None:
        return
    try:
        document = write_scenarios(trace.recordings, suite="s", agent="a:b")
    except TraceError:
        return
    assert parse_value(write_yaml(document)) == document


@settings(max_examples=150, deadline=None)
@given(document=ANYTHING, format=st.sampled_from([None, *FORMATS]))
def test_no_json_breaks_a_reader(document: Any, format: str | None) -> None:
    require_usable(read(json.dumps(document), format))


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=40), format=st.sampled_from([None, *FORMATS]))
def test_no_text_breaks_a_reader(text: str, format: str | None) -> None:
    require_usable(read(text, format))


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_recording_with_anything_in_any_place_breaks_no_reader(name: str, data: st.DataObject) -> None:
    document = json.loads(json.dumps(SAMPLES[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        place, key = data.draw(st.sampled_from(places(document)))
        place[key] = data.draw(ANYTHING)
        if not places(document):
            break
    require_usable(read(json.dumps(document), None))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in the document that holds something."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict | list):
            keys = list(here) if isinstance(here, dict) else range(len(here))
            found += [(here, key) for key in keys]
            waiting += [here[key] for key in keys]
    return found


@example(value="0\n\x1b")
@example(value=" a\n b")
@example(value="a\n  \n b\n")
@example(value="1e3")
@example(value={"no": "NO", "10:30": "0o17", "": ""})
@given(value=ANYTHING.filter(lambda value: value == value and "NaN" not in json.dumps(value)))
@settings(max_examples=150, deadline=None)
def test_a_value_comes_back_from_the_yaml_it_is_written_as(value: Any) -> None:
    from seatrial.traces.scenario_file import plain

    meant = {"value": plain(value)}

    assert parse_value(write_yaml(meant)) == meant
