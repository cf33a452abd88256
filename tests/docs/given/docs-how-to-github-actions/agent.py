def answer(input):
    return "It is shipped." if "ORD-789" in input else "I do not know."
