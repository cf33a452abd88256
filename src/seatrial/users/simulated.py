"""A user played by a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.llm.client import LLM
from seatrial.llm.model import ModelSpec
from seatrial.llm.types import ModelFailure, Question
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import UserMove
from seatrial.model.scenario import User
from seatrial.model.trial_errors import TrialError

from .prompt import dialogue, system_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What the model decides for the user."""

    message: str
    goal_met: bool
    stop: bool

    def __post_init__(self) -> None:
        if not self.message.strip() and not (self.goal_met or self.stop):
            raise ValueError("message must not be empty unless the conversation ends")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMove(Move):
    """The same form; but before the agent has said anything, nothing can be reached or given up."""

    def __post_init__(self) -> None:
        if not self.message.strip():
            raise ValueError("message must not be empty: say the first words of the conversation")
        if self.goal_met or self.stop:
            raise ValueError("goal_met and stop must be false: the agent has not replied yet")


class SimulatedUser:
    """Lets a model play the user of a scenario. One per trial."""

    def __init__(
        self,
        user: User,
        *,
        llm: LLM,
        model: ModelSpec,
        trial: int = 0,
        timeout: float = 30.0,
        attempts: int = 3,
    ) -> None:
        self._user = user
        self._llm = llm
        self._model = model
        self._trial = trial
        """Part of the cache key: trials are to differ, and each is to be the same when run again."""
        self._timeout = timeout
        self._attempts = attempts
        self._system = system_prompt(user)

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The next move. Raises TrialError(simulator) when the model gives none."""
        if not conversation and self._user.first_message is not None:
            return UserMove(message=self._user.first_message)
        schema: type[Move] = Move if conversation else FirstMove
        question = Question(
            role="user",
            model=self._model,
            system=self._system,
            messages=dialogue(conversation),
            schema=schema,
            salt=f"trial {self._trial}",
            timeout=self._timeout,
            attempts=self._attempts,
        )
        try:
            answer = await self._llm.ask(question)
        except ModelFailure as failure:
            error = TrialError(
                ErrorKind.SIMULATOR,
                f"the simulated user gave no answer after {_requests(failure.attempts)}: {failure}",
                hint="the agent is not to blame; check the user model, or choose another with --user-model",
            )
            error.use = failure.use
            raise error from failure
        move = answer.value
        message = move.message.strip()
        return UserMove(message=message or None, goal_met=move.goal_met, stop=move.stop, use=answer.use)


def _requests(count: int) -> str:
    return f"{count} request" if count == 1 else f"{count} requests"
