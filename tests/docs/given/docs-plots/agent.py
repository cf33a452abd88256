def answer(input):
    return f"You said {input}."
