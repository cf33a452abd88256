"""Our evaluators and thresholds beside those of pytest-agent-eval: random input, verdicts and reasons compared."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_agent_eval.evaluators as their_evaluators
import pytest_agent_eval.models as their_models
import yaml
from pytest_agent_eval.evaluators.tool_call import ToolCallArgsEvaluator as TheirToolCallArgsEvaluator
from pytest_agent_eval.runner import run_transcript
from pytest_agent_eval.yaml_loader import TranscriptError, load_transcript

import seatrial

CASES = 1000
TRANSCRIPTS = 300
WORDS = ("booked", "Booked", "BK-17", "10am", "straße", "STRASSE", "İ", "ǅ", "", " ", "\n", "sorry")
PATTERNS = (r"BK-\d+", "booked", "^booked", r"sorry$", r"\d", "(?-i:Booked)", "İ", ".", r"^\s*$")
TOOLS = ("auth", "fetch", "Fetch", "respond")
VALUES = (1, 1.0, 2, 0, True, False, "1", "", "a", "A", None, [1], [1, 2], [2, 1], [True], {}, {"x": 1}, {"x": True})

BOOLEAN = "a boolean is no number"
BLANK_REPLY = "every turn needs a reply that is not blank"
DIFFERENCES = {BOOLEAN: (True, False), BLANK_REPLY: (True, False)}
"""What pytest-agent-eval says, and what Seatrial says. docs/differences.md gives the reasons."""

PASSED_TEXTS = "All substring and pattern checks passed", "All substring checks passed"
"""The reason of a reply that has all it must have; ours is that of the document, which knows no patterns."""

Call = tuple[str, Any]


class Case(NamedTuple):
    """An evaluator by its name and arguments, and what it looks at."""

    evaluator: str
    arguments: dict[str, Any]
    reply: str = ""
    calls: tuple[Call, ...] = ()


def theirs(case: Case) -> their_models.EvalResult:
    kinds = {**vars(their_evaluators), "ToolCallArgsEvaluator": TheirToolCallArgsEvaluator}
    calls = [their_models.ToolCall(*call) for call in case.calls]
    ctx = their_models.TurnContext(user="Hello", reply=case.reply, tool_calls=calls, history=[])
    return asyncio.run(kinds[case.evaluator](**case.arguments).evaluate(ctx))


def ours(case: Case) -> seatrial.EvalResult:
    calls = [seatrial.ToolCall(*call) for call in case.calls]
    ctx = seatrial.TurnContext(user="Hello", reply=case.reply, tool_calls=calls)
    return asyncio.run(getattr(seatrial, case.evaluator)(**case.arguments).evaluate(ctx))


def some(rng: random.Random, pool: tuple[str, ...], most: int = 2) -> list[str]:
    return rng.choices(pool, k=rng.randint(0, most))


def random_reply(rng: random.Random) -> str:
    reply = rng.choice((" ", "", "-")).join(rng.choices(WORDS, k=rng.randint(0, 4)))
    return rng.choice((reply, reply.upper(), reply.lower()))


def contains_case(rng: random.Random) -> Case:
    groups = {"any_of": WORDS, "all_of": WORDS, "matches_any": PATTERNS, "matches_all": PATTERNS}
    arguments: dict[str, Any] = {group: some(rng, pool) for group, pool in groups.items() if rng.random() < 0.5}
    if rng.random() < 0.3:
        arguments["case_sensitive"] = rng.random() < 0.7
    return Case("ContainsEvaluator", arguments, reply=random_reply(rng))


def tool_call_case(rng: random.Random) -> Case:
    include, exclude = some(rng, TOOLS, 3), some(rng, TOOLS, 1)
    called = [*include, *some(rng, TOOLS, 2)]
    if rng.random() < 0.5:
        rng.shuffle(called)
    arguments = {"must_include": include, "must_exclude": exclude, "ordered": rng.random() < 0.5}
    return Case("ToolCallEvaluator", arguments, calls=tuple((name, {}) for name in called))


def args_case(rng: random.Random) -> Case:
    args = {key: rng.choice(VALUES) for key in rng.sample(("day", "time"), rng.randint(0, 2))}
    calls = tuple((rng.choice(("book", "book", "look")), changed(rng, args)) for _ in range(rng.randint(0, 3)))
    return Case(
        "ToolCallArgsEvaluator", {"tool": "book", "args": args, "mode": rng.choice(("subset", "exact"))}, calls=calls
    )


def changed(rng: random.Random, args: dict[str, Any]) -> Any:
    """The same arguments in many cases; else with one more, less, changed or of another type, or not captured."""
    args, what = dict(args), rng.random()
    if what < 0.2:
        args[rng.choice(("day", "time", "unit"))] = rng.choice(VALUES)
    elif what < 0.3 and args:
        args.popitem()
    elif what < 0.6:
        args = {key: other_type(value) for key, value in args.items()}
    elif what < 0.7:
        return None
    return args


def other_type(value: Any) -> Any:
    """A number for a boolean, a boolean for 0 and 1, a float for a whole number."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return bool(value) if value in (0, 1) else float(value)
    return value


