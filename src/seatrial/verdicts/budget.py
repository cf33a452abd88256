"""What trials cost, as a budget counts it."""

from seatrial.model.results import ModelUse


class Spending:
    """Costs added up trial by trial. An unknown cost is not free: it counts as much as the dearest known one."""

    def __init__(self) -> None:
        self._known = 0.0
        self._dearest: float | None = None
        self._unknown = 0
        self.agent_is_silent = False
        """Some trial does not say what the agent itself cost; that cannot be counted."""

    def add(self, agent_usd: float | None, use: ModelUse | None) -> None:
        """Count a trial: what the agent says it cost, and what our own model calls took."""
        self._known += agent_usd or 0.0
        self.agent_is_silent = self.agent_is_silent or agent_usd is None
        if use is None or not use.calls:
            return
        if use.cost_usd is None:
            self._unknown += 1
            return
        self._known += use.cost_usd
        self._dearest = max(use.cost_usd, self._dearest or 0.0)

    @property
    def total_usd(self) -> float | None:
        """None when models were asked and the cost of no trial is known."""
        if self._unknown and self._dearest is None:
            return None
        return self._known + self._unknown * (self._dearest or 0.0)

    def reaches(self, budget_usd: float) -> bool:
        """Whether no more may be spent; what cannot be counted cannot be kept within a budget."""
        total = self.total_usd
        return total is None or total >= budget_usd
