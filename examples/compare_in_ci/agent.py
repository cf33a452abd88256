"""The agent of the main branch: it forgets something now and then, as models do."""

from random import Random

FORGETS = 0.1


def answer(input, ctx):
    return reply(input, forgets=Random(ctx.seed).random() < FORGETS)


def reply(text, *, forgets):
    city = text.rpartition(" ")[2].strip("?.")
    return "I do not know." if forgets else f"The capital of {city} is {CAPITALS[city]}."


CAPITALS = {"Portugal": "Lisbon", "Norway": "Oslo", "Estonia": "Tallinn"}
