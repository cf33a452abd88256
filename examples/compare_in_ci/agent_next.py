"""The agent of the pull request: cheaper, and more forgetful."""

from random import Random

from agent import reply


def answer(input, ctx):
    return reply(input, forgets=Random(ctx.seed).random() < 0.6)
