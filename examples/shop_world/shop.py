"""The world of the shop: the tools that act on its state. The state at the beginning is in shop.yaml."""

from seatrial import ToolError


def verify_customer(state, customer_id: str, postcode: str) -> dict:
    """Check who the customer is.

    Args:
        customer_id: the number of the customer
        postcode: the postcode that the customer says
    """
    customer = _find(state, "customers", customer_id)
    if customer["postcode"] != postcode:
        raise ToolError("the postcode is wrong")
    return {"customer_id": customer_id, "name": customer["name"]}


def lookup_order(state, order_id: str) -> dict:
    """Find an order with its items and its total."""
    return _find(state, "orders", order_id)


def cancel_order(state, order_id: str) -> dict:
    """Cancel an order that is not shipped yet. The money goes back, and the items go back to the stock."""
    order = _find(state, "orders", order_id)
    if order["status"] != "pending":
        raise ToolError(f"order {order_id} is {order['status']}; only pending orders can be cancelled")
    order["status"] = "cancelled"
    for item in order["items"]:
        state["stock"][item] += 1
    _pay_back(state, order_id, order["total"])
    return order


def refund_order(state, order_id: str, amount: float) -> dict:
    """Pay a delivered order back, or a part of it."""
    order = _find(state, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolError(f"order {order_id} is {order['status']}; only delivered orders can be refunded")
    order["status"] = "refunded"
    return _pay_back(state, order_id, amount)


def exchange_item(state, order_id: str, item: str, new_item: str) -> dict:
    """Exchange an item of a delivered order for another one."""
    order = _find(state, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolError(f"order {order_id} is {order['status']}; only delivered orders can be exchanged")
    if item not in order["items"]:
        raise ToolError(f"order {order_id} has no {item}")
    if state["stock"].get(new_item, 0) < 1:
        raise ToolError(f"{new_item} is out of stock")
    order["items"][order["items"].index(item)] = new_item
    state["stock"][new_item] -= 1
    state["stock"][item] += 1
    return order


def change_address(state, order_id: str, street: str) -> dict:
    """Change the address of an order that is not shipped yet."""
    order = _find(state, "orders", order_id)
    if order["status"] != "pending":
        raise ToolError(f"order {order_id} is {order['status']}; its address cannot change")
    order["street"] = street
    return order


def transfer_to_person(state, reason: str) -> str:
    """Hand the customer over to a person. The conversation ends."""
    state["transfers"].append(reason)
    return "a person takes over"


def _find(state, kind, number):
    if number not in state[kind]:
        raise ToolError(f"there is no {kind[:-1]} {number}")
    return state[kind][number]


def _pay_back(state, order_id, amount):
    state["refunds"].append({"order_id": order_id, "amount": amount})
    return {"order_id": order_id, "amount": amount}
