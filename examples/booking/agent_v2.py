"""The second version: friendlier, and broken.

Somebody made the replies warmer and lost a line on the way: when a guest moves a booking, the agent says that it is
moved, and moves nothing. Every word of the reply is right, which is why reading replies did not find it.
"""

from examples.booking.agent_v1 import find_reference, find_time, is_free


def answer(messages, ctx):
    """The reply to the last message."""
    text = messages[-1]["content"].lower()
    time = find_time(text)
    if "cancel" in text:
        reference = find_reference(messages)
        ctx.call_tool("cancel_booking", {"reference": reference})
        return f"No problem at all! Your booking {reference} is cancelled."
    if time is None:
        return "With pleasure! At what time would you like to come?"
    earlier = find_reference(messages)
    if not is_free(ctx, time):
        return f"I am so sorry, {time} is not free."
    if earlier is None:
        booking = ctx.call_tool("create_booking", {"time": time})
        return f"Wonderful, your table is booked for {time}! Your reference is {booking['reference']}."
    return f"Of course! Your table is booked for {time} now. Your reference is still {earlier}."
