"""Tests of the plug-in for Pydantic AI with the real framework and scripted models."""

import asyncio
import threading
import time
from itertools import pairwise

import pytest
from handoffaudit_client import Client

from tests.frameworks.conftest import data, need, routes
from tests.frameworks.scripted import Say, function_model

need("pydantic_ai")

from handoffaudit_client.pydantic_ai import HandoffCapability
from pydantic_ai import Agent, DeferredToolRequests, ModelMessagesTypeAdapter, ModelRetry

# The framework warns of its own parts.
pytestmark = pytest.mark.filterwarnings("default")

QUESTION = "Who can deliver 40 chairs within a week?"
FOUND = "Acme: 60 chairs a week, 12.40 EUR"
TASKS = ["Find suppliers.", "Order from Acme.", "Check the capacity of Acme.", "Order 40 chairs."]


def ask(target, task=""):
    return Say("", f"ask_{target}", {"task": task} if task else {})


def agent(name, *script, others=(), output_type=str, **options):
    """Return an agent that asks other agents with tools."""
    capability = HandoffCapability({f"ask_{other.name}": other.name for other in others}, **options)
    made = Agent(function_model(*script), name=name, capabilities=[capability], output_type=output_type)

    def add(other):
        async def ask_other(task: str = "") -> str:
            return (await other.run(task)).output

        made.tool_plain(name=f"ask_{other.name}")(ask_other)

    for other in others:
        add(other)
    return made


def team(audit, **options):
    """Return triage, which asks the researcher and the writer in turn, and the researcher's tool."""
    researcher = agent("researcher", Say("", "find", {"query": "chairs"}), Say(FOUND), Say(FOUND), client=audit)
    researcher.tool_plain(find)
    writer = agent("writer", Say("Ordered."), Say("Ordered."), client=audit)
    others = [researcher, writer]
    asked = [ask("researcher", TASKS[0]), ask("writer", TASKS[1]), ask("researcher", TASKS[2]), ask("writer", TASKS[3])]
    return agent("triage", *asked, Say("Done."), others=others, client=audit, **options)


def find(query: str) -> str:
    return FOUND


