"""An agent that retrieves a text and answers from it with the small model."""

import json
import os
import urllib.request

from seatrial import AgentResult

PASSAGE = "Receipts are kept for ten years. Then they are destroyed."


def answer(input: str) -> AgentResult:
    prompt = f"{PASSAGE}\n\nAnswer from this text in one short sentence: {input}"
    body = {"model": "smollm2", "messages": [{"role": "user", "content": prompt}], "max_tokens": 40, "temperature": 0}
    request = urllib.request.Request(
        f"{os.environ['REAL_MODEL_URL']}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        reply = json.load(response)["choices"][0]["message"]["content"]
    return AgentResult(reply, contexts=[{"text": PASSAGE, "source": "rules.md"}])
