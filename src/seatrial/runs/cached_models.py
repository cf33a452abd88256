"""Models that are only remembered: answers come from the cache, and nothing is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seatrial.model.results import ModelUse
from seatrial.model.scenario import Scenario, User
from seatrial.scenarios.models import ModelCast

if TYPE_CHECKING:
    from seatrial.llm.client import LLM
    from seatrial.llm.model import ModelSpec


class NotLive(Exception):
    """A scenario asks a model what the cache does not know, and asking is switched off."""


@dataclass(slots=True, kw_only=True)
class OfflineModels(ModelCast):
    """Makes users and judges that know what was answered before, and count what they would have had to ask."""

    refused: int = 0

    @property
    def llm(self) -> "LLM":
        if self._llm is None:
            from seatrial.llm.client import LLM

            self._llm = LLM(cache=self.cache, before_request=self._refuse)
        return self._llm

    def _check(self, given: Any) -> "ModelSpec":
        """No key and no SDK is needed for an answer that is there already."""
        from seatrial.llm.model import parse_model

        return parse_model(given, environ=self.environ)

    def _refuse(self, use: ModelUse) -> None:
        from seatrial.llm.types import ModelFailure

        self.refused += 1
        raise ModelFailure("the answer is not in the cache, and asking models is switched off", attempts=0, use=use)

    def knows_something(self) -> bool:
        """Whether the cache holds any answer at all."""
        return self.cache is not None and any(self.cache.glob("*/*.json"))


def asks_models(scenario: Scenario) -> bool:
    """Whether some model must speak for the scenario: a simulated user, a judge, an evaluator that asks one."""
    if isinstance(scenario.user, User) or scenario.metrics or scenario.expected_outcomes or scenario.failures:
        return True
    asked = list(scenario.scorers or ())
    for expect in (scenario.expect, *[turn.expect for turn in scenario.turns]):
        if expect is not None:
            if expect.judge or any(each.judge for each in expect.tool_calls_args):
                return True
            asked += expect.evaluators
    for each in asked:
        if each == "judge" or (isinstance(each, Mapping) and "judge" in each) or hasattr(each, "bound"):
            return True
    return False
