"""Four agents that are wrong. Each is the right one with one thing lost, and all of their replies read well."""

from examples.shop_world import agent_right

from seatrial import ToolError


class Tools:
    """Stands in for `ctx`: calls go through another function."""

    def __init__(self, call_tool):
        self.call_tool = call_tool


def never_verifies(messages, ctx):
    """It believes whoever writes."""

    def call_tool(name, arguments):
        return {} if name == "verify_customer" else ctx.call_tool(name, arguments)

    return agent_right.answer(messages, Tools(call_tool))


def only_talks(messages, ctx):
    """It says that the order is cancelled, and cancels nothing."""

    def call_tool(name, arguments):
        return ctx.call_tool("lookup_order" if name == "cancel_order" else name, arguments)

    return agent_right.answer(messages, Tools(call_tool))


def too_generous(messages, ctx):
    """It pays ten more than was paid, and says the right amount."""

    def call_tool(name, arguments):
        if name != "refund_order":
            return ctx.call_tool(name, arguments)
        done = ctx.call_tool(name, {**arguments, "amount": arguments["amount"] + 10})
        return {**done, "amount": arguments["amount"]}

    return agent_right.answer(messages, Tools(call_tool))


def ignores_errors(messages, ctx):
    """It says that the new item is on its way, also if the shop has refused the exchange."""

    def call_tool(name, arguments):
        try:
            return ctx.call_tool(name, arguments)
        except ToolError:
            if name == "exchange_item":
                return {}
            raise

    return agent_right.answer(messages, Tools(call_tool))
