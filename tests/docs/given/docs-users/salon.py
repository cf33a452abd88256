"""A salon that asks for the day first, and has no tools."""


def answer(messages):
    said = messages[-1]["content"]
    if "Make it" in said:
        return "Your table is moved to 11.", []
    if "table" in said or "Tuesday" in said or len(messages) > 2:
        return "It is booked: Tuesday at 9:00.", []
    return "On which day?", []
