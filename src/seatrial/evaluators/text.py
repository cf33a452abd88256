"""Evaluators of the reply's text."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import REDACTED, is_blank
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.struct import Struct, set_field
from seatrial.patterns import limited_schema, search

from .built_in import BuiltInEvaluator, failed, flag, no_answer, pattern, text, texts
from .matchers import matches, shown
from .redacted_evidence import is_found_surely, secret_in_reply

OUTPUT_PRODUCED = Check(name="output_produced", passed=True)
NO_OUTPUT = Check(name="output_produced", passed=False, detail="empty output")
_SAME = Check(name="exact_match", passed=True)
_FOUND = Check(name="regex", passed=True)


class ReplyProduced(Struct, frozen=True, kw_only=True):
    """Passes when the reply is not blank. Every scripted turn has this evaluator."""

    name: ClassVar[str] = "reply"

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not is_blank(ctx.reply):
            return EvalResult(passed=True, reasoning="Output produced: PASS.", checks=(OUTPUT_PRODUCED,))
        return EvalResult(passed=False, reasoning="Output produced: FAIL (empty output).", checks=(NO_OUTPUT,))


class Exact(BuiltInEvaluator, frozen=True):
    """Passes when the reply is the expected text; trimmed and lower-cased first, unless `normalize` is false."""

    expected: str | None = None
    """None: the scenario's `expected_output`."""
    normalize: bool = True

    name: ClassVar[str] = "exact"
    from_scenario: ClassVar[Mapping[str, str]] = {"expected": "expected_output"}
    from_metadata: ClassVar[Mapping[str, str]] = {"normalize": "exact_normalize"}

    def __post_init__(self) -> None:
        if self.expected is not None:
            text("exact.expected", self.expected)
        flag("exact.normalize", self.normalize)

    async def evaluate(self, ctx: Context) -> EvalResult:
        expected = self.expected
        if expected is None and ctx.scenario is not None:
            expected = ctx.scenario.expected_output
        if expected is None:
            return no_answer("exact: there is no text to compare with", hint="Give the scenario an expected_output.")
        reply = ctx.reply or ""
        same = reply.strip().lower() == expected.strip().lower() if self.normalize else reply == expected
        if same:
            return EvalResult(passed=True, reasoning="Exact match: PASS.", checks=(_SAME,))
        detail = f"expected {shown(expected)}, got {shown(reply)}"
        check = Check(name="exact_match", passed=False, detail=detail)
        return EvalResult(passed=False, reasoning=f"Exact match: FAIL ({detail}).", checks=(check,))


class Regex(BuiltInEvaluator, frozen=True):
    """Passes when the pattern is found anywhere in the reply. Write flags into the pattern: `(?i)refund`."""

    pattern: str

    name: ClassVar[str] = "regex"
    searches_texts: ClassVar[bool] = True
    from_metadata: ClassVar[Mapping[str, str]] = {"pattern": "regex_pattern"}

    def __post_init__(self) -> None:
        pattern("regex.pattern", self.pattern)

    async def evaluate(self, ctx: Context) -> EvalResult:
        reply = ctx.reply or ""
        found = search(self.pattern, reply)
        if found is not None:
            if REDACTED in reply and not is_found_surely(self.pattern, reply):
                return secret_in_reply("regex", ctx, searched_for=repr(self.pattern))
            reasoning = f"Pattern found: PASS ({shown(reply[found.start : found.end])} matches {self.pattern!r})."
            return EvalResult(passed=True, reasoning=reasoning, checks=(_FOUND,))
        detail = f"{self.pattern!r} not found in output"
        check = Check(name="regex", passed=False, detail=detail)
        return EvalResult(passed=False, reasoning=f"Pattern found: FAIL ({detail}).", checks=(check,))


