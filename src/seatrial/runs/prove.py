"""Test whether the first divergence of a cause makes the trials fail (`seatrial explain --prove`).

Two groups of new trials continue the failed conversation from the same point. In one, the agent goes on after the step
of the failed trial. In the other, it goes on after the step of the passed trial. The step is proved as the cause if the
second group passes more often than chance explains (Fisher's exact test, adjusted for the number of causes).

A reply that ends the conversation leaves the agent nothing to decide, so that its group would have one result by
construction. There the agent decides again instead.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from seatrial.engine.fork import Step, continue_with, step_at
from seatrial.errors import UsageError
from seatrial.model.causes import Cause, Continuation, Proof
from seatrial.model.conversation import ToolCall
from seatrial.model.protocols import ForkPoint
from seatrial.model.run import Run, RunState, Trial
from seatrial.model.struct import Struct
from seatrial.statistics.distributions import reaches
from seatrial.statistics.significance import ScenarioCounts, fisher_test, holm
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

from .fork import continue_trial
from .request import RunRequest

TRIALS: Final = 10
ALPHA: Final = 0.05


class ProofPlan(Struct, frozen=True, kw_only=True):
    """The two groups of trials that test a cause."""

    cause: Cause
    failed: Trial
    fingerprint: str
    """Of the scenario's trials, when the failed one was played."""
    place: str
    """`call 3` or `the reply of turn 2`."""
    kept: ForkPoint
    replaced: ForkPoint | None
    """None: there is no step to replace, since the reply itself fails. The agent decides again."""
    kept_text: str
    replaced_text: str
    turns: int
    """Turns of the longer conversation."""

    def agent_calls(self, trials: int) -> int:
        """How often the agent will be asked, about: once for each turn that is left."""
        points = (self.kept,) if self.replaced is None else (self.kept, self.replaced)
        return sum(trials * max(self.turns - len(point.turns), 0) for point in points)


def plan_proof(store: Store, run: Run, cause: Cause) -> ProofPlan | str:
    """How to test the cause, or why it cannot be tested."""
    found = cause.divergence
    if found.passed_trial is None or found.passed_run is None or found.turn is None or not cause.examples:
        return "there is no passed trial whose step could replace it"
    key, index = cause.examples[0]
    failed = store.trial(run.id, key, index)
    passed = store.trial(found.passed_run, key, found.passed_trial)
    turn = found.turn
    calls = found.step if found.step is not None else _calls_until(failed, turn)
    if found.step is not None:
        turn = min(turn, _turn_of(passed, calls))
    bad, good = step_at(failed, turn, calls), step_at(passed, turn, calls)
    if bad == good or _is_same_call(bad, good):
        return "the agent did the same in the passed trial"
    entry = next(one for one in store.entries(run.id) if one.key == key)
    again = continue_with(failed, turn, calls, None)
    repeats = not _ends(bad, failed, turn)
    by_itself = _fails_by_itself(failed, bad, turn)
    takes = not by_itself and not _ends(good, passed, turn)
    kept = continue_with(failed, turn, calls, bad) if repeats and not by_itself else again
    replaced = continue_with(failed, turn, calls, good) if takes else again
    return ProofPlan(
        cause=cause,
        failed=failed,
        fingerprint=entry.trial_fingerprint,
        place=f"the reply of turn {turn + 1}" if found.step is None else f"call {calls + 1}",
        kept=kept,
        replaced=None if kept == replaced else replaced,
        kept_text=_AGAIN if kept == again else "as it was",
        replaced_text=_describe(good, passed) if takes else _AGAIN,
        turns=max(len(failed.transcript.turns), len(passed.transcript.turns)),
    )


_AGAIN: Final = "where the agent decides again"


def _is_same_call(bad: Step, good: Step) -> bool:
    """Whether only the tool's answer differs."""
    if not isinstance(bad, ToolCall) or not isinstance(good, ToolCall):
        return False
    return bad.name == good.name and bool(bad.arguments == good.arguments)


def _calls_until(trial: Trial, turn: int) -> int:
    return sum(len(one.tool_calls or ()) for one in trial.transcript.turns[: turn + 1])


