"""Tests of the plug-in for LangChain and LangGraph with the real frameworks and scripted models."""

import asyncio
import subprocess
import sys
import threading
import time
from uuid import uuid4

import pytest
from handoffaudit_client import AsyncClient, Client
from handoffaudit_client.plugins import handoff_id_of

from tests.frameworks.conftest import CLIENT, STORY, data, need, routes
from tests.frameworks.scripted import Say, chat_model

need("langgraph_swarm")

from handoffaudit_client.langchain import HandoffCallback, handoff_gate
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from langgraph_supervisor import create_supervisor
from langgraph_supervisor.handoff import create_handoff_tool as supervisor_tool
from langgraph_swarm import create_handoff_tool, create_swarm

# The frameworks warn of each other.
pytestmark = pytest.mark.filterwarnings("default")

QUESTION = "Who can deliver 40 chairs within a week?"
FOUND = "Acme: 60 chairs a week, 12.40 EUR"
SAID = ["Find suppliers.", FOUND, "Check the capacity of Acme.", "Acme has 60 chairs in stock."]


@tool
def find(query: str) -> str:
    """Find suppliers."""
    return FOUND


def hand(target, text=""):
    return Say(text, f"transfer_to_{target}")


def scripts():
    return {
        "triage": [hand("researcher", SAID[0])],
        "researcher": [Say("", "find", {"query": "chairs"}), hand("writer"), hand("writer", SAID[3])],
        "writer": [hand("researcher", SAID[2]), Say("Order from Acme.")],
    }


def swarm(scripts, *, middleware=(), checkpointer=None, tools=(find,)):
    """Return a swarm whose agents can hand over to all others, and their models by name."""
    models = {name: chat_model(*lines) for name, lines in scripts.items()}
    agents = [
        create_agent(
            model,
            [*tools, *(create_handoff_tool(agent_name=other) for other in scripts if other != name)],
            name=name,
            middleware=list(middleware),
        )
        for name, model in models.items()
    ]
    return create_swarm(agents, default_active_agent=next(iter(scripts))).compile(checkpointer=checkpointer), models


def configured(callback=None, thread=None):
    config = {"callbacks": [callback] if callback else []}
    return {**config, "configurable": {"thread_id": thread or str(uuid4())}}


def asked():
    return {"messages": [("user", QUESTION)]}


