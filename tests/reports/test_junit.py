"""JUnit XML, checked against the rules of the schema that Jenkins publishes."""

import io
import re
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.run import Status
from seatrial.reports.registry import write_report

# Element -> (attributes that must be there, attributes that may be, children in their order with the most there may be)
RULES: dict[str, tuple[set[str], set[str], list[tuple[str, int | None]]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, [("testsuite", None)]),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package"},
        [("properties", 1), ("testcase", None), ("system-out", 1), ("system-err", 1)],
    ),
    "properties": (set(), set(), [("property", None)]),
    "property": ({"name", "value"}, set(), []),
    "testcase": (
        {"name", "classname", "time"},
        set(),
        [("skipped", 1), ("error", 1), ("failure", 1), ("system-out", 1), ("system-err", 1)],
    ),
    "skipped": (set(), {"type", "message"}, []),
    "error": (set(), {"type", "message"}, []),
    "failure": (set(), {"type", "message"}, []),
    "system-out": (set(), set(), []),
}


def check(element: ElementTree.Element) -> None:
    required, allowed, children = RULES[element.tag]
    assert required <= set(element.attrib) <= required | allowed, element.attrib
    order = [name for name, _ in children]
    tags = [child.tag for child in element]
    assert tags == sorted(tags, key=order.index)
    for name, most in children:
        assert most is None or tags.count(name) <= most
    for number in {"tests", "failures", "errors", "skipped"} & set(element.attrib):
        assert element.attrib[number].isdecimal()
    assert re.fullmatch(r"\d+\.\d{3}", element.attrib.get("time", "0.000"))
    for child in element:
        check(child)


def written(record: Any) -> ElementTree.Element:
    stream = io.BytesIO()
    text = io.TextIOWrapper(stream, encoding="utf-8")
    write_report("junit", record, text)
    text.flush()
    root = ElementTree.fromstring(stream.getvalue())
    check(root)
    return root


def a_mixed_record(build: SimpleNamespace) -> Any:
    error = ErrorInfo(kind=ErrorKind.JUDGE, message="no answer")
    return build.record(
        build.scenario(name="good", trials=2, interval=(0.34, 1.0)),
        build.scenario(Status.FAILED, name="bad", reasons=("0/1 trial passed",)),
        build.scenario(Status.ERRORED, name="broken", errored=1, reasons=("1 trial errored",)),
        build.scenario(Status.INCONCLUSIVE, name="unsure", passed=1),
        build.scenario(Status.NOT_RUN, name="unplayed", not_run=1),
        build.scenario(Status.NOT_RUN, name="later", skipped=True, entry={"skip": "no key"}),
        build.scenario(Status.FAILED, name="known", failed=1, xfailed=True, entry={"xfail": "issue 7"}),
        build.scenario(name="elsewhere", suite="other"),
        trials=(
            build.trial(name="good", turns=(build.turn(cost_usd=0.5),)),
            build.trial(name="good", index=1, turns=(build.turn(cost_usd=0.25),)),
            build.trial(Status.FAILED, name="bad", results=(build.result(False, "not <found>"),)),
            build.trial(Status.ERRORED, name="broken", error=error),
        ),
        status=Status.FAILED,
    )


def test_each_scenario_is_one_testcase_with_errors_and_failures_apart(build: SimpleNamespace) -> None:
    root = written(a_mixed_record(build))
    kinds = {case.attrib["name"]: next(child.tag for child in case) for case in root.iter("testcase")}
    assert kinds == {
        "good": "system-out",
        "bad": "failure",
        "broken": "error",
        "unsure": "error",
        "unplayed": "error",
        "later": "skipped",
        "known": "skipped",
        "elsewhere": "system-out",
    }
    shop, other = root.findall("testsuite")
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("8", "1", "3")
    assert (shop.attrib["tests"], shop.attrib["failures"], shop.attrib["errors"]) == ("7", "1", "3")
    assert (shop.attrib["skipped"], other.attrib["tests"]) == ("2", "1")


def test_a_failure_says_why(build: SimpleNamespace) -> None:
    failure = written(a_mixed_record(build)).find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "0/1 trial passed"
    assert "trial-1 (1 turn)\n  passfail: not <found>" in (failure.text or "")


def test_properties_tell_trials_passes_interval_and_cost(build: SimpleNamespace) -> None:
    root = written(a_mixed_record(build))
    known = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    assert known["good.trials"] == "2"
    assert known["good.passes"] == "2"
    assert known["good.interval"] == "[0.34, 1.00]"
    assert known["good.cost_usd"] == "0.750000"
    assert "bad.cost_usd" not in known
    output = root.find(".//testcase[@name='good']/system-out")
    assert output is not None
    assert "cost_usd=0.750000" in (output.text or "")


def test_a_run_that_fails_without_a_failing_scenario_is_not_green(build: SimpleNamespace) -> None:
    reason = "weighted metrics score 70 % (threshold: 80)"
    missed = build.record(build.scenario(), trials=(build.trial(),), status=Status.FAILED, reasons=(reason,))
    empty = build.record(status=Status.NOT_RUN, reasons=("nothing was run",))
    for record, count in ((missed, "2"), (empty, "1")):
        root = written(record)
        errors = list(root.iter("error"))
        assert len(errors) == 1
        assert record.outcome.verdict.failure_reasons[0] in errors[0].attrib["message"]
        assert (root.attrib["tests"], root.attrib["errors"]) == (count, "1")


def test_hostile_text_stays_text(build: SimpleNamespace) -> None:
    root = written(build.hostile_record())
    text = "".join(root.itertext())
    assert "<script>alert(1)</script> ]]>" in text
    for spelt in ("\\x1b[31m", "\\x00", "\\udc80", "\\uffff"):
        assert spelt in text
    assert "<script>" in next(root.iter("testcase")).attrib["name"]
