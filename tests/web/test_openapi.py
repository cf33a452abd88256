"""The OpenAPI document is complete and true: what it allows is answered as it says, and never by an error of ours."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
QUICK = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def document(served: Any) -> Any:
    return served.json("/api/openapi.json")


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_route_of_the_api_is_described(document: Any) -> None:
    described = {f"{method.upper()} {path}" for path, method, _ in operations(document)}

    assert described == {
        "GET /api/runs",
        "POST /api/runs",
        "GET /api/runs/compare",
        "GET /api/runs/{run_id}",
        "GET /api/runs/{run_id}/trials",
        "GET /api/runs/{run_id}/scenarios/{scenario}/trials/{number}",
        "GET /api/runs/{run_id}/export",
        "GET /api/runs/{run_id}/causes",
        "GET /api/runs/{run_id}/events",
        "POST /api/runs/{run_id}/cancel",
        "POST /api/runs/{run_id}/resume",
        "GET /api/runs/{run_id}/labels",
        "POST /api/runs/{run_id}/labels",
        "GET /api/baselines",
        "PUT /api/baselines",
        "DELETE /api/baselines",
        "GET /api/suites",
    }


def test_every_operation_says_what_it_does_and_answers(document: Any) -> None:
    for path, method, operation in operations(document):
        assert operation["description"], path
        good = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
        assert method == "delete" or good["content"], path


def test_every_reference_leads_somewhere(document: Any) -> None:
    names = set(document["components"]["schemas"])
    refs = {part.partition('"')[0] for part in json.dumps(document).split('"$ref": "#/components/schemas/')[1:]}

    assert refs <= names
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("RunDetail", "/api/runs/bad"),
        ("RunDetail", "/api/runs/hostile"),
        ("ComparisonResult", "/api/runs/compare?baseline_run_id=good&candidate_run_id=bad"),
        ("Trial", "/api/runs/hostile/scenarios/{scenario}/trials/1"),
    ],
)
def test_large_answers_are_as_described(served: Any, document: Any, name: str, path: str) -> None:
    scenario = served.json("/api/runs/hostile")["scenarios"][0]["id"]
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}

    Draft202012Validator(schema).validate(served.json(path.format(scenario=scenario)))


def aim(case: Any) -> None:
    """Ask for a run that is there; what is drawn at random hardly ever is."""
    known = {"run_id": "bad", "baseline_run_id": "good", "candidate_run_id": "bad"}
    for place in (case.path_parameters, case.query, case.body):
        if isinstance(place, dict):
            place.update({name: value for name, value in known.items() if name in place})


def test_nothing_that_is_allowed_ends_in_an_error_of_ours(serve: Any, own_project: Any, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    served = serve(store=own_project.store, root=tmp_path / "nothing")
    schema = schemathesis.openapi.from_url(f"{served.address}/api/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @QUICK
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            nonlocal tried
            tried += 1
            if tried % 2:
                aim(case)
            case.call_and_validate(checks=CHECKS)

        check()
    assert tried > 100


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"paths": ["\\ud800"]}',
        b'{"paths": [NaN]}',
        b'{"paths": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"paths": [1e999]}',
    ],
)
def test_nonsense_is_refused_and_not_an_error_of_ours(served: Any, body: bytes) -> None:
    answer = served.client.post("/api/runs", content=body, headers={"content-type": "application/json"})

    assert 400 <= answer.status_code < 500
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/api/runs/%00", "/api/runs/%ff%fe", "/api/runs/%ED%A0%80", "/runs/%00", "/runs/a%2fb"]
)
def test_odd_addresses_are_not_found(served: Any, path: str) -> None:
    assert served.get(path).status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=99999", "offset=-1", "status=nosuch", "q=" + "x" * 300])
def test_odd_queries_are_refused(served: Any, query: str) -> None:
    assert served.get(f"/api/runs/good/trials?{query}").status_code == 422
