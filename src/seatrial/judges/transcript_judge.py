"""Metrics, outcomes and behaviour failures of a trial, asked for in one request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.llm.client import LLM
from seatrial.llm.model import ModelSpec
from seatrial.llm.types import ModelFailure, Question
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import TrialContext
from seatrial.model.results import Judgement, MetricScore, ModelUse, OutcomeResult, sum_model_use
from seatrial.model.trial_errors import TrialError

from .answer_schema import Answer, Asked, answer_type, outcome_ids, scale_of
from .ballots import Ballot, Item, Undecided, combine, disagreements, is_settled, read_ballot
from .failure_categories import Category, load_categories
from .metrics import Metric, overall_score
from .panel import NOT_THE_AGENT, attempts_in_words, check_panel
from .prompt_transcript import LONGEST, record_of
from .prompts import conversation_message, trial_system


@dataclass(slots=True)
class _Poll:
    """The votes so far, and what they took."""

    ballots: list[Ballot] = field(default_factory=list)
    uses: list[ModelUse] = field(default_factory=list)
    failures: list[ModelFailure] = field(default_factory=list)
    models: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptJudge:
    """Judges a whole trial by its transcript."""

    llm: LLM = field(repr=False, compare=False)
    model: ModelSpec
    metrics: tuple[Metric, ...] = ()
    """As `resolve_metrics` gives them."""
    outcomes: tuple[str, ...] = ()
    failures: bool = False
    """Whether to look for behaviour failures."""
    categories: Mapping[str, Category] | None = None
    """None: those of `load_categories`."""
    votes: int = 1
    retries: int = 2
    timeout: float = 60.0
    longest: int = LONGEST
    """Characters of the transcript that are shown; longer ones are cut."""

    def __post_init__(self) -> None:
        check_panel("judge", votes=self.votes, retries=self.retries, timeout=self.timeout)
        if not self.metrics and not self.outcomes and not self.failures:
            raise UsageError("judge: nothing is asked. Give it metrics, expected_outcomes or failures.")
        for number, statement in enumerate(self.outcomes, 1):
            if not isinstance(statement, str) or not statement.strip():
                raise UsageError(f"expected_outcomes[{number}]: expected a statement, got {statement!r}.")

    async def judge(self, ctx: TrialContext) -> tuple[Judgement, ModelUse]:
        """Everything the judge says of the trial, and what asking took. A judge without an answer is an error."""
        turns = len(ctx.transcript.turns)
        if not turns:
            return Judgement(error=ErrorInfo(kind=ErrorKind.JUDGE, message="there is no turn to judge")), ModelUse()
        record = record_of(ctx, longest=self.longest)
        system = trial_system(self.metrics, outcome_ids(self.outcomes), self._categories)
        poll = _Poll()
        try:
            await self._collect(poll, system, conversation_message(record, ctx.scenario), turns)
            judgement = self._judgement(combine(poll.ballots, self.votes))
        except Undecided as left_open:
            judgement = Judgement(error=self._failure(poll, left_open))
        except UsageError as mistake:
            judgement = Judgement(error=ErrorInfo(kind=ErrorKind.CONFIG, message=str(mistake)))
        except TrialError as stop:
            judgement = Judgement(error=stop.info)
        return replace(judgement, details=self._details(poll, record.cut)), sum_model_use(poll.uses)

    @property
    def _categories(self) -> Mapping[str, Category]:
        if not self.failures:
            return {}
        return load_categories() if self.categories is None else self.categories

    @property
    def _weighted(self) -> bool:
        return any(metric.weight is not None for metric in self.metrics)

    async def _collect(self, poll: _Poll, system: str, message: str, turns: int) -> None:
        asked = Asked(
            metrics=tuple(scale_of(metric) for metric in self.metrics),
            turns=turns,
            outcomes=len(self.outcomes),
            categories=tuple(self._categories),
        )
        without_outcomes = replace(asked, outcomes_optional=True) if self.outcomes and self._weighted else None
        for index in range(self.votes):
            question: Question[Answer] = Question(
                role="judge",
                model=self.model,
                system=system,
                messages=(("user", message),),
                schema=answer_type(asked),
                fallback=None if without_outcomes is None else answer_type(without_outcomes),
                salt=f"vote {index}",
                timeout=self.timeout,
                attempts=self.retries + 1,
            )
            await self._vote(poll, question, turns)
            # As many missing votes as would make a majority leave nothing to be decided.
            if is_settled(poll.ballots, self.votes) or len(poll.failures) > self.votes // 2:
                return

    async def _vote(self, poll: _Poll, question: Question[Answer], turns: int) -> None:
        try:
            answer = await self.llm.ask(question)
        except ModelFailure as failure:
            poll.failures.append(failure)
            poll.uses.append(failure.use)
            return
        poll.uses.append(answer.use)
        poll.models.append(answer.model)
        poll.ballots.append(read_ballot(answer.value, metrics=self.metrics, turns=turns, categories=self._categories))

    def _judgement(self, ballot: Ballot) -> Judgement:
        scores = tuple(
            self._score(metric, item, ballot)
            for metric in self.metrics
            for item in ballot.items
            if item.kind == "score" and item.name == metric.name
        )
        outcomes = tuple(
            OutcomeResult(
                id=id, statement=statement, passed=ballot.value(item) is True, justification=ballot.items[item][1]
            )
            for id, statement in outcome_ids(self.outcomes).items()
            if (item := Item("outcome", id)) in ballot.items
        )
        return Judgement(
            scores=scores,
            outcomes=outcomes,
            failures=ballot.failures,
            overall_score=overall_score(scores) if self._weighted else None,
            outcomes_unavailable=bool(self.outcomes) and not ballot.outcomes_given,
            summary=ballot.summary,
        )

    def _score(self, metric: Metric, item: Item, ballot: Ballot) -> MetricScore:
        answer, reason = ballot.items[item]
        value = metric.value_of(answer)
        return MetricScore(
            metric=metric.name,
            value=value,
            reason=reason,
            turn=item.turn,
            label=metric.label_of(value),
            weight=metric.weight,
        )

    def _failure(self, poll: _Poll, left_open: Undecided) -> ErrorInfo:
        if not poll.failures:
            message = f"the {self.votes} votes of the judge do not settle: {left_open}"
        else:
            attempts = attempts_in_words(sum_model_use(poll.uses).calls)
            message = f"Judge failed after {attempts}: {poll.failures[-1]}"
            if self.votes > 1:
                message += f" ({len(poll.failures)} of {self.votes} votes have no answer)"
        return ErrorInfo(kind=ErrorKind.JUDGE, message=message, hint=NOT_THE_AGENT)

    def _details(self, poll: _Poll, cut: Sequence[str]) -> dict[str, Any]:
        details: dict[str, Any] = {"model": self.model.label, "answered_by": sorted(set(poll.models))}
        if self.votes > 1:
            details["votes"] = {"asked": len(poll.uses), "answered": len(poll.ballots), "of": self.votes}
            details["disagreements"] = disagreements(poll.ballots)
        if cut:
            details["cut"] = list(cut)
        return details
