"""The pages in a real Chromium, over a store filled by real runs: the ways that people take."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
ARTIFACTS = ROOT / "test-artifacts"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'><b>bold</b> {{ 7*7 }} javascript:alert(3)"
WAITING = """
import os, pathlib, time

def wait(input):
    while input == "wait" and not pathlib.Path("gate").exists():
        time.sleep(0.02)
    return "done"

def step(input):
    while not pathlib.Path(input).exists():
        time.sleep(0.02)
    return "done"

def hostile(messages, ctx):
    ctx.call_tool("look", {"where": HOSTILE})
    return HOSTILE
"""


@dataclass(frozen=True)
class Site:
    """A project that is served."""

    path: Path
    address: str


def seatrial(path: Path, *args: str) -> None:
    subprocess.run([sys.executable, "-m", "seatrial", *args], cwd=path, capture_output=True, check=False, timeout=60)


def fill(path: Path) -> None:
    """Runs of the example: two that pass, one of a version that forgets to move bookings, one that is hostile."""
    shutil.copytree(ROOT / "examples", path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (path / "waiting.py").write_text(f"HOSTILE = {HOSTILE!r}\n{WAITING}", encoding="utf-8")
    slow = [{"name": name, "input": name} for name in ("quick", "wait")]
    head = {"name": "slow", "agent": "waiting:wait", "config": {"concurrency": 1}}
    (path / "slow.yaml").write_text(json.dumps({"suite": head, "scenarios": slow}), encoding="utf-8")
    steps = [{"name": name, "input": name} for name in ("first", "second", "third")]
    head = {"name": "steps", "agent": "waiting:step", "config": {"concurrency": 1}}
    (path / "steps.yaml").write_text(json.dumps({"suite": head, "scenarios": steps}), encoding="utf-8")
    mocks = {"look": {"returns": {"found": HOSTILE}}}
    head = {"name": HOSTILE, "agent": "waiting:hostile", "config": {"mocks": mocks}}
    bad = {"name": HOSTILE, "input": HOSTILE, "expected_output": f"{HOSTILE} and more", "tags": [HOSTILE]}
    (path / "hostile.json").write_text(json.dumps({"suite": head, "scenarios": [bad]}), encoding="utf-8")
    suite = "examples/booking/scenarios.yaml"
    for number in (1, 2):
        seatrial(path, "run", suite, "--trials=4", f"--id=good-{number}", "--name=booking v1")
    second = "{type: python, target: examples.booking.agent_v2:answer, tools: all_wrapped}"
    seatrial(path, "run", suite, "--trials=4", "--id=bad", "--name=booking v2", f"--agent={second}")
    seatrial(path, "run", "hostile.json", "--id=hostile", f"--name={HOSTILE}", "--report=html=report.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if CHROMIUM is None:
        if os.environ.get("SEATRIAL_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium is installed, and SEATRIAL_REQUIRE_BROWSER=1. Install it: make browser")
        pytest.skip("no Chromium is installed, so the pages were not tried in a browser. Install it: make browser")
    path = tmp_path_factory.mktemp("site")
    fill(path)
    command = [sys.executable, "-m", "seatrial", "serve", "--port=0"]
    with subprocess.Popen(command, cwd=path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Site(path, process.stdout.readline().split()[3])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def chromium(site: Site) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page in the browser, and everything that it complained of."""

    def __init__(self, page: Any, site: Site) -> None:
        self.page = page
        self.site = site
        self.complaints: list[str] = []
        page.set_default_timeout(30_000)
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def go(self, path: str) -> None:
        self.page.goto(self.site.address + path)

    def keep(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    def click(self, name: str) -> None:
        self.page.get_by_role("link", name=name, exact=True).first.click()

    def rows(self) -> list[str]:
        return [row.strip() for row in self.page.locator("tr[data-row] td.name > a").all_inner_texts()]

    def wait_for_rows(self, count: int) -> None:
        from playwright.sync_api import expect

        expect(self.page.locator("tr[data-row]")).to_have_count(count, timeout=30_000)

    def wait_until_in_view(self, selector: str) -> None:
        """The browser scrolls to the part of the address behind # after the page has loaded."""
        place = "const r = document.querySelector(it)?.getBoundingClientRect()"
        seen = f"it => {{ {place}; return r && r.top < innerHeight && r.bottom > 0 }}"
        self.page.wait_for_function(seen, arg=selector)


@pytest.fixture
def visit(chromium: Any, site: Site) -> Iterator[Visit]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    made = Visit(context.new_page(), site)
    yield made
    context.close()
    assert made.complaints == []


def test_from_the_list_of_runs_to_the_failing_step(visit: Visit) -> None:
    visit.go("/")
    visit.page.locator("td .verdict").first.wait_for()
    visit.keep("runs")
    visit.click("booking v2")
    visit.keep("run")
    visit.click("moves a booking")
    visit.keep("scenario")
    visit.click("trial-2")

    visit.wait_until_in_view("#failed-step")
    assert "Missing tool calls: change_booking" in visit.page.inner_text("#failed-step")
    visit.keep("trial")


def test_keys_choose_and_open_rows_and_find_the_search(visit: Visit) -> None:
    visit.go("/runs/bad?order=order")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("k")
    assert visit.page.inner_text("tr.chosen a") == "does not book what is taken"
    visit.page.keyboard.press("/")
    assert visit.page.evaluate("document.activeElement.type") == "search"
    visit.page.keyboard.type("jk")
    assert visit.page.input_value("input[type=search]") == "jk"
    visit.page.keyboard.press("Escape")
    visit.go("/runs/bad?order=order")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/scenarios/**")
    assert "books a table" in visit.page.inner_text("h1")


def test_a_filter_narrows_the_list_at_once(visit: Visit) -> None:
    visit.go("/runs/bad")
    assert len(visit.rows()) == 4
    visit.page.fill("input[type=search]", "MOVES")
    visit.wait_for_rows(1)
    assert visit.rows() == ["moves a booking"]
    visit.page.fill("input[type=search]", "")
    visit.page.select_option("select[name=status]", "passed")
    visit.wait_for_rows(3)
    visit.page.get_by_text("trials", exact=True).click()
    visit.wait_for_rows(12)
    assert "view=trials" in visit.page.url


def test_a_filter_without_an_answer_leaves_no_rows_of_the_one_before(visit: Visit) -> None:
    visit.go("/runs/bad")
    assert len(visit.rows()) == 4
    visit.page.fill("input[type=search]", "x" * 201)
    visit.page.get_by_text("should have at most 200 characters").wait_for()
    visit.wait_for_rows(0)
    visit.page.fill("input[type=search]", "moves")
    visit.wait_for_rows(1)
    visit.page.route("**/runs/bad?**", lambda route: route.abort())
    visit.page.fill("input[type=search]", "books")
    visit.page.get_by_text("The server cannot be reached.").wait_for()
    visit.wait_for_rows(0)
    visit.complaints.clear()  # the console tells of both, as it should


def test_trials_are_found_by_what_was_said_as_one_types(visit: Visit) -> None:
    visit.go("/runs/bad?view=trials")
    visit.wait_for_rows(16)
    assert not visit.page.locator("select[name=order]").is_visible(), "trials have no other order"
    visit.page.fill("input[type=search]", "sorry, make it 20")
    visit.wait_for_rows(4)


def test_two_runs_are_compared_down_to_their_conversations(visit: Visit) -> None:
    visit.go("/")
    visit.page.check("input[name=baseline_run_id][value=good-1]")
    visit.page.check("input[name=candidate_run_id][value=bad]")
    visit.page.get_by_role("button", name="Compare").click()
    assert "REGRESSION" in visit.page.inner_text("h1")
    visit.keep("compare")
    visit.click("moves a booking")

    assert "passing called change_booking, failing called nothing more" in visit.page.inner_text("header.top")
    assert visit.page.locator("tr.wrong").count() == 1
    assert visit.page.locator("table.aligned th a").count() == 2, "both conversations"
    visit.keep("side-by-side")


def test_a_run_is_started_watched_and_cancelled(visit: Visit) -> None:
    visit.go("/")
    visit.page.select_option("select[name=path]", "slow.yaml")
    visit.page.fill("input[name=name]", "from the page")
    visit.page.get_by_role("button", name="Start").click()
    visit.page.get_by_text("1 of 2 trials: 1 passed, 0 failed, 0 errored").wait_for()
    visit.page.locator("#listed").get_by_text("1/1").wait_for()
    visit.keep("live")
    visit.page.get_by_role("button", name="Cancel").click()
    visit.page.get_by_text("interrupted").first.wait_for()

    assert visit.page.locator(".verdict.passed").count() == 0
    visit.keep("cancelled")


def test_a_run_that_was_cancelled_is_resumed_to_its_end(visit: Visit, site: Site) -> None:
    visit.go("/")
    visit.page.select_option("select[name=path]", "slow.yaml")
    visit.page.get_by_role("button", name="Start").click()
    visit.page.get_by_text("1 of 2 trials").wait_for()
    visit.page.get_by_role("button", name="Cancel").click()
    visit.page.get_by_role("button", name="Resume").click()
    (site.path / "gate").touch()
    visit.page.locator("h1 .verdict.passed").wait_for()
    assert visit.page.get_by_role("button", name="Resume").count() == 0
    (site.path / "gate").unlink()


def test_a_running_run_shows_how_it_ends(visit: Visit, site: Site) -> None:
    visit.go("/")
    visit.page.select_option("select[name=path]", "slow.yaml")
    visit.page.get_by_role("button", name="Start").click()
    visit.page.get_by_text("1 of 2 trials").wait_for()
    (site.path / "gate").touch()
    visit.page.locator("h1 .verdict.passed").wait_for()
    (site.path / "gate").unlink()


def test_a_running_run_renews_all_its_numbers_and_leaves_the_reader_in_place(visit: Visit, site: Site) -> None:
    visit.go("/")
    visit.page.select_option("select[name=path]", "steps.yaml")
    visit.page.get_by_role("button", name="Start").click()
    visit.page.get_by_text("0 of 3 trials").wait_for()
    visit.page.select_option("select[name=order]", "order")
    visit.page.wait_for_url("**order=order**")
    mark = "document.documentElement.dataset.back = 'yes'"
    visit.page.evaluate(f"document.addEventListener('htmx:historyRestore', () => {{ {mark} }})")
    visit.page.go_back()
    visit.page.locator("html[data-back]").wait_for(state="attached")
    for _ in range(2):
        visit.page.keyboard.press("j")
    visit.page.get_by_role("link", name="third", exact=True).focus()
    (site.path / "first").touch()
    visit.page.locator("#listed").get_by_text("1/1").wait_for()

    visit.page.get_by_text("1 of 3 trials: 1 passed, 0 failed, 0 errored").wait_for()
    visit.page.get_by_text("1/3 scenarios passed").wait_for()
    assert visit.page.inner_text("tr.chosen a") == "second"
    assert visit.page.evaluate("document.activeElement.textContent") == "third"
    for name in ("second", "third"):
        (site.path / name).touch()
    visit.page.locator("h1 .verdict.passed").wait_for()


def test_a_trial_is_labelled(visit: Visit) -> None:
    visit.go("/runs/bad")
    visit.click("moves a booking")
    visit.click("trial-1")
    visit.page.fill("input[name=who]", "Ada")
    visit.page.get_by_role("button", name="It failed").click()
    visit.page.get_by_text("Ada,").wait_for()

    assert "failed" in visit.page.inner_text("#labels p")
    visit.keep("label")


@pytest.mark.parametrize("path", ["/", "/runs/hostile", "/runs/hostile?view=trials", "/compare"])
def test_hostile_texts_do_nothing(visit: Visit, path: str) -> None:
    visit.go(path)
    assert "<script>alert(1)</script>" in visit.page.content().replace("&lt;", "<").replace("&gt;", ">")
    for name in ("scenarios", "trials"):
        link = visit.page.locator(f"tr[data-row] a[href*='/{name}/']").first
        if link.count():
            link.click()
    assert visit.page.locator("img").count() == 0
    if path == "/runs/hostile":
        visit.wait_until_in_view("#failed-step")
        visit.keep("hostile")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390), ("dark", 390)])
def test_pages_fit_small_screens_and_dark_mode(chromium: Any, site: Site, scheme: str, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    visit = Visit(context.new_page(), site)
    for name, path in (
        ("runs", "/"),
        ("run", "/runs/bad"),
        ("compare", "/compare?baseline_run_id=good-1&candidate_run_id=bad"),
    ):
        visit.go(path)
        visit.keep(f"{name}-{scheme}-{width}")
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        hidden = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length"
        assert visit.page.evaluate(hidden) == 0, path
    visit.go("/runs/bad")
    visit.click("moves a booking")
    visit.click("trial-1")
    visit.keep(f"trial-{scheme}-{width}")
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", dark)[0]) < 60) == (scheme == "dark")
    context.close()
    assert visit.complaints == []


def test_the_report_in_one_file_opens_without_a_server(visit: Visit, site: Site) -> None:
    visit.page.goto((site.path / "report.html").as_uri())

    assert "FAIL" in visit.page.inner_text("h1")
    assert visit.page.locator("img, script").count() == 0
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius") != "0px"
    visit.keep("report")
