"""The shop's agent: a plain function, with rules where yours would ask a model.

It checks who the customer is before it changes anything, and says what the shop answered.
"""

import re

from seatrial import ToolError


def answer(messages, ctx):
    """The reply to the last message."""
    said = " ".join(message["content"] for message in messages if message["role"] == "user")
    text = messages[-1]["content"].lower()
    if "person" in text:
        ctx.call_tool("transfer_to_person", {"reason": "the customer asked for it"})
        return "I hand you over to a person."
    order = find(r"\b(W\d+)\b", said)
    if order is None:
        return "Which order is it?"
    try:
        if "where" in text:
            found = ctx.call_tool("lookup_order", {"order_id": order})
            return f"Order {order} is {found['status']}."
        if find(r"\b(\d{4})\b", said) is None:
            return "Please tell me your customer number and your postcode."
        ctx.call_tool(
            "verify_customer", {"customer_id": find(r"\b(C\d+)\b", said), "postcode": find(r"\b(\d{4})\b", said)}
        )
        return act(said, order, ctx)
    except ToolError as refused:
        return f"I am sorry, I cannot do that: {refused}."


def act(said, order, ctx):
    """Do what the customer asks for, and say it."""
    if "cancel" in said:
        done = ctx.call_tool("cancel_order", {"order_id": order})
        return f"Order {order} is cancelled. You get a refund of {done['total']}."
    if "refund" in said:
        total = ctx.call_tool("lookup_order", {"order_id": order})["total"]
        done = ctx.call_tool("refund_order", {"order_id": order, "amount": total})
        return f"You get a refund of {done['amount']} for order {order}."
    if "exchange" in said:
        ctx.call_tool("exchange_item", {"order_id": order, "item": "shirt-m", "new_item": find_item(said)})
        return f"The {find_item(said)} is on its way. Thank you!"
    if "address" in said:
        street = find(r"to ([A-Z]\w+ \w+ \d+)", said)
        ctx.call_tool("change_address", {"order_id": order, "street": street})
        return f"Order {order} goes to {street}."
    return "How can I help?"


def find(pattern, text):
    found = re.search(pattern, text)
    return found.group(1) if found else None


def find_item(said):
    return find(r"for (?:a |the )?([a-z]+-[a-z]+)", said)
