"""What an agent did when a tool failed, and the verdict of a sweep over faults.

recovered        all checks pass, and a check or a later answer of the tool shows that the work was done
told the user    checks fail, and the reply is what `on_failure` asks for
claimed success  a check of effects fails, and the checks of the reply pass
unclear          none of these can be shown
crashed          the trial errored because of the agent
not reached      the tool was never called, or gave no answer that the fault could alter
errored          Seatrial has no answer
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.model.conversation import ToolCall
from seatrial.model.faults import BAD_RESULTS, Fault, FaultFinding, FaultReport, FaultTrial, row_of
from seatrial.model.results import Check, EvalResult
from seatrial.model.run import ScenarioEntry, Status, Trial, TrialSummary, Verdict

from . import reasons
from .rates import is_agents_error

_WORDS = ("contains", "said", "exact", "regex", "similarity", "reply_json", "json_schema")
"""Evaluators of replies."""
_WORDS_IN_PASSFAIL = "expected_output"
_EFFECTS = ("end_state", "trajectory", "tool_calls", "tool_calls_args", "invariant")
"""Evaluators of effects and calls."""
_EFFECTS_IN_PASSFAIL = ("expected_tools", "tool_args")


def classify(trial: Trial, settings: Mapping[str, Any]) -> FaultFinding:
    """What the agent did. `settings` are those of the variant: `tool`, `fault`, `checks_effects` (whether a check of
    the scenario looks at what the tool does) and `checks_words` (whether one asks for words in the reply)."""
    if trial.transcript.earlier:
        return FaultFinding(result="crashed", why=reasons.errored_before(trial.transcript.earlier[-1]))
    if trial.error is not None:
        agents = is_agents_error(trial.error.kind, counts_as_failed=trial.error.counts_as_failed)
        return FaultFinding(result="crashed" if agents else "errored", why=reasons.errored(trial.error))
    tool = str(settings["tool"])
    calls = trial.transcript.seen_calls
    if not any(call.name == tool and call.altered for call in calls):
        why = reasons.failed_without_fault() if trial.status is Status.FAILED else _why_not_reached(tool, calls)
        return FaultFinding(result="not reached", why=why)
    if is_recovered(trial, settings):
        return FaultFinding(result="recovered")
    broken = next((result.error for result in trial.on_failure if result.error is not None), None)
    if broken is not None:
        return FaultFinding(result="errored", why=reasons.errored(broken))
    if trial.on_failure and all(trial.on_failure):
        return FaultFinding(result="told the user")
    return _judge_claim(trial, tool, asks_for_words=bool(settings.get("checks_words")))


def is_recovered(trial: Trial, settings: Mapping[str, Any]) -> bool:
    """Whether all checks pass, and not only those of words although the tool never did its work."""
    if trial.status is not Status.PASSED:
        return False
    return bool(settings.get("checks_effects")) or _answered_at_last(trial.transcript.seen_calls, str(settings["tool"]))


def _answered_at_last(calls: Sequence[ToolCall], tool: str) -> bool:
    """Whether the tool gave a usable answer: it was slow, or it answered a call after the fault."""
    altered = [place for place, call in enumerate(calls) if call.name == tool and call.altered]
    slow = any(calls[place].altered == "slow" for place in altered)
    later = calls[altered[0] + 1 :] if altered else ()
    return slow or any(call.name == tool and not call.altered and call.error is None for call in later)


def _why_not_reached(tool: str, calls: Sequence[ToolCall]) -> str:
    called = any(call.name == tool for call in calls)
    return reasons.nothing_to_alter(tool) if called else reasons.tool_never_called(tool)


def _judge_claim(trial: Trial, tool: str, *, asks_for_words: bool) -> FaultFinding:
    if trial.status is Status.PASSED:
        return FaultFinding(result="unclear", why=reasons.only_words_checked(tool))
    since = _turn_of_fault(trial, tool)
    results = [result for result in trial.results if result.turn is None or result.turn >= since]
    words = [passed for result in results for passed in _words(result)]
    wrong = next((result for result in results if _is_wrong_effect(result)), None)
    failed = next((result for result in results if not result.passed), None)
    if wrong is not None and asks_for_words and words and all(words):
        return FaultFinding(result="claimed success", why=reasons.claimed(_text(wrong)))
    why = "; ".join(trial.failure_reasons) if failed is None else _text(failed)
    return FaultFinding(result="unclear", why=reasons.unclear(why, expects_failure=bool(trial.on_failure)))


def _turn_of_fault(trial: Trial, tool: str) -> int:
    turns = trial.transcript.turns
    return next(
        turn.index for turn in turns if any(call.name == tool and call.altered for call in turn.tool_calls or ())
    )


def _words(result: EvalResult) -> list[bool]:
    """Whether the checks of replies in this result passed."""
    if result.evaluator in _WORDS:
        return [result.passed]
    if result.evaluator == "passfail":
        return [check.passed for check in result.checks if check.name == _WORDS_IN_PASSFAIL]
    return []


def _is_wrong_effect(result: EvalResult) -> bool:
    if result.passed:
        return False
    return result.evaluator in _EFFECTS or any(_is_effect(check) for check in result.checks if not check.passed)


def _is_effect(check: Check) -> bool:
    return check.name in _EFFECTS_IN_PASSFAIL


def _text(result: EvalResult) -> str:
    """The check and the first line of its reason."""
    return f"{result.evaluator or 'evaluator'}: {result.reasoning.split(chr(10), 1)[0]}"


def decide_variant(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> tuple[Verdict, bool]:
    """The verdict of one scenario with one fault, and whether it counts: not if the tool was never reached."""
    found = [_finding(trial) for trial in trials]
    bad = [f"{one.result}: {one.why}" for one in found if one.result in BAD_RESULTS]
    unexplained = [one.why for one, trial in zip(found, trials, strict=True) if _failed_anyway(one, trial)]
    if bad or unexplained:
        return Verdict(status=Status.FAILED, failure_reasons=tuple(dict.fromkeys([*bad, *unexplained]))), True
    errors = [one.why for one in found if one.result == "errored"]
    if errors:
        return Verdict(status=Status.ERRORED, failure_reasons=tuple(dict.fromkeys(errors))), True
    missing = entry.trials - len(found)
    if missing > 0:
        why = reasons.trials_not_run(missing) if found else reasons.nothing_run()
        return Verdict(status=Status.NOT_RUN, failure_reasons=(why,)), True
    if all(one.result == "not reached" for one in found):
        why = f"not reached: {found[0].why}"
        return Verdict(status=Status.NOT_RUN, failure_reasons=(why,)), False
    return Verdict(status=Status.PASSED), True


def _finding(trial: TrialSummary) -> FaultFinding:
    """What the agent did. A row without it has no answer."""
    return trial.fault or FaultFinding(result="errored", why=reasons.fault_unknown())


def _failed_anyway(finding: FaultFinding, trial: TrialSummary) -> bool:
    return finding.result == "not reached" and trial.status is Status.FAILED


class FaultDecision:
    """Takes the variants of a sweep in any order, and decides the sweep."""

    def __init__(self) -> None:
        self._trials: list[tuple[int, FaultTrial]] = []
        self._missing: list[tuple[str, Fault, int]] = []
        self._failed_anyway = 0

    def add(self, entry: ScenarioEntry, trials: Iterable[TrialSummary]) -> None:
        assert entry.variant is not None
        tool, fault = entry.variant.settings["tool"], entry.variant.settings["fault"]
        played = 0
        for trial in trials:
            played += 1
            finding = _finding(trial)
            self._failed_anyway += _failed_anyway(finding, trial)
            found = FaultTrial(
                key=entry.key,
                index=trial.index,
                scenario=entry.variant.scenario,
                tool=tool,
                fault=fault,
                result=finding.result,
                why=finding.why,
            )
            self._trials.append((entry.position, found))
        if played < entry.trials:
            self._missing.append((row_of(tool, entry.key.agent), fault, entry.trials - played))

    def report(self) -> FaultReport:
        ordered = sorted(self._trials, key=lambda one: (one[0], one[1].index))
        return FaultReport(trials=tuple(trial for _, trial in ordered), missing=tuple(self._missing))

    def verdict(self) -> Verdict:
        """Passed only if a tool failed in at least one trial, and the agent recovered or told the user every time."""
        report = self.report()
        counts = report.counts
        problems = [
            (Status.FAILED, f"{result} in {reasons.counted(counts[result], 'trial')}")
            for result in BAD_RESULTS
            if result in counts
        ]
        if self._failed_anyway:
            problems.append((Status.FAILED, reasons.failed_anyway(self._failed_anyway)))
        if "errored" in counts:
            problems.append((Status.ERRORED, reasons.trials_errored(counts["errored"])))
        if report.not_run:
            problems.append((Status.NOT_RUN, reasons.trials_not_run(report.not_run)))
        if not problems and not counts.keys() - {"not reached"}:
            problems.append((Status.INCONCLUSIVE, reasons.no_fault_reached()))
        if not problems:
            return Verdict(status=Status.PASSED)
        return Verdict(status=problems[0][0], failure_reasons=tuple(why for _, why in problems))
