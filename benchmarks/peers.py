"""The same instant scenarios with the same four checks, as users of other tools would write them.

Each program reads the JSONL suite of `throughput.py`, plays it, and prints how many scenarios failed as the tool itself
counts them; some are wrong on purpose, and every tool must find exactly those. Where a tool keeps results, it keeps
them as it does by default. Telemetry is switched off, and where the machine allows it there is no network at all.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

from throughput import write_suite

HOME = Path(__file__).resolve().parent.parent
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_PROGRESS_BAR": "YES",
    "ERROR_REPORTING": "NO",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "OTEL_SDK_DISABLED": "true",
    "INSPECT_DISABLE_UPDATE_CHECK": "1",
    "OPENAI_API_KEY": "not-a-key",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}

SHARED = '''
import json, sys

SCENARIOS = [json.loads(line) for line in open("suite.jsonl", encoding="utf-8")]

def agent(text):
    number = text.rsplit(" ", 1)[1]
    order = "ORD-0" if int(number) % 97 == 0 else f"ORD-{number}"
    calls = [{"name": name, "arguments": {"order_id": order}} for name in ("lookup_order", "track_parcel")]
    return f"Order {order} is on its way.", calls

def passfail(scenario, output, calls):
    """The four checks."""
    if not output.strip():
        return False, "empty output"
    missing = [tool for tool in scenario["expected_tools"] if tool not in {call["name"] for call in calls}]
    if missing:
        return False, f"missing: {missing}"
    for tool, expected in scenario["expected_tool_args"].items():
        first = next(call for call in calls if call["name"] == tool)
        for key, value in expected.items():
            if first["arguments"].get(key) != value:
                return False, f"{tool}.{key}: expected {value!r}"
    if scenario["expected_output"].lower() not in output.lower():
        return False, "not found"
    return True, "all four hold"
'''

ADAPTER = """
from shared import agent
from agenticassure.results import AgentResult, ToolCall

class Adapter:
    def run(self, input, context=None):
        output, calls = agent(input)
        return AgentResult(output=output, tool_calls=[ToolCall(**call) for call in calls])
"""

AGENTICASSURE_CLI = """
import glob, json, os
from agenticassure.cli import cli

try:
    cli(["run", "suite.yaml", "-a", "adapter.Adapter", "-o", "json"], standalone_mode=False)
except SystemExit as ended:  # with 1, since some scenarios are wrong
    assert ended.code in (0, 1)
[file] = glob.glob("results_*.json")
results = json.load(open(file, encoding="utf-8"))["scenario_results"]
os.remove(file)
print("failed", sum(not each["passed"] for each in results))
"""

AGENTICASSURE = """
from adapter import Adapter
from shared import SCENARIOS
from agenticassure.runner import Runner
from agenticassure.scenario import Scenario, Suite

suite = Suite(name="orders", scenarios=[Scenario(**scenario) for scenario in SCENARIOS])
result = Runner(Adapter()).run_suite(suite)
print("failed", sum(not each.passed for each in result.scenario_results))
"""

PYDANTIC_EVALS = """
from dataclasses import dataclass
from shared import SCENARIOS, agent, passfail
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EvaluationReason, Evaluator

@dataclass
class PassFail(Evaluator):
    def evaluate(self, ctx):
        passed, why = passfail(ctx.metadata, *ctx.output)
        return EvaluationReason(value=passed, reason=why)

cases = [Case(name=scenario["name"], inputs=scenario["input"], metadata=scenario) for scenario in SCENARIOS]
dataset = Dataset(name="orders", cases=cases, evaluators=[PassFail()])
report = dataset.evaluate_sync(agent, progress=False)
assert not report.failures
print("failed", sum(not each.value for case in report.cases for each in case.assertions.values()))
"""

DEEPEVAL = """
from shared import SCENARIOS, agent, passfail
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, ToolCall

