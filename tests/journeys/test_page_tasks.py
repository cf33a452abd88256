"""Five questions, each answered in at most three steps from the list of runs, by mouse and by keyboard, over real runs.

A step opens a page or works a control. The keyboard reaches controls with Tab only, as people do.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.test_page_access import ARTIFACTS, CHROMIUM, FLAGS, labels_that_collide, require

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

ROOT = Path(__file__).parent.parent.parent
MOST_STEPS = 3
CHANNELS = ("chat", "e-mail", "phone notes", "app", "web form")
AGENT = """
import os, random, agent_right
from seatrial import AgentResult

def answer(messages, ctx):
    chance = random.Random(f"{ctx.trial_id}{ctx.scenario}")
    if "hands over" in ctx.scenario and chance.random() < 0.5:
        reply = "Could you say that in other words?"
    elif os.environ.get("VERSION") == "2" and "refunds a delivered order" in ctx.scenario:
        ctx.call_tool("verify_customer", {"customer_id": "C1", "postcode": "1010"})
        ctx.call_tool("refund_order", {"order_id": "W1", "amount": 50})
        reply = "You get a **refund of 50** for order W1."
    else:
        reply = agent_right.answer(messages, ctx)
    return AgentResult(output=reply, cost_usd=0.001)
"""
MANY = "def answer(input):\n    return 'sorry' if input.endswith('0') else 'shipped'\n"


@dataclass(frozen=True)
class Site:
    address: str


def judge(request: ReceivedRequest) -> ServerReply:
    """A judge that gives low scores where the agent paid too much back."""
    schema = json.loads(request.messages[0][1].rpartition("JSON Schema:\n")[2])
    bad = "refund of 50" in request.messages[-1][1]
    chance = random.Random(request.messages[-1][1])
    return ServerReply(content=json.dumps(_fill(schema, schema.get("$defs", {}), bad, chance)))


def _fill(schema: Any, named: Any, bad: bool, chance: random.Random) -> Any:
    if "$ref" in schema:
        return _fill(named[schema["$ref"].rpartition("/")[2]], named, bad, chance)
    if schema.get("type") == "object":
        return {key: _fill(one, named, bad, chance) for key, one in schema["properties"].items()}
    if schema.get("type") == "integer":
        return chance.choice((1, 2)) if bad else chance.choice((4, 5))
    return not bad if schema.get("type") == "boolean" else "It pays more than was paid." if bad else "It is right."


def write_project(path: Path, model: dict[str, str]) -> None:
    """47 scenarios of the shop, a suite of 10,000 trials, and their agents."""
    import yaml

    shop = ROOT / "examples" / "shop_world"
    for name in ("agent_right.py", "shop.py"):
        shutil.copy(shop / name, path / name)
    shutil.copy(shop / "shop.yaml", path / "seed.yaml")
    suite = yaml.safe_load((shop / "scenarios.yaml").read_text(encoding="utf-8"))
    head = suite["suite"]
    head["agent"] = {"type": "python", "target": "agent:answer", "tools": "all_wrapped"}
    head["world"] |= {"seed": "seed.yaml", "tools": "shop"}
    head["config"] = {"trials": 3, "models": {"judge": model}}
    scenarios = [{**one, "name": f"{one['name']}, {channel}"} for channel in CHANNELS for one in suite["scenarios"]]
    for one in scenarios[:10]:
        one |= {"metrics": ["helpfulness"], "expected_outcomes": ["The customer gets what is due."]}
    (path / "agent.py").write_text(AGENT, encoding="utf-8")
    (path / "shop.json").write_text(json.dumps({"suite": head, "scenarios": scenarios[:47]}), encoding="utf-8")
    (path / "many.py").write_text(MANY, encoding="utf-8")
    names = [f"asks where the late order of a customer is, number {number}" for number in range(500)]
    many = [{"name": name, "input": name, "expected_output": "shipped"} for name in names]
    head = {"name": "many", "agent": "many:answer", "config": {"trials": 20}}
    (path / "many.json").write_text(json.dumps({"suite": head, "scenarios": many}), encoding="utf-8")


def run_all(path: Path, environ: dict[str, str]) -> None:
    def seatrial(*args: str, version: str = "1") -> None:
        command = [sys.executable, "-m", "seatrial", *args]
        env = {**environ, "VERSION": version}
        subprocess.run(command, cwd=path, env=env, capture_output=True, check=False, timeout=300)

    seatrial("run", "many.json", "--id=large")
    for number in (1, 2, 3):
        seatrial("run", "shop.json", f"--id=night-{number}", "--name=nightly")
    seatrial("baseline", "set", "night-1")
    seatrial("run", "shop.json", "--id=night-4", "--name=nightly v2", version="2")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    import os

    require(CHROMIUM, "Chromium", "browser")
    path = tmp_path_factory.mktemp("tasks")
    with ModelServer(judge, model="scripted") as server:
        write_project(path, {"model": "openai:scripted", "base_url": server.base_url, "api_key": "none"})
        run_all(path, dict(os.environ))
    command = [sys.executable, "-m", "seatrial", "serve", "--port=0"]
    with subprocess.Popen(command, cwd=path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Site(process.stdout.readline().split()[3])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def chromium(site: Site) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Reader:
    """A person in front of the list of runs, who counts steps."""

    def __init__(self, page: Any, way: str) -> None:
        self.page = page
        self.way = way
        self.steps = 0

    def open_newest_run(self) -> None:
        self._open_row(self.page.get_by_role("link", name="nightly v2").first, "**/runs/night-4")

    def open_first_failure(self) -> None:
        if self.way == "keyboard":
            self.page.keyboard.press("n")
        else:
            self.page.locator("tr.bad td.why a").first.click()
        self._count("**/trials/**")

    def open_first_row(self, address: str) -> None:
        self._open_row(self.page.locator("tr[data-row] td.name a").first, address)

    def work(self, selector: str) -> None:
        """Click it, or Tab to it and press Enter."""
        if self.way == "keyboard":
            self.tab_to(selector)
            self.page.keyboard.press("Enter")
        else:
            self.page.locator(selector).first.click()
        self._count()

    def choose(self, selector: str, value: str) -> None:
        if self.way == "keyboard":
            self.tab_to(selector)
            self.page.keyboard.type(value)
        else:
            self.page.select_option(selector, value)
        self._count()

    def tab_to(self, selector: str) -> None:
        for _ in range(150):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    def _open_row(self, link: Any, address: str) -> None:
        if self.way == "keyboard":
            self.page.keyboard.press("j")
            self.page.keyboard.press("Enter")
        else:
            link.click()
        self._count(address)

    def _count(self, address: str | None = None) -> None:
        if address is not None:
            self.page.wait_for_url(address)
        self.steps += 1
        assert self.steps <= MOST_STEPS


@pytest.fixture(params=["mouse", "keyboard"])
def reader(chromium: Any, site: Site, request: pytest.FixtureRequest) -> Iterator[Reader]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=site.address)
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.goto("/")
    page.locator("svg.heatmap").wait_for()
    yield Reader(page, request.param)
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"task-{request.node.name}.png", full_page=True)
    context.close()


def test_why_did_this_scenario_fail(reader: Reader) -> None:
    reader.open_newest_run()
    reader.open_first_failure()

    assert "end state: " in reader.page.inner_text("header.top")
    assert "expected 40" in reader.page.inner_text("header.top")
    assert reader.page.locator("#failed-step").count() == 1


def test_what_changed_since_the_baseline(reader: Reader) -> None:
    reader.work("th button")
    reader.page.wait_for_url("**/compare?**")
    assert "nightly → nightly v2" in reader.page.inner_text("h1")
    assert "baseline_run_id=night-1" in reader.page.url
    reader.open_first_row("**/compare/**")

    different = "".join(reader.page.locator("tr.wrong").all_inner_texts())
    assert '"amount": 40' in different
    assert '"amount": 50' in different


def test_which_scenarios_are_flaky(reader: Reader) -> None:
    reader.open_newest_run()
    reader.choose("select[name=status]", "flaky")
    reader.page.wait_for_url("**status=flaky**")
    reader.page.wait_for_function("document.querySelectorAll('tr[data-row]').length < 40")

    names = reader.page.locator("tr[data-row] td.name").all_inner_texts()
    assert names
    assert all(name.startswith("hands over") for name in names)


def test_what_did_the_judge_say(reader: Reader) -> None:
    reader.open_newest_run()
    reader.open_first_failure()
    assert "It pays more than was paid." in reader.page.inner_text("#judge")
    reader.work("#judge details:last-of-type summary")

    assert '"summary": "It pays more than was paid."' in reader.page.locator("#judge details[open]").inner_text()


def test_what_did_this_call_change(reader: Reader) -> None:
    reader.open_newest_run()
    reader.open_first_failure()
    reader.work("details.call summary:has(.tag)")

    changed = reader.page.locator("details.call[open]").inner_text()
    assert 'orders.W1.status: "delivered" → "refunded"' in changed
    assert '"amount": 50' in changed


@pytest.mark.parametrize("path", ["/runs/large", "/runs/large?view=plots", "/runs/large?view=trials", "/?suite=many"])
def test_pages_of_10_000_trials_are_short_and_readable(chromium: Any, site: Site, path: str) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900}, base_url=site.address)
    answer = page.goto(path)

    assert len(answer.body()) < 150_000
    assert page.locator("tr[data-row]").count() <= 70
    assert labels_that_collide(page) == []
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"large-{abs(hash(path))}.png", full_page=True)
    page.close()


@pytest.mark.parametrize(
    "path", ["/", "/runs/night-4?view=plots", "/compare?baseline_run_id=night-1&candidate_run_id=night-4"]
)
def test_no_label_of_a_plot_covers_another_one(chromium: Any, site: Site, path: str) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900}, base_url=site.address)
    page.goto(path)
    page.locator("svg.plot").last.wait_for()

    assert labels_that_collide(page) == []
    page.close()