def run(graph, config, how="sync", given=None):
    given = asked() if given is None else given
    return graph.invoke(given, config) if how == "sync" else asyncio.run(graph.ainvoke(given, config))


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("policy", ["none", "block", "interrupt", "observe"])
def test_a_swarm_sends_exactly_the_handoffs_that_happen(server, audit, how, policy):
    middleware = [] if policy == "none" else [handoff_gate(audit, policy)]
    graph, _ = swarm(scripts(), middleware=middleware, checkpointer=InMemorySaver())
    result = run(graph, configured(HandoffCallback(audit), "order-17"), how)
    assert audit.flush()
    assert result["messages"][-1].text == "Order from Acme."
    assert routes(server) == STORY
    assert data(server) == SAID
    sent = list(server.handoffs.values())
    assert {one["trace_id"] for one in sent} == {"order-17"}
    parents = [one.get("parent_handoff_id") for one in sent]
    assert parents == [None, *(one["handoff_id"] for one in sent[:-1])]
    (found,) = server.tool_results["order-17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)
    assert found["arguments"] == {"query": "chairs"}


def test_a_supervisor_sends_its_delegations_and_what_comes_back(server, audit):
    workers = [
        create_agent(chat_model(Say("Acme has 60 chairs.")), name="researcher"),
        create_agent(chat_model(Say("Order from Acme.")), name="writer"),
    ]
    model = chat_model(hand("researcher"), hand("writer"), Say("Done."))
    graph = create_supervisor(workers, model=model, supervisor_name="Triage Desk").compile()
    result = run(graph, configured(HandoffCallback(audit)))
    assert audit.flush()
    assert result["messages"][-1].text == "Done."
    desk = "Triage Desk"
    assert routes(server) == [(desk, "researcher"), ("researcher", desk), (desk, "writer"), ("writer", desk)]
    assert data(server) == [QUESTION, "Acme has 60 chairs.", "Acme has 60 chairs.", "Order from Acme."]


def test_the_gate_stops_the_tools_of_a_supervisor(server, audit):
    server.answer("rejected", target="writer", message="The total is missing.")
    gate = handoff_gate(audit)
    tools = ToolNode(
        [supervisor_tool(agent_name="researcher"), supervisor_tool(agent_name="writer")],
        wrap_tool_call=gate.wrap_tool_call,
        awrap_tool_call=gate.awrap_tool_call,
    )
    workers = [create_agent(chat_model(Say(f"{name} was here.")), name=name) for name in ("researcher", "writer")]
    model = chat_model(hand("writer"), hand("researcher"), Say("Done."))
    graph = create_supervisor(workers, model=model, tools=tools, supervisor_name="triage").compile()
    result = run(graph, configured(HandoffCallback(audit)))
    assert audit.flush()
    assert routes(server) == [("triage", "writer"), ("triage", "researcher"), ("researcher", "triage")]
    assert "The total is missing." in str(model.told[1])
    assert "writer was here." not in str(result["messages"])


class Order(MessagesState):
    supplier: str
    price: float


def test_nodes_that_go_to_others_hand_over_their_updates(server, audit):
    def triage(state):
        return Command(goto="researcher")

    def researcher(state):
        if state.get("price"):
            return Command(goto="writer", update={"messages": [AIMessage("Checked.")]})
        return Command(goto="writer", update={"supplier": "Acme", "price": 12.4})

    def writer(state):
        return Command(goto=END if len(state["messages"]) > 1 else "researcher", update={"supplier": "Acme"})

    builder = StateGraph(Order)
    for node in (triage, researcher, writer):
        builder.add_node(node.__name__, node, destinations=("researcher", "writer", END))
    builder.add_edge(START, "triage")
    run(builder.compile(), configured(HandoffCallback(audit), "order-18"))
    assert audit.flush()
    assert routes(server) == STORY
    assert data(server) == [QUESTION, {"supplier": "Acme", "price": 12.4}, {"supplier": "Acme"}, "Checked."]
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-18"}


def test_a_node_that_sends_several_tasks_to_one_node_hands_over_each(server, audit):
    tasks = [{"task": f"Ask {name}."} for name in ("Acme", "Berg", "Cole")]
    builder = StateGraph(MessagesState)
    builder.add_node("triage", lambda _: Command(goto=[Send("researcher", task) for task in tasks]))
    builder.add_node("researcher", lambda _: {})
    builder.add_edge(START, "triage")
    run(builder.compile(), configured(HandoffCallback(audit)))
    assert audit.flush()
    assert routes(server) == [("triage", "researcher")] * 3
    assert data(server) == tasks


def test_only_named_nodes_count_as_agents(server, audit):
    builder = StateGraph(MessagesState)
    builder.add_node("triage", lambda state: Command(goto="log"), destinations=("log",))
    builder.add_node("log", lambda state: Command(goto="writer"), destinations=("writer",))
    builder.add_node("writer", lambda state: {})
    builder.add_edge(START, "triage")
    run(builder.compile(), configured(HandoffCallback(audit, agents={"triage", "writer"})))
    assert audit.flush()
    assert routes(server) == [("log", "writer")]


def test_arguments_of_a_handoff_are_its_data(server, audit):
    @tool
    def transfer_to_writer(summary: str, price: float) -> str:
        """Hand over to the writer."""
        return "done"

    transfer_to_writer.metadata = {"__handoff_destination": "writer"}
    model = chat_model(Say("", "transfer_to_writer", {"summary": "Acme", "price": 12.4}), Say("Done."))
    agent = create_agent(model, [transfer_to_writer], name="researcher")
    run(agent, configured(HandoffCallback(audit)))
    assert audit.flush()
    assert data(server) == [{"summary": "Acme", "price": 12.4}]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_rejected_handoff_is_told_to_the_llm_which_corrects_it(server, audit, how):
    server.answer("rejected", target="writer", message="The price is missing.")

    def correct():
        server.answer("accepted", target="writer")
        return hand("writer", "Acme, 12.40 EUR.")

    lines = {"researcher": [hand("writer", "Acme."), correct], "writer": [Say("Done.")]}
    graph, models = swarm(lines, middleware=[handoff_gate(audit)])
    result = run(graph, configured(HandoffCallback(audit)), how)
    assert result["messages"][-1].text == "Done."
    assert data(server) == ["Acme.", "Acme, 12.40 EUR."]
    refused = models["researcher"].told[1][-1]
    assert refused.status == "error"
    assert "The price is missing." in refused.text


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(("decision", "goes_on"), [("approved", True), ("declined", False)])
def test_block_waits_for_the_decision_of_a_person(server, audit, decision, goes_on, how):
    server.answer("held", target="writer")
    graph, _ = swarm(
        {"researcher": [hand("writer", "Acme."), Say("I stop.")], "writer": [Say("Done.")]},
        middleware=[handoff_gate(audit, timeout=20)],
    )

    def decide():
        (sent,) = server.wait_for(1)
        server.decide(sent["handoff_id"], decision)

    thread = threading.Thread(target=decide)
    thread.start()
    result = run(graph, configured(), how)
    thread.join()
    assert result["messages"][-1].text == ("Done." if goes_on else "I stop.")


def test_block_ends_after_its_time(server, audit):
    server.answer("held")
    graph, models = swarm(
        {"researcher": [hand("writer", "Acme."), Say("I stop.")], "writer": [Say("Done.")]},
        middleware=[handoff_gate(audit, timeout=0.2)],
    )
    assert run(graph, configured())["messages"][-1].text == "I stop."
    assert "a person has to decide" in models["researcher"].told[1][-1].text


def interrupted(server, audit, how="sync", **options):
    """Return a graph, its configuration and the handoff for which it was interrupted."""
    server.answer("held", target="writer")
    graph, _ = swarm(
        {"researcher": [hand("writer", "Acme."), Say("I stop.")], "writer": [Say("Done.")]},
        middleware=[handoff_gate(audit, "interrupt", **options)],
        checkpointer=InMemorySaver(),
    )
    config = configured(HandoffCallback(audit))
    (interrupt,) = run(graph, config, how)["__interrupt__"]
    assert {name: interrupt.value[name] for name in ("source", "target", "state")} == {
        "source": "researcher",
        "target": "writer",
        "state": "held",
    }
    assert interrupt.value["url"] == f"{server.url}/t/default/handoffs/{interrupt.value['handoff_id']}/"
    return graph, config, interrupt.value["handoff_id"]


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(("decision", "last"), [("approved", "Done."), ("declined", "I stop.")])
def test_an_interrupted_graph_goes_on_with_the_decision_of_the_server(server, audit, how, decision, last):
    graph, config, handoff_id = interrupted(server, audit, how)
    server.decide(handoff_id, decision)
    result = run(graph, config, how, Command(resume="whatever"))
    assert audit.flush()
    assert result["messages"][-1].text == last
    assert routes(server) == [("researcher", "writer")]


def test_resuming_is_no_approval(server, audit, monkeypatch):
    monkeypatch.setattr("handoffaudit_client.langchain.gate._RESUME_SECONDS", 0.1)
    graph, config, handoff_id = interrupted(server, audit)
    for answer in ("approved", True, {"approved": True}):
        (again,) = run(graph, config, given=Command(resume=answer))["__interrupt__"]
        assert again.value["handoff_id"] == handoff_id
    server.decide(handoff_id, "approved")
    assert run(graph, config, given=Command(resume="approved"))["messages"][-1].text == "Done."
    assert len(server.handoffs) == 1


def test_a_held_handoff_waits_while_the_server_is_away(server, audit):
    graph, config, handoff_id = interrupted(server, audit)
    server.stop()
    assert "__interrupt__" in run(graph, config, given=Command(resume="approved"))
    server.start()
    server.decide(handoff_id, "approved")
    assert run(graph, config, given=Command(resume="approved"))["messages"][-1].text == "Done."
    assert audit.flush()
    assert list(server.handoffs) == [handoff_id]


def test_an_agent_of_its_own_waits_while_the_server_is_away(server, audit):
    @tool
    def transfer_to_writer(summary: str) -> str:
        """Hand over to the writer."""
        return "The writer is told."

    transfer_to_writer.metadata = {"__handoff_destination": "writer"}
    server.answer("held")
    model = chat_model(Say("", "transfer_to_writer", {"summary": "Acme"}), Say("Done."))
    gate, config = handoff_gate(audit, "interrupt"), configured()
    agent = create_agent(
        model, [transfer_to_writer], middleware=[gate], checkpointer=InMemorySaver(), name="researcher"
    )
    (held,) = run(agent, config)["__interrupt__"]
    server.stop()
    assert "__interrupt__" in run(agent, config, given=Command(resume=True))
    server.start()
    server.decide(held.value["handoff_id"], "approved")
    assert run(agent, config, given=Command(resume=True))["messages"][-1].text == "Done."


def test_another_process_resumes_the_same_handoff(server, audit, tmp_path):
    checkpointer, config = InMemorySaver(), configured()
    server.answer("held", source="writer")
    lines = scripts()

    def graph_of(client, lines):
        return swarm(lines, middleware=[handoff_gate(client, "interrupt")], checkpointer=checkpointer)[0]

    (interrupt,) = run(graph_of(audit, lines), config)["__interrupt__"]
    server.decide(interrupt.value["handoff_id"], "approved")
    rest = {**lines, "researcher": [hand("writer", SAID[3])], "writer": [Say("Order from Acme.")]}
    with Client(server.url, server.key, spool=tmp_path / "other") as other:
        result = run(graph_of(other, rest), config, given=Command(resume="go on"))
    assert result["messages"][-1].text == "Order from Acme."
    assert routes(server) == STORY


def test_a_declared_chain_names_all_agents_and_the_reason(server, audit):
    lines = scripts()
    graph, _ = swarm(lines, middleware=[handoff_gate(audit, declare_chain=True, reason="By default.")])
    run(graph, configured())
    chains = [one["document"]["call_chain"] for one in server.handoffs.values()]
    assert chains == [
        ["triage"],
        ["triage", "researcher"],
        ["triage", "researcher", "writer"],
        ["triage", "researcher", "writer", "researcher"],
    ]
    assert [one["reason"] for one in server.handoffs.values()] == [SAID[0], "By default.", SAID[2], SAID[3]]


def test_a_new_request_begins_a_new_chain(server, audit):
    lines = {"researcher": [hand("writer", "Acme.")], "writer": [Say("Done."), hand("researcher", "Who else?")]}
    lines["researcher"].append(Say("Berg."))
    graph, _ = swarm(lines, middleware=[handoff_gate(audit, declare_chain=True)], checkpointer=InMemorySaver())
    config = configured()
    run(graph, config)
    assert run(graph, config)["messages"][-1].text == "Berg."
    assert [one["document"]["call_chain"] for one in server.handoffs.values()] == [["researcher"], ["writer"]]


def test_results_of_tools_are_captured_with_their_errors(server, audit):
    @tool
    def fail(query: str) -> str:
        """Fail."""
        raise ValueError("no such supplier")

    @tool
    def ask(question: str) -> str:
        """Ask an LLM."""
        return chat_model(Say("An LLM says so.")).invoke(question).text

    lines = [Say("", "find", {"query": "a"}), Say("", "ask", {"question": "b"}), Say("", "fail", {"query": "c"})]
    agent = create_agent(chat_model(*lines), [find, fail, ask], name="researcher")
    with pytest.raises(ValueError, match="no such supplier"):
        run(agent, configured(HandoffCallback(audit), "order-19"))
    assert audit.flush()
    found = [(one["tool"], one["result"]) for one in server.tool_results["order-19"]]
    assert found == [("find", FOUND), ("fail", {"error": "ValueError: no such supplier"})]


def test_without_a_thread_the_gate_and_the_callback_share_the_trace_of_the_run(server, audit):
    graph, _ = swarm(scripts(), middleware=[handoff_gate(audit)])
    graph.invoke(asked(), {"callbacks": [HandoffCallback(audit)]})
    assert audit.flush()
    assert routes(server) == STORY
    (trace,) = {one["trace_id"] for one in server.handoffs.values()}
    assert list(server.tool_results) == [trace]


def test_the_surrounding_trace_is_used_where_there_is_no_thread(server, audit):
    graph, _ = swarm(scripts(), middleware=[handoff_gate(audit)])
    with audit.trace("order-20"):
        graph.invoke(asked())
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-20"}


def test_an_absent_server_lets_handoffs_pass_and_gets_them_later(server, audit):
    server.stop()
    graph, _ = swarm(scripts(), middleware=[handoff_gate(audit, "interrupt")], checkpointer=InMemorySaver())
    started = time.monotonic()
    result = run(graph, configured(HandoffCallback(audit)))
    assert result["messages"][-1].text == "Order from Acme."
    assert time.monotonic() - started < 10
    server.start()
    server.wait_for(4)
    assert routes(server) == STORY


def test_an_async_client_is_taken_too(server, tmp_path):
    audit = AsyncClient(server.url, server.key, spool=tmp_path)
    graph, _ = swarm(scripts(), middleware=[handoff_gate(audit)])
    run(graph, configured(HandoffCallback(audit)), "async")
    assert routes(server) == STORY
    audit.client.close()


def test_ids_are_the_same_in_each_process():
    assert handoff_id_of("order-17", "call_1") == "22326ef2-652b-5c6d-b286-97b76631ab6d"


def test_a_policy_that_does_not_exist_is_refused(audit):
    with pytest.raises(ValueError, match="give"):
        handoff_gate(audit, "ask")


def test_importing_the_plug_in_loads_no_framework():
    code = "import sys, handoffaudit_client.langchain; print([n for n in sys.modules if n.startswith('lang')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=CLIENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
