"""How long loading takes: 10,000 scenarios from YAML against PyYAML alone, and from JSONL up to their fingerprints."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import yaml

from seatrial.scenarios.fingerprint import fingerprints
from seatrial.scenarios.load import load

COUNT = 10_000
SCENARIO = """  - name: order_{n}
    input: "What is the status of order #{n}?"
    expected_tools: [lookup_order]
    expected_tool_args: {{lookup_order: {{order_id: "ORD-{n}"}}}}
    expected_output: "ORD-{n}"
    tags: [tools, read]
"""


def measure_yaml(folder: Path) -> tuple[float, float]:
    """CPU seconds: ours, and those of `yaml.load` alone."""
    text = "scenarios:\n" + "".join(SCENARIO.format(n=n) for n in range(COUNT))
    path = folder / "suite.yaml"
    path.write_text(text, "utf-8")
    start = process_time()
    data = yaml.load(text, yaml.CSafeLoader)
    alone = process_time() - start
    start = process_time()
    [suite] = load(path)
    ours = process_time() - start
    assert suite.count == len(data["scenarios"]) == COUNT
    print(
        f"YAML:  {ours:.2f} s for {COUNT:,} scenarios, checked; yaml.load alone {alone:.2f} s; ratio {ours / alone:.2f}"
    )
    return ours, alone


def measure_jsonl(folder: Path) -> float:
    """CPU seconds to the last fingerprint."""
    path = folder / "suite.jsonl"
    with path.open("w") as file:
        for n in range(COUNT):
            scenario = {"name": f"n{n}", "input": f"Say {n}", "expected_output": str(n), "tags": ["read"]}
            file.write(json.dumps(scenario) + "\n")
    start = process_time()
    [suite] = load(path)
    loaded = process_time()
    prints = {fingerprints(scenario, "agent")[0] for scenario in suite.scenarios}
    end = process_time()
    assert len(prints) == COUNT
    print(f"JSONL: {loaded - start:.2f} s read, checked and resolved, {end - loaded:.2f} s fingerprinted")
    return end - start


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        measure_yaml(Path(name))
        measure_jsonl(Path(name))