class PassFail(BaseMetric):
    def __init__(self):
        self.threshold, self.async_mode, self.include_reason = 1.0, False, True

    def measure(self, case, *args, **kwargs):
        calls = [{"name": call.name, "arguments": call.input_parameters} for call in case.tools_called]
        self.success, self.reason = passfail(case.metadata, case.actual_output, calls)
        self.score = float(self.success)
        return self.score

    async def a_measure(self, case, *args, **kwargs):
        return self.measure(case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "passfail"

def played(scenario):
    output, calls = agent(scenario["input"])
    called = [ToolCall(name=call["name"], input_parameters=call["arguments"]) for call in calls]
    return LLMTestCase(input=scenario["input"], actual_output=output, tools_called=called, metadata=scenario)

result = evaluate(
    [played(scenario) for scenario in SCENARIOS],
    [PassFail()],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
)
print("failed", sum(not each.success for each in result.test_results))
"""

INSPECT_AI = """
from shared import SCENARIOS, agent, passfail
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver

@solver
def play():
    async def solve(state, generate):
        output, state.metadata["calls"] = agent(state.input_text)
        state.output = ModelOutput.from_content("mockllm/model", output)
        return state
    return solve

@scorer(metrics=[accuracy()])
def four_checks():
    async def score(state, target):
        passed, why = passfail(state.metadata["scenario"], state.output.completion, state.metadata["calls"])
        return Score(value=passed, explanation=why)
    return score

samples = [Sample(id=each["name"], input=each["input"], metadata={"scenario": each}) for each in SCENARIOS]
task = Task(dataset=MemoryDataset(samples), solver=play(), scorer=four_checks())
[log] = eval(task, model="mockllm/model", display="none", log_dir="logs")
assert log.status == "success", log.error
print("failed", sum(not list(sample.scores.values())[0].value for sample in log.samples))
"""

PROGRAMS = {
    "agenticassure run": AGENTICASSURE_CLI,
    "agenticassure API": AGENTICASSURE,
    "pydantic-evals": PYDANTIC_EVALS,
    "deepeval": DEEPEVAL,
    "inspect-ai": INSPECT_AI,
}
"""The command line of AgenticAssure reads YAML and writes JSON; its API, pydantic-evals and deepeval keep nothing."""


def python_of(peer: str) -> Path:
    return HOME / ".venvs" / f"bench-{peer.split()[0]}" / "bin" / "python"


def installed_peers() -> list[str]:
    return [peer for peer in PROGRAMS if python_of(peer).exists()]


def version_of(peer: str) -> str:
    ask = f"from importlib.metadata import version; print(version({peer.split()[0]!r}))"
    return subprocess.run([python_of(peer), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def write_peers(folder: Path, count: int) -> None:
    """The suite, and a program for every peer."""
    write_suite(folder / "suite.jsonl", count)
    (folder / "adapter.py").write_text(ADAPTER, encoding="utf-8")
    scenarios = [json.loads(line) for line in (folder / "suite.jsonl").open(encoding="utf-8")]
    suite = {"suite": {"name": "orders"}, "scenarios": scenarios}
    (folder / "suite.yaml").write_text(json.dumps(suite), encoding="utf-8")
    (folder / "shared.py").write_text(SHARED, encoding="utf-8")
    for peer, program in PROGRAMS.items():
        (folder / file_of(peer)).write_text(program, encoding="utf-8")


def file_of(peer: str) -> str:
    return f"play_{peer.replace('-', '_').replace(' ', '_')}.py"


def command_of(peer: str) -> list[str]:
    quietly = ["/usr/bin/env", "PYTHONPATH=.", *(f"{name}={text}" for name, text in QUIET.items())]
    return [*without_network(), *quietly, str(python_of(peer)), file_of(peer)]


@cache
def without_network() -> tuple[str, ...]:
    """What starts a program without a network, where that is allowed here."""
    if os.name != "posix" or not Path("/usr/bin/unshare").exists():
        return ()
    allowed = subprocess.run(["/usr/bin/unshare", "--net", "true"], capture_output=True, check=False)
    return ("/usr/bin/unshare", "--net") if allowed.returncode == 0 else ()
