"""Every key of scenario files has an effect: keys.toml names the test that proves it."""

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seatrial.scenarios.keys import EXPECT, GATE_KEYS, LIMIT_KEYS, TRAJECTORY, TURN
from seatrial.scenarios.suite_keys import CONFIG, FILE_KEYS, GROUP, SCENARIO, SUITE, json_schema

ROOT = Path(__file__).parent.parent.parent
PROOFS: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "keys.toml").read_text(encoding="utf-8"))
CALL_KEYS = {"name", "args", "arg_match", "count", "min", "max", "optional", "any_of"}
KEYS: dict[str, set[str]] = {
    "file": set(FILE_KEYS),
    "suite": set(SUITE.keys),
    "config": set(CONFIG.keys) - set(SCENARIO.keys),
    "scenario": set(SCENARIO.keys),
    "turn": set(TURN.keys),
    "expect": {name for name, key in EXPECT.keys.items() if not key.python_only},
    "trajectory": set(TRAJECTORY.keys),
    "call": CALL_KEYS,
    "limits": set(LIMIT_KEYS),
    "gate": set(GATE_KEYS),
    "group": set(GROUP.keys),
}


@pytest.mark.parametrize("level", KEYS)
def test_every_key_is_proved_by_a_test(level: str) -> None:
    assert set(PROOFS[level]) == KEYS[level]


@pytest.mark.parametrize(
    ("key", "proof"), [(f"{level}.{key}", proof) for level, keys in PROOFS.items() for key, proof in keys.items()]
)
def test_a_proof_is_a_test_that_exists(key: str, proof: str) -> None:
    file, _, rest = proof.partition("::")
    function, _, parameter = rest.partition("[")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    named = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}

    assert function in named, key
    assert f'"{parameter.rstrip("]")}"' in text or not parameter, key
    assert key.partition(".")[2] in text, f"{proof} does not mention {key}"


def test_the_keys_of_a_call_are_those_of_the_schema() -> None:
    found = [set(keys) for keys in _properties(json_schema()) if "any_of" in keys]

    assert found
    assert all(keys == CALL_KEYS for keys in found)


def _properties(node: Any) -> list[Mapping[str, Any]]:
    """Every `properties` of a schema, at any depth."""
    if isinstance(node, list):
        return [found for item in node for found in _properties(item)]
    if not isinstance(node, Mapping):
        return []
    own = [node["properties"]] if isinstance(node.get("properties"), Mapping) else []
    return own + [found for item in node.values() for found in _properties(item)]
