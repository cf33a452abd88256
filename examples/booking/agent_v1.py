"""The booking agent of a restaurant: a plain function, with rules where yours would ask a model.

It knows the conversation from `messages` and uses its tools through `ctx`, so that Seatrial sees every call and the
scenarios can answer them.
"""

import re


def answer(messages, ctx):
    """The reply to the last message."""
    text = messages[-1]["content"].lower()
    time = find_time(text)
    if "cancel" in text:
        reference = find_reference(messages)
        ctx.call_tool("cancel_booking", {"reference": reference})
        return f"Your booking {reference} is cancelled."
    if time is None:
        return "At what time would you like to come?"
    earlier = find_reference(messages)
    if not is_free(ctx, time):
        return f"I am sorry, {time} is not free."
    if earlier is None:
        booking = ctx.call_tool("create_booking", {"time": time})
        return f"Your table is booked for {time}. Your reference is {booking['reference']}."
    booking = ctx.call_tool("change_booking", {"reference": earlier, "time": time})
    return f"Your table is booked for {booking['time']} now. Your reference is still {earlier}."


def is_free(ctx, time):
    return time in ctx.call_tool("check_availability", {})["free"]


def find_time(text):
    found = re.search(r"\b(\d{1,2})(?::00)?\b", text)
    return f"{int(found.group(1)):02d}:00" if found else None


def find_reference(messages):
    """The reference that the agent gave earlier in the conversation."""
    for message in messages:
        found = re.search(r"BK-\d+", message["content"]) if message["role"] == "assistant" else None
        if found:
            return found.group()
    return None
