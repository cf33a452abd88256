"""Causes of failures: what went wrong in which step, and in how many trials."""

from enum import StrEnum

from .run import ScenarioKey
from .struct import Struct


class DivergenceKind(StrEnum):
    """How a failed conversation first differs from one that passed."""

    MISSING_CALL = "missing_call"
    WRONG_TOOL = "wrong_tool"
    EXTRA_CALL = "extra_call"
    ORDER = "order"
    ARGUMENTS = "arguments"
    FORGOTTEN = "forgotten_turn"
    """Something that the user said in an earlier turn is not used."""
    TOOL_ERROR = "tool_error"
    IGNORED_ERROR = "ignored_error"
    """A tool failed, and the agent went on as if it had not."""
    LOOP = "loop"
    STOPPED = "stopped_early"
    MISREAD = "misread_result"
    """The reply says something else than the tool's result."""
    INVENTED = "invented_value"
    """The reply has a value that no message and no tool result contains."""
    REPLY = "reply"
    TIMEOUT = "timeout"
    EXCEPTION = "exception"
    ERROR = "error"
    """The trial ended with another error."""
    JUDGED = "judged_differently"
    """The conversations are the same."""
    UNKNOWN = "unknown"
    """Nothing to compare with."""
    NONE = "none"
    """No trial failed: the scenario did not reach its gate, or was not run."""


class Divergence(Struct, frozen=True, kw_only=True):
    """The first step of a failed conversation that differs."""

    kind: DivergenceKind
    text: str
    """One sentence."""
    turn: int | None = None
    """Index of its turn, from 0."""
    step: int | None = None
    """Index of its tool call in the trial, from 0; None: the reply of the turn."""
    tool: str | None = None
    against: str = ""
    """What it was compared with: `trial-2`, `trial-1 of run …`, `the gold calls`, `the trajectory`; empty: nothing."""
    passed_run: str | None = None
    """The run of the passed trial that it was compared with."""
    passed_trial: int | None = None
    """The index of that trial."""

    @property
    def where(self) -> str:
        """`turn 2, call 3`; `turn 2, reply`; empty if it is not known."""
        if self.turn is None:
            return ""
        return f"turn {self.turn + 1}, " + ("reply" if self.step is None else f"call {self.step + 1}")


class Continuation(Struct, frozen=True, kw_only=True):
    """Trials that continue a failed conversation from its first divergence."""

    passed: int
    trials: int
    """Without those that have no answer."""
    run: str
    """The run with these trials."""


class Proof(Struct, frozen=True, kw_only=True):
    """Whether a divergence causes the failure, by playing on from it."""

    proved: bool
    text: str
    """One sentence."""
    kept: Continuation | None = None
    """The agent goes on after the step of the failed trial."""
    replaced: Continuation | None = None
    """The agent goes on after the step of the passed trial instead."""


class Cause(Struct, frozen=True, kw_only=True):
    """Failed trials with the same symptom and the same first divergence."""

    symptom: str
    """The failing check or the error. Ids and numbers are masked if they differ between the trials."""
    divergence: Divergence
    """Of the first example."""
    trials: int
    """How many trials have this cause."""
    scenarios: tuple[tuple[ScenarioKey, int], ...]
    """Scenarios with the number of their trials."""
    examples: tuple[tuple[ScenarioKey, int], ...] = ()
    """Scenario and index of the first trials."""
    place: str | None = None
    """The line of the user's code that raised: `agent.py:12 in reply`."""
    advice: str = ""
    """What to try."""
    title: str | None = None
    """The cause in the words of a model (`--name-with`)."""
    proof: Proof | None = None
    counts: bool = True
    """False: all its scenarios passed, since their thresholds tolerate it."""
