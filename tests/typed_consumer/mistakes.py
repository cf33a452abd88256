"""Mistakes that type checkers must report, one on each line that ends with `# mistake`, and no others."""

from seatrial import (
    AgentResult,
    Contains,
    ContainsEvaluator,
    Evaluator,
    Exact,
    Expect,
    Judge,
    JudgeEvaluator,
    Limits,
    Regex,
    Scenario,
    ToolArgs,
    ToolCalls,
    Trajectory,
    Turn,
    compare,
    run,
    tool,
)

Contains(any_off=["a"])  # mistake
Contains([1])  # mistake
ContainsEvaluator(any_of=5)  # mistake
Exact(5)  # mistake
Regex()  # mistake
ToolCalls(ordered="yes")  # mistake
ToolArgs("a", {}, mode="fuzzy")  # mistake
Trajectory(["a"], mode="ordered")  # mistake
Judge()  # mistake
JudgeEvaluator("a", retries="two")  # mistake
Limits(1000)  # mistake
Scenario(input="x")  # mistake
Scenario(name="a", limits={"turns": 3})  # mistake
Scenario(name="a", trajectory=Limits(turns=3))  # mistake
Expect(judge="polite")  # mistake
Turn("Hello.")  # mistake
AgentResult(5)  # mistake
Contains(["a"]).any_of = ["b"]  # mistake
run(5)  # mistake
compare("a")  # mistake


class Nameless:
    def evaluate(self) -> bool:
        return True


wrong: Evaluator = Nameless()  # mistake


@tool
def lookup(order: str) -> int:
    return 1


lookup(5)  # mistake
