"""Markdown, read back with a parser that knows GitHub's tables."""

import io
import re
from types import SimpleNamespace
from typing import Any

from markdown_it import MarkdownIt

from seatrial.model.run import Status
from seatrial.reports.registry import write_report


def written(record: Any) -> str:
    stream = io.StringIO()
    write_report("markdown", record, stream)
    return stream.getvalue()


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def test_the_table_has_a_row_for_each_scenario_worst_first(build: SimpleNamespace) -> None:
    record = build.record(
        build.scenario(name="good", trials=2, interval=(0.34, 1.0)),
        build.scenario(Status.FAILED, name="bad", reasons=("0/1 trial passed (threshold: 1.0)",)),
        trials=(
            build.trial(name="good", turns=(build.turn(cost_usd=0.5),)),
            build.trial(Status.FAILED, name="bad", results=(build.result(False, "not found"),)),
        ),
        status=Status.FAILED,
        reasons=("1 scenario failed",),
    )
    text = written(record)
    assert text.startswith("## ❌ FAIL: 1 scenario failed\n")
    assert (
        "| ❌ | bad | 0/1 |  | 120 ms |  | passfail: not found; 0/1 trial passed (threshold: 1.0) |\n"
        "| ✅ | good | 2/2 | [0.34, 1.00] | 120 ms | $0.5000 |  |\n"
    ) in text
    assert "trial-1 (1 turn)\n  passfail: not found\n" in text
    assert "user: Hello" in text


def test_hostile_text_is_neither_markdown_nor_html(build: SimpleNamespace) -> None:
    text = written(build.hostile_record())
    assert "<script" not in text
    page = rendered(text)
    for tag in ("script", "em", "strong", "code", "a", "img", "del", "h1"):
        assert f"<{tag}" not in page, tag
    assert page.count("<pre>") == page.count("</pre>") == text.count("<pre>")
    assert page.count("<details>") == page.count("</details>") == 1
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    assert [row.count("<td") for row in rows[1:]] == [7, 7]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)


def test_addresses_and_mentions_are_not_linked(build: SimpleNamespace) -> None:
    text = written(build.record(build.scenario(name="see https://a.example www.b.example @you #7")))
    assert "https\\://a.example www\\.b.example \\@you \\#7" in text


def test_a_large_run_keeps_its_table_and_failures_short(build: SimpleNamespace) -> None:
    scenarios = [build.scenario(Status.FAILED, name=f"n{number}") for number in range(1_200)]
    text = written(build.record(*scenarios, status=Status.FAILED))
    assert "… 200 more scenarios\n" in text
    assert "… 1,150 more scenarios did not pass\n" in text