def marked(value: Any) -> Any:
    """The value with booleans that equal no number."""
    if isinstance(value, bool):
        return f"boolean {value}"
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    return [marked(item) for item in value] if isinstance(value, list) else value


def known_difference(case: Case) -> str | None:
    """Why Seatrial does not pass what pytest-agent-eval passes; None where it must. Asks neither of the two."""
    if case.evaluator != "ToolCallArgsEvaluator":
        return None
    wanted, exact = marked(case.arguments["args"]), case.arguments["mode"] == "exact"
    made = [marked(args) for name, args in case.calls if name == "book" and args is not None]
    right = [
        args == wanted if exact else all(key in args and args[key] == value for key, value in wanted.items())
        for args in made
    ]
    return None if any(right) else BOOLEAN


@pytest.mark.parametrize("make", [contains_case, tool_call_case, args_case])
def test_random_turns_get_the_same_verdict_but_for_known_differences(make: Any) -> None:
    rng = random.Random(make.__name__)
    seen: Counter[Any] = Counter()
    for _ in range(CASES):
        case = make(rng)
        said, found = theirs(case).passed, ours(case).passed
        difference = known_difference(case) if said else None
        wanted = (said, said) if difference is None else DIFFERENCES[difference]
        assert (said, found) == wanted, f"{difference or 'pytest-agent-eval and Seatrial differ'}: {case}"
        seen[difference or found] += 1
    assert min(seen[True], seen[False]) > CASES / 20, "cases of both verdicts"
    assert bool(seen[BOOLEAN]) == (make is args_case)


@pytest.mark.parametrize("make", [contains_case, tool_call_case])
def test_random_turns_get_the_same_reasons(make: Any) -> None:
    rng = random.Random(make.__name__)
    for _ in range(CASES):
        case = make(rng)
        said = theirs(case).reasoning.replace(*PASSED_TEXTS)
        assert ours(case).reasoning == said, str(case)


Answers = list[list[tuple[str, list[str]]]]
"""By run and turn: the reply, and the tools that were called."""


def random_transcript(rng: random.Random, number: int) -> tuple[dict[str, Any], Answers]:
    turns = [random_turn(rng, f"{number}.{turn}") for turn in range(rng.randint(1, 2))]
    file: dict[str, Any] = {"id": f"transcript {number}", "turns": turns}
    if rng.random() < 0.8:
        file["runs"] = rng.randint(1, 6)
    if rng.random() < 0.8:
        file["threshold"] = rng.choice((0.1, 0.2, 0.3, 0.33, 0.5, 0.6, 0.66, 0.7, 0.8, 0.9, 1, 1.0))
    return file, [[random_answer(rng) for _ in turns] for _ in range(file.get("runs", 1))]


def random_turn(rng: random.Random, user: str) -> dict[str, Any]:
    pools = {
        "reply_contains_any": ("booked", "10am"),
        "reply_contains_all": ("booked", "BK-17"),
        "reply_matches_any": PATTERNS,
        "tool_calls_include": TOOLS[:2],
        "tool_calls_exclude": TOOLS[2:],
    }
    expect: dict[str, Any] = {
        key: rng.choices(pool, k=rng.randint(1, 2)) for key, pool in pools.items() if rng.random() < 0.2
    }
    if "tool_calls_include" in expect and rng.random() < 0.5:
        expect["tool_calls_ordered"] = True
    return {"user": user, "expect": expect} if expect else {"user": user}


def random_answer(rng: random.Random) -> tuple[str, list[str]]:
    if rng.random() < 0.5:
        return "Booked: BK-17 at 10am.", ["auth", "fetch"]
    return random_reply(rng), rng.choices(TOOLS, k=rng.randint(0, 3))