@pytest.mark.parametrize("policy", ["block", "interrupt", "observe"])
def test_each_delegation_is_sent_once_and_tools_are_captured(server, audit, policy):
    result = team(audit, policy=policy).run_sync(QUESTION, conversation_id="order-17")
    assert audit.flush()
    assert result.output == "Done."
    assert routes(server) == [("triage", other) for other in ("researcher", "writer") * 2]
    assert data(server) == [{"task": task} for task in TASKS]
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-17"}
    # What the agents said is not evidence; the tool of the researcher ran in the trace of triage.
    (found,) = server.tool_results["order-17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)
    assert found["arguments"] == {"query": "chairs"}


def test_a_surrounding_trace_is_used(server, audit):
    with audit.trace("order-18"):
        team(audit, policy="observe").run_sync(QUESTION)
    assert audit.flush()
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-18"}


def test_a_blocked_handoff_does_not_happen_and_the_llm_reads_why(server, audit):
    server.answer("rejected", target="writer", message="The total is missing.")
    writer = agent("writer", client=audit)
    triage = agent("triage", ask("writer", "Order."), Say("I stop."), others=[writer], client=audit)
    assert triage.run_sync(QUESTION).output == "I stop."
    assert writer.model.told == []
    assert "The total is missing." in str(triage.model.told[1])


def test_a_corrected_handoff_is_another_one(server, audit):
    server.answer("rejected", target="writer", message="The total is missing.")

    def corrected():
        server.answer("accepted", target="writer")
        return ask("writer", "Order for 496 EUR.")

    writer = agent("writer", Say("Ordered."), client=audit)
    triage = agent("triage", ask("writer", "Order."), corrected, Say("Done."), others=[writer], client=audit)
    assert triage.run_sync(QUESTION).output == "Done."
    assert data(server) == [{"task": "Order."}, {"task": "Order for 496 EUR."}]


def interrupted(audit):
    writer = agent("writer", Say("Ordered."), client=audit)
    script = [ask("writer", "Order."), Say("Done."), Say("Done.")]
    types = [str, DeferredToolRequests]
    return agent("triage", *script, others=[writer], client=audit, policy="interrupt", output_type=types), writer


@pytest.mark.parametrize(("decision", "starts"), [("approved", 1), ("declined", 0)])
def test_a_held_handoff_ends_the_run_which_resumes_after_the_decision(server, audit, decision, starts):
    server.answer("held", target="writer")
    triage, writer = interrupted(audit)
    result = triage.run_sync(QUESTION)
    (held,) = result.output.metadata.values()
    assert (held["source"], held["target"], held["state"]) == ("triage", "writer", "held")
    assert "person has to decide" in held["why"]
    assert writer.model.told == []
    # Another process has what was stored of the run.
    history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    approve_all = result.output.build_results(approve_all=True)
    again = triage.run_sync(message_history=history, deferred_tool_results=approve_all)
    assert next(iter(again.output.metadata.values()))["handoff_id"] == held["handoff_id"], "a program approves nothing"
    server.decide(held["handoff_id"], decision)
    done = triage.run_sync(message_history=history, deferred_tool_results=approve_all)
    assert done.output == "Done."
    assert len(writer.model.told) == starts
    assert len(server.handoffs) == 1
    assert ("declined" in str(triage.model.told[-1])) == (decision == "declined")


def test_a_run_is_not_resumed_while_the_server_is_away(server, audit):
    server.answer("held", target="writer")
    triage, writer = interrupted(audit)
    result = triage.run_sync(QUESTION)
    server.stop()
    approve_all = result.output.build_results(approve_all=True)
    again = triage.run_sync(message_history=result.all_messages(), deferred_tool_results=approve_all)
    assert isinstance(again.output, DeferredToolRequests)
    assert writer.model.told == []


def test_changed_arguments_do_not_pass_under_an_approval(server, audit):
    server.answer("held", target="writer")
    triage, writer = interrupted(audit)
    result = triage.run_sync(QUESTION)
    ((call_id, held),) = result.output.metadata.items()
    server.decide(held["handoff_id"], "approved")
    from pydantic_ai import ToolApproved

    other = result.output.build_results(approvals={call_id: ToolApproved(override_args={"task": "Order 4,000."})})
    triage.run_sync(message_history=result.all_messages(), deferred_tool_results=other)
    assert writer.model.told == []


def test_block_waits_for_the_decision_while_other_tasks_go_on(server, audit):
    server.answer("held", target="writer")
    writer = agent("writer", Say("Ordered."), client=audit)
    triage = agent("triage", ask("writer", "Order."), Say("Done."), others=[writer], client=audit)
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def work():
        ticking = asyncio.create_task(tick())
        result = await triage.run(QUESTION)
        ticking.cancel()
        return result.output

    def decide():
        (held,) = server.wait_for(1)
        server.decide(held["handoff_id"], "approved")

    decider = threading.Timer(0.5, decide)
    decider.start()
    assert asyncio.run(work()) == "Done."
    decider.join()
    assert max(after - before for before, after in pairwise(ticks)) < 0.4


def test_block_gives_up_after_its_time(server, audit):
    server.answer("held", target="writer")
    writer = agent("writer", client=audit)
    triage = agent("triage", ask("writer", "Order."), Say("I wait."), others=[writer], client=audit, timeout=0.2)
    assert triage.run_sync(QUESTION).output == "I wait."
    assert writer.model.told == []
    assert "person has to decide" in str(triage.model.told[1])


def test_without_arguments_the_data_are_the_last_text(server, audit):
    writer = agent("writer", Say("Ordered."), client=audit)
    script = [Say(FOUND, "ask_writer"), Say("Done.")]
    agent("triage", *script, others=[writer], client=audit).run_sync(QUESTION)
    other = agent("other", Say("Ordered."), client=audit)
    agent("triage", ask("other"), Say("Done."), others=[other], client=audit).run_sync(QUESTION)
    assert data(server) == [FOUND, QUESTION]


def test_a_declared_chain_has_the_agents_whose_tools_led_here(server, audit):
    options = {"client": audit, "declare_chain": True, "reason": "The writer asked.", "type": "purchase"}
    checker = agent("checker", Say("Right."), client=audit)
    writer = agent("writer", ask("checker", "Check it."), Say("Ordered."), others=[checker], **options)
    agent("triage", ask("writer", "Order."), Say("Done."), others=[writer], **options).run_sync(QUESTION)
    sent = list(server.handoffs.values())
    assert [one["document"]["call_chain"] for one in sent] == [["triage"], ["triage", "writer"]]
    assert [one["reason"] for one in sent] == ["The writer asked."] * 2
    assert {one["document"]["handoff_type"] for one in sent} == {"purchase"}
    assert len({one["trace_id"] for one in sent}) == 1


def test_parallel_delegations_do_not_mix(server, audit):
    others = [agent(name, Say(f"{name} is done."), client=audit, declare_chain=True) for name in ("left", "right")]
    triage = agent("triage", Say("Done."), others=others, client=audit, declare_chain=True)
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages, _):
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(f"ask_{name}", {"task": name}) for name in ("left", "right")])

    triage.run_sync(QUESTION, model=FunctionModel(answer))
    found = {one["document"]["target_agent_id"]: one["document"] for one in server.handoffs.values()}
    assert {name: one["call_chain"] for name, one in found.items()} == {"left": ["triage"], "right": ["triage"]}
    assert {name: one["data"] for name, one in found.items()} == {n: {"task": n} for n in ("left", "right")}


def test_failed_tools_are_captured_and_retries_are_not(server, audit):
    worker = agent("worker", Say("", "broken"), Say("", "again"), Say("Done."), client=audit)
    tries = []

    @worker.tool_plain
    def broken() -> str:
        raise OSError("the disk is full")

    @worker.tool_plain(retries=2)
    def again() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry("Say it in another way.")
        return "found"

    with pytest.raises(OSError, match="disk is full"):
        worker.run_sync(QUESTION, conversation_id="order-19")
    worker = agent("worker", Say("", "again"), Say("", "again"), Say("Done."), client=audit)
    worker.tool_plain(retries=2)(again)
    worker.run_sync(QUESTION, conversation_id="order-19")
    assert audit.flush()
    results = [(one["tool"], one["result"]) for one in server.tool_results["order-19"]]
    assert results == [("broken", {"error": "OSError: the disk is full"}), ("again", "found")]


def test_without_a_server_handoffs_pass_or_stop(tmp_path):
    for choice, said in (("pass", 1), ("stop", 0)):
        with Client("http://127.0.0.1:9", "ha_x", spool=tmp_path / choice, on_unreachable=choice) as away:
            writer = agent("writer", Say("Ordered."), client=away)
            agent("triage", ask("writer", "Order."), Say("Done."), others=[writer], client=away).run_sync(QUESTION)
            assert len(writer.model.told) == said


def test_another_policy_is_refused(audit):
    with pytest.raises(ValueError, match='"block", "interrupt", "observe"'):
        HandoffCapability({}, audit, policy="wait")
