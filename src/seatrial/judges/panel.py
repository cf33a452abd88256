"""One question put to the judge, as often as there are votes, and the answer of the majority."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from seatrial.errors import UsageError
from seatrial.llm.client import LLM
from seatrial.llm.model import ModelSpec, parse_model
from seatrial.llm.types import ModelFailure, Question
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.results import Check, EvalResult, ModelUse, sum_model_use
from seatrial.model.trial_errors import TrialError

from .answer_schema import Answer, opinion_type

NO_MODEL = "no judge model is set"
SET_MODEL = (
    "Set one: --judge-model openai:gpt-5-mini, or models: {judge: …} in the suite, or judge_model in [tool.seatrial], "
    "or model= where the judge is made."
)
Model: TypeAlias = str | Mapping[str, Any] | ModelSpec | None
NOT_THE_AGENT = "The agent is not to blame; check the judge model, or choose another with --judge-model."


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One answer, or why there is none."""

    passed: bool | None
    text: str
    use: ModelUse | None = None


class Panel:
    """Who is asked, how often, and how long one waits. A judge is a dataclass that adds these fields to its own."""

    __slots__ = ()

    model: Model
    """None: the judge model of the run, or of the settings where there is no run."""
    retries: int
    timeout: float
    """Seconds for one request."""
    votes: int
    """Odd. The majority decides; asking stops as soon as it is certain."""
    llm: LLM | None
    """None: there is no run, so one is opened for the question."""

    def check(self) -> None:
        """Raises UsageError where the numbers make no sense."""
        check_panel("judge", votes=self.votes, retries=self.retries, timeout=self.timeout)

    def bound(self, llm: LLM, default_model: Model = None) -> Self:
        """The same judge, asking through the run's LLM, and its model where it names none itself."""
        judge: Any = self
        bound: Self = replace(judge, llm=llm, model=self.model if self.model is not None else default_model)
        return bound

    async def ask(self, *, system: str, message: str) -> EvalResult:
        """What the majority says; an error of class judge where there is none."""
        try:
            given = self.model if self.model is not None or self.llm is not None else _model_of_settings()
            if given is None:
                error = ErrorInfo(kind=ErrorKind.CONFIG, message=NO_MODEL, hint=SET_MODEL)
                return EvalResult(passed=False, reasoning=f"{NO_MODEL}. {SET_MODEL}", error=error)
            model = parse_model(given)
            if self.llm is not None:
                votes = await self._collect(self.llm, model, system, message)
            else:
                async with LLM() as llm:
                    votes = await self._collect(llm, model, system, message)
        except UsageError as mistake:
            error = ErrorInfo(kind=ErrorKind.CONFIG, message=str(mistake))
            return EvalResult(passed=False, reasoning=str(mistake), error=error)
        except TrialError as stop:
            return EvalResult(passed=False, reasoning=stop.info.message, error=stop.info)
        return _count(votes, self.votes)

    async def _collect(self, llm: LLM, model: ModelSpec, system: str, message: str) -> list[Vote]:
        votes: list[Vote] = []
        for index in range(self.votes):
            question: Question[Answer] = Question(
                role="judge",
                model=model,
                system=system,
                messages=(("user", message),),
                schema=opinion_type(),
                salt=f"vote {index}",
                timeout=self.timeout,
                attempts=self.retries + 1,
            )
            votes.append(await _vote(llm, question))
            if _is_certain(votes, self.votes):
                break
        return votes


def _model_of_settings() -> Model:
    """For a judge that is used by itself: there is no run that could tell it its model."""
    from os import environ
    from pathlib import Path

    from seatrial.settings import read_settings

    model: Model = read_settings(Path.cwd(), environ)["judge_model"]
    return model


def check_panel(where: str, *, votes: int, retries: int, timeout: float) -> None:
    """Nothing when the numbers make sense, else a UsageError."""
    if isinstance(votes, bool) or not isinstance(votes, int) or votes < 1 or votes % 2 == 0:
        raise UsageError(f"{where}: votes must be odd (1, 3, 5, …), so that there is a majority; got {votes!r}.")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise UsageError(f"{where}: retries must be a whole number from 0, got {retries!r}.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise UsageError(f"{where}: timeout must be a number of seconds above 0, got {timeout!r}.")


def attempts_in_words(attempts: int) -> str:
    return f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts"


async def _vote(llm: LLM, question: Question[Answer]) -> Vote:
    try:
        answer = await llm.ask(question)
    except ModelFailure as failure:
        return Vote(passed=None, text=str(failure), use=failure.use)
    return Vote(passed=answer.value["passed"], text=answer.value["reasoning"].strip(), use=answer.use)


def _is_certain(votes: Sequence[Vote], total: int) -> bool:
    """Whether no further vote could change anything: a majority is there, or can no longer come about."""
    need = total // 2 + 1
    most = max(sum(vote.passed is answer for vote in votes) for answer in (True, False))
    return most >= need or most + total - len(votes) < need


def _count(votes: Sequence[Vote], total: int) -> EvalResult:
    use = sum_model_use(vote.use for vote in votes)
    checks = tuple(
        Check(
            name=f"vote {number}" if total > 1 else "judge",
            passed=vote.passed is True,
            detail=vote.text if vote.passed is not None else f"no answer: {vote.text}",
        )
        for number, vote in enumerate(votes, 1)
    )
    for answer in (True, False):
        same = [vote for vote in votes if vote.passed is answer]
        if len(same) >= total // 2 + 1:
            against = [vote.text for vote in votes if vote.passed is (not answer)]
            reasoning = same[0].text if total == 1 else _with_votes(same[0].text, len(same), len(votes), against)
            return EvalResult(passed=answer, reasoning=reasoning, checks=checks, use=use)
    missing = [vote for vote in votes if vote.passed is None]
    message = f"Judge failed after {attempts_in_words(use.calls)}: {missing[-1].text}"
    if total > 1:
        message += f" ({len(missing)} of {len(votes)} votes have no answer, and the others make no majority of {total})"
    error = ErrorInfo(kind=ErrorKind.JUDGE, message=message, hint=NOT_THE_AGENT)
    return EvalResult(passed=False, reasoning=message, checks=checks, error=error, use=use)


def _with_votes(text: str, same: int, asked: int, against: Sequence[str]) -> str:
    said = f"{text} ({same} of {asked} votes"
    return f"{said}; disagreeing: {' / '.join(against)})" if against else f"{said})"
