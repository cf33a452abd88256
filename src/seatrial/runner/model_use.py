"""Adding up what our own instruments took."""

from seatrial.vocabulary.conversation import sum_usage
from seatrial.vocabulary.findings import ModelUse


def add_use(left: ModelUse | None, right: ModelUse | None) -> ModelUse | None:
    """Both together; a price that is not known makes the sum unknown, never smaller."""
    if left is None or right is None:
        return left or right
    costs = [use.cost_usd for use in (left, right) if use.calls > use.cached or use.cost_usd is not None]
    known = [cost for cost in costs if cost is not None]
    return ModelUse(
        calls=left.calls + right.calls,
        cached=left.cached + right.cached,
        usage=sum_usage((left.usage, right.usage)),
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
    )