def their_report(path: Path, answers: Answers) -> their_models.TranscriptResult:
    conversations: list[Any] = []

    async def agent(history: list[dict[str, Any]]) -> tuple[str, list[str]]:
        if not any(history is one for one in conversations):
            conversations.append(history)
        [run] = [index for index, one in enumerate(conversations) if one is history]
        return answers[run][len(history) // 2]

    return asyncio.run(run_transcript(load_transcript(path), agent))


def our_report(path: Path, answers: dict[str, Answers]) -> seatrial.Report:
    async def agent(messages: list[dict[str, Any]], ctx: Any) -> tuple[str, list[str]]:
        number, turn = messages[-1]["content"].split(".")
        return answers[number][int(ctx.trial_id.rpartition("-")[2]) - 1][int(turn)]

    report = seatrial.run(path, agent=agent, store=None)
    assert isinstance(report.passed, bool), "a run that fails is asked about on purpose"
    return report


def write(path: Path, file: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(file, allow_unicode=True), encoding="utf-8")
    return path


def test_random_transcripts_get_the_same_verdict_but_for_known_differences(tmp_path: Path) -> None:
    """The same files, loaded and run by both: the verdict of each run, and the share of them that must pass."""
    rng = random.Random("transcripts")
    made = {str(number): random_transcript(rng, number) for number in range(TRANSCRIPTS)}
    paths = {number: write(tmp_path / f"{number}.yaml", file) for number, (file, _) in made.items()}
    report = our_report(tmp_path, {number: answers for number, (_, answers) in made.items()})
    passed = {one.entry.key.name: one.verdict.passed for one in report.outcome.scenarios}
    seen: Counter[Any] = Counter()
    for number, (file, answers) in made.items():
        said, found = their_report(paths[number], answers), passed[file["id"]]
        blank = [not all(reply.strip() for reply, _ in run) for run in answers]
        wanted = [run.passed and not without for run, without in zip(said.runs, blank, strict=True)]
        assert [bool(trial) for trial in report.trials(file["id"])] == wanted, file
        if said.passed != found:
            assert any(blank), f"pytest-agent-eval and Seatrial differ: {file}, {answers}"
        seen[said.passed, found] += 1
    assert seen[DIFFERENCES[BLANK_REPLY]] > 0
    assert seen[False, True] == 0
    assert min(seen[True, True], seen[False, False]) > TRANSCRIPTS / 20, "transcripts of both verdicts"


def test_known_difference_empty_lists_and_rubrics_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "one.yaml", {"id": "one", "turns": [{"user": "0.0", "expect": {"reply_contains_any": []}}]})
    assert their_report(path, [[("anything", [])]]).passed
    with pytest.raises(seatrial.UsageError, match="empty"):
        our_report(path, {"0": [[("anything", [])]]})


def test_known_difference_a_run_that_raises_is_one_trial_that_errored(tmp_path: Path) -> None:
    path = write(tmp_path / "one.yaml", {"id": "one", "runs": 4, "threshold": 0.5, "turns": [{"user": "hello"}]})

    async def agent(messages: list[dict[str, Any]], ctx: Any = None) -> tuple[str, list[str]]:
        if ctx is None or ctx.trial_id.endswith("-2"):
            raise RuntimeError("down for a moment")
        return "Hello.", []

    with pytest.raises(RuntimeError):
        asyncio.run(run_transcript(load_transcript(path), agent))
    report = seatrial.run(path, agent=agent, store=None)
    assert report.passed
    assert [bool(trial) for trial in report.trials()] == [True, False, True, True]


@pytest.mark.parametrize("group", ["any_of", "all_of"])
def test_known_difference_a_text_for_a_list_is_refused(group: str) -> None:
    """pytest-agent-eval takes it letter by letter."""
    case = Case("ContainsEvaluator", {group: "no"}, reply="one")
    assert theirs(case).passed
    with pytest.raises(seatrial.UsageError, match="expected a list of strings, got the string 'no'"):
        ours(case)


def test_known_difference_a_call_is_no_text() -> None:
    """`"cancel" not in ctx.tool_calls` would hold whatever was called."""
    assert their_models.ToolCall("book") == "book"
    with pytest.raises(TypeError, match="tools_called"):
        assert seatrial.ToolCall("book") == "book"


def test_known_difference_a_matcher_is_asked_not_compared() -> None:
    asked = {"tool": "book", "args": {"day": {"$gt": 1}}}
    case = Case("ToolCallArgsEvaluator", asked, calls=(("book", {"day": 2}),))
    assert ours(case).passed
    assert not theirs(case).passed


def test_unknown_keys_are_refused_by_both(tmp_path: Path) -> None:
    path = write(
        tmp_path / "one.yaml", {"id": "one", "turns": [{"user": "0.0", "expect": {"reply_contain_any": ["x"]}}]}
    )
    with pytest.raises(TranscriptError, match="Did you mean 'reply_contains_any'"):
        load_transcript(path)
    with pytest.raises(seatrial.UsageError, match="reply_contains_any"):
        our_report(path, {})
