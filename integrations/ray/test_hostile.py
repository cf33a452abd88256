"""The hostile project that every other way of running plays, on a Ray cluster: the results are equal."""

import importlib.util
from pathlib import Path
from typing import Any


def load_hostile() -> Any:
    file = Path(__file__).parents[2] / "tests" / "journeys" / "hostile.py"
    spec = importlib.util.spec_from_file_location("hostile", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = load_hostile()


def on_ray(project: Any) -> Any:
    flags = ("--executor", "ray", "--ray-address", project.address)
    return project.seatrial("run", "hostile.trial.yaml", *flags, SHOP_TOKEN=hostile.SECRET)


def test_every_misbehaviour_ends_as_on_one_machine(project: Any) -> None:
    hostile.write_project(project.path)
    ended = on_ray(project)
    assert ended.returncode == 1, ended.stderr
    assert hostile.newest_outcome(project.path) == hostile.EXPECTED
    assert hostile.SECRET.encode() not in hostile.stored_bytes(project.path)


def test_an_agent_that_raises_on_close_is_errored(project: Any) -> None:
    scenario = {"name": "closes", "input": "hello", "expected_output": "hello"}
    hostile.write_project(project.path, agent="agent:Unclosable", scenarios=[scenario])
    assert on_ray(project).returncode == 1
    assert hostile.newest_outcome(project.path) == {"closes": ["errored agent"]}
