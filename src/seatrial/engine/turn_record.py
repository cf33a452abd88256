"""What one turn brings in: the reply, the evidence of tool calls, tokens and cost, retries included."""

from collections.abc import Iterator, Sequence

from seatrial.model.conversation import ToolCall, Usage, total_usage


class Exchange:
    """What one turn brings in, retries included."""

    __slots__ = ("_costs", "_usages", "hides_calls", "is_answered", "listed", "recorded", "reply", "retries")

    def __init__(self, *, recorded: list[ToolCall]) -> None:
        self.recorded = recorded
        self.reply: str | None = None
        self.is_answered = False
        """Whether the turn came to its reply, with which programs tell what all of it took; until then they say 0."""
        self.listed: list[ToolCall] | None = None
        self.hides_calls = False
        """It is known, or said, that there are calls that nobody told us of."""
        self._usages: list[Usage | None] = []
        self._costs: list[float | None] = []
        self.retries = 0

    def answer(self, reply: str | None) -> None:
        self.reply, self.is_answered = reply, True

    def add(self, usage: Usage | None, cost_usd: float | None) -> None:
        """What one reply took, as far as the agent says."""
        self._usages.append(usage)
        self._costs.append(cost_usd)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the turn, as far as every reply says."""
        found = self._usages[0] if len(self._usages) == 1 else total_usage(self._usages)
        says = self.is_answered or (found is not None and (found.input_tokens or found.output_tokens))
        return found if says else None

    @property
    def cost_usd(self) -> float | None:
        """What the turn cost; None unless every reply says."""
        known = [cost for cost in self._costs if cost is not None]
        found = sum(known) if known and len(known) == len(self._costs) else None
        return found if self.is_answered or found else None

    @property
    def is_complete(self) -> bool:
        """Whether these are all calls: the agent lists those that it makes by itself, and does not hide any."""
        return self.listed is not None and not self.hides_calls

    def evidence(self) -> tuple[ToolCall, ...] | None:
        """The calls we saw and those that the agent lists beside; None when there is neither sight nor list."""
        if not self.recorded:
            return None if self.listed is None else tuple(self.listed)
        # They were recorded as they ended; calls that were made side by side count in the order they were made.
        seen = sorted(self.recorded, key=lambda call: call.started_ms or 0.0)
        return tuple(_merge(seen, self.listed or ()))


def _merge(seen: Sequence[ToolCall], listed: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Calls that we saw in the order we saw them, and each that only the agent knows of at its place among them."""
    places = set(range(len(seen)))
    beside: dict[int, list[ToolCall]] = {}
    after = -1
    for call in listed:
        place = next((p for p in sorted(places) if _is_same(call, seen[p])), None)
        if place is None:
            beside.setdefault(after, []).append(call)
        else:
            places.discard(place)
            after = place
    yield from beside.get(-1, ())
    for place, call in enumerate(seen):
        yield call
        yield from beside.get(place, ())


def _is_same(listed: ToolCall, seen: ToolCall) -> bool:
    """Whether the agent tells of a call that we saw; it may tell no more than the name."""
    return listed.name == seen.name and (listed.arguments is None or listed.arguments == seen.arguments)
