"""A user who says what was written down, line by line."""

from collections.abc import Sequence

from seatrial.model.protocols import UserMove

_STOP = UserMove(stop=True)


class ScriptedUser:
    """Says the messages in order, one a turn, and then stops. One per trial."""

    def __init__(self, messages: Sequence[str]) -> None:
        if not messages:
            raise ValueError("a scripted user needs at least one message")
        self._messages = tuple(messages)
        self._said = 0

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The next line, whatever the agent replied."""
        if self._said == len(self._messages):
            return _STOP
        message = self._messages[self._said]
        self._said += 1
        return UserMove(message=message)
