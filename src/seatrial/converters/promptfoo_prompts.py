"""Prompts of promptfoo: templates that are filled with a test's variables."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .target_suite import Draft

_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
_LOGIC = re.compile(r"\{%|\{\{")
_DEEPEST = 3


class Unfilled(Exception):
    """A template that is more than a text with variables."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def read_prompts(config: Mapping[str, Any], draft: Draft) -> list[Any]:
    """The prompts, each a text or a list of messages; the variable that is the whole message where there are none."""
    given = config.get("prompts") or ["{{prompt}}"]
    prompts = []
    for index, prompt in enumerate(given if isinstance(given, list) else [given]):
        text = prompt.get("raw") or prompt.get("id") if isinstance(prompt, Mapping) else prompt
        found = _load(str(text), draft.source.path.parent)
        if found is None:
            draft.lose(("prompts", index), f"prompt {text!r}: a file that is not there, or code")
        else:
            prompts.append(found)
    return prompts or ["{{prompt}}"]


def _load(text: str, folder: Path) -> Any:
    """The prompt itself, from its file where it is one; None where that cannot be."""
    is_file = text.startswith("file://") or re.fullmatch(r"[\w./-]+\.(txt|md|json|yaml|yml|py|js|ts)", text)
    if is_file:
        file = folder / text.removeprefix("file://")
        if file.suffix not in (".txt", ".md", ".json") or not file.is_file():
            return None
        text = file.read_text(encoding="utf-8").strip()
    try:
        messages = json.loads(text)
    except ValueError:
        return text
    return messages if isinstance(messages, list) and all(isinstance(m, Mapping) for m in messages) else text


def fill_prompt(prompt: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario: `input`, and `system` and `history` for a prompt of several messages."""
    if isinstance(prompt, str):
        if prompt.strip() in ("{{prompt}}", "{{ prompt }}") and "prompt" not in variables:
            return {"input": _only_text(variables)}
        return {"input": fill(prompt, variables)}
    messages = [{"role": m.get("role"), "content": fill(str(m.get("content", "")), variables)} for m in prompt]
    if not messages or messages[-1]["role"] != "user":
        raise Unfilled("its last message is not the user's", json.dumps(prompt, ensure_ascii=False))
    keys: dict[str, Any] = {}
    if messages[0]["role"] == "system":
        keys["system"] = messages.pop(0)["content"]
    last = messages.pop()
    if messages:
        keys["history"] = messages
    return {**keys, "input": last["content"]}


def _only_text(variables: Mapping[str, Any]) -> str:
    """A test file without prompts: the message is the variable with a telling name, or the only one."""
    for name in ("prompt", "input", "question", "query", "message"):
        if isinstance(variables.get(name), str):
            return str(variables[name])
    texts = [value for value in variables.values() if isinstance(value, str) and value.strip()]
    if len(texts) == 1:
        return texts[0]
    raise Unfilled("which variable is the message is not said", json.dumps(dict(variables), ensure_ascii=False) or "?")


def fill(template: str, variables: Mapping[str, Any]) -> str:
    """The text with `{{name}}` filled. Raises Unfilled for filters, conditions and variables that are not there."""
    if _LOGIC.search(_VARIABLE.sub("", template)):
        raise Unfilled("it has filters or conditions", template)

    def value(found: re.Match[str]) -> str:
        place: Any = variables
        for part in found[1].split("."):
            if not isinstance(place, Mapping) or part not in place:
                raise Unfilled(f"there is no variable {found[1]!r}", template)
            place = place[part]
        return place if isinstance(place, str) else json.dumps(place, ensure_ascii=False)

    # A variable may stand in another's text; one that stands in its own is left at that.
    for _ in range(_DEEPEST):
        if not _VARIABLE.search(template):
            break
        template = _VARIABLE.sub(value, template)
    return template
