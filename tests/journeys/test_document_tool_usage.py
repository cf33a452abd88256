"""The page "Testing Tool Usage" of AgenticAssure, sentence by sentence. A name quotes the claim.

Where Seatrial decides otherwise, the name says so, and docs/differences.md says why.
"""

import json
from typing import Any

import pytest

LOOKUP = {
    "input": "What is the status of order #ORD-789?",
    "expected_output": "ORD-789",
    "expected_tools": ["lookup_order"],
    "expected_tool_args": {"lookup_order": {"order_id": "ORD-789"}},
    "scorers": ["passfail"],
}
TRANSFER = {
    "input": "Transfer $500 from checking to savings",
    "expected_tools": ["validate_account", "execute_transfer"],
    "expected_tool_args": {
        "validate_account": {"account_type": "checking"},
        "execute_transfer": {"amount": 500, "from_account": "checking", "to_account": "savings"},
    },
}


def code(play: Any, scenario: dict[str, Any], *calls: Any, reply: str = "Done.") -> int:
    """How a run ends whose agent makes these calls: names, or names with arguments."""
    made = [[call, {}] if isinstance(call, str) else list(call) for call in calls]
    return int(play({"input": "x", **scenario}, {scenario.get("input", "x"): {"reply": reply, "calls": made}}).code)


# Why tool testing matters


def test_both_responses_might_look_correct_in_the_final_output_tool_testing_catches_this_class_of_failure(
    play: Any,
) -> None:
    hallucinated = "Order ORD-789 has shipped."

    assert code(play, {"expected_output": "ORD-789"}, reply=hallucinated) == 0
    assert code(play, LOOKUP, reply=hallucinated) == 1
    assert code(play, LOOKUP, ("lookup_order", {"order_id": "ORD-789"}), reply=hallucinated) == 0


@pytest.mark.parametrize(
    ("calls", "ended"), [(["authorize", "delete"], 0), (["delete", "authorize"], 1), (["delete"], 1)]
)
def test_agents_with_access_controls_must_call_authorization_checks_before_performing_sensitive_actions(
    play: Any, calls: list[str], ended: int
) -> None:
    assert code(play, {"trajectory": {"mode": "in_order", "expected": ["authorize", "delete"]}}, *calls) == ended


# expected_tools


@pytest.mark.parametrize(
    ("calls", "ended"),
    [
        (["get_weather"], 0),
        (["other", "get_weather"], 0),
        (["get_weather", "get_weather"], 0),
        ([("get_weather", {"location": "Nowhere"})], 0),
        ([], 1),
        (["other"], 1),
    ],
    ids=["called", "at any point", "number of times", "arguments", "not called", "another"],
)
def test_this_scenario_passes_if_the_agent_calls_get_weather_at_any_point_during_execution(
    play: Any, calls: Any, ended: int
) -> None:
    asked = {"name": "weather_lookup", "input": "What is the weather in Tokyo?", "expected_tools": ["get_weather"]}

    assert code(play, {**asked, "scorers": ["passfail"]}, *calls) == ended


def test_a_tool_of_an_earlier_turn_counts_since_the_whole_execution_does(play: Any) -> None:
    asked = {"turns": [{"user": "a"}, {"user": "b"}], "expected_tools": ["get_weather"]}

    assert play(asked, {"a": {"calls": [["get_weather", {}]]}, "b": "Sunny."}).code == 0


@pytest.mark.parametrize(
    ("calls", "ended"),
    [
        (["create_order", "calculate_shipping"], 0),
        (["calculate_shipping", "create_order"], 0),
        (["create_order"], 1),
        (["calculate_shipping"], 1),
        (["create_order", "calculate_shipping", "send_mail"], 0),
    ],
    ids=["both", "call order", "one", "other", "extra tools"],
)
def test_both_create_order_and_calculate_shipping_must_be_called_in_whatever_order(
    play: Any, calls: Any, ended: int
) -> None:
    assert code(play, {"expected_tools": ["create_order", "calculate_shipping"]}, *calls) == ended


# expected_tool_args


@pytest.mark.parametrize(
    ("arguments", "ended"),
    [
        ({"category": "electronics", "sort_by": "price", "limit": 10}, 0),
        ({"category": "clothing", "sort_by": "price"}, 1),
        ({"sort_by": "price"}, 1),
    ],
    ids=["extra arguments are ignored", "the value does not match", "the key is missing"],
)
def test_argument_matching_is_partial(play: Any, arguments: Any, ended: int) -> None:
    asked = {"expected_tool_args": {"search_products": {"category": "electronics"}}}

    assert code(play, asked, ("search_products", arguments)) == ended


