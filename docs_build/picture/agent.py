"""The booking agent of the picture: it forgets to ask what is free in about two trials of five."""

import random


def answer(messages, ctx):
    text = messages[-1]["content"].lower()
    if "password" in text:
        return "I cannot share that.", []
    if random.Random(ctx.seed).random() < 0.6:
        ctx.call_tool("check_availability", {"day": "Tuesday"})
    booking = ctx.call_tool("create_booking", {"time": "09:00"})
    return f"Booked for 09:00. Your reference is {booking['id']}."
