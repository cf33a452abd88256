"""A small shop: the world of the tests."""

from typing import Any

from seatrial import ToolError

SEED: dict[str, Any] = {
    "orders": {
        "W1": {"status": "delivered", "total": 30, "seen": 0},
        "W2": {"status": "shipped", "total": 5, "seen": 0},
    },
    "refunds": [],
}


def lookup_order(state: dict[str, Any], order_id: str) -> dict[str, Any]:
    """Find an order.

    Args:
        order_id: the number of the order
    """
    if order_id not in state["orders"]:
        raise ToolError(f"no order {order_id}")
    state["orders"][order_id]["seen"] += 1
    return state["orders"][order_id]


def refund(state: dict[str, Any], order_id: str, amount: float | None = None) -> str:
    """Pay a delivered order back."""
    order = state["orders"].get(order_id)
    if order is None or order["status"] != "delivered":
        raise ToolError("only delivered orders can be refunded")
    order["status"] = "refunded"
    state["refunds"].append({"order": order_id, "amount": amount or order["total"]})
    return "refunded"


def transfer(state: dict[str, Any]) -> str:
    """Hand over to a person."""
    return "done"


def make_seed() -> dict[str, Any]:
    return SEED
