"""Suites given as Python objects, checked by the same rules as files."""

from typing import Any

from seatrial.model.scenario import Scenario, Suite

from .problems import Complaints, Problem, path_text, show
from .reader import SuiteReader
from .schema_types import given


def read_objects(suite: Suite, file: str, reader: SuiteReader, problems: list[Problem]) -> None:
    """Read a suite; what is wrong with it is added to the problems."""
    complaints = Complaints(python=True)
    settings = given(suite)
    raws = settings.pop("scenarios", ())
    source = settings.pop("source", None) or file
    reader.read_suite(settings, (), complaints, default_name=suite.name, source=source)
    problems.extend(_describe(complaints, file, f"suite {suite.name!r}"))
    if not isinstance(raws, (list, tuple)) or not raws:
        message = f"expected a list of at least one Scenario, got {show(raws)}"
        problems.append(Problem(file=file, path=f"suite {suite.name!r}: scenarios", message=message))
        return
    for index, raw in enumerate(raws):
        _read_scenario(raw, index, file, reader, problems)
    complaints = Complaints(python=True)
    reader.finish((), complaints)
    problems.extend(_describe(complaints, file, f"suite {suite.name!r}"))


def _read_scenario(raw: Any, index: int, file: str, reader: SuiteReader, problems: list[Problem]) -> None:
    complaints = Complaints(python=True)
    if not isinstance(raw, Scenario):
        problems.append(Problem(file=file, path=f"scenarios[{index}]", message=f"expected a Scenario, got {show(raw)}"))
        return
    keys = given(raw)
    source = keys.pop("source", None) or file
    reader.read_scenario(keys, (), complaints, source=source)
    problems.extend(_describe(complaints, file, f"scenario {raw.name!r}"))


def _describe(complaints: Complaints, file: str, subject: str) -> list[Problem]:
    """Objects have no lines, so the place is whose key it is."""
    return [
        Problem(
            file=file,
            path=": ".join(filter(None, (subject, path_text(each.where)))),
            message=each.message,
            suggestion=each.suggestion,
        )
        for each in complaints.found
    ]
