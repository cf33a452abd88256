"""Every page: it answers, it shows what it should, and nothing that an agent said is more than text."""

import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from msgspec.structs import replace

import seatrial
from seatrial.clock import now
from seatrial.model.run import Run, RunState
from seatrial.store.store import Store, open_store

VOID = {"meta", "link", "br", "img", "input", "col"}
SCRIPTS = {"/static/htmx.min.js", "/static/seatrial.js"}


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def links(self) -> list[str]:
        return [link for _, attributes in self.tags if (link := attributes.get("href")) is not None]


def page(served: Any, path: str) -> Page:
    answer = served.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return Page(answer.text)


def walk(served: Any, start: str, *, most: int = 60) -> dict[str, Page]:
    """Every page that links lead to from here."""
    found: dict[str, Page] = {}
    waiting = [start]
    while waiting and len(found) < most:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = page(served, path)
        for link in found[path].links:
            address = urlsplit(urljoin(path, link))
            if link.startswith(("/runs", "/compare", "/?")):
                waiting.append(address.path + (f"?{address.query}" if address.query else ""))
    return found


@pytest.fixture(scope="module")
def pages(served: Any) -> dict[str, Page]:
    return walk(served, "/") | walk(served, "/compare?baseline_run_id=good&candidate_run_id=bad", most=20)


def test_every_link_leads_to_a_page(pages: dict[str, Page]) -> None:
    assert len(pages) > 20


def test_no_page_has_a_script_a_handler_or_a_style_of_its_own(pages: dict[str, Page]) -> None:
    for path, found in pages.items():
        assert {urlsplit(one["src"] or "").path for one in found.all("script")} == SCRIPTS, path
        for tag, attributes in found.tags:
            assert not [name for name in attributes if name.startswith("on") or name in ("style", "srcdoc")], path
            assert tag not in ("img", "iframe", "object", "embed", "base", "style"), path


def test_no_link_leaves_the_server_or_runs_anything(pages: dict[str, Page]) -> None:
    for path, found in pages.items():
        for link in found.links:
            assert link.startswith(("/", "#", "data:image/svg+xml,")), (path, link)
            assert not link.startswith("//"), (path, link)


@pytest.mark.parametrize("path", ["/", "/runs/hostile", "/runs/hostile?view=trials", "{scenario}", "{trial}"])
def test_hostile_text_is_shown_as_text(served: Any, hostile: str, path: str) -> None:
    scenario = f"/runs/hostile/scenarios/{served.json('/api/runs/hostile')['scenarios'][0]['id']}"
    found = page(served, path.format(scenario=scenario, trial=f"{scenario}/trials/1"))

    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in found.text
    assert "{{ 7*7 }}" in found.text
    assert "\\x1b[31m" in found.text
    assert "\x1b" not in found.text


def test_hostile_text_in_addresses_is_shown_as_text(served: Any, hostile: str) -> None:
    for path in ("/", "/runs/good"):
        answer = served.get(path, params={"q": hostile[:150]})
        assert Page(answer.text).all("img") == []
    for path in (f"/runs/{'<script>'}", "/compare?baseline_run_id=<script>&candidate_run_id=<b>"):
        answer = served.get(path)
        assert answer.status_code in (404, 422)
        assert "<script>" not in answer.text.replace('<script src="/static', "")


def test_the_list_shows_runs_their_trend_and_what_can_be_started(served: Any) -> None:
    found = page(served, "/")

    assert "second version" in found.text
    assert len([one for one in found.all("circle") if one["class"] == "dot"]) == 3
    assert "slow.yaml" in found.text


def test_a_run_shows_why_it_failed_worst_first(served: Any) -> None:
    text = page(served, "/runs/bad").text

    assert text.index("books a table") < text.index("only looks")
    assert "missing call: book" in text
    assert "0/3" in text
    assert "skipped: no such thing yet" in text


def test_a_run_is_filtered(served: Any) -> None:
    assert "only looks" not in page(served, "/runs/bad?status=failed").text
    assert "books a table" not in page(served, "/runs/bad?tag=read").text
    assert "Nothing matches the filter" in page(served, "/runs/bad?q=zzz").text
    assert "the agent broke" in page(served, "/runs/bad?view=trials&q=broke").text


def test_trials_are_found_by_what_was_said(served: Any) -> None:
    shown = page(served, "/runs/bad?view=trials&q=20:00").text
    assert "only looks" in shown
    assert "books a table" not in shown
    scenario = served.scenario("bad", "books a table")
    assert "trial-3" in page(served, f"/runs/bad/scenarios/{scenario}?q=Sorry").text
    assert "Nothing matches" in page(served, f"/runs/bad/scenarios/{scenario}?q=20:00").text


