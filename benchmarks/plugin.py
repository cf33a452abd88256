"""What the pytest plugin costs: nothing where it is not used, and next to nothing per scenario where it is.

Unused: `pytest --collect-only` in a project of ten plain tests, in virtual environments that differ by one package.
Used: 1,000 scenarios as pytest items, beside 1,000 empty tests and `seatrial run` of the same file at concurrency 1.
Processor time is compared, the least of several rounds, taken in turns, so that a busy machine does not decide. Then
all of it again on one processor: there it does not matter what it costs the machine to wake another for the agent.
With `--instructions` the instructions that are carried out are counted as well, which are the same on every machine;
it takes valgrind, and a minute. (It slows everything fifty times, so that scenarios are committed one by one there.)

    python benchmarks/plugin.py [--rounds 9] [--peers] [--items 1000] [--instructions]
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
PEERS = ("deepeval", "pytest-agent-eval")
MOST_MS = 20.0
MOST_SHARE = 1.2


def make_environment(folder: Path, *packages: str) -> Path:
    """The Python of a new virtual environment with pytest and the packages in it."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "pytest", *packages], check=True)
    return python


def measure(command: list[str], folder: Path, *, expect: int = 0) -> tuple[float, float]:
    """(processor time, elapsed time) of a process and its children, in milliseconds."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if done.returncode != expect:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000, (ended - began) * 1000


def least(commands: dict[str, tuple[list[str], Path]], rounds: int) -> dict[str, tuple[float, float]]:
    """The least of each, over rounds in which they take turns; the first round only warms up."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, (command, folder) in commands.items():
            figures = measure(command, folder)
            if turn:
                found[name].append(figures)
    return {name: (min(c for c, _ in all_), min(w for _, w in all_)) for name, all_ in found.items()}


def measure_unused(scratch: Path, rounds: int, *, peers: bool) -> tuple[bool, Path]:
    """Whether an unused plugin stays within its limit, and the Python that has it."""
    project = scratch / "plain"
    project.mkdir()
    for number in range(10):
        (project / f"test_{number}.py").write_text("def test_plain():\n    pass\n")
    pythons = {"pytest alone": make_environment(scratch / "bare")}
    # The same packages without the plugin being loaded would hide what its entry point costs, so: with and without.
    pythons["seatrial"] = make_environment(scratch / "ours", str(HOME))
    for peer in PEERS if peers else ():
        pythons[peer] = make_environment(scratch / peer, peer)
    collect = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    commands = {name: ([str(python), *collect], project) for name, python in pythons.items()}
    switched_off = [str(pythons["seatrial"]), *collect, "-p", "no:seatrial", "-p", "no:anyio"]
    commands["seatrial, plugin off"] = (switched_off, project)
    commands["seatrial, other plugins off"] = ([str(pythons["seatrial"]), *collect, "-p", "no:anyio"], project)
    found = least(commands, rounds)
    base = found["pytest alone"]
    print(f"{'unused, --collect-only':32}{'processor ms':>14}{'elapsed ms':>12}{'more than pytest alone':>24}")
    for name, (processor, elapsed) in found.items():
        print(f"{name:32}{processor:14.0f}{elapsed:12.0f}{processor - base[0]:+24.0f}")
    added = found["seatrial, other plugins off"][0] - found["seatrial, plugin off"][0]
    print(f"the plugin itself adds {added:+.1f} ms (limit: {MOST_MS:g})")
    return added <= MOST_MS, pythons["seatrial"]


def measure_used(scratch: Path, python: Path, rounds: int, items: int, *, instructions: bool) -> bool:
    """Whether scenarios as pytest items cost what they may."""
    project, empty = scratch / "used", scratch / "empty"
    project.mkdir()
    empty.mkdir()
    (project / "agent.py").write_text("def answer(input):\n    return input\n")
    scenarios = "\n".join(f"  - {{name: s{n}, input: hello {n}, expected_output: hello}}" for n in range(items))
    (project / "a.trial.yaml").write_text(f"suite: {{agent: 'agent:answer'}}\nscenarios:\n{scenarios}\n")
    (empty / "test_empty.py").write_text("\n".join(f"def test_{n}():\n    pass\n" for n in range(items)))
    plain = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = [str(python), "-m", "seatrial", "run", "a.trial.yaml", "--concurrency", "1"]
    commands = {"empty": (plain, empty), "run": (run, project), "items": (plain, project)}
    held = compare_items(f"{items} of each", least(commands, rounds))
    if hasattr(os, "sched_setaffinity"):
        with on_one_processor():
            compare_items("the same on one processor", least(commands, rounds))
    if instructions:
        count_instructions(commands)
    return held


def count_instructions(commands: dict[str, tuple[list[str], Path]]) -> None:
    """What they cost in instructions of their own; those of the kernel are not counted."""
    found = {}
    for name, (command, folder) in commands.items():
        tally = folder / "instructions.txt"
        measure(["valgrind", "--tool=cachegrind", f"--cachegrind-out-file={tally}", *command], folder)
        summary = tally.read_text(encoding="utf-8").rpartition("summary:")[2]
        found[name] = int(summary.split()[0]) / 1e6
        print(f"{name:32}{found[name]:14.0f} million instructions")
    may = found["empty"] + MOST_SHARE * found["run"]
    print(f"instructions: {found['items']:.0f} million; may cost {may:.0f} ({found['items'] / may:.2f})")


@contextmanager
def on_one_processor() -> Iterator[None]:
    """For this process and those that it starts."""
    all_ = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_)


def compare_items(title: str, found: dict[str, tuple[float, float]]) -> bool:
    """Whether items took no more processor time than they may."""
    print(f"\n{title:32}{'processor ms':>14}{'elapsed ms':>12}")
    for name, (processor, elapsed) in found.items():
        print(f"{name:32}{processor:14.0f}{elapsed:12.0f}")
    shares = []
    for index, kind in enumerate(("processor", "elapsed")):
        may = found["empty"][index] + MOST_SHARE * found["run"][index]
        shares.append(found["items"][index] / may)
        print(f"{kind}: {found['items'][index]:.0f} ms; may cost {may:.0f} ms ({shares[-1]:.2f})")
    return shares[0] <= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--peers", action="store_true", help="Install deepeval and pytest-agent-eval beside it.")
    parser.add_argument("--instructions", action="store_true", help="Count instructions as well, by valgrind.")
    options = parser.parse_args()
    if options.instructions and shutil.which("valgrind") is None:
        parser.error("--instructions: there is no valgrind here")
    with tempfile.TemporaryDirectory() as folder:
        unused, python = measure_unused(Path(folder), options.rounds, peers=options.peers)
        used = measure_used(Path(folder), python, options.rounds, options.items, instructions=options.instructions)
    raise SystemExit(0 if unused and used else 1)


if __name__ == "__main__":
    main()
