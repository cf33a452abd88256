"""Whether a command printed what a page shows. `...` stands for any text; times and run ids may differ."""

import re

_VARYING = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-z]{6}\b"), "RUN"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min)\b"), "TIME"),
    (re.compile(r"\bseatrial \d\S*, python \S+"), "VERSIONS"),
    (re.compile(r"(?m)^seed: \d+$"), "SEED"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z|\+00:00)?"), "MOMENT"),
)


def fits(printed: str, shown: str) -> bool:
    """A line `...` stands for any lines, `...` within a line for the rest of it or a part."""
    pattern = ""
    for line in _without_varying(shown).splitlines():
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, _without_varying(printed) + "\n") is not None


def _without_varying(text: str) -> str:
    """The text without what varies: times, ids, spaces at the end of lines, blank lines around it."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    lines = [re.sub(r"  +(?=(TIME|RUN|MOMENT))", " ", line).rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(lines)