def test_partial_matching_is_about_top_level_keys_a_value_must_be_equal_as_a_whole(play: Any) -> None:
    asked = {"expected_tool_args": {"search": {"filter": {"category": "tv"}}}}

    assert code(play, asked, ("search", {"filter": {"category": "tv"}})) == 0
    assert code(play, asked, ("search", {"filter": {"category": "tv", "size": 50}})) == 1


CHECKING = ("validate_account", {"account_type": "checking"})
MOVED = {"amount": 500, "from_account": "checking", "to_account": "savings"}


@pytest.mark.parametrize(
    ("calls", "ended"),
    [
        ([CHECKING, ("execute_transfer", MOVED)], 0),
        ([CHECKING, ("execute_transfer", {**MOVED, "amount": 500.0})], 0),
        ([CHECKING, ("execute_transfer", {**MOVED, "amount": "500"})], 1),
        ([CHECKING, ("execute_transfer", {**MOVED, "amount": 5000})], 1),
        ([("validate_account", {}), ("execute_transfer", MOVED)], 1),
        ([CHECKING], 1),
    ],
    ids=["all", "number", "text", "other amount", "other tool", "one tool"],
)
def test_you_can_specify_argument_expectations_for_multiple_tools_in_the_same_scenario(
    play: Any, calls: Any, ended: int
) -> None:
    assert code(play, TRANSFER, *calls) == ended


def test_our_boolean_is_no_number(play: Any) -> None:
    asked = {"expected_tool_args": {"notify": {"urgent": True}}}

    assert code(play, asked, ("notify", {"urgent": True})) == 0
    assert code(play, asked, ("notify", {"urgent": 1})) == 1


def test_if_the_agent_calls_the_same_tool_more_than_once_the_first_matching_call_is_checked(play: Any) -> None:
    asked = {"expected_tool_args": {"look": {"id": 1}}}

    assert code(play, asked, ("look", {"id": 1}), ("look", {"id": 2})) == 0
    assert code(play, asked, ("look", {"id": 2}), ("look", {"id": 1})) == 1


@pytest.mark.parametrize(("calls", "ended"), [("any", 0), ("first", 1), ("all", 1)])
def test_ours_can_also_ask_for_any_call_or_for_all(play: Any, calls: str, ended: int) -> None:
    asked = {"expect": {"tool_calls_args": [{"tool": "look", "args": {"id": 1}, "calls": calls}]}}

    assert code(play, asked, ("look", {"id": 2}), ("look", {"id": 1})) == ended


# Combining tool checks with output checks


@pytest.mark.parametrize(
    ("reply", "calls", "ended"),
    [
        ("Order ord-789 has shipped.", [("lookup_order", {"order_id": "ORD-789"})], 0),
        (" ", [("lookup_order", {"order_id": "ORD-789"})], 1),
        ("It has shipped.", [("lookup_order", {"order_id": "ORD-789"})], 1),
        ("Order ORD-789 has shipped.", [], 1),
        ("Order ORD-789 has shipped.", [("lookup_order", {"order_id": "ORD-1"})], 1),
    ],
    ids=["all", "output", "text", "tool", "arguments"],
)
def test_all_four_checks_must_pass_for_the_scenario_to_pass(play: Any, reply: str, calls: Any, ended: int) -> None:
    assert code(play, LOOKUP, *calls, reply=reply) == ended


# Example scenarios for tool testing


def example(name: str, tools: list[str], args: Any = None, output: str | None = None, tags: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "input": name, "expected_tools": tools, "scorers": ["passfail"]}
    found |= {"expected_tool_args": args} if args else {}
    found |= {"expected_output": output} if output else {}
    return found | {"tags": tags.split()}


