"""What several trials of one scenario say of a user who tries several times, and whether the scenario is flaky."""

from typing import Final

from seatrial.model.run import ScenarioOutcome
from seatrial.model.struct import Struct

MOST_TRIES: Final = 10


class Repeats(Struct, frozen=True, kw_only=True):
    """Chances for k tries, k counted from 1: the first entry is the pass rate itself."""

    pass_at_k: tuple[float, ...] = ()
    """That at least one of them passes."""
    pass_hat_k: tuple[float, ...] = ()
    """That all of them pass."""


def repeats_of(outcome: ScenarioOutcome) -> Repeats:
    """The chances, over the trials that have an answer, as the interval; nothing where none has.

    An agent that gives out is no pass to a user who tries; where an instrument did, nobody knows.
    """
    from seatrial.statistics.pass_at_k import pass_at_k, pass_hat_k

    answered = outcome.passed + outcome.failed + outcome.broken_down
    tries = range(1, min(answered, MOST_TRIES) + 1)
    some = [pass_at_k(outcome.passed, answered, k=k) for k in tries]
    every = [pass_hat_k(outcome.passed, answered, k=k) for k in tries]
    return Repeats(
        pass_at_k=tuple(value for value in some if value is not None),
        pass_hat_k=tuple(value for value in every if value is not None),
    )


def is_flaky(outcome: ScenarioOutcome) -> bool:
    """Whether some of its trials passed, and in some the agent failed or gave out."""
    return outcome.passed > 0 and outcome.failed + outcome.broken_down > 0


def flaky_line(outcome: ScenarioOutcome) -> str:
    """`flaky: 3 passed, 2 failed; of two tries both pass in 30 % (pass^2), at least one in 90 % (pass@2)`."""
    known = repeats_of(outcome)
    both, one = known.pass_hat_k[1], known.pass_at_k[1]
    counts = {"passed": outcome.passed, "failed": outcome.failed, "errored": outcome.broken_down}
    what = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return (
        f"flaky: {what}; of two tries both pass in {100 * both:.0f} % (pass^2), "
        f"at least one in {100 * one:.0f} % (pass@2)"
    )
