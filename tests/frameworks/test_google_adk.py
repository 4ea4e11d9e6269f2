"""Tests of the plug-in for Google ADK with the real framework and scripted models."""

import asyncio
import threading
import time
from itertools import pairwise

import pytest
from handoffaudit_client import Client

from tests.frameworks.conftest import STORY, data, need, routes
from tests.frameworks.scripted import Say, adk_model

need("google.adk")

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from handoffaudit_client.google_adk import HandoffPlugin

# The framework warns of its own parts.
pytestmark = pytest.mark.filterwarnings("default")

QUESTION = "Who can deliver 40 chairs within a week?"
FOUND = "Acme: 60 chairs a week, 12.40 EUR"


def to(target, text="", **arguments):
    return Say(text, "transfer_to_agent", {"agent_name": target, **arguments})


def find(query: str) -> dict[str, str]:
    """Find suppliers."""
    return {"found": FOUND}


def set_findings(supplier: str, tool_context) -> dict[str, bool]:
    """Store the findings."""
    tool_context.state["supplier"] = supplier
    tool_context.state["temp:draft"] = "unfinished"
    return {"ok": True}


def agent(name, *script, **options):
    return Agent(name=name, model=adk_model(*script), description=f"The {name}.", **options)


def told(agent):
    return agent.model.told


async def run_async(root, *plugins, session="order-17", question=QUESTION):
    """Run an agent, and return its last text."""
    runner = InMemoryRunner(root, app_name="orders", plugins=list(plugins))
    await runner.session_service.create_session(app_name="orders", user_id="ada", session_id=session)
    content = types.Content(role="user", parts=[types.Part(text=question)])
    last = ""
    async for event in runner.run_async(user_id="ada", session_id=session, new_message=content):
        for part in (event.content.parts if event.content else None) or ():
            last = part.text or last
    await runner.close()
    return last


def run(root, *plugins, **options):
    return asyncio.run(run_async(root, *plugins, **options))


def story():
    script = [Say("", "find", {"query": "chairs"}), Say("", "set_findings", {"supplier": "Acme"})]
    researcher = agent("researcher", *script, to("writer"), to("writer", "Acme has 60."), tools=[find, set_findings])
    writer = agent("writer", to("researcher", "Check the stock."), Say("Order from Acme."))
    return agent("triage", to("researcher", "Find suppliers."), sub_agents=[researcher, writer])


@pytest.mark.parametrize("policy", ["block", "observe"])
def test_each_transfer_is_sent_once_and_tools_are_captured(server, audit, policy):
    assert run(story(), HandoffPlugin(audit, policy)) == "Order from Acme."
    assert audit.flush()
    assert routes(server) == STORY
    handed = {"text": "Find suppliers.", "state": {"supplier": "Acme"}}
    assert data(server)[0] == "Find suppliers."
    assert data(server)[1] in ({"supplier": "Acme"}, handed)
    assert data(server)[2:] == ["Check the stock.", "Acme has 60."]
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-17"}
    parents = [one.get("parent_handoff_id") for one in server.handoffs.values()]
    assert parents == [None, *list(server.handoffs)[:-1]]
    results = server.tool_results["order-17"]
    assert [(one["tool"], one["agent"]) for one in results] == [("find", "researcher"), ("set_findings", "researcher")]
    assert results[0]["result"] == {"found": FOUND}
    assert results[0]["arguments"] == {"query": "chairs"}


def test_a_blocked_transfer_does_not_happen_and_the_llm_reads_why(server, audit):
    server.answer("rejected", target="writer", message="The total is missing.")
    writer = agent("writer")
    triage = agent("triage", to("writer", "Order."), Say("I stop."), sub_agents=[writer])
    assert run(triage, HandoffPlugin(audit)) == "I stop."
    assert audit.flush()
    assert told(writer) == []
    assert "The total is missing." in str(told(triage)[1])
    assert routes(server) == [("triage", "writer")]
    assert server.tool_results == {}


