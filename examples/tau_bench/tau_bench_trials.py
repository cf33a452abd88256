"""The tasks of a τ-bench domain as scenarios, over its own data and its own tools.

TAU_BENCH is the path of a checkout, TAU_DOMAIN is airline or retail, TAU_RECORDINGS the file with the recorded
conversations, which also holds the tasks as they were when the conversations took place.
"""

import functools
import importlib
import json
import os
import sys
import types
from pathlib import Path

from seatrial import EndState, Expect, Scenario, Suite, User, World

CHECKOUT = Path(os.environ["TAU_BENCH"])
DOMAIN = os.environ.get("TAU_DOMAIN", "airline")
RECORDINGS = json.loads(Path(os.environ["TAU_RECORDINGS"]).read_text("utf-8"))
ENDS = "transfer_to_human_agents"


def load_domain():
    """The data and the tools. The package's own __init__ files import models and are left out."""
    sys.path.insert(0, str(CHECKOUT))
    for name in ("tau_bench", "tau_bench.envs", f"tau_bench.envs.{DOMAIN}"):
        package = types.ModuleType(name)
        package.__path__ = [str(CHECKOUT / name.replace(".", "/"))]
        sys.modules.setdefault(name, package)
    data = importlib.import_module(f"tau_bench.envs.{DOMAIN}.data")
    tools = importlib.import_module(f"tau_bench.envs.{DOMAIN}.tools")
    return data.load_data, {tool.get_info()["function"]["name"]: tool.invoke for tool in tools.ALL_TOOLS}


def answer_errors(invoke):
    """τ-bench shows every exception of a tool to the agent as a text."""

    @functools.wraps(invoke)
    def call(state, /, *args, **kwargs):  # retail has arguments with the name `state`
        try:
            return invoke(state, *args, **kwargs)
        except Exception as error:
            return f"Error: {error}"

    return call


def scenario_of(task_id, task):
    """The end state must be that of the task's actions, every output must be said, and the conversation must end."""
    actions = [each for each in task["actions"] if each["name"] not in ("respond", ENDS)]
    said = {"said_contains_all": task["outputs"], "said_ignore": ","} if task["outputs"] else {}
    return Scenario(
        name=f"task-{task_id}",
        user=User(goal=task["instruction"]),
        end_state=EndState(as_after=[{each["name"]: each["kwargs"]} for each in actions]),
        expect=Expect(ended=True, **said),
    )


load_data, tools = load_domain()
SUITE = Suite(
    name=f"tau-bench {DOMAIN}",
    world=World(
        seed=load_data,
        tools={name: answer_errors(invoke) for name, invoke in tools.items()},
        ends=[ENDS],
        errors="Error: {error}",
        now="2024-05-15T15:00:00-05:00",
    ),
    scenarios=[
        scenario_of(task_id, task)
        for task_id, task in sorted({each["task_id"]: each["info"]["task"] for each in RECORDINGS}.items())
    ],
)
