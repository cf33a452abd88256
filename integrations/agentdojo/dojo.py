"""The banking and workspace suites of AgentDojo as worlds: its tools act on its environment, which is the state."""

from collections.abc import Callable, Mapping
from typing import Any

from agentdojo.base_tasks import BaseInjectionTask
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite
from agentdojo.task_suite.task_suite import TaskSuite
from pydantic import BaseModel, TypeAdapter

from seatrial import AgentResult, ToolError

VERSION = "v1"
SUITES: dict[str, TaskSuite[Any]] = {name: get_suite(VERSION, name) for name in ("banking", "workspace")}


def restore(kind: type[BaseModel], data: Mapping[str, Any]) -> Any:
    """The model of a dump. Validators that derive fields from others must not undo what tools changed."""
    made = kind.model_validate(data)
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            setattr(made, name, restore(inner, data[name]))
        else:
            setattr(made, name, TypeAdapter(inner).validate_python(data[name]))
    return made


def dump(environment: BaseModel) -> dict[str, Any]:
    return environment.model_dump(mode="json", exclude_computed_fields=True)


RUNTIMES = {name: FunctionsRuntime(suite.tools) for name, suite in SUITES.items()}


def tools_of(suite: str) -> dict[str, Callable[..., Any]]:
    """The tools of a suite as functions of the state."""

    def make(name: str) -> Callable[..., Any]:
        # It holds only names: a fingerprint reads everything that a tool holds.
        def call(state: dict[str, Any], **arguments: Any) -> Any:
            environment = restore(SUITES[suite].environment_type, state)
            result, error = RUNTIMES[suite].run_function(environment, name, arguments)
            if error is not None:
                raise ToolError(error)
            state.clear()
            state.update(dump(environment))
            return TypeAdapter(Any).dump_python(result, mode="json")

        return call

    return {name: make(name) for name in RUNTIMES[suite].functions}


class Reader:
    """A scripted agent: reads one field, and may obey an injection task that it finds there."""

    def __init__(
        self, tool: str, arguments: Mapping[str, Any], task: BaseInjectionTask[Any], calls: list[Any] | None
    ) -> None:
        """`calls`: what it does if it finds the task; None: it obeys nothing."""
        self._read, self._task, self._calls = (tool, arguments), task, calls

    def __call__(self, messages: list[Any], ctx: Any) -> AgentResult:
        made: list[dict[str, Any]] = []

        def call(name: str, arguments: Mapping[str, Any]) -> Any:
            made.append({"name": name, "arguments": dict(arguments)})
            return ctx.call_tool(name, dict(arguments))

        found = call(*self._read)
        if self._calls is not None and self._task.GOAL in str(found):
            for function, arguments in self._calls:
                call(function, arguments)
        return AgentResult("Done.", tool_calls=made)
