def answer(messages, ctx):
    if "Where" in messages[-1]["content"]:
        ctx.call_tool("lookup_order", {"order_id": "ORD-789"})
        return "ORD-789 is shipped."
    return "I cannot refund it."
