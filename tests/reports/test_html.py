"""The page in one file, read back with an HTML parser."""

import io
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

from seatrial.model.conversation import ErrorInfo, ErrorKind, ToolCall
from seatrial.model.run import Gates, Status, Totals
from seatrial.reports.registry import write_report

VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a browser would make of it: elements, their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.closed_details = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "details" and not any(name == "open" for name, _ in attrs):
            self.closed_details += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def written(record: Any) -> Page:
    stream = io.StringIO()
    write_report("html", record, stream)
    page = Page(stream.getvalue())
    assert page.open == []
    return page


def test_a_failing_trial_is_open_with_its_conversation_and_a_passing_one_is_folded(build: SimpleNamespace) -> None:
    call = ToolCall("check_availability", {"day": "Tuesday"}, result={"slots": []})
    error = ErrorInfo(kind=ErrorKind.AGENT, message="boom", hint="look at the log")
    record = build.record(
        build.scenario(
            Status.FAILED,
            trials=3,
            passed=1,
            failed=1,
            errored=1,
            interval=(0.1, 0.9),
            reasons=("1/3 trials passed",),
            entry={"gates": Gates(metric_thresholds={"helpfulness": 3.5})},
            metric_averages={"helpfulness": 4.0},
        ),
        trials=(
            build.trial(),
            build.trial(
                Status.FAILED,
                index=1,
                turns=(build.turn("Book it", "No.", calls=(call,)),),
                results=(build.result(False, "not found"),),
            ),
            build.trial(Status.ERRORED, index=2, error=error, turns=(build.turn(reply=None, calls=None),)),
        ),
        status=Status.FAILED,
        reasons=("1 scenario failed",),
    )
    page = written(record)
    assert page.tags.count("details") == 5, "three trials, a tool call and the causes"
    assert page.closed_details == 3
    for text in (
        "FAIL: 1 scenario failed",
        "[0.10, 0.90]",
        "helpfulness4",
        "3.5 ✓",
        "trial-2 (1 turn)",
        "passfail: not found",
        "Book it",
        'check_availability({"day": "Tuesday"}) → {"slots": []}',
        "ERROR agent: boom",
        "look at the log",
        "(no reply)",
        "tool calls: not recorded",
    ):
        assert text in page.text, text


def test_the_page_needs_nothing_from_elsewhere(build: SimpleNamespace) -> None:
    page = written(build.hostile_record())
    assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "base", "form"}
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "srcset", "style", "onclick", "onload", "onerror"}
    assert all((value or "").startswith("#scenario-") for name, value in page.attributes if name == "href")


def test_hostile_text_is_shown_as_text(build: SimpleNamespace) -> None:
    page = written(build.hostile_record())
    assert "<script>alert(1)</script> ]]>" in page.text
    for spelt in ("\\x1b[31m", "\\x00", "\\udc80", "\\u202e"):
        assert spelt in page.text
    page.text.encode("utf-8")


def test_a_large_run_shows_only_failing_trials_with_their_conversation(build: SimpleNamespace) -> None:
    trials = [build.trial(index=index) for index in range(400)]
    trials[7] = build.trial(Status.FAILED, index=7, turns=(build.turn("Only here"),), results=(build.result(False),))
    record = build.record(
        build.scenario(Status.FAILED, trials=400, passed=399, failed=1),
        trials=tuple(trials),
        totals=Totals(total_executions=400),
        status=Status.FAILED,
    )
    page = written(record)
    assert page.tags.count("details") == 2, "one trial and the causes"
    assert page.text.count("Only here") == 1
    assert "trial-400 (1 turn)" in page.text


def test_skipped_scenarios_have_a_row(build: SimpleNamespace) -> None:
    page = written(build.record(build.scenario(Status.NOT_RUN, skipped=True, entry={"skip": "no key"})))
    assert "skipped: no key" in page.text
