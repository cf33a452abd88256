"""The world of scenarios that Python tests play: by the fixture `seatrial_world`."""

from typing import Any

pytest_plugins = ["pytester"]

CONFTEST = """
    import pytest
    from seatrial import World

    def refund(state, order_id: str):
        state["refunds"].append(order_id)
        return "paid"

    @pytest.fixture(scope="session")
    def seatrial_world():
        return World(seed={"refunds": [], "orders": {"W1": {"total": 5}}}, tools=[refund])

    @pytest.fixture
    def seatrial_agent():
        def agent(input, ctx):
            return ctx.call_tool("refund", order_id=input)

        return {"type": "python", "target": agent, "tools": "all_wrapped"}
    """


def test_scenarios_of_a_test_get_the_world_each_with_its_own_copy(project: Any) -> None:
    project.write("conftest.py", CONFTEST)
    project.write(
        "test_a.py",
        """
        import pytest
        from seatrial import EndState, Scenario, World

        @pytest.mark.parametrize("order", ["W1", "W2"])
        def test_refunds(seatrial, order):
            state = EndState(as_after=[{"refund": {"order_id": order}}])
            assert seatrial.run(Scenario(name="refund", input=order, end_state=state, trials=2)).passed

        def test_own_seed_is_merged(seatrial):
            contains = {"orders": {"W1": {"total": 7}}, "refunds": ["W9"]}
            own = World(seed={"orders": {"W1": {"total": 7}}})
            assert seatrial.run(Scenario(name="own", input="W9", world=own, end_state=EndState(contains=contains)))

        def test_wrong(seatrial):
            seatrial.run(Scenario(name="wrong", input="W1", end_state=EndState(as_after=[])))
        """,
    )
    result = project.run()
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*refunds*got*W1*changed by refund in turn 1*"])


def test_a_fixture_that_gives_no_world_is_an_error(project: Any) -> None:
    project.write("conftest.py", CONFTEST.replace("return World(", "return dict("))
    project.write("test_a.py", "def test_a(seatrial):\n    assert seatrial.run('x').passed\n")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the fixture 'seatrial_world' gives*"])
