"""results.json and results.jsonl."""

import io
import json
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from seatrial.model.conversation import ErrorInfo, ErrorKind, ToolCall, Usage
from seatrial.model.results import Judgement, MetricScore, ModelUse, OutcomeResult
from seatrial.model.run import Status, Totals
from seatrial.reports.registry import write_report


def written(kind: str, record: Any) -> str:
    stream = io.StringIO()
    write_report(kind, record, stream)
    return stream.getvalue()


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def read(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


def closed(schema: Any) -> Any:
    """The published schema, changed to refuse fields that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(one) for key, one in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in schema and "type" in schema else inner


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((files("seatrial.reports") / "results.schema.json").read_text(encoding="utf-8"))


def a_full_record(build: SimpleNamespace) -> Any:
    judgement = Judgement(
        scores=(
            MetricScore(metric="helpfulness", value=3.0, reason="short", turn=0),
            MetricScore(metric="helpfulness", value=4.0, reason="better", turn=1),
            MetricScore(metric="grounding_fidelity", value=5.0, reason="all cited", label="excellent", weight=1.0),
        ),
        outcomes=(OutcomeResult(id="1", statement="It is booked.", passed=True, justification="Turn 2."),),
        overall_score=91.5,
        details={"model": "m"},
    )
    call = ToolCall("book", {"time": "10am"}, result={"id": 1}, id="c1", started_ms=1.0, duration_ms=2.0)
    turns = (
        build.turn(calls=(call,), usage=Usage(input_tokens=10, output_tokens=5), cost_usd=0.25),
        build.turn(index=1, calls=(), cost_usd=0.5),
    )
    missing = build.trajectory(actual=("book",), expected=("book", "pay"), missing_calls=("pay",))
    good = build.trial(turns=turns, judgement=judgement, instruments=ModelUse(calls=2, cost_usd=0.1))
    bad = build.trial(
        Status.ERRORED,
        index=1,
        turns=(build.turn(calls=None),),
        results=(missing, build.result(False, error=ErrorInfo(kind=ErrorKind.JUDGE, message="no answer"))),
        error=ErrorInfo(kind=ErrorKind.JUDGE, message="no answer", hint="set a key"),
        reasons=("judge: no answer",),
    )
    scenario = build.scenario(
        Status.ERRORED,
        trials=2,
        passed=1,
        errored=1,
        interval=(0.2, 1.0),
        reasons=("1 trial errored",),
        metric_averages={"helpfulness": 3.5},
    )
    skipped = build.scenario(Status.NOT_RUN, name="later", skipped=True, entry={"skip": "no key"})
    totals = Totals(total_executions=2, passed_count=1, error_count=1, cases_pass_rate_pct=50.0, cases_passed=False)
    return build.record(scenario, skipped, trials=(good, bad), status=Status.ERRORED, totals=totals)


def test_results_follow_the_published_schema(build: SimpleNamespace, schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    for record in (a_full_record(build), build.hostile_record(), build.record(status=Status.NOT_RUN)):
        jsonschema.validate(read(written("json", record)), closed(schema))


def undescribed(schema: Any, path: str = "") -> list[str]:
    if isinstance(schema, list):
        return [one for item in schema for one in undescribed(item, path)]
    if not isinstance(schema, dict):
        return []
    found = [f"{path}.{name}" for name, one in schema.get("properties", {}).items() if not one.get("description")]
    return found + [one for name, item in schema.items() for one in undescribed(item, f"{path}.{name}")]


def test_every_field_of_the_schema_has_a_description(schema: Any) -> None:
    assert undescribed(schema) == []


def test_the_schema_notices_a_missing_field(build: SimpleNamespace, schema: Any) -> None:
    results = read(written("json", a_full_record(build)))
    del results["scenarios"][0]["trials"][0]["error"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(results, schema)


def test_a_trial_has_everything_the_console_shows(build: SimpleNamespace) -> None:
    scenario, skipped = read(written("json", a_full_record(build)))["scenarios"]
    good, bad = scenario["trials"]
    assert scenario["status"] == "errored"
    assert scenario["passed"] is False
    assert scenario["failure_reasons"] == ["1 trial errored"]
    assert good["evaluation"]["helpfulness"]["value"] == 3.5
    assert good["evaluation"]["helpfulness"]["reason"] == "short\nbetter"
    assert good["overall_score"] == 91.5
    assert good["cost_usd"] == 0.75
    assert good["turns"][0]["tool_calls"][0]["arguments"] == {"time": "10am"}
    assert bad["turns"][0]["tool_calls"] is None
    assert bad["trajectory"]["missing_calls"] == ["pay"]
    assert bad["error"]["hint"] == "set a key"
    assert skipped["skip"] == "no key"
    assert skipped["trials"] == []


def test_results_are_pure_ascii_and_lose_no_character(build: SimpleNamespace) -> None:
    text = written("json", build.hostile_record())
    assert text.isascii()
    assert read(text)["scenarios"][0]["trials"][0]["turns"][0]["reply"] == build.hostile


def test_values_that_json_does_not_know_become_text(build: SimpleNamespace) -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    arguments = {
        "nan": float("nan"),
        "low": float("-inf"),
        "big": 10**5_000,
        "set": {1},
        "raw": b"x",
        "deep": deep,
        7: 1,
    }
    trial = build.trial(turns=(build.turn(calls=(ToolCall("t", arguments),)),))
    results = read(written("json", build.record(build.scenario(), trials=(trial,))))
    kept = results["scenarios"][0]["trials"][0]["turns"][0]["tool_calls"][0]["arguments"]
    assert kept["nan"] == "NaN"
    assert kept["low"] == "-Infinity"
    assert kept["big"] == hex(10**5_000)
    assert kept["set"] == [1]
    assert kept["raw"] == "b'x'"
    assert kept["7"] == 1
    assert "nested deeper than 100 levels" in json.dumps(kept["deep"])


def test_jsonl_has_one_line_for_each_trial_with_its_scenario_and_run(build: SimpleNamespace) -> None:
    record = a_full_record(build)
    lines = [read(line) for line in written("jsonl", record).splitlines()]
    trials = read(written("json", record))["scenarios"][0]["trials"]
    assert [line["id"] for line in lines] == ["trial-1", "trial-2"]
    assert {(line["run_id"], line["suite"], line["scenario"]) for line in lines} == {("r-1", "shop", "order_lookup")}
    assert lines[0].items() >= trials[0].items()


def test_trials_are_written_as_they_are_read(build: SimpleNamespace) -> None:
    trials = tuple(build.trial(index=index) for index in range(50))
    record = build.record(build.scenario(trials=50), trials=trials)
    seen: list[tuple[int, int]] = []

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            seen.append((record.reads, text.count('"stop_reason"')))
            return super().write(text)

    for kind in ("json", "jsonl"):
        record.reads = 0
        seen.clear()
        write_report(kind, record, Watched())
        assert max(count for _, count in seen) == 1
        assert all(reads <= index + 2 for index, (reads, count) in enumerate(seen) if count)
