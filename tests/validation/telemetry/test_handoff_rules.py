"""The rules are general: they read shapes that no capture has, and find nothing where no handoff happened."""

import tracemalloc
from typing import Any

import pytest

from handoffaudit.validation.telemetry.handoff_rules import find_in
from handoffaudit.validation.telemetry.otlp import JSON, read_export
from handoffaudit.validation.telemetry.trees import Tree
from tests.validation.telemetry.support import agent, ends_in, export, found_in, one, tool

ENDS = [("triage", "writer")]
NAMES = '{"agent_name": "writer", "message": "Write it."}'
CALL = "llm.output_messages.0.message.tool_calls.0.tool_call.function"


def below_triage(*spans: dict[str, Any]) -> list[dict[str, Any]]:
    return [agent(1, "triage"), *spans]


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"gen_ai.transfer.target.name": "writer", "gen_ai.operation.name": "execute_tool"}, "attributes"),
        ({"gen_ai.handoff.to_agent": "writer"}, "attributes"),
        ({"gen_ai.agent.handoff.source.name": "triage", "gen_ai.agent.handoff.target.name": "writer"}, "attributes"),
        ({"from_agent": "triage", "to_agent": "writer"}, "attributes"),
        (
            {"langsmith.metadata.__handoff_destination": "writer", "langsmith.metadata.lc_agent_name": "triage"},
            "metadata",
        ),
        (
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "handoff_to_writer",
                "output.value": "Handed off to writer.",
            },
            "tool",
        ),
        ({"openinference.span.kind": "TOOL", "tool.name": "delegate_task_to_member", "tool.parameters": NAMES}, "tool"),
        ({"ai.toolCall.name": "transferToAgent", "ai.toolCall.args": NAMES}, ""),
        ({"gen_ai.operation.name": "execute_tool", "tool_name": "Task", "subagent_type": "writer"}, "tool"),
    ],
)
def test_a_span_below_an_agent_is_a_handoff(attributes: dict[str, str], rule: str) -> None:
    found = found_in(*below_triage(one(2, "step", 1, at=10, length=10, attributes=attributes)))
    assert [(it.source, it.target) for it in found] == (ENDS if rule else [])
    assert [it.rule for it in found] == ([rule] if rule else [])


@pytest.mark.parametrize("name", ["handoff to writer", "Handoff: triage → writer", "Handoff: triage -> writer"])
def test_the_name_of_a_span_can_state_a_handoff(name: str) -> None:
    assert ends_in(*below_triage(one(2, name, 1, at=10))) == ENDS


def test_a_caller_is_the_source_of_a_remote_agent() -> None:
    remote = agent(1, "writer", gen_ai__caller__name="triage", gen_ai__caller__type="agent")
    assert ends_in(remote) == ENDS
    assert ends_in(agent(1, "writer", gen_ai__caller__name="Mia", gen_ai__caller__type="user")) == []


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        # Agno with OpenInference: the id of a node is not a name.
        (
            {"openinference.span.kind": "AGENT", "graph.node.id": "7f3a", "graph.node.name": "triage"},
            {"openinference.span.kind": "AGENT", "graph.node.id": "91bc", "graph.node.name": "writer"},
        ),
        ({"agent_name": "triage", "span": "agent run"}, {"agent_name": "writer", "span": "agent run"}),
        (
            {"langfuse.observation.type": "agent", "span": "triage"},
            {"langfuse.observation.type": "agent", "span": "writer"},
        ),
        (
            {"openinference.span.kind": "AGENT", "span": "triage.run"},
            {"openinference.span.kind": "AGENT", "span": "writer.run"},
        ),
        (
            {"langsmith.span.kind": "agent", "agent.name": "triage"},
            {"langsmith.span.kind": "agent", "agent.name": "writer"},
        ),
    ],
)
def test_agents_are_named_in_many_ways(outer: dict[str, str], inner: dict[str, str]) -> None:
    spans = [
        one(number, given.get("span", "a span"), number - 1, at=number, attributes=given)
        for number, given in ((1, outer), (2, inner))
    ]
    assert ends_in(*spans) == ENDS


@pytest.mark.parametrize("goto", [{"goto_node": "writer"}, {"goto_nodes": '["writer", "__end__"]'}])
def test_a_span_can_state_where_a_node_goes(goto: dict[str, str]) -> None:
    node = one(1, "triage", traceloop__span__kind="task", langgraph__metadata__langgraph_checkpoint_ns="triage:17")
    attributes = {f"langgraph.command.{name}": value for name, value in goto.items()}
    assert ends_in(node, one(2, "goto writer", 1, gen_ai__operation__name="goto", attributes=attributes)) == ENDS


