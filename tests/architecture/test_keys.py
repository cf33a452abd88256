"""Every key of scenario files has an effect: keys.toml names the test that proves it."""

import ast
import tomllib
from pathlib import Path

import pytest

from seatrial.evaluators.end_state import EndState
from seatrial.evaluators.invariants import Invariant
from seatrial.evaluators.limits import Limits
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.scenario import (
    AttackGate,
    AttackGoal,
    Attacks,
    Expect,
    ExpectedCall,
    GateSpec,
    Group,
    Scenario,
    Suite,
    SuiteConfig,
    SuiteFile,
    Turn,
    World,
)
from seatrial.scenarios.keys import struct_reader

ROOT = Path(__file__).parent.parent.parent
PROOFS: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "keys.toml").read_text(encoding="utf-8"))


def _keys(kind: type) -> set[str]:
    return set(struct_reader(kind).file_keys)


KEYS: dict[str, set[str]] = {
    "file": _keys(SuiteFile),
    "suite": _keys(Suite),
    "config": _keys(SuiteConfig) - _keys(Scenario),
    "scenario": _keys(Scenario),
    "turn": _keys(Turn),
    "expect": _keys(Expect),
    "trajectory": _keys(Trajectory),
    "call": _keys(ExpectedCall),
    "limits": _keys(Limits),
    "gate": _keys(GateSpec),
    "group": _keys(Group),
    "world": _keys(World),
    "end_state": _keys(EndState),
    "invariant": _keys(Invariant),
    "attacks": _keys(Attacks),
    "attack_goal": _keys(AttackGoal),
    "attack_gate": _keys(AttackGate),
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