def test_an_agent_as_a_tool_is_gated_and_its_answer_is_no_evidence(server, audit):
    server.answer("rejected", target="checker", message="The total is missing.")
    writer, checker = agent("writer", Say("Ordered.")), agent("checker")
    script = [Say("", "writer", {"request": "Order."}), Say("", "checker", {"request": "Check."}), Say("Done.")]
    triage = agent("triage", *script, tools=[AgentTool(writer), AgentTool(checker)])
    assert run(triage, HandoffPlugin(audit)) == "Done."
    assert audit.flush()
    assert routes(server) == [("triage", "writer"), ("triage", "checker")]
    assert data(server) == [{"request": "Order."}, {"request": "Check."}]
    assert (len(told(writer)), len(told(checker))) == (1, 0)
    assert server.tool_results == {}


@pytest.mark.parametrize(("decision", "last"), [("approved", "Ordered."), ("declined", "I stop.")])
def test_a_held_transfer_waits_for_the_decision_while_other_tasks_go_on(server, audit, decision, last):
    server.answer("held", target="writer")
    triage = agent("triage", to("writer", "Order."), Say("I stop."), sub_agents=[agent("writer", Say("Ordered."))])
    ticks = []

    def decide():
        (held,) = server.wait_for(1)
        server.decide(held["handoff_id"], decision)

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def work():
        ticking = asyncio.create_task(tick())
        threading.Timer(0.5, decide).start()
        said = await run_async(triage, HandoffPlugin(audit))
        ticking.cancel()
        return said

    assert asyncio.run(work()) == last
    assert max(after - before for before, after in pairwise(ticks)) < 0.4


def test_block_gives_up_after_its_time(server, audit):
    server.answer("held", target="writer")
    triage = agent("triage", to("writer", "Order."), Say("I wait."), sub_agents=[agent("writer")])
    assert run(triage, HandoffPlugin(audit, timeout=0.2)) == "I wait."
    assert "person has to decide" in str(told(triage)[1])


def test_chain_reason_and_type_are_declared(server, audit):
    triage = agent("triage", to("writer", "Order.", transfer_reason="It is a report."))
    writer = agent("writer", to("triage", "Which total?"))
    triage.sub_agents = [writer]
    writer.parent_agent = triage
    triage.model.lines = iter([to("writer", "Order.", transfer_reason="It is a report."), Say("Done.")])
    run(triage, HandoffPlugin(audit, declare_chain=True, reason="The work goes on.", type="purchase"))
    sent = list(server.handoffs.values())
    assert [one["document"]["call_chain"] for one in sent] == [["triage"], ["triage", "writer"]]
    assert [one["reason"] for one in sent] == ["It is a report.", "The work goes on."]
    assert {one["document"]["handoff_type"] for one in sent} == {"purchase"}


def test_a_transfer_that_a_tool_of_your_own_sets_is_observed(server, audit):
    def escalate(tool_context) -> dict[str, bool]:
        """Escalate."""
        tool_context.actions.transfer_to_agent = "writer"
        return {"ok": True}

    triage = agent("triage", Say("Order.", "escalate"), sub_agents=[agent("writer", Say("Done."))], tools=[escalate])
    assert run(triage, HandoffPlugin(audit)) == "Done."
    assert audit.flush()
    assert routes(server) == [("triage", "writer")]
    assert data(server) == ["Order."]


def test_a_failed_tool_is_captured(server, audit):
    def broken() -> str:
        """Break."""
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        run(agent("triage", Say("", "broken"), tools=[broken]), HandoffPlugin(audit))
    assert audit.flush()
    assert [one["result"] for one in server.tool_results["order-17"]] == [{"error": "OSError: the disk is full"}]


def test_a_wrong_target_or_policy_is_no_handoff(server, audit):
    triage = agent("triage", to(""), Say("Done."), sub_agents=[agent("writer")])
    with pytest.raises(ValueError, match="not found"):
        run(triage, HandoffPlugin(audit))
    assert routes(server) == []
    with pytest.raises(ValueError, match='"block", "observe"'):
        HandoffPlugin(audit, "interrupt")


def test_without_a_server_transfers_pass_or_stop(tmp_path):
    for choice, last in (("pass", "Ordered."), ("stop", "I stop.")):
        with Client("http://127.0.0.1:9", "ha_x", spool=tmp_path / choice, on_unreachable=choice) as away:
            triage = agent("triage", to("writer"), Say("I stop."), sub_agents=[agent("writer", Say("Ordered."))])
            assert run(triage, HandoffPlugin(away)) == last