ADDRESS = {"street": "123 Main St", "city": "Springfield", "state": "IL", "zip": "62701"}
BUYS = {"get_product": {"sku": "SKU-WIDGET-01"}, "create_order": {"quantity": 2}}
EXAMPLES = [
    example(
        "customer_profile_lookup", ["get_customer"], {"get_customer": {"email": "jane@example.com"}}, tags="tools read"
    ),
    example("search_knowledge_base", ["search_docs"], {"search_docs": {"query": "two-factor"}}, tags="tools read"),
    example(
        "create_support_ticket", ["create_ticket"], {"create_ticket": {"category": "bug"}}, "ticket", "tools create"
    ),
    example("schedule_appointment", ["create_appointment"], tags="tools create"),
    example("update_shipping_address", ["update_address"], {"update_address": ADDRESS}, tags="tools update"),
    example("cancel_subscription", ["cancel_subscription"], output="cancelled", tags="tools delete"),
    example(
        "purchase_flow", ["get_product", "get_default_address", "create_order"], BUYS, tags="tools multi-step orders"
    ),
    example("order_not_found", ["lookup_order"], output="could not find", tags="error-handling tools"),
    example("date_extraction", ["create_event"], tags="tools extraction"),
    example(
        "numeric_extraction", ["execute_transfer"], {"execute_transfer": {"amount": 50000}}, tags="tools extraction"
    ),
]


def obedient(scenario: dict[str, Any]) -> dict[str, Any]:
    arguments = scenario.get("expected_tool_args", {})
    calls = [[tool, arguments.get(tool, {})] for tool in scenario["expected_tools"]]
    return {"reply": f"Yes: {scenario.get('expected_output', 'done')}.", "calls": calls}


def test_the_example_scenarios_pass_for_an_agent_that_does_as_it_is_asked(play: Any) -> None:
    played = play(EXAMPLES, {one["input"]: obedient(one) for one in EXAMPLES})

    assert played.code == 0
    assert f"{len(EXAMPLES)}/{len(EXAMPLES)} scenarios passed" in played.out


def test_the_example_scenarios_fail_for_an_agent_that_skips_the_tool_call_entirely(play: Any) -> None:
    played = play(EXAMPLES, {one["input"]: {**obedient(one), "calls": []} for one in EXAMPLES})

    assert {each["status"] for each in played.results["scenarios"]} == {"failed"}


# Common patterns


def test_if_the_agent_incorrectly_calls_a_tool_it_will_typically_still_pass_the_output_check(play: Any) -> None:
    assert code(play, {"expected_output": "done"}, "delete_account") == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"expect": {"tool_calls_exclude": ["delete_account"]}},
        {"trajectory": {"mode": "contains", "forbidden": ["delete_account"]}},
        {"trajectory": {"mode": "within", "expected": ["look"]}},
        {"trajectory": {"mode": "strict", "expected": []}},
    ],
    ids=["exclude", "forbidden", "within", "no call at all"],
)
def test_ours_has_a_built_in_must_not_call_check(play: Any, keys: Any) -> None:
    assert code(play, keys) == 0
    assert code(play, keys, "delete_account") == 1


def test_ours_does_not_take_calls_that_nobody_recorded_for_calls_that_were_not_made(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'Done.'")
    scenario = {"name": "one", "input": "x", "expect": {"tool_calls_exclude": ["delete_account"]}}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": [scenario]}))

    assert folder.seatrial("run", "suite.yaml").code == 1
    assert folder.results()["scenarios"][0]["status"] == "errored"


@pytest.mark.parametrize(("handles", "ended"), [("I could not find that order.", 0), ("It has shipped.", 1)])
def test_write_scenarios_where_the_expected_tool_would_return_an_error(play: Any, handles: str, ended: int) -> None:
    asked = {
        "input": "What is the status of order #NONEXISTENT?",
        "mocks": {"lookup_order": {"raises": "order not found"}},
        "expected_tools": ["lookup_order"],
        "expected_output": "could not find",
    }
    script = {
        asked["input"]: {"reply": handles, "asks": [["lookup_order", {"order_id": "NONEXISTENT"}]]},
    }

    played = play(asked, script)

    assert played.code == ended
    assert played.trial()["turns"][0]["tool_calls"][0]["error"] == "order not found"


# Tips


def test_expected_tool_args_implicitly_checks_for_the_tools_presence(play: Any) -> None:
    assert code(play, {"expected_tool_args": {"look": {}}}, "look") == 0
    assert code(play, {"expected_tool_args": {"look": {}}}) == 1


def test_use_tags_to_organize_and_selectively_run_tool_tests(play: Any) -> None:
    script = {one["input"]: obedient(one) for one in EXAMPLES}

    names = [each["name"] for each in play(EXAMPLES, script, "--tag", "read").results["scenarios"]]

    assert names == ["customer_profile_lookup", "search_knowledge_base"]
