"""The evaluator that asks a model whether the agent follows a rubric."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.keys import Key
from seatrial.model.protocols import Context, TrialContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Amount, Model, Name, Votes
from seatrial.model.struct import InputStruct

if TYPE_CHECKING:  # loading a file with a judge must not load the model layer
    from seatrial.llm.client import LLM


class Judge(InputStruct, frozen=True):
    """Passes when a model finds that the turn, or the whole trial, follows the rubric."""

    rubric: Annotated[Name, Key("what the judge must find to be true")]
    model: Annotated[Model | None, Key("the judge's model, instead of models.judge or the settings")] = None
    retries: Annotated[Annotated[int, Meta(ge=0)], Key("requests after the first, if it fails")] = 2
    timeout: Annotated[Amount, Key("seconds for one request")] = 30.0
    votes: Annotated[Votes, Key("how many verdicts are taken; the majority decides")] = 1

    name: ClassVar[str] = "judge"

    def __post_init__(self) -> None:
        if not isinstance(self.rubric, str) or not self.rubric.strip():
            raise UsageError(f"judge.rubric: expected a text that says what the judge must find, got {self.rubric!r}.")
        check_votes("judge", votes=self.votes, retries=self.retries, timeout=self.timeout)

    def bound(self, llm: "LLM", default_model: Any = None) -> "BoundJudge":
        """The same judge with the run's client, and with the run's model if it names no model itself."""
        model = self.model if self.model is not None else default_model
        return BoundJudge(self.rubric, model, self.retries, self.timeout, self.votes, llm=llm)

    async def evaluate(self, ctx: Context) -> EvalResult:
        if isinstance(ctx, TrialContext) and not ctx.transcript.turns:
            error = ErrorInfo(kind=ErrorKind.JUDGE, message="there is no turn to judge")
            return EvalResult(passed=False, reasoning=error.message, error=error)
        what = "the whole conversation" if isinstance(ctx, TrialContext) else "the agent's part in the last turn"
        return await self._ask(what, ctx)

    async def judge_arguments(self, tool: str, ctx: Context) -> EvalResult:
        """Passes when the arguments of at least one call of the tool follow the rubric."""
        what = f"nothing but the arguments of the calls of the tool {tool!r}; one call that follows it is enough"
        return await self._ask(what, ctx)

    async def _ask(self, what: str, ctx: Context) -> EvalResult:
        from .prompts import attachments_of, conversation_message, record_of, rubric_system
        from .voting import ask_judge

        system = rubric_system(self.rubric, what=what)
        message = conversation_message(record_of(ctx), ctx.scenario)
        return await ask_judge(self, system=system, message=message, trial=ctx.trial, attached=attachments_of(ctx))


class BoundJudge(Judge, frozen=True, kw_only=True):
    """A judge that asks through the client of a run."""

    llm: Any

    def __repr__(self) -> str:
        return repr(Judge(self.rubric, self.model, self.retries, self.timeout, self.votes))


JudgeEvaluator = Judge
"""The name in pytest-agent-eval."""


def check_votes(where: str, *, votes: int, retries: int, timeout: float) -> None:
    """Raise UsageError for numbers that make no sense."""
    if isinstance(votes, bool) or not isinstance(votes, int) or votes < 1 or votes % 2 == 0:
        raise UsageError(f"{where}.votes: expected an odd number (1, 3, 5, …) for a majority, got {votes!r}.")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise UsageError(f"{where}.retries: expected a whole number from 0, got {retries!r}.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise UsageError(f"{where}.timeout: expected a number of seconds above 0, got {timeout!r}.")
