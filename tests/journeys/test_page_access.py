"""Every page in Chromium: no serious fault that axe finds, no labels that cover others, sizes, pictures.

axe-core is an npm package. `make axe` installs it; without it, its tests are skipped, or fail with
SEATRIAL_REQUIRE_BROWSER=1.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.web.sample_store import NAMES, SUITE, a_mutation, fill

from seatrial.model.run import ScenarioKey
from seatrial.reports.registry import write_report
from seatrial.runs.mutation_tally import save_mutation
from seatrial.runs.report import StoredRecord
from seatrial.store.store import open_store
from seatrial.web.access import ServeOptions
from seatrial.web.app import make_app, make_config
from seatrial.web.urls import scenario_id

ROOT = Path(__file__).parent.parent.parent
ARTIFACTS = ROOT / "test-artifacts"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
BROKEN = scenario_id(ScenarioKey(SUITE, NAMES[9]))
BOTH = "baseline_run_id=night-1&candidate_run_id=night-7"
PAGES = {
    "runs": "/",
    "run": "/runs/night-7",
    "run-trials": "/runs/night-7?view=trials&status=failed",
    "run-plots": "/runs/night-7?view=plots",
    "scenario": f"/runs/night-7/scenarios/{BROKEN}",
    "trial": f"/runs/night-7/scenarios/{BROKEN}/trials/2",
    "beside": f"/runs/night-7/scenarios/{BROKEN}/trials/2/beside",
    "trial-passed": f"/runs/night-1/scenarios/{BROKEN}/trials/1",
    "mutation": "/runs/night-7/mutation",
    "choose": "/compare",
    "compare": f"/compare?{BOTH}",
    "side-by-side": f"/compare/{BROKEN}?{BOTH}",
    "unknown": "/runs/nosuch",
    "empty": "/?q=nosuch",
}


def require(found: object, what: str, target: str) -> None:
    if found:
        return
    text = f"{what} is not installed. Install it: make {target}"
    if os.environ.get("SEATRIAL_REQUIRE_BROWSER") == "1":
        pytest.fail(text)
    pytest.skip(text)


@dataclass(frozen=True)
class Site:
    address: str
    report: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require(CHROMIUM, "Chromium", "browser")
    folder = tmp_path_factory.mktemp("site")
    (folder / "shop.yaml").write_text(
        "suite: {name: shop, agent: 'a:b'}\nscenarios: [{name: x, input: hi}]\n", encoding="utf-8"
    )
    store = str(folder / "runs.db")
    with open_store(store) as opened:
        fill(opened)
        save_mutation(str(folder / "mutants.db"), a_mutation(opened, "night-7"))
        write_report("html", StoredRecord(opened, opened.run("night-7")), folder / "report.html")
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(make_config(make_app(ServeOptions(store=store, root=folder))))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield Site(f"http://127.0.0.1:{listening.getsockname()[1]}", folder / "report.html")
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture(scope="module")
def chromium(site: Site) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, site: Site) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=site.address)
    made = context.new_page()
    made.set_default_timeout(30_000)
    yield made
    context.close()


def keep(page: Any, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)


def faults_of(page: Any) -> list[str]:
    """What axe calls serious or critical."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_of_access(chromium: Any, site: Site, scheme: str) -> None:
    require(AXE.exists(), "axe-core", "axe")
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme=scheme, base_url=site.address, bypass_csp=True
    )
    page = context.new_page()
    faults = {}
    for name, path in {**PAGES, "report": site.report.as_uri()}.items():
        page.goto(path)
        page.locator("h1").first.wait_for()
        keep(page, f"access-{name}-{scheme}")
        faults[name] = faults_of(page)
    context.close()

    assert {name: found for name, found in faults.items() if found} == {}


COLLIDING = """() => [...document.querySelectorAll('.pan > svg.plot')].flatMap((svg) => {
  const texts = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const pan = svg.closest('.pan').getBoundingClientRect(), fits = svg.getBoundingClientRect().width <= pan.width + 1;
  const cut = texts.filter(([, box]) => fits && (box.left < pan.left - 1 || box.right > pan.right + 1));
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const pairs = texts.flatMap(([name, box], place) =>
    texts.slice(place + 1).filter(([, other]) => over(box, other)).map(([other]) => `${name} covers ${other}`));
  return [...cut.map(([name]) => `${name} is cut`), ...pairs];
})"""


def labels_that_collide(page: Any) -> list[str]:
    """The labels of plots that cover another one, or do not fit."""
    found: list[str] = page.evaluate(COLLIDING)
    return found


@pytest.mark.parametrize("width", [1440, 1920])
def test_no_label_of_a_plot_covers_another_one(chromium: Any, site: Site, width: int) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 900}, base_url=site.address)
    found = {}
    for name, path in {**PAGES, "report": site.report.as_uri()}.items():
        page.goto(path)
        page.locator("h1").first.wait_for()
        if name == "runs":
            page.locator("svg.heatmap").wait_for()
        found[name] = labels_that_collide(page)
    page.close()

    assert {name: labels for name, labels in found.items() if labels} == {}


def test_a_screen_shows_at_least_18_scenarios(page: Any) -> None:
    page.goto("/runs/night-7")
    inside = "rows => rows.filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"

    assert page.eval_on_selector_all("tr[data-row]", inside) >= 18


def test_pages_use_the_width_of_a_wide_screen(chromium: Any, site: Site) -> None:
    page = chromium.new_page(viewport={"width": 1920, "height": 1080}, base_url=site.address)
    for path in PAGES.values():
        page.goto(path)
        page.locator("h1").first.wait_for()
        assert page.eval_on_selector("main", "main => main.getBoundingClientRect().width") == 1600, path
    page.close()


def test_every_page_fits_a_phone(chromium: Any, site: Site) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 844}, base_url=site.address)
    for name, path in {**PAGES, "report": site.report.as_uri()}.items():
        page.goto(path)
        page.locator("h1").first.wait_for()
        keep(page, f"phone-{name}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.close()


def test_what_the_checks_miss_takes_two_clicks(page: Any) -> None:
    page.goto("/runs/night-7")
    page.get_by_role("link", name="Mutation score").click()
    page.locator("table.matrix td a").first.click()

    page.locator("details[open] table.aligned tr.wrong").first.wait_for()


def test_what_the_checks_miss_by_keyboard(page: Any) -> None:
    page.goto("/runs/night-7")
    page.get_by_role("link", name="Mutation score").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/mutation")
    page.locator("table.matrix td a").first.focus()
    page.keyboard.press("Enter")

    page.locator("details[open] table.aligned tr.wrong").first.wait_for()


def test_the_page_of_a_run_has_less_than_150_kb(page: Any) -> None:
    answer = page.request.get("/runs/night-7")

    assert len(answer.body()) < 150_000


def test_markdown_is_shown_and_raw_on_request(page: Any) -> None:
    page.goto(PAGES["trial-passed"])
    said = page.locator(".said.agent", has_text="refunded")

    assert said.locator("strong").inner_text() == "refunded"
    assert page.locator("main img").count() == 0
    said.get_by_role("button", name="raw").click()
    assert "**refunded**" in said.inner_text()


def test_the_first_tab_stop_leads_to_the_content(page: Any) -> None:
    page.goto("/runs/night-7")
    page.keyboard.press("Tab")

    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_a_run_without_colour_still_says_what_failed(page: Any) -> None:
    page.emulate_media(forced_colors="active")
    page.goto("/runs/night-7")

    marks = page.locator("tr.bad .mark")
    assert set(marks.all_inner_texts()) <= {"✗", "!", "?", "–"}