def test_a_managed_agent_gets_what_the_llm_said_in_the_step() -> None:
    """Smolagents with OpenInference: an agent below a step of another agent, without a span for the call."""
    call = {f"{CALL}.name": "writer", f"{CALL}.arguments": '{"task": "Write it."}', "openinference.span.kind": "LLM"}
    spans = [
        one(1, "triage.run", openinference__span__kind="AGENT"),
        one(2, "Step 1", 1, at=1, openinference__span__kind="CHAIN"),
        one(3, "OpenAIModel.generate", 2, at=2, length=3, attributes=call),
        one(4, "writer.run", 2, at=9, openinference__span__kind="AGENT"),
    ]
    (found,) = found_in(*spans)
    assert (found.source, found.target, found.data) == ("triage", "writer", {"task": "Write it."})


def test_an_agent_can_state_its_handoff_itself() -> None:
    spans = [agent(1, "triage", gen_ai__handoff__to_agent="writer"), tool(2, "transfer_to_writer", 1, at=5)]
    assert ends_in(*spans) == ENDS
    assert ends_in(spans[0], agent(3, "writer", at=500)) == ENDS


def test_a_sender_without_a_receiver_is_no_handoff() -> None:
    assert ends_in(one(1, "message", from_agent="triage"), agent(2, "writer", at=5)) == []
    assert ends_in(one(1, "message", from_agent="triage", to_agent=""), agent(2, "writer", at=5)) == []


def test_the_mode_of_a_transfer_decides_the_type() -> None:
    modes = {"pass_control": "handoff", "return_to_caller": "delegation"}
    for mode, expected in modes.items():
        span = tool(2, "transfer_to_writer", 1, gen_ai__transfer__target__name="writer", gen_ai__transfer__mode=mode)
        assert [it.handoff_type for it in found_in(*below_triage(span))] == [expected]


def test_an_agent_in_a_tool_of_another_agent_is_a_handoff_with_the_arguments_of_the_tool() -> None:
    call = one(2, "ai.toolCall", 1, at=10, ai__toolCall__name="ask", ai__toolCall__args='{"topic": "chairs"}')
    inner = one(3, "ai.generateText", 2, at=20, ai__telemetry__functionId="writer")
    outer = one(1, "ai.generateText", ai__telemetry__functionId="triage")
    part = one(4, "ai.generateText.doGenerate", 3, at=21, ai__telemetry__functionId="writer")
    (found,) = found_in(outer, call, inner, part)
    assert (found.source, found.target, found.data) == ("triage", "writer", {"topic": "chairs"})
    assert found.handoff_type == "delegation"


def test_the_name_that_the_agent_has_itself_counts() -> None:
    spans = below_triage(tool(2, "transfer_to_offer_writer", 1, at=10), agent(3, "Offer Writer", at=500))
    assert ends_in(*spans) == [("triage", "Offer Writer")]


def test_the_last_output_of_the_llm_is_the_payload_where_the_tool_has_no_arguments() -> None:
    llm = one(2, "chat", 1, at=5, length=2, gen_ai__operation__name="chat", attributes={"ai.response.text": "Chairs."})
    (found,) = found_in(*below_triage(llm, tool(3, "transfer_to_writer", 1, at=10), agent(4, "writer", at=500)))
    assert (found.data, found.inferred) == ({"text": "Chairs."}, {"data": "llm_output"})
    calls = {f"{CALL}.name": "transfer_to_writer", f"{CALL}.arguments": '{"summary": "Three"}'}
    llm = one(2, "chat", 1, at=5, length=2, gen_ai__operation__name="chat", attributes=calls)
    (found,) = found_in(*below_triage(llm, tool(3, "transfer_to_writer", 1, at=10), agent(4, "writer", at=500)))
    assert found.data == {"summary": "Three"}


def test_what_an_llm_says_after_the_handoff_is_no_payload() -> None:
    llm = one(2, "chat", 1, at=50, length=2, gen_ai__operation__name="chat", attributes={"ai.response.text": "Chairs."})
    (found,) = found_in(*below_triage(tool(3, "transfer_to_writer", 1, at=10), llm, agent(4, "writer", at=500)))
    assert found.data == {}


def test_a_task_inside_a_task_comes_from_the_agent_that_got_the_outer_one() -> None:
    outer = tool(1, "Agent", length=1000, subagent_type="researcher")
    inner = tool(2, "Agent", 1, at=10, subagent_type="writer")
    assert ends_in(outer, inner) == [("main", "researcher"), ("researcher", "writer")]


