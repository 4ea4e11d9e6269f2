"""Tests that the lines for each framework run, in the documentation and on the page Connect."""

import asyncio
import threading
import time

import pytest
from handoffaudit_client.testing import FakeServer

from tests.frameworks.conftest import need, routes
from tests.frameworks.scripted import Say, adk_model, chat_model, function_model, openai_model, strands_model
from tests.frameworks.snippets import blocks, example, execute

FOUND = "Three suppliers deliver within a week."
HAND_OVER = [("researcher", "writer")]

# The frameworks warn of each other.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("connected")]


def to_writer(**arguments: object) -> Say:
    return Say("", "transfer_to_writer", arguments)


def test_the_lines_for_langgraph(server: FakeServer) -> None:
    need("langgraph_swarm")
    from langchain_core.messages import AIMessage

    page = blocks("connect-langgraph.md")
    observed, gated = next(page), next(page)
    assert (observed, gated) == (example("langgraph_observe.py"), example("langgraph_gate.py"))
    execute(observed, {})
    assert routes(server) == HAND_OVER
    assert FOUND in str(next(iter(server.handoffs.values()))["document"]["data"])

    names = {"model": chat_model(to_writer(), Say(FOUND), to_writer(), Say(FOUND))}
    execute(gated, names)
    assert routes(server) == HAND_OVER * 2

    server.answer("held", target="writer")
    execute(next(page), names)
    held = names["state"]["__interrupt__"][0].value["handoff_id"]
    server.decide(held, "approved")
    execute(next(page), names)
    assert "__interrupt__" not in names["state"]
    assert names["state"]["messages"][-1].content == FOUND
    assert routes(server) == HAND_OVER * 3

    names["MessagesState"] = dict
    execute(next(page), names)
    server.answer("rejected", message="The names are missing.")
    blocked = names["researcher_node"]({"messages": [AIMessage(FOUND)]})
    assert blocked.goto == "__end__"
    assert "The names are missing." in blocked.update["messages"][0][1]
    assert next(page, None) is None


def test_the_lines_for_openai_agents(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    need("agents")
    from agents import set_default_openai_client, set_trace_processors

    set_trace_processors([])
    page, names = blocks("connect-openai-agents.md"), {}
    first = next(page)
    assert first == example("openai_agents.py")
    findings = {"summary": FOUND, "suppliers": ["Acme"]}
    back = Say("", "transfer_to_researcher")
    script = [to_writer(), Say("We order."), to_writer(**findings), Say("We order."), to_writer(), back, Say("Done.")]
    # The agents of the page have the model that the SDK chooses.
    set_default_openai_client(openai_model("responses", *script)._client, use_for_tracing=False)
    try:
        execute(first, names)
        assert "We order." in capsys.readouterr().out
        assert routes(server) == HAND_OVER
        execute(next(page), names)
        assert "The writer gets ['Acme']" in capsys.readouterr().out
        assert list(server.handoffs.values())[-1]["document"]["data"] == findings
        execute(next(page), names)
        server.answer("rejected", target="researcher", message="The writer has to finish.")
        execute(next(page), names)
    finally:
        set_trace_processors([])
        # `Runner.run_sync` leaves the event loop of the thread open.
        loop = asyncio.get_event_loop_policy().get_event_loop()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        asyncio.set_event_loop(None)
    assert routes(server) == [*HAND_OVER * 3, ("writer", "researcher")]
    sent = list(server.handoffs.values())[-1]
    assert sent["document"]["call_chain"] == ["researcher", "writer"]
    assert sent["reason"] == "The report lacks a source."
    assert names["result"].last_agent.name == "writer"
    assert next(page, None) is None


def test_the_lines_for_pydantic_ai(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    need("pydantic_ai")
    page = blocks("connect-pydantic-ai.md")
    first = next(page)
    assert first == example("pydantic_ai.py")
    ask, done = Say("", "ask_writer", {"findings": FOUND}), Say("We order.")
    names: dict[str, object] = {"model": function_model(ask, Say(FOUND), done, ask, Say(FOUND), done)}
    execute(first, names)
    assert "We order." in capsys.readouterr().out
    assert routes(server) == HAND_OVER
    server.answer("held", target="writer")
    execute(next(page), names)
    assert "A person decides:" in capsys.readouterr().out
    (held,) = names["result"].output.metadata.values()
    server.decide(held["handoff_id"], "approved")
    execute(next(page), names)
    assert names["result"].output == "We order."
    assert routes(server) == HAND_OVER * 2
    assert next(page, None) is None


def test_the_lines_for_a2a(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    need("a2a.client")
    import uvicorn

    from tests.frameworks.a2a_writer import WriterExecutor, card

    page = blocks("connect-a2a.md")
    gate, sender = next(page), next(page)
    assert (gate, sender) == (example("a2a_server.py"), example("a2a_client.py"))
    names: dict[str, object] = {"WriterExecutor": WriterExecutor, "card": card()}
    execute(gate, names)
    execute(next(page), names)
    web = uvicorn.Server(uvicorn.Config(names["observed"], port=0, log_level="error"))
    thread = threading.Thread(target=web.run)
    thread.start()
    try:
        while not web.started:
            time.sleep(0.01)
        address = f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
        names["card"].supported_interfaces[0].url = address
        execute(sender.replace("http://127.0.0.1:9999", address), {})
    finally:
        web.should_exit = True
        thread.join()
    assert "Ordered." in capsys.readouterr().out
    # The page says to use one of the three; here all of them see the message.
    assert sorted(routes(server)) == [("client", "writer"), ("client", "writer"), ("triage", "writer")]
    assert next(page, None) is None


def test_the_lines_for_google_adk(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    need("google.adk")
    page = blocks("connect-google-adk.md")
    first = next(page)
    assert first == example("google_adk.py")
    transfer = Say(FOUND, "transfer_to_agent", {"agent_name": "writer"})
    execute(first, {"model": adk_model(transfer, Say("We order."))})
    assert "We order." in capsys.readouterr().out
    assert routes(server) == HAND_OVER
    assert next(page, None) is None


def test_the_lines_for_strands(server: FakeServer) -> None:
    need("strands")
    page = blocks("connect-strands.md")
    first = next(page)
    assert first == example("strands.py")
    hand_over = Say("", "handoff_to_agent", {"agent_name": "writer", "message": FOUND})
    script = [hand_over, Say("Handed over."), Say("We order.")]
    names: dict[str, object] = {"model": strands_model(*script)}
    execute(first, names)
    assert "We order." in str(names["result"].results["writer"].result)
    server.answer("held", target="writer")
    names["model"] = strands_model(*script)
    execute(next(page), names)
    (held,) = [one.reason for one in names["result"].interrupts]
    server.decide(held["handoff_id"], "approved")
    execute(next(page), names)
    assert "We order." in str(names["result"].results["writer"].result)
    assert routes(server) == HAND_OVER * 2
    assert next(page, None) is None
