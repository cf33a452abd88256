"""Everything that is promised about speed, in one table and one JSON file: `make bench`, `make bench-peers`.

What is compared is taken in turns, so that a busy machine hits all alike, and medians are shown. A floor is the least
that the work could take in Python: a bare loop that does the same and nothing else. CPU seconds are steadier than wall
seconds where other work goes on. Each part also has a script of its own.

    python benchmarks/bench.py [--rounds 3] [--only NAME ...] [--largest 100000] [--peers] [--output FILE]
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import conversations
import listing
import load
import peers
import sleeping
import throughput

HERE = Path(__file__).resolve().parent
SEATRIAL = str(Path(sys.executable).parent / "seatrial")
PEER_COUNTS = ((1, 5), (1_000, 3), (10_000, 1))
"""(scenarios, rounds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    name: str
    who: str = "seatrial"
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_mb: float | None = None
    stored_mb: float | None = None
    wall_ratio: float | None = None
    """Of seatrial to this floor or peer; for seatrial itself none."""
    cpu_ratio: float | None = None


Rows = Iterator[Figure]


def beside(name: str, medians: dict[str, list[float]]) -> Rows:
    """Seatrial's (wall, CPU, peak, stored) first, and everybody else's with what share of it we take."""
    ours = medians["seatrial"]
    for who in ["seatrial", *(who for who in medians if who != "seatrial")]:
        wall, cpu, peak, stored = (*medians[who], None)[:4]
        other = who != "seatrial"
        yield Figure(
            name=name,
            who=who,
            wall_s=wall,
            cpu_s=cpu,
            peak_mb=peak if peak > own_megabytes() else None,
            stored_mb=stored,
            wall_ratio=ours[0] / wall if other and wall else None,
            cpu_ratio=ours[1] / cpu if other and cpu else None,
        )


def own_megabytes() -> float:
    """What this process takes; the system counts it for a child that never takes more, so less cannot be told."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + 1


def in_turns(plays: dict[str, Callable[[], tuple[float, float, float]]], *, rounds: int) -> dict[str, list[float]]:
    """The medians of each; the first round of several only warms the disk."""
    figures: dict[str, list[tuple[float, float, float]]] = {who: [] for who in plays}
    for turn in range(rounds + (rounds > 1)):
        for who, play in plays.items():
            taken = play()
            if turn or rounds == 1:
                figures[who].append(taken)
    return {who: [statistics.median(column) for column in zip(*rows, strict=True)] for who, rows in figures.items()}


def measured(command: list[str], folder: Path, *, says: str = "") -> Callable[[], tuple[float, float, float]]:
    def play() -> tuple[float, float, float]:
        wall, cpu, peak, output = throughput.measure(command, folder)
        assert says in output, f"{command}: {output[-500:]!r} does not say {says!r}"
        return wall, cpu, peak

    return play


def cold_start(rounds: int) -> Rows:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        throughput.write_suite(folder / "suite.jsonl", 1)
        (folder / "bench_agent.py").write_text(throughput.AGENT, encoding="utf-8")
        run = [SEATRIAL, "run", "suite.jsonl", "--agent", "bench_agent:answer"]
        bare = measured([sys.executable, "-c", "pass"], folder)
        plays = {"seatrial": measured(run, folder, says="PASS"), "bare python": bare}
        yield from beside("cold start, one scenario", in_turns(plays, rounds=3 * rounds))
        plays = {"seatrial": measured([sys.executable, "-c", "import seatrial"], folder), "bare python": bare}
        yield from beside("import seatrial", in_turns(plays, rounds=3 * rounds))


def instant(rounds: int, largest: int) -> Rows:
    for count in (1_000, 10_000, 100_000):
        if count <= largest:
            medians = throughput.compare(count, rounds=rounds if count < 100_000 else 1)
            yield from beside(f"{count:,} instant scenarios", medians)
    for trials in (10, 100):
        if 1_000 * trials <= largest:
            medians = throughput.compare(1_000, trials=trials, rounds=rounds if trials < 100 else 1)
            yield from beside(f"1,000 instant scenarios x {trials} trials", medians)


def waiting(rounds: int) -> Rows:
    for label, agent, floor in (
        ("sync", sleeping.answer, None),
        ("async", sleeping.answer_async, asyncio_floor),
    ):
        name = f"1,000 x 0.1 s, {label}, 100 at a time"
        wall = sleeping.measure(agent, rounds=rounds)
        yield Figure(name=name, wall_s=wall)
        least = 1.0 if floor is None else statistics.median(floor() for _ in range(rounds))
        yield Figure(name=name, who="floor" if floor else "floor (10 x 0.1 s)", wall_s=least, wall_ratio=wall / least)


def asyncio_floor() -> float:
    async def all_of_them() -> None:
        free = asyncio.Semaphore(100)

        async def one() -> None:
            async with free:
                await sleeping.answer_async("x")

        await asyncio.gather(*(one() for _ in range(sleeping.TRIALS)))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - started


def talking(rounds: int) -> Rows:
    with conversations.serving() as bench:
        floor, seatrial = bench.measure_long(rounds)
    yield from beside("100 conversations x 20 turns", {"seatrial": seatrial, "floor": floor})


def loading(rounds: int) -> Rows:
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        pairs = [load.measure_yaml(Path(name)) for _ in range(rounds)]
        lines = [load.measure_jsonl(Path(name)) for _ in range(rounds)]
    ours, alone = (statistics.median(column) for column in zip(*pairs, strict=True))
    yield Figure(name="load 10,000 from YAML", cpu_s=ours)
    yield Figure(name="load 10,000 from YAML", who="yaml.load alone", cpu_s=alone, cpu_ratio=ours / alone)
    yield Figure(name="load 10,000 from JSONL", cpu_s=statistics.median(lines))


def reading(rounds: int) -> Rows:
    for command, seconds in listing.measure(rounds=rounds).items():
        yield Figure(name=f"{command}, 10,000 trials", wall_s=seconds)


def against_peers(rounds: int) -> Rows:
    there = peers.installed_peers()
    if not there:
        raise SystemExit("bench: no peer is installed. Install them: make bench-peers")
    for count, at_most in PEER_COUNTS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            peers.write_peers(folder, count)
            (folder / "bench_agent.py").write_text(throughput.AGENT, encoding="utf-8")
            passed = f"{count - count // 97:,}/{count:,} scenario"
            run = [SEATRIAL, "run", "suite.jsonl", "--agent", "bench_agent:answer"]
            plays = {"seatrial": fresh(folder, measured(run, folder, says=passed))}
            for peer in there:
                found = f"failed {count // 97}\n"
                plays[f"{peer} {peers.version_of(peer)}"] = measured(peers.command_of(peer), folder, says=found)
            yield from beside(
                "cold start beside peers" if count == 1 else f"{count:,} scenarios beside peers",
                in_turns(plays, rounds=min(rounds, at_most)),
            )


def fresh(folder: Path, play: Callable[[], tuple[float, float, float]]) -> Callable[[], tuple[float, float, float]]:
    """With an empty store each time."""

    def again() -> tuple[float, float, float]:
        shutil.rmtree(folder / ".seatrial", ignore_errors=True)
        return play()

    return again


def show(row: Figure) -> str:
    def cell(value: float | None, text: str, width: int) -> str:
        return (text.format(value) if value is not None else "").rjust(width)

    return (
        f"{row.name:42} {row.who:26}{cell(row.wall_s, '{:.3f} s', 12)}{cell(row.cpu_s, '{:.3f} s', 12)}"
        f"{cell(row.peak_mb, '{:.0f} MB', 9)}{cell(row.stored_mb, '{:.1f} MB', 10)}"
        f"{cell(row.wall_ratio, '{:.2f}x', 9)}{cell(row.cpu_ratio, '{:.2f}x', 9)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=100_000, help="leave out larger suites than this")
    parser.add_argument("--peers", action="store_true", help="beside other tools, instead of the floors")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cold instant waiting talking loading reading")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rounds = options.rounds
    # Without compiled modules every start would be measured as a first one.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parts: dict[str, Callable[[], Rows]] = {
        "cold": lambda: cold_start(rounds),
        "instant": lambda: instant(rounds, options.largest),
        "waiting": lambda: waiting(rounds),
        "talking": lambda: talking(rounds),
        "loading": lambda: loading(rounds),
        "reading": lambda: reading(rounds),
    }
    if options.peers:
        parts = {"peers": lambda: against_peers(rounds)}
    unknown = [name for name in options.only or () if name not in parts]
    if unknown:
        raise SystemExit(f"bench: unknown part {unknown[0]!r}. Known: {', '.join(parts)}")
    head = f"{'':42} {'':26}{'wall':>12}{'CPU':>12}{'memory':>9}{'store':>10}{'of wall':>9}{'of CPU':>9}"
    print(head)
    rows: list[Figure] = []
    for name, part in parts.items():
        if options.only is None or name in options.only:
            for row in part():
                print(show(row), flush=True)
                rows.append(row)
    output = options.output or HERE / ("results-peers.json" if options.peers else "results.json")
    output.write_text(json.dumps({"machine": machine(), "figures": [asdict(row) for row in rows]}, indent=1) + "\n")
    print(f"wrote {output}")


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": [round(each, 2) for each in os.getloadavg()],
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


if __name__ == "__main__":
    main()