def test_a_search_that_could_not_read_everything_says_so(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find = Store.search
    monkeypatch.setattr(Store, "search", lambda *args, **more: replace(find(*args, **more), complete=False))
    text = "a text that nobody looked for before"
    assert "conversations of the first 5 trials were searched" in page(served, f"/runs/bad?view=trials&q={text}").text
    assert served.json("/api/runs/bad/trials", params={"q": f"{text}!"})["searched"] == 5


@pytest.mark.parametrize("order", ["worst", "order", "rate", "slowest", "costliest"])
def test_a_run_is_shown_in_any_order(served: Any, order: str) -> None:
    assert "books a table" in page(served, f"/runs/bad?order={order}").text


def test_a_scenario_shows_its_trials_and_its_history(served: Any) -> None:
    found = page(served, f"/runs/bad/scenarios/{served.scenario('bad', 'books a table')}")

    assert len([one for one in found.all("circle") if one["class"] == "dot"]) == 2, "two runs"
    assert len([one for one in found.all("circle") if one["class"] == "failed"]) == 3, "three trials"
    assert "trial-3" in found.text


def test_a_scenario_shows_what_its_file_says(served: Any) -> None:
    found = page(served, f"/runs/bad/scenarios/{served.scenario('bad', 'books a table')}")

    assert "Expectations" in found.text
    assert "input:" in found.text or "turns:" in found.text


def dots(text: str) -> dict[str, str]:
    """The colour of each run's dot, by its id."""
    return dict(re.findall(r'<a href="/runs/([^/"]+)[^"]*" class="([a-z_]+)" aria-label="[^"]*"><title>', text))


def test_no_dot_is_green_of_a_run_that_did_not_pass(own_project: Any, serve: Any) -> None:
    """Every trial passed, and yet the scenario did not: three trials do not show a rate of 0.9."""
    gated = {"name": "gated", "input": "19:00", "trials": 3, "gate": {"pass_rate": 0.9, "confidence": 0.95}}
    mocks = {"check": {"returns": True}, "book": {"returns": True}}
    head = {"name": "gated", "agent": "agent:answer", "config": {"mocks": mocks}}
    (own_project.path / "gated.json").write_text(json.dumps({"suite": head, "scenarios": [gated]}), encoding="utf-8")
    own_project.seatrial("run", "gated.json", "--id=known")
    served = serve(store=own_project.store, root=own_project.path)
    own_project.seatrial("run", "gated.json", "--id=unasked")

    assert dots(served.get("/?suite=gated").text) == {"known": "inconclusive", "unasked": "unknown"}
    history = f"/runs/known/scenarios/{served.scenario('known', 'gated')}"
    assert dots(served.get(history).text) == {"known": "inconclusive", "unasked": "unknown"}
    served.json("/api/runs/unasked")
    assert dots(served.get(history).text) == {"known": "inconclusive", "unasked": "inconclusive"}


def test_plots_do_not_mix_runs_of_different_suites(own_project: Any, serve: Any) -> None:
    (own_project.path / "echo.py").write_text("def answer(input): return input\n", encoding="utf-8")
    for name in ("first", "second"):
        suite = {"suite": {"name": name, "agent": "echo:answer"}, "scenarios": [{"name": name, "input": "hi"}]}
        (own_project.path / f"{name}.json").write_text(json.dumps(suite), encoding="utf-8")
    for name, times in (("first", 3), ("second", 2)):
        for number in range(times):
            own_project.seatrial("run", f"{name}.json", f"--id={name}-{number}")
    served = serve(store=own_project.store, root=own_project.path)

    assert set(dots(served.get("/?q=-").text)) == {"first-0", "first-1", "first-2"}
    assert "Plots show the runs of first." in served.get("/?q=-").text
    assert set(dots(served.get("/?suite=second").text)) == {"second-0", "second-1"}


def test_a_run_is_compared_with_a_run_of_its_own_suite(own_project: Any, serve: Any) -> None:
    (own_project.path / "echo.py").write_text("def answer(input): return input\n", encoding="utf-8")
    other = {"suite": {"name": "other", "agent": "echo:answer"}, "scenarios": [{"name": "hi", "input": "hi"}]}
    (own_project.path / "other.json").write_text(json.dumps(other), encoding="utf-8")
    own_project.seatrial("baseline", "set", "good")
    for number in (1, 2):
        own_project.seatrial("run", "other.json", f"--id=other-{number}")
    served = serve(store=own_project.store, root=own_project.path)

    assert 'value="other-1" checked>from' in served.get("/").text
    assert re.findall(r'<option value="([^"]*)" selected', served.get("/compare").text) == ["other-1", "other-2"]
    assert "Compare with baseline" not in served.get("/runs/other-2").text
    assert "vs baseline" not in served.get("/runs/other-2").text
    assert "Compare with baseline" in served.get("/runs/bad").text


def test_a_conversation_marks_where_it_went_wrong(served: Any) -> None:
    found = page(served, f"/runs/bad/scenarios/{served.scenario('bad', 'crashes')}/trials/1")

    wrong = [attributes for _, attributes in found.tags if attributes.get("id") == "failed-step"]
    assert len(wrong) == 1
    assert "the agent broke" in found.text


def test_a_conversation_shows_calls_with_arguments_results_and_timings(served: Any) -> None:
    found = page(served, f"/runs/good/scenarios/{served.scenario('good', 'books a table')}/trials/1")

    assert 'check({"time": "19:00"}) → {"free": true}' in found.text
    assert "Booked for 19:00." in found.text
    assert "Timings" in found.text


def test_a_comparison_shows_both_conversations_and_where_they_part(served: Any) -> None:
    scenario = served.scenario("bad", "books a table")
    found = page(served, f"/compare/{scenario}?baseline_run_id=good&candidate_run_id=bad")

    assert "passing called book, failing called nothing more" in found.text
    assert "Booked for 19:00." in found.text
    assert "Sorry, no." in found.text


def test_a_page_that_is_not_there_says_so(served: Any) -> None:
    answer = served.get("/runs/nosuch")

    assert answer.status_code == 404
    assert "no run has the id" in Page(answer.text).text


def test_an_empty_store_says_how_to_begin(serve: Any, tmp_path: Any) -> None:
    served = serve(store=str(tmp_path / "new.db"), root=tmp_path)

    assert "No run is stored yet" in page(served, "/").text
    assert "At least two runs" in page(served, "/compare").text


def test_the_page_of_a_trial_shows_images_and_offers_files(serve: Any, tmp_path: Any) -> None:
    picture, file = b"\x89PNG picture", bytes(5_000_000)
    (tmp_path / "receipt.png").write_bytes(picture)
    (tmp_path / "page.html").write_bytes(file)
    scenario = seatrial.Scenario(
        name="x", input="What is it?", attach=[str(tmp_path / "receipt.png"), str(tmp_path / "page.html")]
    )
    store = str(tmp_path / "runs.db")
    contexts = [{"text": "<b>ten years</b>", "source": "law.md"}]
    report = seatrial.run(
        scenario, agent=lambda messages: seatrial.AgentResult("A receipt.", contexts=contexts), store=store
    )
    served = serve(store=store, root=tmp_path)

    found = page(served, f"/runs/{report.run.id}/scenarios/{served.scenario(report.run.id, 'x')}/trials/1")

    (image,) = found.all("img")
    assert image["src"] == f"data:image/png;base64,{b64encode(picture).decode()}"
    downloads = {each["download"]: str(each["href"]) for each in found.all("a") if "download" in each}
    assert downloads["page.html"] == f"data:application/octet-stream;base64,{b64encode(file).decode()}"
    assert "retrieved from law.md <b>ten years</b>" in found.text


def test_one_failure_in_thousands_is_not_rounded_away(own_project: Any, serve: Any) -> None:
    (own_project.path / "nearly.py").write_text("def answer(input): return input\n", encoding="utf-8")
    lines = [{"name": f"number {number}", "input": "yes", "expected_output": "yes"} for number in range(2_000)]
    lines[7]["expected_output"] = "no"
    many = {"suite": {"name": "many", "agent": "nearly:answer"}, "scenarios": lines}
    (own_project.path / "many.json").write_text(json.dumps(many), encoding="utf-8")
    for name in ("many", "many-again"):
        own_project.seatrial("run", "many.json", f"--id={name}")
    served = serve(store=own_project.store, root=own_project.path)

    text = served.get("/?suite=many").text

    assert "99.9 % of 2,000 trials passed" in text
    assert re.findall(r'<td class="number"><span title="[^"]*">([0-9.]+ %)', text)[0] == "99.9 %"


def test_the_page_of_a_run_loads_its_causes_with_links_to_the_trials(served: Any) -> None:
    assert 'hx-get="/runs/bad/causes"' in served.get("/runs/bad").text
    found = served.get("/runs/bad/causes").text
    assert "the passed trial went on with book" in found
    assert "trial-1</a>" in found


def test_the_list_of_runs_tells_of_a_slow_decay(serve: Any, tmp_path: Any) -> None:
    def answer(input: str, ctx: Any) -> str:
        return "sorry" if int(ctx.trial_id.rpartition("-")[2]) % failing[0] == 0 else "ok"

    store = str(tmp_path / "runs.db")
    scenario = seatrial.Scenario(name="refund", input="refund", expected_output="ok", threshold=0.1)
    runs = [("reference", 60, 20), *((name, 40, 4) for name in "abc")]
    failing = [0]
    for name, trials, failing[0] in runs:
        run = seatrial.run(scenario, agent=answer, store=store, name=name, trials=trials)
        with open_store(store) as opened:
            opened.set_baseline(run.run.id)
    served = serve(store=store)
    assert 'hx-get="/drift?"' in served.get("/").text
    found = served.get("/drift").text
    assert "the pass rate decays since run" in found
    assert 'id="trend" hx-swap-oob="true"' in found
    assert 'class="drift"' in found


def test_runs_are_filtered_by_branch(serve: Any, tmp_path: Any) -> None:
    store = str(tmp_path / "branches.db")
    with open_store(store) as opened:
        for name in ("main", "faster", None):
            run = Run(id=f"of-{name}", name=f"run of {name}", started_at=now(), git_branch=name)
            opened.start_run(run)
            opened.finish_run(run.id, RunState.FINISHED, now())
    served = serve(store=store)

    assert {"main", "faster"} <= {one.get("value") for one in page(served, "/").all("option")}
    shown = page(served, "/?branch=faster").text
    assert "run of faster" in shown
    assert "run of main" not in shown
    assert "run of None" not in shown
