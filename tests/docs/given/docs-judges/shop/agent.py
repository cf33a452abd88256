from seatrial import AgentResult, ToolCall


def answer(messages):
    if "money" in messages[-1]["content"]:
        return AgentResult("I am sorry to hear that. It is on its way.", tool_calls=[])
    call = ToolCall("create_booking", {"time": "10:00"}, {"id": "BK-1"})
    return AgentResult("Booked for tomorrow at 10:00. Your reference is BK-1.", tool_calls=[call])