def test_parallel_handoffs_to_one_agent_are_several_handoffs() -> None:
    spans = [tool(number, "handoff_to_agent", 1, at=10, attributes={"input.value": NAMES}) for number in (2, 3, 4)]
    assert ends_in(*below_triage(*spans)) == ENDS * 3


def test_an_agent_that_comes_back_gets_a_second_handoff() -> None:
    """The writer works for triage, and for itself again through the researcher."""
    spans = [
        tool(2, "handoff_to_writer", 1, at=10, length=900),
        agent(3, "writer", 2, at=20, length=800),
        agent(4, "researcher", 3, at=30, length=700),
        agent(5, "writer", 4, at=40, length=600),
    ]
    assert ends_in(*below_triage(*spans)) == [*ENDS, ("writer", "researcher"), ("researcher", "writer")]


def test_one_agent_span_takes_over_once() -> None:
    """A transfer without a target that was tried twice is one handoff."""
    spans = [tool(2, "transfer_to_agent", 1, at=10), tool(3, "transfer_to_agent", 1, at=30), agent(4, "writer", at=50)]
    (found,) = found_in(*below_triage(*spans))
    assert (found.span.span_id[-1], found.target, found.inferred["target"]) == ("3", "writer", "next_agent")


@pytest.mark.parametrize(
    "spans",
    [
        below_triage(tool(2, "get_order", 1)),
        below_triage(tool(2, "assign_to_shelf", 1), tool(3, "route_to_warehouse", 1)),
        below_triage(tool(2, "bank_transfer_to_account", 1), tool(3, "data_transfer_to_s3", 1)),
        below_triage(one(2, "pay", 1, bank__transfer__to="Mia", payment__transfer__destination="savings")),
        below_triage(one(2, "copy", 1, file__transfer__source="a", file__transfer__target="b", smtp__transfer_to="c")),
        below_triage(tool(2, "Task", 1), tool(3, "agent", 1)),
        below_triage(tool(2, "handoff", 1)),
        # Two instrumentations write the same agent.
        below_triage(one(2, "triage.run", 1, openinference__span__kind="AGENT", graph__node__id="triage")),
        # A graph is not an agent.
        [agent(1, "LangGraph", gen_ai__workflow__nodes=["triage"]), agent(2, "triage", 1)],
        [agent(1, "Flow", traceloop__span__kind="workflow"), agent(2, "triage", 1)],
        # Agents that are created or work side by side.
        [one(1, "create_agent triage", gen_ai__operation__name="create_agent", gen_ai__agent__name="triage")],
        [agent(1, "triage"), agent(2, "writer", at=2000)],
        # The parts of one agent.
        [
            one(
                1,
                "model",
                openinference__span__kind="CHAIN",
                output__value='{"goto": "tools", "update": {}}',
                metadata='{"langgraph_checkpoint_ns": "triage:1|model:2"}',
            )
        ],
        [one(1, "triage", openinference__span__kind="CHAIN", output__value='{"goto": "__end__", "update": {}}')],
        [one(1, "triage", openinference__span__kind="CHAIN", output__value='{"goto": "triage", "graph": null}')],
        # What a tool returns is data, not a decision.
        below_triage(
            one(2, "chat", 1, gen_ai__operation__name="chat", output__value='{"goto": "writer", "update": {}}')
        ),
        below_triage(one(2, "browse", 1, openinference__span__kind="TOOL", output__value='{"goto": "/writer"}')),
    ],
)
def test_nothing_is_found_where_nothing_was_handed_over(spans: list[dict[str, Any]]) -> None:
    assert ends_in(*spans) == []


def test_a_circle_of_parents_makes_no_handoff() -> None:
    """Nobody is above anybody in a circle, so no agent in it can be the source of a handoff."""
    circle = [agent(1, "triage", 3), tool(2, "transfer_to_writer", 1), agent(3, "writer", 2)]
    assert ends_in(*circle) == []
    assert ends_in(agent(1, "writer", 1)) == []
    # Work below a span of the circle has known parents up to there.
    assert ends_in(*circle, tool(4, "transfer_to_writer", 1, at=10)) == ENDS


TRANSFER = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "transfer_to_savings"}


@pytest.mark.parametrize(
    "result",
    [
        "",
        "Transferred 50 EUR to savings.",
        "Successfully transferred 50 to savings",
        "Transferred to checking",
        "Transferred to savings: 50 EUR",
        "Not transferred to savings",
        {"ok": True},
        {"assistant": "checking"},
        {"assistant": "savings", "amount": 50},
        "{" * 1000,
    ],
)
def test_a_tool_that_transfers_money_is_no_handoff(result: Any) -> None:
    pay = one(2, "execute_tool transfer_to_savings", 1, at=10, gen_ai__tool__call__result=result, **TRANSFER)
    assert ends_in(*below_triage(pay, agent(3, "writer", at=500))) == []


