"""Each example, as its README says: the commands are taken from there."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import seatrial

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PORTS = re.compile(r"\b812[34]\b")
INTEGRATED = {"langgraph": "integrations/langgraph/test_example.py"}
BY_HAND = {"real_model": "make real-model", "tau_bench": "examples/tau_bench/README.md: it needs a checkout"}


@dataclass(frozen=True)
class Example:
    """A copy of an example, with the commands of its README."""

    folder: Path
    commands: tuple[str, ...]

    def sh(self, number: int) -> tuple[int, str]:
        """Exit code and output of one of the blocks."""
        done = subprocess.run(
            ["bash", "-c", self.commands[number]],
            cwd=self.folder,
            env=environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


def environ() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SEATRIAL_", "PYTEST_"))}
    return {**clean, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Example]:
    def copy(name: str, *, into: str | None = None) -> Example:
        folder = tmp_path / (into or name)
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", ".seatrial", "*.db"))
        use_free_ports(folder)
        text = (folder / "README.md").read_text(encoding="utf-8")
        return Example(folder, tuple(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)))

    return copy


def use_free_ports(folder: Path) -> None:
    """Those that the examples name may be taken here."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    for file in folder.rglob("*"):
        if file.suffix in (".py", ".yaml", ".md"):
            file.write_text(PORTS.sub(port, file.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.fixture
def in_another_terminal() -> Iterator[Callable[[Example], None]]:
    """Starts the first block, and waits until it listens."""
    started = []

    def start(example: Example) -> None:
        command = [sys.executable, *example.commands[0].split()[1:]]
        server = subprocess.Popen(command, cwd=example.folder, stdout=subprocess.PIPE, text=True)
        started.append(server)
        assert server.stdout is not None
        assert server.stdout.readline().startswith("listening at http://127.0.0.1:")

    yield start
    for server in started:
        server.kill()
        server.communicate()


def test_every_example_has_a_page_and_is_run_by_a_test() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    folders = sorted(place.name for place in EXAMPLES.iterdir() if place.is_dir() and place.name != "__pycache__")
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert len(folders) >= 6
    assert [name for name in folders if f"({name})" not in listed] == []
    assert [name for name in folders if f'example("{name}"' not in tests and name not in INTEGRATED | BY_HAND] == []
    assert all((EXAMPLES.parent / test).is_file() for test in INTEGRATED.values())


def test_booking(example: Callable[..., Example]) -> None:
    booking = example("booking", into="examples/booking")
    above = Example(booking.folder.parent.parent, tuple(booking.commands[0].splitlines()))

    first, second, shown = (above.sh(number) for number in range(3))

    assert first[0] == 0, first[1]
    assert "4/4 scenarios passed" in first[1]
    assert second[0] == 1
    assert "Missing tool calls: change_booking" in shown[1]


def test_shop_world(example: Callable[..., Example]) -> None:
    shop = example("shop_world", into="examples/shop_world")
    above = Example(shop.folder.parent.parent, tuple(shop.commands[0].splitlines()))

    first, second, shown = (above.sh(number) for number in range(3))

    assert first[0] == 0, first[1]
    assert "10/10 scenarios passed" in first[1]
    assert second[0] == 1
    assert "orders.W2.status: expected 'cancelled', got 'pending' (no call changed it)" in shown[1]


@pytest.mark.parametrize(
    ("agent", "failed", "reason"),
    [
        ("never_verifies", 8, "without an earlier successful verify_customer"),
        ("only_talks", 2, "orders.W2.status: expected 'cancelled', got 'pending'"),
        ("too_generous", 2, "refunds[0].amount: expected 40.0, got 50.0 (changed by refund_order in turn 1)"),
        ("ignores_errors", 1, "contains the forbidden 'on its way'"),
    ],
)
def test_each_wrong_agent_of_the_shop_is_found_out(
    agent: str, failed: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    target = {"type": "python", "target": f"examples.shop_world.agents_wrong:{agent}", "tools": "all_wrapped"}

    report = seatrial.run(EXAMPLES / "shop_world" / "scenarios.yaml", agent=target, store=None)

    found = [trial for trial in report.trials() if trial.status.value != "passed"]
    assert [trial.status.value for trial in found] == ["failed"] * failed
    assert any(reason in text for trial in found for text in trial.failure_reasons)


def test_endpoint(example: Callable[..., Example], in_another_terminal: Callable[[Example], None]) -> None:
    endpoint = example("endpoint")
    in_another_terminal(endpoint)

    code, said = endpoint.sh(1)

    assert code == 0, said
    assert "4/4 scenarios passed\nPASS\n" in said


def test_the_endpoint_that_does_not_try_again_is_found_out(
    example: Callable[..., Example], in_another_terminal: Callable[[Example], None]
) -> None:
    endpoint = example("endpoint")
    server = endpoint.folder / "server.py"
    server.write_text(server.read_text("utf-8").replace("TRIES = 3", "TRIES = 1"), "utf-8")
    in_another_terminal(endpoint)

    code, said = endpoint.sh(1)

    assert code == 1
    assert "✗ tries again when the mail fails" in said
    assert "3/4 scenarios passed" in said


def test_pytest_project(example: Callable[..., Example]) -> None:
    project = example("pytest_project")
    whole, money = project.commands[0].splitlines()

    code, said = Example(project.folder, (whole,)).sh(0)
    of_money, about_money = Example(project.folder, (money,)).sh(0)

    assert code == 0, said
    assert "1 failed, 9 passed" in said
    assert "group wording: 3/4 passed, 0.75 of them must: PASSED" in said
    assert of_money == 0
    assert "5 passed, 5 deselected" in about_money


def test_simulated_user(example: Callable[..., Example], in_another_terminal: Callable[[Example], None]) -> None:
    simulated = example("simulated_user")
    in_another_terminal(simulated)

    code, said = simulated.sh(1)

    assert code == 0, said
    assert "✓ trial-3 (2 turns, goal met, trajectory matched)" in said


def test_compare_in_ci(example: Callable[..., Example]) -> None:
    compared = example("compare_in_ci")

    main, said = compared.sh(0)
    worse, about_worse = compared.sh(1)
    (compared.folder / "pull-request.db").unlink()
    same, about_same = Example(compared.folder, ("sh pull_request.sh",)).sh(0)

    assert main == 0, said
    assert worse == 1, about_worse
    assert "REGRESSION" in about_worse.upper()
    assert same == 0, about_same
