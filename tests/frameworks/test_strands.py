"""Tests of the plug-in for Strands Agents with the real framework and scripted models."""

import asyncio
import threading
import time
from itertools import pairwise

import pytest
from handoffaudit_client import Client

from tests.frameworks.conftest import STORY, data, need, routes
from tests.frameworks.scripted import Say, strands_model

need("strands")

from handoffaudit_client.strands import HandoffHooks
from strands import Agent, tool
from strands.multiagent import Swarm
from strands.multiagent.base import Status
from strands.session import FileSessionManager

# The framework warns of its own parts.
pytestmark = pytest.mark.filterwarnings("default")

QUESTION = "Who can deliver 40 chairs within a week?"
FOUND = "Acme: 60 chairs a week, 12.40 EUR"


@tool
def find(query: str) -> str:
    """Find suppliers."""
    return FOUND


@tool
def broken() -> str:
    """Break."""
    raise OSError("the disk is full")


def to(target, message="", **context):
    arguments = {"agent_name": target, "message": message, **({"context": context} if context else {})}
    return Say("", "handoff_to_agent", arguments)


def agent(name, *script, hooks=None, **options):
    hooks = [hooks] if hooks else []
    return Agent(name=name, model=strands_model(*script), hooks=hooks, callback_handler=None, **options)


def swarm(hooks, scripts, **options):
    agents = [agent(name, *script, hooks=hooks, tools=[find, broken]) for name, script in scripts.items()]
    return Swarm(agents, entry_point=agents[0], **options)


def told(swarm, name):
    return swarm.nodes[name].executor.model.told


def last(result):
    return str(result.results[result.node_history[-1].node_id].result).strip()


def story():
    found = Say("", "find", {"query": "chairs"})
    return {
        "triage": [to("researcher", "Find suppliers."), Say("Triage is done.")],
        "researcher": [
            found,
            to("writer", "Order.", supplier="Acme"),
            Say("1"),
            to("writer", "Acme has 60."),
            Say("2"),
        ],
        "writer": [to("researcher", "Check the stock."), Say("3"), Say("Order from Acme.")],
    }


