"""Write src/seatrial/statistics/history_boundaries.txt: the boundaries of the gate against a history.

    python scripts/history_boundaries.py

One row for each length of the history, one column for each number of scenarios; values in hundredths. The result
depends on nothing but the code of `seatrial.statistics.history_gate`. It takes about 10 minutes on 2 cores.
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from seatrial.statistics.history_gate import DEFAULT_GATE, LONGEST_HISTORY, SHORTEST_HISTORY, ErrorOfBoundary

TABLE = Path(__file__).parents[1] / "src" / "seatrial" / "statistics" / "history_boundaries.txt"
_TO_HUNDRED = (*range(1, 11), 12, 14, 16, 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100)
SCENARIOS = (*_TO_HUNDRED, 120, 140, 160, 180, 200, 250, 300, 350, 400, 500, 600, 700, 800, 1000)


def make_row(total: int) -> list[int]:
    """The boundaries of one length of the history, for each number of scenarios."""
    error = ErrorOfBoundary(total)
    row: list[int] = []
    low = 0
    for scenarios in SCENARIOS:
        alpha, high = DEFAULT_GATE.alpha / scenarios, low + 1
        while error(high) > alpha:
            low, high = high, high + 32
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if error(middle) <= alpha else (middle, high)
        row.append(high)
        low = high - 1
    return row


def main() -> None:
    lengths = range(SHORTEST_HISTORY, LONGEST_HISTORY + 1)
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(make_row, lengths))
    lines = ["# Made by scripts/history_boundaries.py: history trials, then hundredths by number of scenarios."]
    lines.append(" ".join(["scenarios", *map(str, SCENARIOS)]))
    lines += [" ".join(map(str, [total, *row])) for total, row in zip(lengths, rows, strict=True)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
