import asyncio

import pytest

from seatrial.model.protocols import UserMove
from seatrial.users.scripted import ScriptedUser


def test_the_lines_are_said_in_order_and_then_the_user_stops() -> None:
    user = ScriptedUser(["Hello", "Bye"])

    async def main() -> list[UserMove]:
        return [
            await user.next([]),
            await user.next([("Hello", "Hi")]),
            await user.next([("Hello", "Hi"), ("Bye", "")]),
        ]

    assert asyncio.run(main()) == [UserMove(message="Hello"), UserMove(message="Bye"), UserMove(stop=True)]


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        ScriptedUser([])
