"""Checks across scenarios and keys: names that are unique in a suite, and settings that check nothing."""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import asdict, replace

from seatrial.model.scenario import Expect, Scenario

from .build_evaluators import check_scorers, scorer_names
from .formats import is_weighted, metrics_problem, threshold_problem
from .problems import KeyPath, Problems, did_you_mean


class LargeFile:
    """A file that has too many scenarios to hold their names in memory."""

    __slots__ = ("names", "taken")

    def __init__(self, names: Callable[[], Iterator[tuple[str, str]]], *, taken: int) -> None:
        self.names = names
        """The names and their places, in the order of the file, which is read again."""
        self.taken = taken


class Names:
    """The place of each name, by suite, over all files.

    Of a large file only hashes are kept. It is read again if two hashes are equal.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, str]] = {}
        self._hashes: dict[str, set[int]] = {}
        self._large: dict[str, dict[LargeFile, None]] = {}
        self._recalled: set[str] = set()
        """Suites of which all names are held, because two hashes were equal."""

    def take(self, suite: str, name: str, place: str, *, large: LargeFile | None = None) -> str | None:
        """Take the name, and return the place where it was taken before, or None."""
        places = self._places.setdefault(suite, {})
        hashes = self._hashes.setdefault(suite, set())
        if hash(name) in hashes:
            self._recall(suite)
        if large is None or name in places or suite in self._recalled:
            before = places.get(name)
            if before is None:
                places[name] = place
        else:
            before = None
            hashes.add(hash(name))
            self._large.setdefault(suite, {})[large] = None
        if large is not None:
            large.taken += 1
        return before

    def of(self, suite: str) -> Collection[str]:
        """The names of a suite."""
        self._recall(suite)
        return self._places.get(suite, {}).keys()

    def _recall(self, suite: str) -> None:
        """Hold the names of large files, each with its first place."""
        places = self._places.setdefault(suite, {})
        for large in self._large.pop(suite, {}):
            for name, place in islice(large.names(), large.taken):
                places.setdefault(name, place)
        self._hashes.pop(suite, None)
        self._recalled.add(suite)


_NO_EXPECTATION = Expect()


def check_resolved(
    scenario: Scenario,
    custom: Mapping[str, Any],
    where: KeyPath,
    problems: Problems,
    *,
    max_turns: int | None = None,
) -> None:
    """Report a scenario with all settings that cannot be run or would check nothing.

    `max_turns` is None if it is the default.
    """
    if (scenario.user is not None or _checks_no_turn(scenario)) and not _checks_anything(scenario):
        message = "nothing is asserted, so every conversation would pass"
        hint = "Give it expect, trajectory, metrics, expected_outcomes or another expectation"
        problems.add(where, message, hint)
    _check_turns(scenario, where, problems)
    if max_turns is not None and len(scenario.turns) > max_turns:
        message = f"max_turns {max_turns} would end the script before its {len(scenario.turns)} turns are played"
        problems.add(where, message)
    if scenario.expect is not None and scenario.expect.ended and scenario.user is None and not _has_ends(scenario):
        message = "can never be true: a script is played whole, and its user never ends the conversation"
        problems.add((*where, "expect", "ended"), message, "Give the scenario a 'user', or remove it")
    if scenario.on_failure is not None and not _says_anything(scenario.on_failure):
        message = "does not say what the reply must contain, so any reply would count as telling the user"
        problems.add((*where, "on_failure"), message, "Add reply_contains_any, reply_matches_any or judge")
    if scenario.world is not None and scenario.world.tools is None:
        problems.add((*where, "world"), "'tools' is missing: the functions that act on the state")
    if scenario.end_state is not None and scenario.end_state.needs_world and scenario.world is None:
        problems.add(
            (*where, "end_state"), "there is no world whose state could be compared", "Add 'world' to the suite"
        )
    if scenario.gate is not None and scenario.gate.pass_rate is None:
        problems.add((*where, "gate"), "'pass_rate' is missing: the pass rate that must be shown")
    if scenario.sequential is not None:
        _check_sequential(scenario, where, problems)
    if scenario.fail_on_error_severity is not None and not scenario.failures:
        problems.add((*where, "failures"), "'failures: false' and 'fail_on_error_severity' exclude each other")
    if scenario.metrics is not None or scenario.thresholds is not None:
        _check_metrics(scenario, where, problems)
    if scenario.scorers is not None and scenario.scorers != ("passfail",):
        check_scorers(scenario, custom, where, problems)


def _has_ends(scenario: Scenario) -> bool:
    """Whether a tool of the world can end the conversation."""
    return scenario.world is not None and bool(scenario.world.ends)


_IDLE = {
    "pass_threshold": "none of the metrics has a weight, so there is no overall score; give them thresholds",
    "metrics_pass_threshold": "none of the metrics has a weight, so there is no overall score; give them thresholds",
    "severities": "the judge does not look for failures; add 'failures: true' or 'fail_on_error_severity'",
}
"""Gates of a judge, and why they may decide nothing."""


def judge_gates(keys: Mapping[str, Any]) -> list[str]:
    """The given keys that are gates of a judge."""
    return [key for key in _IDLE if keys.get(key)]


def can_decide(gate: str, scenario: Scenario) -> bool | None:
    """Whether the gate can decide anything about the scenario; None if nothing is graded."""
    if gate == "severities":
        return bool(scenario.failures)
    return is_weighted(scenario.metrics) if scenario.metrics else None


def report_idle_gate(gate: str, where: KeyPath, problems: Problems) -> None:
    problems.add((*where, gate), f"is without effect: {_IDLE[gate]}")


def _check_sequential(scenario: Scenario, where: KeyPath, problems: Problems) -> None:
    spec = scenario.sequential
    assert spec is not None
    if scenario.trials != "auto":
        problems.add((*where, "sequential"), "is without effect unless 'trials: auto'", "Set trials, or remove it")
        return
    for key in ("gate", "threshold"):
        if getattr(scenario, key) not in (None, 1.0):
            message = f"{key!r} is without effect beside 'trials: auto', where the sequential test decides"
            problems.add((*where, key), message, "Set sequential.good and sequential.bad, or a number of trials")
    values: Mapping[str, float] = asdict(spec)
    if values["bad"] >= values["good"]:
        problems.add((*where, "sequential"), f"bad {spec.bad:g} must be below good {spec.good:g}")
    if values["alpha"] + values["beta"] >= 1.0:
        problems.add((*where, "sequential"), f"alpha {spec.alpha:g} and beta {spec.beta:g} add up to 1 or more")


def _check_turns(scenario: Scenario, where: KeyPath, problems: Problems) -> None:
    """Report turns with neither a message nor a decision, with both, or with a decision that contradicts itself."""
    for index, turn in enumerate(scenario.turns):
        place = (*where, "turns", index)
        named, resumes = bool(turn.approve or turn.reject), turn.resume is not None
        if turn.user is None and not named and not resumes:
            problems.add(place, "'user' is missing: what the user says", "Or decide: approve, reject or resume")
        elif (turn.user is not None) + named + resumes > 1:
            problems.add(place, "has more than one of user, approve or reject, and resume", "Make them separate turns")
        elif turn.user is None and turn.attach:
            problems.add((*place, "attach"), "belongs to a message: this turn has no 'user'", on_key=True)
        both = sorted(set(turn.approve) & set(turn.reject))
        if both:
            problems.add(place, f"both approves and rejects {both[0]!r}")


def _checks_no_turn(scenario: Scenario) -> bool:
    """Whether it is a script in which no turn needs a reply or is checked."""
    return bool(scenario.turns) and all(
        turn.reply == "optional" and turn.trajectory is None and not _expects_anything(turn.expect)
        for turn in scenario.turns
    )


def _expects_anything(expect: Expect | None) -> bool:
    """Whether it expects anything; tool_calls_ordered alone expects nothing."""
    return expect is not None and replace(expect, tool_calls_ordered=False) != _NO_EXPECTATION


def _says_anything(on_failure: Expect) -> bool:
    """Whether it asks for something. That words are absent is no message to the user."""
    absent: dict[str, Any] = dict.fromkeys(("reply_excludes", "said_excludes", "tool_calls_exclude"), ())
    return _expects_anything(replace(on_failure, **absent, said_ignore=None, ended=False))


def _checks_anything(scenario: Scenario) -> bool:
    """Whether anything besides an empty reply can fail."""
    if _expects_anything(scenario.expect):
        return True
    named = scorer_names(scenario.scorers)
    return any(
        (
            scenario.trajectory,
            scenario.metrics,
            scenario.expected_outcomes,
            scenario.expected_output,
            scenario.expected_tools,
            scenario.expected_tool_args,
            scenario.expected_state,
            scenario.end_state,
            scenario.limits,
            scenario.failures,
            len(scenario.scorers or ()) > len(named) or any(name != "passfail" for name in named),
        )
    )


def _check_metrics(scenario: Scenario, where: KeyPath, problems: Problems) -> None:
    selected = {choice.name: choice for choice in scenario.metrics or ()}
    for name, minimum in (scenario.thresholds or {}).items():
        if name not in selected:
            message = f"a threshold for {name!r}, which is not among the metrics"
            hint = did_you_mean(name, tuple(selected)) if selected else "Add it to 'metrics'"
            problems.add((*where, "thresholds", name), message, hint)
            continue
        useless = threshold_problem(selected[name], minimum)
        if useless is not None:
            problems.add((*where, "thresholds", name), *useless)
    problem = metrics_problem(scenario.metrics) if scenario.metrics else None
    if problem is not None:
        problems.add((*where, "metrics"), problem)
