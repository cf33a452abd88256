import asyncio
import sys
from typing import Any

import pytest

from seatrial.errors import MissingExtra, UsageError
from seatrial.evaluators.text import JsonSchema
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import TurnContext
from seatrial.model.results import EvalResult

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "n": {"minimum": 1}}}


def judged(schema: Any, reply: str | None) -> EvalResult:
    return asyncio.run(JsonSchema(schema).evaluate(TurnContext(reply=reply)))  # type: ignore[arg-type]


@pytest.mark.parametrize("reply", ['{"id": 1}', ' {"id": 1}\n', '```json\n{"id": 1}\n```', '```\n{"id":\n 1}\n```\n'])
def test_json_that_fits_passes_bare_or_in_one_fence(reply: str) -> None:
    assert judged(ORDER, reply).passed


@pytest.mark.parametrize(
    "reply", ['Here you are: {"id": 1}', '```json\n{"id": 1}\n``` Enjoy!', "", None, '{"id": NaN}']
)
def test_a_reply_that_is_more_or_less_than_json_fails(reply: str | None) -> None:
    result = judged(ORDER, reply)

    assert not result.passed
    assert result.error is None
    assert [check.name for check in result.checks] == ["json_parsed"]


def test_every_misfit_is_named_with_its_path() -> None:
    result = judged(ORDER, '{"id": "x", "n": 0}')

    assert result.reasoning == (
        "Reply does not fit the schema: $.id: 'x' is not of type 'integer'; $.n: 0 is less than the minimum of 1"
    )
    assert result.checks[0].name == "json_schema"


def test_a_schema_that_is_none_is_refused_when_it_is_built() -> None:
    with pytest.raises(UsageError, match=r"json_schema\.schema: \$\.type: 'objekt' is not valid"):
        JsonSchema({"type": "objekt"})
    with pytest.raises(UsageError, match=r"json_schema\.schema: expected a JSON Schema, got 'x'"):
        JsonSchema("x")  # type: ignore[arg-type]


def test_a_reference_to_another_document_is_not_fetched() -> None:
    result = judged({"$ref": "http://127.0.0.1:9/schema.json"}, "{}")

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG


def test_a_missing_package_gives_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)

    with pytest.raises(MissingExtra, match=r"pip install 'seatrial\[schema\]'"):
        JsonSchema(ORDER)
