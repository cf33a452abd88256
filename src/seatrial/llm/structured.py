"""Objects from the text of a model: the prompt has the JSON Schema, the answer is validated.

The schema is always in the prompt, because this works with every provider and local server. `output: native` also uses
the provider's own constraint.

If the whole text is not JSON, one object in it is accepted. Several different objects that may be meant are malformed:
a judge may quote a verdict that the agent forged, or correct its own draft. A text that was cut off is malformed, too.

A judge's answer is read more strictly: text after the object may withdraw the verdict, and an object that is also in
the transcript may be a quotation.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from seatrial.errors import MissingExtra

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_TRAILING_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
_FENCE_END = re.compile(r"\s*(```)?\s*")
_LAYOUT = re.compile(r"\\+[nrt]|[\s\\]+")
"""White space and escapes: they differ if an object is indented, or is inside a JSON string."""
_SHOWN = 400


class Malformed(ValueError):
    """The text has no object that fits the schema. The message is sent to the model."""


def load_reader() -> None:
    """Import pydantic before the first trial, so that no agent's time includes it. Raises MissingExtra."""
    try:
        from pydantic import BeforeValidator, Field, StrictBool  # noqa: F401
    except ImportError as missing:
        raise MissingExtra("llm", needed_for="Asking a model") from missing
    json_schema(dict[str, bool])


def json_schema(schema: type[Any]) -> dict[str, Any]:
    """The JSON Schema of the answer."""
    kind: Any = schema
    return _adapter(kind).json_schema()


def instructions(schema: type[Any]) -> str:
    """The part of the system prompt about the form of the answer."""
    return (
        "Answer with one JSON object and nothing else: no Markdown, no words before or after it. "
        f"It must fit this JSON Schema:\n{json.dumps(json_schema(schema), ensure_ascii=False)}"
    )


def repair_request(problem: Malformed) -> str:
    """The message to the model about an answer that could not be read."""
    return f"That answer cannot be used: {problem}\nAnswer again, with nothing but the corrected JSON object."


def parse_answer(text: str, schema: type[T], *, cut_off: bool = False, transcript: str | None = None) -> T:
    """The object in the text; if the text was cut off, only the whole text counts. Raises Malformed.

    `transcript`: what a judge read. Nothing may follow the object then, and it must not be in the transcript.
    """
    if transcript is not None:
        _refuse_quotations(text, transcript)
    value = _parse(text, schema, cut_off=cut_off)
    if transcript is not None and not _is_last_word(text, schema, value):
        raise Malformed("there is more text after the JSON object, which may take it back; end with the object")
    return value


def _refuse_quotations(text: str, transcript: str) -> None:
    read = _LAYOUT.sub("", transcript)
    for span in _spans(text):
        if '"' in span and _LAYOUT.sub("", span) in read:
            raise Malformed(
                "it holds a JSON object that also stands in the transcript, word for word. "
                "Give your own verdict, with reasons in your own words, and quote no JSON object outside of them"
            )


def _is_last_word(text: str, schema: type[T], value: T) -> bool:
    *_, last = _spans(text)  # there is one: the value came from it
    try:
        return _FENCE_END.fullmatch(text.rpartition(last)[2]) is not None and _parse(last, schema) == value
    except Malformed:
        return False


def _parse(text: str, schema: type[T], *, cut_off: bool = False) -> T:
    try:
        found = _load(text)
    except ValueError as error:
        if cut_off:
            raise Malformed("it was cut off before its end; be brief") from error
        return _only_one_that_fits(text, schema, why=str(error))
    return _validate(found, schema)


def _only_one_that_fits(text: str, schema: type[T], *, why: str) -> T:
    fitting: list[tuple[dict[str, Any], T]] = []
    others: list[str] = []
    problem = Malformed(f"it is not JSON ({why})" if text.strip() else "it is empty")
    for span in _spans(text):
        try:
            candidate = _load_forgiving(span)
            value = _validate(candidate, schema)
        except ValueError as error:  # braces in a sentence, or an object that does not fit
            problem = error if isinstance(error, Malformed) else problem
            others.append(span)
            continue
        if all(candidate != other for other, _ in fitting):
            fitting.append((candidate, value))
    if not fitting:
        raise problem
    answer, value = fitting[0]
    if len(fitting) > 1 or any(_looks_like(answer, span) for span in others):
        raise Malformed("it holds several different objects that may be meant; give exactly one")
    return value


def _looks_like(answer: Mapping[str, Any], span: str) -> bool:
    """Whether the text is probably such an answer: it has a field of the same name."""
    return any(re.search(rf"""["']{re.escape(key)}["']\s*:""", span) for key in answer)


def _validate(found: Any, schema: type[T]) -> T:
    from pydantic import ValidationError

    kind: Any = schema
    try:
        value: T = _adapter(kind).validate_python(found)
    except ValidationError as error:
        problems = (
            f"{'.'.join(str(part) for part in one['loc']) or 'the object'}: {one['msg']}"
            for one in error.errors(include_url=False, include_context=False)
        )
        raise Malformed("; ".join(problems)[:_SHOWN]) from error
    return value


@lru_cache(maxsize=64)
def _adapter(schema: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(schema)


def _spans(text: str) -> Iterator[str]:
    """The texts in outermost braces, in order."""
    start = text.find("{")
    while start >= 0:
        end = _closing(text, start)
        yield text[start:end]
        start = text.find("{", end)


def _closing(text: str, start: int) -> int:
    """The end of the brace at `start`, without braces in strings; the end of the text if it is not closed."""
    depth, quoted, escaped = 0, False, False
    for index in range(start, len(text)):
        char = text[index]
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def _load_forgiving(text: str) -> Any:
    try:
        return _load(text)
    except ValueError:
        return _load(_TRAILING_COMMA.sub(lambda match: "" if match[0] == "," else match[0], text))


def _load(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
