"""Tests of the plug-in for the OpenAI Agents SDK, with the SDK's own models on a scripted transport."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from handoffaudit_client import Client
from handoffaudit_client.plugins import MOST_REMEMBERED, Memory

from tests.frameworks.conftest import CLIENT, STORY, data, need, routes
from tests.frameworks.scripted import Say, openai_model

need("agents")

from agents import (
    Agent,
    RunConfig,
    Runner,
    function_tool,
    handoff,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.extensions.handoff_filters import remove_all_tools
from agents.items import HandoffOutputItem
from handoffaudit_client.openai_agents import HandoffProcessor, gated
from pydantic import BaseModel

QUESTION = "Who can deliver 40 chairs within a week?"
FOUND = "Acme: 60 chairs a week, 12.40 EUR"
FINDINGS = {"summary": "Acme delivers.", "price": 12.4}
DATA = [QUESTION, FINDINGS, "Check the capacity of Acme.", {"summary": "Acme has 60.", "price": 12.4}]


class Findings(BaseModel):
    summary: str
    price: float


@function_tool
def find(query: str) -> str:
    """Find suppliers."""
    return FOUND


@pytest.fixture(autouse=True)
def no_tracing():
    """Leave no processor behind, and never send a trace to OpenAI."""
    set_trace_processors([])
    set_tracing_disabled(False)
    yield
    set_trace_processors([])
    set_tracing_disabled(False)


def hand(target, text="", **arguments):
    return Say(text, f"transfer_to_{target}", arguments)


def scripts():
    return {
        "triage": [hand("researcher")],
        "researcher": [Say("", "find", {"query": "chairs"}), hand("writer", **FINDINGS), hand("writer", **DATA[3])],
        "writer": [hand("researcher", DATA[2]), Say("Order from Acme.")],
    }


def team(scripts, *, wrap=lambda given: given, shape="chat", tools=(find,), **options):
    """Return the agents by name, each of which can hand over to all others."""
    agents = {
        name: Agent(name=name, model=openai_model(shape, *lines), tools=list(tools)) for name, lines in scripts.items()
    }
    for name, agent in agents.items():
        agent.handoffs = [wrap(handoff(other, **options)) for other in agents.values() if other.name != name]
    return agents


def run(agents, **config):
    first = next(iter(agents.values()))
    return asyncio.run(Runner.run(first, QUESTION, run_config=RunConfig(**config) if config else None))


@pytest.mark.parametrize("shape", ["chat", "responses"])
@pytest.mark.parametrize("policy", ["none", "block", "observe"])
def test_a_run_sends_exactly_the_handoffs_that_happen(server, audit, shape, policy):
    set_trace_processors([HandoffProcessor(audit)])
    wrap = (lambda given: given) if policy == "none" else (lambda given: gated(given, audit, policy))
    result = run(team(scripts(), wrap=wrap, shape=shape), trace_id="trace_order17")
    assert audit.flush()
    assert result.final_output == "Order from Acme."
    assert routes(server) == STORY
    assert data(server) == DATA
    sent = list(server.handoffs.values())
    assert {one["trace_id"] for one in sent} == {"trace_order17"}
    assert [one.get("parent_handoff_id") for one in sent] == [None, *(one["handoff_id"] for one in sent[:-1])]
    (found,) = server.tool_results["trace_order17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)
    assert found["arguments"] == {"query": "chairs"}


@pytest.mark.parametrize("shape", ["chat", "responses"])
@pytest.mark.parametrize("is_gated", [False, True])
def test_a_streamed_run_sends_the_same_handoffs(server, audit, shape, is_gated):
    async def stream(first):
        result = Runner.run_streamed(first, QUESTION)
        async for _ in result.stream_events():
            pass
        return result.final_output

    set_trace_processors([HandoffProcessor(audit)])
    wrap = (lambda given: gated(given, audit)) if is_gated else (lambda given: given)
    agents = team(scripts(), wrap=wrap, shape=shape)
    assert asyncio.run(stream(agents["triage"])) == "Order from Acme."
    assert audit.flush()
    assert routes(server) == STORY
    assert data(server) == DATA


@pytest.mark.parametrize("shape", ["chat", "responses"])
def test_a_blocked_handoff_stays_with_its_sender_whose_llm_reads_why(server, audit, shape):
    server.answer("rejected", target="writer", message="The price is missing.")
    called = []
    lines = {"researcher": [hand("writer", summary="Acme.", price=0), Say("I stop.")], "writer": [Say("Done.")]}
    agents = team(
        lines,
        wrap=lambda given: gated(given, audit),
        shape=shape,
        on_handoff=lambda context, findings: called.append(findings),
        input_type=Findings,
        input_filter=remove_all_tools,
    )
    result = run(agents)
    assert result.final_output == "I stop."
    assert result.last_agent.name == "researcher"
    assert called == []
    told = str(agents["researcher"].model.told[1])
    assert "Handoff blocked. The handoff is rejected." in told
    assert "The price is missing." in told


def test_a_handoff_that_is_corrected_goes_on(server, audit):
    server.answer("rejected", target="writer", message="The price is missing.")

    def correct():
        server.answer("accepted", target="writer")
        return hand("writer", summary="B")

    lines = {"researcher": [hand("writer", summary="A"), correct], "writer": [Say("Done.")]}
    set_trace_processors([HandoffProcessor(audit)])
    assert run(team(lines, wrap=lambda given: gated(given, audit))).final_output == "Done."
    assert audit.flush()
    assert data(server) == [{"summary": "A"}, {"summary": "B"}]


@pytest.mark.parametrize(("decision", "last"), [("approved", "Done."), ("declined", "I stop.")])
def test_block_waits_for_the_decision_of_a_person(server, audit, decision, last):
    server.answer("held", target="writer")

    def decide():
        (sent,) = server.wait_for(1)
        server.decide(sent["handoff_id"], decision)

    thread = threading.Thread(target=decide)
    thread.start()
    lines = {"researcher": [hand("writer"), Say("I stop.")], "writer": [hand("editor")], "editor": [Say("Done.")]}
    assert run(team(lines, wrap=lambda given: gated(given, audit, timeout=20))).final_output == last
    thread.join()
    first, *rest = server.handoffs.values()
    assert [one["parent_handoff_id"] for one in rest] == [first["handoff_id"]] * (last == "Done.")


def test_block_ends_after_its_time(server, audit):
    server.answer("held")
    agents = team(
        {"researcher": [hand("writer"), Say("I stop.")], "writer": [Say("Done.")]},
        wrap=lambda given: gated(given, audit, timeout=0.2),
    )
    assert run(agents).final_output == "I stop."
    assert "a person has to decide" in str(agents["researcher"].model.told[1])


def test_the_gate_works_without_tracing(server, audit):
    set_tracing_disabled(True)
    result = run(team(scripts(), wrap=lambda given: gated(given, audit)))
    assert result.final_output == "Order from Acme."
    assert routes(server) == STORY
    assert data(server) == [QUESTION, FINDINGS, QUESTION, DATA[3]]
    assert len({one["trace_id"] for one in server.handoffs.values()}) == 1


def test_runs_at_the_same_time_do_not_mix_their_reasons(server, audit):
    server.answer("rejected", source="a", message="Not from a.")
    server.answer("rejected", source="b", message="Not from b.")
    shared = gated(Agent(name="writer", model=openai_model("chat", *[Say("Done.")] * 4)), audit)
    agents = [
        Agent(name=name, model=openai_model("chat", hand("writer"), Say("I stop.")), handoffs=[shared])
        for name in ("a", "b", "c", "d")
    ]

    async def together():
        return await asyncio.gather(*(Runner.run(agent, QUESTION) for agent in agents))

    assert [one.final_output for one in asyncio.run(together())] == ["I stop.", "I stop.", "Done.", "Done."]
    for agent in agents[:2]:
        assert f"Not from {agent.name}." in str(agent.model.told[1])


@pytest.mark.parametrize("shape", ["chat", "responses"])
def test_a_text_that_begins_like_deep_json_ends_no_run(server, audit, shape):
    set_trace_processors([HandoffProcessor(audit)])
    text = "[" * 100_000
    lines = {"triage": [hand("writer")], "writer": [Say("Done.")]}
    agents = team(lines, wrap=lambda given: gated(given, audit), shape=shape)
    result = asyncio.run(Runner.run(agents["triage"], [{"role": "user", "content": text}]))
    assert result.final_output == "Done."
    assert data(server) == [text]


def test_a_declared_chain_names_all_agents_and_the_reason(server, audit):
    lines = scripts()
    lines["writer"][0] = hand("researcher", reason="The capacity is missing.")
    run(team(lines, wrap=lambda given: gated(given, audit, declare_chain=True, reason="By default.")))
    sent = list(server.handoffs.values())
    assert [one["document"]["call_chain"] for one in sent] == [
        ["triage"],
        ["triage", "researcher"],
        ["triage", "researcher", "writer"],
        ["triage", "researcher", "writer", "researcher"],
    ]
    assert [one["reason"] for one in sent] == [*["By default."] * 2, "The capacity is missing.", "By default."]


def test_results_of_tools_are_captured_with_their_errors_but_not_those_of_agents(server, audit):
    @function_tool
    def fail(query: str) -> str:
        """Fail."""
        raise ValueError("no such supplier")

    expert = Agent(name="expert", model=openai_model("chat", Say("An LLM says so.")))
    tools = [find, fail, expert.as_tool("ask", "Ask an expert.")]
    lines = [Say("", "find", {"query": "a"}), Say("", "ask", {"input": "b"}), Say("", "fail", {"query": "c"})]
    set_trace_processors([HandoffProcessor(audit)])
    run(team({"researcher": [*lines, Say("Done.")]}, tools=tools), trace_id="trace_order19")
    assert audit.flush()
    first, second = server.tool_results["trace_order19"]
    assert (first["tool"], first["result"]) == ("find", FOUND)
    assert second["tool"] == "fail"
    assert list(second["result"]) == ["error"]
    assert server.handoffs == {}


def test_hidden_data_leaves_the_ends_of_a_handoff(server, audit):
    set_trace_processors([HandoffProcessor(audit)])
    run(team(scripts()), trace_include_sensitive_data=False)
    assert audit.flush()
    assert routes(server) == STORY
    assert data(server) == [{}] * 4


def test_an_absent_server_lets_handoffs_pass_and_gets_them_later(server, audit):
    server.stop()
    started = time.monotonic()
    set_trace_processors([HandoffProcessor(audit)])
    result = run(team(scripts(), wrap=lambda given: gated(given, audit)))
    assert result.final_output == "Order from Acme."
    assert time.monotonic() - started < 10
    server.start()
    server.wait_for(4)
    assert routes(server) == STORY


def test_a_handoff_keeps_what_its_author_set(audit):
    writer = Agent(name="writer")
    given = handoff(writer, tool_name_override="to_writer", tool_description_override="Hand over.", is_enabled=False)
    gate = gated(given, audit)
    assert (gate.tool_name, gate.tool_description, gate.agent_name) == ("to_writer", "Hand over.", "writer")
    assert given.on_invoke_handoff is not gate.on_invoke_handoff
    agent = Agent(name="researcher", model=openai_model("chat", Say("Done.")), handoffs=[gate])
    run({"researcher": agent})
    assert "tools" not in agent.model.told[0]


def test_the_sdk_shows_the_sender_as_the_target_of_a_blocked_handoff(server, audit):
    server.answer("rejected")
    result = run(team({"a": [hand("b"), Say("I stop.")], "b": []}, wrap=lambda given: gated(given, audit)))
    (item,) = [one for one in result.new_items if isinstance(one, HandoffOutputItem)]
    assert (item.source_agent.name, item.target_agent.name) == ("a", "a")


def test_policies_that_the_sdk_cannot_do_are_refused(audit):
    with pytest.raises(ValueError, match="can interrupt no handoff"):
        gated(Agent(name="writer"), audit, "interrupt")


def test_memory_is_bounded():
    memory = Memory(most=3)
    for number in range(10):
        memory[number] = number
    assert [memory.get(number) for number in (6, 7, 8, 9)] == [None, 7, 8, 9]
    assert len(memory) == 3
    assert Memory()._most == MOST_REMEMBERED


def test_importing_the_plug_in_loads_no_framework():
    code = "import sys, handoffaudit_client.openai_agents; print('agents' in sys.modules, 'openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CLIENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_plug_ins_share_one_client(monkeypatch):
    monkeypatch.setattr("handoffaudit_client.plugins._shared", [])
    monkeypatch.delenv("HANDOFFAUDIT_URL", raising=False)
    first = HandoffProcessor()
    assert isinstance(first.client, Client)
    assert HandoffProcessor().client is first.client
