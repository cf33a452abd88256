"""A refund agent: rules where yours would ask a model."""

import re

from seatrial import tool


@tool
def lookup_order(order_id):
    """An order, from the database."""
    raise RuntimeError("there is no database in tests; mock this")


@tool
def pay_back(order_id, euros):
    """Sends money, which no test should do."""
    raise RuntimeError("there is no bank in tests; mock this")


def answer(messages):
    """The reply to the last message."""
    text = messages[-1]["content"]
    found = re.search(r"R-\d+", text)
    if found is None:
        return "Good day! Which order is it about?" if "hello" in text.lower() else "Which order do you mean?"
    order = lookup_order(order_id=found.group())
    if order["days"] > 30:
        return f"I am sorry, {found.group()} is older than 30 days."
    pay_back(order_id=found.group(), euros=order["euros"])
    return f"We pay {order['euros']} euros back for {found.group()}."