@pytest.mark.parametrize("policy", ["block", "interrupt", "observe"])
def test_each_handoff_is_sent_once_and_tools_are_captured(server, audit, policy):
    result = swarm(HandoffHooks(audit, policy), story())(QUESTION, {"session_id": "order-17"})
    assert audit.flush()
    assert last(result) == "Order from Acme."
    assert routes(server) == STORY
    handed = {"message": "Order.", "context": {"supplier": "Acme"}}
    assert data(server) == ["Find suppliers.", handed, "Check the stock.", "Acme has 60."]
    sent = server.handoffs
    assert {one["trace_id"] for one in sent.values()} == {"order-17"}
    assert [one.get("parent_handoff_id") for one in sent.values()] == [None, *list(sent)[:-1]]
    (found,) = server.tool_results["order-17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)
    assert found["arguments"] == {"query": "chairs"}


def test_without_a_session_the_agents_of_a_run_share_a_trace(server, audit):
    for _ in range(2):
        swarm(HandoffHooks(audit), story())(QUESTION)
    traces = [one["trace_id"] for one in server.handoffs.values()]
    assert len(set(traces[:4])) == len(set(traces[4:])) == 1
    assert len(set(traces)) == 2


def test_a_blocked_handoff_does_not_happen_and_the_llm_reads_why(server, audit):
    server.answer("rejected", target="writer", message="The total is missing.")
    team = swarm(HandoffHooks(audit), {"triage": [to("writer", "Order."), Say("I stop.")], "writer": []})
    assert last(team(QUESTION)) == "I stop."
    assert told(team, "writer") == []
    assert "The total is missing." in str(told(team, "triage")[1])
    assert server.tool_results == {}


def answers(result):
    return [{"interruptResponse": {"interruptId": one.id, "response": "approved"}} for one in result.interrupts]


@pytest.mark.parametrize("decision", ["approved", "declined"])
def test_a_held_handoff_interrupts_the_swarm_which_resumes_after_the_decision(server, audit, decision):
    server.answer("held", target="writer")
    scripts = {"triage": [to("writer", "Order."), Say("I stop.")], "writer": [Say("Ordered.")]}
    team = swarm(HandoffHooks(audit, "interrupt"), scripts)
    result = team(QUESTION)
    assert result.status == Status.INTERRUPTED
    (held,) = [one.reason for one in result.interrupts]
    assert (held["source"], held["target"], held["state"]) == ("triage", "writer", "held")
    for _ in range(2):
        result = team(answers(result))
        assert result.status == Status.INTERRUPTED, "the answer to an interrupt approves nothing"
        assert result.interrupts[-1].reason["handoff_id"] == held["handoff_id"]
    server.stop()
    result = team(answers(result))
    assert result.status == Status.INTERRUPTED, "nobody knows while the server is away"
    server.start()
    server.decide(held["handoff_id"], decision)
    result = team(answers(result))
    assert last(result) == ("Ordered." if decision == "approved" else "I stop.")
    assert len(told(team, "writer")) == (decision == "approved")
    assert len(server.handoffs) == 1


def test_another_process_resumes_with_the_same_session(server, audit, tmp_path):
    server.answer("held", target="writer")
    state = {"session_id": "order-18"}

    def team(*script):
        manager = FileSessionManager(session_id="order-18", storage_dir=str(tmp_path))
        hooks = HandoffHooks(audit, "interrupt")
        return swarm(hooks, {"triage": script, "writer": [Say("Ordered.")]}, session_manager=manager)

    result = team(to("writer", "Order."))(QUESTION, dict(state))
    (held,) = [one.reason for one in result.interrupts]
    server.decide(held["handoff_id"], "approved")
    result = team(Say("Handed over."))(answers(result), dict(state))
    assert last(result) == "Ordered."
    assert len(server.handoffs) == 1


def test_block_waits_for_the_decision_while_other_tasks_go_on(server, audit):
    server.answer("held", target="writer")
    scripts = {"triage": [to("writer", "Order."), Say("Handed over.")], "writer": [Say("Ordered.")]}
    ticks = []

    def decide():
        (held,) = server.wait_for(1)
        server.decide(held["handoff_id"], "approved")

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def work():
        ticking = asyncio.create_task(tick())
        threading.Timer(0.5, decide).start()
        result = await swarm(HandoffHooks(audit), scripts).invoke_async(QUESTION)
        ticking.cancel()
        return last(result)

    assert asyncio.run(work()) == "Ordered."
    assert max(after - before for before, after in pairwise(ticks)) < 0.4


def test_block_gives_up_after_its_time(server, audit):
    server.answer("held", target="writer")
    team = swarm(HandoffHooks(audit, timeout=0.2), {"triage": [to("writer"), Say("I wait.")], "writer": []})
    assert last(team(QUESTION)) == "I wait."
    assert "person has to decide" in str(told(team, "triage")[1])


def test_an_agent_as_a_tool_is_gated_and_its_answer_is_no_evidence(server, audit):
    server.answer("rejected", target="checker", message="The total is missing.")
    writer, checker = agent("writer", Say("Ordered.")), agent("checker")
    calls = [Say("", name, {"input": "Order."}) for name in ("writer", "checker")]
    triage = agent("triage", *calls, Say("Done."), hooks=HandoffHooks(audit), tools=[writer, checker])
    assert str(triage(QUESTION)).strip() == "Done."
    assert audit.flush()
    assert routes(server) == [("triage", "writer"), ("triage", "checker")]
    assert data(server) == [{"input": "Order."}] * 2
    assert (len(writer.model.told), len(checker.model.told)) == (1, 0)
    assert server.tool_results == {}


def test_chain_reason_and_type_are_declared(server, audit):
    hooks = HandoffHooks(audit, declare_chain=True, reason="The work goes on.", type="purchase")
    scripts = {"triage": [to("writer", "Order."), Say("1"), Say("Done.")], "writer": [to("triage", "Which?"), Say("2")]}
    swarm(hooks, scripts)(QUESTION)
    sent = list(server.handoffs.values())
    assert [one["document"]["call_chain"] for one in sent] == [["triage"], ["triage", "writer"]]
    assert {one["reason"] for one in sent} == {"The work goes on."}
    assert {one["document"]["handoff_type"] for one in sent} == {"purchase"}


def test_a_handoff_that_fails_did_not_happen_and_failed_tools_are_captured(server, audit):
    scripts = {"triage": [to("nobody"), Say("", "broken"), Say("Done.")], "writer": []}
    swarm(HandoffHooks(audit, "observe"), scripts)(QUESTION, {"session_id": "order-19"})
    assert audit.flush()
    assert routes(server) == []
    (failed,) = server.tool_results["order-19"]
    assert (failed["tool"], "the disk is full" in failed["result"]["error"]) == ("broken", True)


def test_without_a_server_handoffs_pass_or_stop(tmp_path):
    for choice, said in (("pass", "Ordered."), ("stop", "I stop.")):
        with Client("http://127.0.0.1:9", "ha_x", spool=tmp_path / choice, on_unreachable=choice) as away:
            scripts = {"triage": [to("writer"), Say("I stop.")], "writer": [Say("Ordered.")]}
            assert last(swarm(HandoffHooks(away), scripts)(QUESTION)) == said


def test_another_policy_is_refused(audit):
    with pytest.raises(ValueError, match='"block", "interrupt", "observe"'):
        HandoffHooks(audit, "wait")
