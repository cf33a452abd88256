"""The pages of a sweep: a matrix whose cells lead to conversations."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

AGENT = """
from seatrial import ToolError

def answer(messages, ctx):
    try:
        ctx.call_tool("book", {})
    except ToolError as error:
        return "Booked." if "500" in str(error) else "I could not do it."
    return "Booked."
"""
SUITE = """
suite: {name: tables, agent: "swept_agent:answer"}
scenarios:
  - name: books
    input: A table, please.
    mocks: {book: {returns: {id: 7}}, cancel: {returns: {}}}
    trajectory: {expected: [book]}
    expect: {reply_contains_any: [booked]}
    on_failure: {reply_contains_any: [could not]}
"""


def test_the_run_shows_tools_and_faults_and_leads_to_conversations(own_project: Any, serve: Callable[..., Any]) -> None:
    folder = Path(own_project.path)
    (folder / "swept_agent.py").write_text(AGENT)
    (folder / "swept.yaml").write_text(SUITE)
    ended = own_project.seatrial("run", "swept.yaml", "--faults", "*=timeout,*=error", "--id", "swept")
    assert ended.returncode == 1, ended.stderr
    served = serve(store=own_project.store)
    runs = served.get("/").text
    assert 'href="/runs/swept"' in runs
    plots = re.findall(r"<svg.*?</svg>", runs, re.DOTALL)
    assert any("/runs/good" in plot for plot in plots)
    assert not any("/runs/swept" in plot for plot in plots)
    page = served.get("/runs/swept").text
    assert '<tr><th scope="col">tool</th><th scope="col">timeout</th><th scope="col">error</th></tr>' in page
    cells = re.findall(r'<td class="(good|bad|fair|none)" title="[^"]*"><a href="([^"]+)">([^<]+)</a></td>', page)
    assert [(kind, text) for kind, _, text in cells] == [
        ("good", "told"),
        ("bad", "claimed"),
        ("none", "-"),
        ("none", "-"),
    ]
    assert "cancel was not reached in any trial" in page
    assert "Make baseline" not in page
    told = served.get(cells[0][1].partition("#")[0]).text
    assert "When the tool failed, the agent told the user." in told
    assert "altered: timeout" in told
    assert '<span class="verdict passed">TOLD THE USER</span>' in told
    assert "In a sweep tools answer differently, so its trials cannot be continued." in told
    assert "<b>on_failure</b> contains" in told
    claimed = served.get(cells[1][1].partition("#")[0]).text
    assert "When the tool failed, the agent claimed success." in claimed


def test_other_runs_have_no_matrix(served: Any) -> None:
    run = served.json("/api/runs")["runs"][0]["id"]
    page = served.get(f"/runs/{run}").text
    assert 'class="matrix"' not in page
    assert 'class="tiles"' in page