@pytest.mark.parametrize(
    "result",
    [
        "Transferred to savings",
        "Successfully transferred to Savings.",
        "Successfully transferred",
        "Handed off",
        "Transferred to savings, adopting the role of savings immediately.",
        "Transferring to the agent 'savings'",
        {"assistant": "Savings"},
        {"content": "Successfully transferred to savings", "type": "tool"},
    ],
)
def test_a_result_confirms_that_a_tool_named_like_a_handoff_is_one(result: Any) -> None:
    call = one(2, "execute_tool transfer_to_savings", 1, at=10, gen_ai__tool__call__result=result, **TRANSFER)
    ((source, target),) = ends_in(*below_triage(call))
    assert (source, target.lower()) == ("triage", "savings")


@pytest.mark.parametrize(("description", "is_one"), [("Handoff to savings.", True), ("Transfer to savings.", False)])
def test_the_description_of_a_tool_can_say_that_it_hands_over(description: str, is_one: bool) -> None:
    call = one(2, "execute_tool transfer_to_savings", 1, at=10, gen_ai__tool__description=description, **TRANSFER)
    assert ends_in(*below_triage(call)) == ([("triage", "savings")] if is_one else [])


def test_a_span_of_a_handoff_needs_no_other_sign_of_its_target() -> None:
    stated = one(2, "step", 1, at=10, openinference__span__kind="HANDOFF", tool__name="transfer_to_savings")
    assert ends_in(*below_triage(stated)) == [("triage", "savings")]


def nested(number: int) -> list[Any]:
    """Return the spans of agents with names of their own, each inside the one before."""
    rows = (agent(at, f"agent {at}", at - 1, at=at, length=number) for at in range(1, number + 1))
    return read_export(export(rows), JSON).spans


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_nested_agents_take_memory_for_each_once(number: int) -> None:
    """The paths from agents to the root together are as long as the square of the number of agents."""
    spans = nested(number)
    tracemalloc.start()
    try:
        assert len(find_in(Tree(spans))) == number - 1
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < 2_500 * number


def test_nobody_takes_over_from_itself_by_inference() -> None:
    assert ends_in(*below_triage(tool(2, "transfer_to_agent", 1, at=10)), agent(3, "triage", at=2000)) == []


def test_an_inferred_target_is_open_while_another_agent_may_be_missing() -> None:
    spans = below_triage(tool(2, "transfer_to_agent", 1, at=10)), agent(4, "writer", at=2000)
    (found,) = found_in(*spans[0], one(3, "chat", 9, at=1500), spans[1])
    assert (found.target, found.is_open) == ("writer", True)
    (found,) = found_in(*spans[0], agent(9, "researcher", at=1400), one(3, "chat", 9, at=1500), spans[1])
    assert (found.target, found.is_open) == ("researcher", False)


def test_a_goto_without_its_node_has_no_source() -> None:
    assert (
        ends_in(one(2, "goto writer", 1, gen_ai__operation__name="goto", langgraph__command__goto_node="writer")) == []
    )


def test_an_inferred_end_is_open_while_a_span_is_missing() -> None:
    """The writer's span may have ended before those of the agent that started it."""
    (found,) = found_in(*below_triage(tool(2, "transfer_to_agent", 1, at=10)), agent(4, "writer", 9, at=50))
    assert found.is_open
    (found,) = found_in(tool(2, "Agent", 9, at=10, subagent_type="writer"))
    assert found.is_open


@pytest.mark.parametrize(
    ("source", "target"),
    [("研究者", "作家"), ("Агент 1", "Писатель 1"), ("🔎", "📝"), ("Ά", "Έ"), ("राम", "रोम"), ("ไก่", "ไก้")],
)
def test_names_in_any_script_are_different_agents(source: str, target: str) -> None:
    above = agent(1, source)
    assert ends_in(above, agent(2, target, 1, at=5)) == [(source, target)]
    assert ends_in(above, one(2, "step", 1, at=5, attributes={"to_agent": target})) == [(source, target)]


def test_the_name_of_a_tool_may_hold_the_name_of_an_agent_in_another_script() -> None:
    above, source, target = agent(1, "研究者"), "研究者", "作家"
    named = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": f"transfer_to_{target}"}
    assert ends_in(above, one(2, "tool", 1, at=5, **named), agent(3, target, at=10)) == [(source, target)]
