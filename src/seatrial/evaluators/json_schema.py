"""The evaluator of replies that must be JSON of a given shape."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult
from seatrial.patterns import limited_schema

from .matchers import shown
from .missing_evidence import no_answer

_MOST_ERRORS = 5


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Passes when the reply is JSON that fits the schema.

    The whole reply must be JSON, with white space around it or as one Markdown code fence, since most models write
    one unasked; text before or after is a failure. References to other documents are not fetched.
    """

    schema: Mapping[str, Any] | bool

    name: ClassVar[str] = "json_schema"

    def __post_init__(self) -> None:
        if not isinstance(self.schema, (Mapping, bool)):
            raise UsageError(f"json_schema.schema: expected a JSON Schema, got {shown(self.schema)}.")
        _check_schema(self.schema)

    async def evaluate(self, ctx: Context) -> EvalResult:
        from referencing.exceptions import Unresolvable

        try:
            document = json.loads(_without_fence(ctx.reply or ""), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return _failed("json_parsed", f"Reply is not JSON: {error}")
        try:
            problems = sorted(_validator(self.schema).iter_errors(document), key=lambda problem: problem.json_path)
        except Unresolvable as error:
            hint = "Put what it refers to under $defs of the schema itself."
            return no_answer(f"json_schema: a reference cannot be resolved: {error}", hint=hint)
        if not problems:
            return EvalResult(passed=True, reasoning="Reply fits the schema")
        texts = [f"{problem.json_path}: {problem.message}" for problem in problems[:_MOST_ERRORS]]
        if len(problems) > _MOST_ERRORS:
            texts.append(f"and {len(problems) - _MOST_ERRORS} more")
        return _failed("json_schema", "Reply does not fit the schema: " + "; ".join(texts))


def _failed(name: str, detail: str) -> EvalResult:
    return EvalResult(passed=False, reasoning=detail, checks=(Check(name=name, passed=False, detail=detail),))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _without_fence(reply: str) -> str:
    """The inside of a reply that is one code fence; any other reply as it is."""
    lines = reply.strip().splitlines()
    if len(lines) >= 2 and lines[0].strip().lower() in ("```", "```json") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return reply


def _check_schema(schema: Any) -> None:
    try:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
    except ImportError:
        raise MissingExtra("schema", needed_for="the evaluator json_schema") from None
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        raise UsageError(f"json_schema.schema: {error.json_path}: {error.message}.") from None


def _validator(schema: Mapping[str, Any] | bool) -> Any:
    """The schema's validator. Its registry holds the published drafts alone, so that no reference is fetched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    schema, kind = limited_schema(schema, validator_for(schema, default=Draft202012Validator))
    return kind(schema, registry=REGISTRY)
