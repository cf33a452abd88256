"""What is asked of a model, what it answers, and how asking can fail."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from seatrial.errors import SeatrialError
from seatrial.model.results import ModelUse

from .model import ModelSpec

T = TypeVar("T")
Role: TypeAlias = Literal["user", "judge", "dedup"]
Said: TypeAlias = tuple[Literal["user", "assistant"], str]
"""Who spoke, from the model's point of view, and what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[T]):
    """One question whose answer is an object of a given type."""

    role: Role
    model: ModelSpec
    system: str
    messages: tuple[Said, ...]
    """Begins and ends with the user's side."""
    schema: type[T]
    """A pydantic model, dataclass or TypedDict: its JSON Schema is sent, the answer is validated by it."""
    salt: str = ""
    """Keeps answers apart in the cache that must not be the same: the vote index, the trial index."""
    timeout: float = 30.0
    """Seconds for one request."""
    attempts: int = 3
    """How many requests may fail on their way before we give up; one more repairs a malformed answer."""
    fallback: type[T] | None = None
    """A form with less in it. What an answer of this form lacks is asked for once, and then done without."""

    def __post_init__(self) -> None:
        if not self.messages or self.messages[0][0] != "user" or self.messages[-1][0] != "user":
            raise ValueError("messages must begin and end with the user's side")
        if self.attempts < 1 or self.timeout <= 0:
            raise ValueError(f"attempts and timeout must be positive, got {self.attempts!r} and {self.timeout!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """A validated answer, and what it took."""

    value: T
    use: ModelUse
    raw: str
    """The text the model wrote."""
    model: str
    """The name the provider answered with, or the one we asked for."""


class ModelFailure(SeatrialError):
    """There is no answer: the model could not be reached, refused, or wrote what no one could read."""

    def __init__(self, message: str, *, attempts: int, use: ModelUse) -> None:
        super().__init__(message)
        self.attempts = attempts
        """How many requests were made."""
        self.use = use
        """What they took."""