def _turn_of(trial: Trial, call: int) -> int:
    """The turn in which the trial made this call; the last one if it made fewer."""
    turns = [turn.index for turn in trial.transcript.turns for _ in turn.tool_calls or ()]
    return turns[call] if call < len(turns) else len(trial.transcript.turns) - 1


def _ends(step: Step, trial: Trial, turn: int) -> bool:
    """Whether the agent decides nothing more after the step: it ended the conversation."""
    return step is None or (isinstance(step, str) and turn == len(trial.transcript.turns) - 1)


def _fails_by_itself(failed: Trial, step: Step, turn: int) -> bool:
    """Whether the step is a reply that fails a check of its turn: then all that continue after it fail."""
    return isinstance(step, str) and any(not one.passed and one.turn == turn for one in failed.results)


def _describe(step: Step, passed: Trial) -> str:
    name = f"the call of {step.name}" if isinstance(step, ToolCall) else "the reply"
    return f"with {name} from {passed.id}"


def prove(plans: Sequence[ProofPlan], run: Run, *, trials: int, asked: RunRequest) -> list[Proof]:
    """Play the groups of each plan and compare them."""
    played = [_play(plan, run, trials=trials, asked=asked) for plan in plans]
    tested = [one for one in played if not isinstance(one, Proof)]
    values = iter(holm([_p_value(*pair) for pair in tested]))
    return [
        one if isinstance(one, Proof) else _decide(plan, *one, p_value=next(values))
        for plan, one in zip(plans, played, strict=True)
    ]


def _play(plan: ProofPlan, run: Run, *, trials: int, asked: RunRequest) -> tuple[Continuation, Continuation] | Proof:
    """Both groups; a proof that says why there are not two."""
    try:
        kept = _continue(plan, plan.kept, run, trials=trials, asked=asked)
        if plan.replaced is None:
            return Proof(proved=False, text=_answered_again(plan, kept), kept=kept)
        replaced = _continue(plan, plan.replaced, run, trials=trials, asked=asked)
    except UsageError as reason:
        return Proof(proved=False, text=f"not tested: {reason}")
    if not kept.trials or not replaced.trials:
        empty = kept if not kept.trials else replaced
        text = f"not tested: no new trial has an answer. Look at one: seatrial show {empty.run}"
        return Proof(proved=False, text=text, kept=kept, replaced=replaced)
    return kept, replaced


def _continue(plan: ProofPlan, point: ForkPoint, run: Run, *, trials: int, asked: RunRequest) -> Continuation:
    how = plan.kept_text if point is plan.kept else plan.replaced_text
    named = replace(asked, name=f"proof of {run.name}: {plan.place}, {how}")
    report = continue_trial(
        run, plan.failed, point, at=f"{plan.place}, {how}", trials=trials, asked=named, fingerprint=plan.fingerprint
    )
    if report.run.state is not RunState.FINISHED:
        raise KeyboardInterrupt
    answers = [answer_of(one) for one in report.record.summaries()]
    return Continuation(passed=answers.count(True), trials=len(answers) - answers.count(None), run=report.run.id)


def _p_value(kept: Continuation, replaced: Continuation) -> float:
    return fisher_test(
        ScenarioCounts(
            base_passed=replaced.passed,
            base_total=replaced.trials,
            candidate_passed=kept.passed,
            candidate_total=kept.trials,
        )
    )


def _answered_again(plan: ProofPlan, kept: Continuation) -> str:
    passed = f"{kept.passed}/{kept.trials} passed"
    return f"not proved: {plan.place} fails by itself, so no later step shows it. Answered again from there: {passed}"


def _decide(plan: ProofPlan, kept: Continuation, replaced: Continuation, *, p_value: float) -> Proof:
    proved = reaches(p_value, ALPHA)
    text = (
        f"{'proved' if proved else 'not proved'}: from {plan.place} {plan.replaced_text}: "
        f"{replaced.passed}/{replaced.trials} passed; {plan.kept_text}: {kept.passed}/{kept.trials} passed"
    )
    if not proved:
        text += ". " + ("Chance explains the difference" if replaced.passed > kept.passed else "It makes no difference")
    return Proof(proved=proved, text=text, kept=kept, replaced=replaced)
