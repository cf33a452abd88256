"""Scripted users, and users that are Python functions."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial import foreign
from seatrial.errors import UsageError
from seatrial.model.content import Attachment
from seatrial.model.conversation import ErrorKind
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import TrialUser, UserMove
from seatrial.model.results import TrialError


class ScriptedUser:
    """Makes one move per turn, in order, then stops. One object per trial."""

    def __init__(self, moves: Sequence[str | UserMove]) -> None:
        if not moves:
            raise ValueError("a scripted user needs at least one message")
        self._moves = tuple(UserMove(message=move) if isinstance(move, str) else move for move in moves)
        self._made = 0

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The next move."""
        if self._made == len(self._moves):
            return UserMove(stop=True)
        self._made += 1
        return self._moves[self._made - 1]

    def skip(self, turns: int) -> None:
        """Leave out the first moves: a forked conversation has them already."""
        self._made = min(turns, len(self._moves))


class AttachingUser:
    """A user whose first message has attachments. One object per trial."""

    def __init__(self, user: TrialUser, attachments: Sequence[Attachment]) -> None:
        self._user = user
        self._left = tuple(attachments)

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        move = await self._user.next(conversation)
        attached, self._left = self._left, ()
        return replace(move, attachments=attached) if attached else move

    def see(self, attachments: Sequence[Attachment]) -> None:
        show_to(self._user, attachments)

    def skip(self, turns: int) -> None:
        """A forked conversation has the first message, with the attachments, already."""
        self._left = ()


def show_to(user: TrialUser, attachments: Sequence[Attachment]) -> None:
    """Show the agent's attachments to a user that can see them."""
    see = getattr(user, "see", None)
    if see is not None:
        see(attachments)


_KEYS = ("message", "goal_met", "stop")
_RETURNS = "a text, None (stop), a UserMove, or a mapping with message, goal_met, stop"


class FunctionUser:
    """Calls a function for each move. One object per trial.

    The function gets the conversation, a list of (user, reply) pairs, and `trial` (the index, from 0) and `seed` if it
    has such parameters. It may be async.
    """

    def __init__(self, function: Callable[..., Any], *, trial: int = 0, seed: int = 0) -> None:
        self._function = function
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self._given = _accepted_arguments(function, {"trial": trial, "seed": seed}, name=self._name)

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The function's move. Raises TrialError(simulator) if it raises."""
        pairs = list(conversation)
        try:
            returned = await foreign.call(self._function, pairs, **self._given)
        except foreign.ForeignError as error:
            raise TrialError(
                ErrorKind.SIMULATOR,
                f"the user function {self._name} raised {error}",
                hint="a user function's own bug says nothing about the agent; fix it and run again",
                traceback=error.traceback,
            ) from error.raised
        return _move(returned, name=self._name)


def _accepted_arguments(function: Callable[..., Any], offered: Mapping[str, int], *, name: str) -> dict[str, int]:
    """The offered arguments that the function takes. Raises UsageError if it does not take the conversation."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins and C functions have none; they get only the conversation
        return {}
    given = {key: value for key, value in offered.items() if key in signature.parameters}
    try:
        signature.bind([], **given)
    except TypeError as error:
        raise UsageError(
            f"user function {name}{signature}: cannot be called with the conversation ({error}). "
            "Write it as: def user(conversation), with trial and seed as further parameters if you like."
        ) from error
    return given


def _move(returned: Any, *, name: str) -> UserMove:
    if returned is None:
        return UserMove(stop=True)
    if isinstance(returned, str):
        returned = UserMove(message=returned)
    if isinstance(returned, Mapping):
        returned = _move_from(returned, name=name)
    if not isinstance(returned, UserMove):
        raise _refused(name, f"returned {returned!r:.200}")
    if not (returned.goal_met or returned.stop) and not (returned.message or "").strip():
        raise _refused(name, "said nothing and did not stop")
    return replace(returned, message=plain_value(returned.message))


def _move_from(fields: Mapping[str, Any], *, name: str) -> UserMove:
    unknown = [key for key in fields if key not in _KEYS]
    if unknown:
        raise _refused(name, f"returned a mapping with the unknown key {unknown[0]!r}")
    message = fields.get("message")
    goal_met, stop = fields.get("goal_met", False), fields.get("stop", False)
    if not isinstance(message, str | None) or not isinstance(goal_met, bool) or not isinstance(stop, bool):
        raise _refused(name, f"returned {dict(fields)!r:.200}")
    return UserMove(message=message, goal_met=goal_met, stop=stop)


def _refused(name: str, problem: str) -> TrialError:
    return TrialError(ErrorKind.SIMULATOR, f"the user function {name} {problem}", hint=f"return {_RETURNS}")
