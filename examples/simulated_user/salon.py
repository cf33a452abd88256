"""The agent of a hair salon: rules where yours would ask a model. Mocks answer the tools it calls through `ctx`."""

import re

from seatrial import ToolError


def answer(messages, ctx):
    """The reply to the last message."""
    text = messages[-1]["content"]
    time = re.search(r"\d\d:\d\d", text)
    if time is None:
        slots = ctx.call_tool("check_availability", {"day": "Tuesday"})["slots"]
        return f"On Tuesday we have {' and '.join(slots)}. Which one do you want?"
    for _ in range(2):
        try:
            booking = ctx.call_tool("create_booking", {"service": "haircut", "time": time.group()})
        except ToolError:
            continue
        return f"Your haircut is booked for {time.group()}, reference {booking['id']}."
    return "I am sorry, I cannot book at the moment."
