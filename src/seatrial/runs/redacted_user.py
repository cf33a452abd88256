"""A simulated user is told nothing secret: what it hears goes to a model, and what that answers goes to a cache."""

from collections.abc import Sequence

from msgspec.structs import replace

from seatrial.engine.redact import Redaction
from seatrial.model.protocols import PreparedScenario, UserMove, UserPart
from seatrial.model.scenario import User


def discreet(prepared: PreparedScenario, redaction: Redaction) -> PreparedScenario:
    """The scenario, with a simulated user that hears replies without the secrets in them."""
    if not isinstance(prepared.scenario.user, User):
        return prepared
    make_user = prepared.make_user
    return replace(prepared, make_user=lambda index, seed: _DiscreetUser(make_user(index, seed), redaction))


class _DiscreetUser:
    def __init__(self, user: UserPart, redaction: Redaction) -> None:
        self._user = user
        self._redaction = redaction

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        heard = [(self._redaction.text(said), self._redaction.text(reply)) for said, reply in conversation]
        return await self._user.next(heard)