class Contains(BuiltInEvaluator, frozen=True):
    """Passes when the reply contains the required texts and patterns, and no forbidden text.

    Case is ignored unless `case_sensitive`. The first group that fails is reported; without any group it passes.
    """

    any_of: Sequence[str] = ()
    all_of: Sequence[str] = ()
    matches_any: Sequence[str] = ()
    matches_all: Sequence[str] = ()
    case_sensitive: bool = False
    none_of: Sequence[str] = ()

    name: ClassVar[str] = "contains"
    needs_one_of: ClassVar[tuple[str, ...]] = ("any_of", "all_of", "matches_any", "matches_all", "none_of")
    searches_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for group in self.needs_one_of:
            set_field(self, group, texts(f"contains.{group}", getattr(self, group)))
        for group in ("matches_any", "matches_all"):
            for index, each in enumerate(getattr(self, group)):
                pattern(f"contains.{group}[{index}]", each)
        flag("contains.case_sensitive", self.case_sensitive)

    async def evaluate(self, ctx: Context) -> EvalResult:
        reply = ctx.reply or ""
        failed = self._first_failure(reply)
        if failed is None and REDACTED in reply:
            # The redacted part may have contained a forbidden text.
            if self.none_of:
                return secret_in_reply("contains", ctx, searched_for="forbidden strings")
            if not self._matched_surely(reply):
                return secret_in_reply("contains", ctx, searched_for="patterns")
        if failed is None:
            return EvalResult(passed=True, reasoning="All substring checks passed")
        return EvalResult(passed=False, reasoning=failed.detail, checks=(failed,))

    def _first_failure(self, reply: str) -> Check | None:
        group, detail = "", ""
        if self.any_of and not self._present(self.any_of, reply):
            group, detail = "any_of", f"Reply did not contain any of {list(self.any_of)!r}"
        elif missing := self._absent(self.all_of, reply):
            group, detail = "all_of", f"Reply missing required strings: {missing!r}"
        elif self.matches_any and len(self._unmatched(self.matches_any, reply)) == len(self.matches_any):
            group, detail = "matches_any", f"Reply did not match any of {list(self.matches_any)!r}"
        elif unmatched := self._unmatched(self.matches_all, reply):
            group, detail = "matches_all", f"Reply missing required patterns: {unmatched!r}"
        elif found := self._present(self.none_of, reply):
            group, detail = "none_of", f"Reply contained forbidden strings: {found!r}"
        return Check(name=group, passed=False, detail=detail) if group else None

    def _present(self, wanted: Sequence[str], reply: str) -> list[str]:
        if self.case_sensitive:
            return [each for each in wanted if each in reply]
        lowered = reply.lower()
        return [each for each in wanted if each.lower() in lowered]

    def _absent(self, wanted: Sequence[str], reply: str) -> list[str]:
        if not wanted:
            return []
        present = set(self._present(wanted, reply))
        return [each for each in wanted if each not in present]

    def _matched_surely(self, reply: str) -> bool:
        flags = 0 if self.case_sensitive else re.IGNORECASE
        return all(is_found_surely(each, reply, flags) for each in self.matches_all) and (
            not self.matches_any or any(is_found_surely(each, reply, flags) for each in self.matches_any)
        )

    def _unmatched(self, patterns: Sequence[str], reply: str) -> list[str]:
        flags = 0 if self.case_sensitive else re.IGNORECASE
        return [each for each in patterns if search(each, reply, flags) is None]


ContainsEvaluator = Contains
"""The name in pytest-agent-eval."""

_MOST_ERRORS = 5


class JsonSchema(BuiltInEvaluator, frozen=True):
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
            return failed("json_parsed", f"Reply is not JSON: {error}")
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
        return failed("json_schema", "Reply does not fit the schema: " + "; ".join(texts))


class ReplyJson(BuiltInEvaluator, frozen=True, kw_only=True):
    """Passes when the reply is a JSON object whose fields are as expected. It may have other fields."""

    fields: Mapping[str, Any]

    name: ClassVar[str] = "reply_json"

    async def evaluate(self, ctx: Context) -> EvalResult:
        try:
            document = json.loads(_without_fence(ctx.reply or ""), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return failed("json_parsed", f"Reply is not JSON: {error}")
        if not isinstance(document, Mapping):
            return failed("reply_json", f"Reply is JSON, but no object: {shown(document)}")
        wrong = [
            f"{name}: expected {shown(value)}, got {shown(document[name]) if name in document else 'nothing'}"
            for name, value in self.fields.items()
            if name not in document or not matches(value, document[name])
        ]
        if any(REDACTED in json.dumps(document.get(name)) for name in self.fields):
            return secret_in_reply("reply_json", ctx, searched_for=", ".join(self.fields))
        if wrong:
            return failed("reply_json", "Reply differs: " + "; ".join(wrong))
        return EvalResult(passed=True, reasoning=f"Reply has the expected {', '.join(self.fields)}")


class GuardrailTriggered(BuiltInEvaluator, frozen=True, kw_only=True):
    """Passes when this guardrail stopped the agent."""

    guardrail: str

    name: ClassVar[str] = "guardrail"

    async def evaluate(self, ctx: Context) -> EvalResult:
        if ctx.guardrail == self.guardrail:
            return EvalResult(passed=True, reasoning=f"Guardrail {self.guardrail!r} stopped the agent")
        found = "no guardrail did" if ctx.guardrail is None else f"{ctx.guardrail!r} did"
        return failed("guardrail", f"Guardrail {self.guardrail!r} must stop the agent, but {found}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _without_fence(reply: str) -> str:
    """The content of a reply that is one code fence; any other reply unchanged."""
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
    """The schema's validator. Its registry contains only the published drafts, so no reference is fetched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    schema, kind = limited_schema(schema, validator_for(schema, default=Draft202012Validator))
    return kind(schema, registry=REGISTRY)
