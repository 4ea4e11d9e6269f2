"""Tests of the lines for frameworks without a plug-in, with the real frameworks and scripted models."""

import asyncio
import itertools
import json

import pytest

from tests.frameworks.conftest import STORY, data, need, routes
from tests.frameworks.scripted import Say
from tests.frameworks.snippets import blocks

for framework in ("agno", "autogen_agentchat", "llama_index.core", "smolagents"):
    need(framework)

import agno.agent
import agno.models.base
import agno.models.response
import agno.team
import smolagents
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination
from autogen_agentchat.messages import HandoffMessage, StructuredMessage
from autogen_agentchat.teams import Swarm
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM
from pydantic import BaseModel

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("connected")]

QUESTION = "Who delivers within a week?"
FOUND = "Acme: 60 chairs a week."
_numbers = itertools.count(1)


@pytest.fixture
def lines(server):
    """Return a function that runs the lines of the page for a framework, and returns their names."""
    used = []

    def run(number):
        names = {"__name__": "lines"}
        exec(list(blocks("connect-events.md"))[number], names)  # noqa: S102 (our own)
        used.append(names["audit"])
        return names

    yield run
    for audit in used:
        audit.close()


class Supplier(BaseModel):
    name: str


def find(query: str) -> str:
    """Find suppliers."""
    return FOUND


async def find_later(query: str) -> str:
    """Find suppliers."""
    return FOUND


class AutogenModel(ChatCompletionClient):
    component_type = "model"
    model_info = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown"}
    capabilities = model_info

    def __init__(self, *script):
        self.lines = iter(script)

    async def create(self, messages, **_):
        line = next(self.lines)
        call = [FunctionCall(id=f"call_{next(_numbers)}", name=line.tool, arguments=json.dumps(line.arguments))]
        content, reason = (call, "function_calls") if line.tool else (line.text, "stop")
        return CreateResult(finish_reason=reason, content=content, usage=RequestUsage(0, 0), cached=False)

    def create_stream(self, messages, **_):
        raise NotImplementedError

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, messages, **_):
        return 0

    def remaining_tokens(self, messages, **_):
        return 1_000


def test_autogen(server, lines):
    names = lines(0)
    to = {name: Say("", f"transfer_to_{name}") for name in ("researcher", "writer")}
    scripts = {
        "triage": [to["researcher"]],
        "researcher": [Say("", "find", {"query": "chairs"}), to["writer"], Say("Acme has 60."), to["writer"]],
        "writer": [to["researcher"], Say("Done.")],
    }
    agents = [
        AssistantAgent(name, AutogenModel(*script), handoffs=[one for one in scripts if one != name], tools=[find])
        for name, script in scripts.items()
    ]
    team = Swarm(agents, termination_condition=MaxMessageTermination(20) | _says("Done."))
    result = asyncio.run(names["observe"](team, QUESTION, "order-17"))
    assert names["audit"].flush()
    assert result.messages[-1].content == "Done."
    assert routes(server) == STORY
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-17"}
    assert data(server) == [QUESTION, FOUND, FOUND, "Acme has 60."]
    (found,) = server.tool_results["order-17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)


def test_autogen_goes_on_after_a_person(server, lines):
    names = lines(0)
    to = [Say("", f"transfer_to_{name}") for name in ("user", "writer")]
    triage = AssistantAgent("triage", AutogenModel(*to), handoffs=["user", "writer"])
    end = HandoffTermination("user") | _says("Done.")
    team = Swarm([triage, AssistantAgent("writer", AutogenModel(Say("Done.")))], termination_condition=end)

    async def work():
        await names["observe"](team, QUESTION, "order-17")
        approval = HandoffMessage(source="user", target="triage", content="Order them.")
        await names["observe"](team, approval, "order-17")

    asyncio.run(work())
    assert names["audit"].flush()
    assert routes(server) == [("triage", "user"), ("user", "triage"), ("triage", "writer")]
    assert data(server) == [QUESTION, "Order them.", "Order them."]


def test_autogen_sends_a_structured_answer_as_an_object(server, lines):
    names = lines(0)
    model = AutogenModel(Say('{"name": "Acme"}'), Say("", "transfer_to_writer"))
    triage = AssistantAgent("triage", model, handoffs=["writer"], output_content_type=Supplier)
    agents = [triage, AssistantAgent("writer", AutogenModel(Say("Done.")))]
    kinds = [StructuredMessage[Supplier]]
    team = Swarm(agents, termination_condition=_says("Done."), custom_message_types=kinds)
    asyncio.run(names["observe"](team, QUESTION, "order-17"))
    assert names["audit"].flush()
    assert data(server) == [{"name": "Acme"}]


def _says(text):
    from autogen_agentchat.conditions import TextMentionTermination

    return TextMentionTermination(text)


def llama(*script):
    lines = iter(script)

    def answer(*_, **__):
        line = next(lines)
        blocks = [TextBlock(text=line.text)] if line.text else []
        if line.tool:
            call = {"tool_call_id": f"call_{next(_numbers)}", "tool_name": line.tool, "tool_kwargs": line.arguments}
            blocks.append(ToolCallBlock(**call))
        return ChatMessage(role="assistant", blocks=blocks)

    return MockFunctionCallingLLM(response_generator=answer)


def test_llama_index(server, lines):
    names = lines(1)

    def to(target, reason):
        return Say("", "handoff", {"to_agent": target, "reason": reason})

    scripts = {
        "triage": [to("nobody", "Find."), to("researcher", "Find suppliers.")],
        "researcher": [Say("", "find", {"query": "chairs"}), to("writer", FOUND), to("writer", "Acme has 60.")],
        "writer": [to("researcher", "Check the stock."), Say("Done.")],
    }
    agents = [
        FunctionAgent(name=name, description=name, llm=llama(*script), tools=[find], streaming=False)
        for name, script in scripts.items()
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="triage")
    result = asyncio.run(names["observe"](workflow, QUESTION, "order-18"))
    assert names["audit"].flush()
    assert str(result) == "Done."
    assert routes(server) == STORY
    assert data(server) == ["Find suppliers.", FOUND, "Check the stock.", "Acme has 60."]
    (found,) = server.tool_results["order-18"]
    assert (found["tool"], found["agent"], found["arguments"]) == ("find", "researcher", {"query": "chairs"})


class AgnoModel(agno.models.base.Model):
    def __init__(self, *script):
        super().__init__(id="scripted")
        self.lines = iter(script)
        self.told = []

    def invoke(self, messages, **_):
        self.told.append([message.content for message in messages])
        line = next(self.lines)
        function = {"name": line.tool, "arguments": json.dumps(line.arguments)}
        calls = [{"id": f"call_{next(_numbers)}", "type": "function", "function": function}] if line.tool else []
        return agno.models.response.ModelResponse(role="assistant", content=line.text or None, tool_calls=calls)

    async def ainvoke(self, messages, **more):
        return self.invoke(messages, **more)

    def invoke_stream(self, messages, **more):
        yield self.invoke(messages, **more)

    async def ainvoke_stream(self, messages, **more):
        yield self.invoke(messages, **more)

    def _parse_provider_response(self, response, **_):
        return response

    _parse_provider_response_delta = _parse_provider_response


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("state", "starts"), [("accepted", 1), ("rejected", 0)])
def test_agno(server, lines, state, starts, is_async):
    server.answer(state, target="writer", message="The total is missing.")
    names = lines(2)
    delegate = Say("", "delegate_task_to_member", {"member_id": "writer", "task": "Order from Acme."})
    look = Say("", "find_later" if is_async else "find", {"query": "chairs"})
    model, theirs = AgnoModel(look, delegate, Say("Done.")), AgnoModel(Say("Ordered."))
    writer = agno.agent.Agent(name="writer", id="writer", model=theirs, telemetry=False)
    tool, hook = (find_later, names["watch_async"]) if is_async else (find, names["watch"])
    team = agno.team.Team(name="desk", members=[writer], model=model, tools=[tool], tool_hooks=[hook], telemetry=False)
    with names["audit"].trace("order-19"):
        result = asyncio.run(team.arun(QUESTION)) if is_async else team.run(QUESTION)
    assert result.content.endswith("Done.")
    assert names["audit"].flush()
    assert routes(server) == [("desk", "writer")]
    assert data(server) == ["Order from Acme."]
    assert len(theirs.told) == starts
    assert ("The total is missing." in str(model.told[-1])) == (state == "rejected")
    (found,) = server.tool_results["order-19"]
    assert (found["tool"], found["result"], found["arguments"]) == (look.tool, FOUND, {"query": "chairs"})


def test_agno_names_members_by_their_ids_and_records_their_tools(server, lines):
    names = lines(2)
    watched = {"tools": [find], "tool_hooks": [names["watch"]], "telemetry": False}

    def delegate(member):
        return Say("", "delegate_task_to_member", {"member_id": member, "task": "Order from Acme."})

    look = Say("", "find", {"query": "chairs"})
    writer = agno.agent.Agent(name="The Writer", model=AgnoModel(look, Say("Ordered.")), **watched)
    inner = agno.team.Team(
        name="Inner Team", members=[writer], model=AgnoModel(delegate("the-writer"), Say("Done.")), **watched
    )
    desk = agno.team.Team(
        name="desk", members=[inner], model=AgnoModel(delegate("inner-team"), Say("Done.")), **watched
    )
    with names["audit"].trace("order-19"):
        desk.run(QUESTION)
    assert names["audit"].flush()
    assert routes(server) == [("desk", "inner-team"), ("inner-team", "the-writer")]
    (found,) = server.tool_results["order-19"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "the-writer", FOUND)


def test_agno_takes_no_words_of_members_for_tool_results(server, lines):
    names = lines(2)
    ask = Say("", "delegate_task_to_members", {"task": "Order from Acme."})
    writer = agno.agent.Agent(name="writer", id="writer", model=AgnoModel(Say("Ordered.")), telemetry=False)
    options = {"mode": agno.team.TeamMode.broadcast, "tool_hooks": [names["watch"]], "telemetry": False}
    team = agno.team.Team(name="desk", members=[writer], model=AgnoModel(ask, Say("Done.")), **options)
    with names["audit"].trace("order-19"):
        assert team.run(QUESTION).content == "Done."
    assert names["audit"].flush()
    assert server.tool_results == {}


class SmolModel(smolagents.Model):
    def __init__(self, *script):
        super().__init__(model_id="scripted")
        self.lines = iter(script)
        self.told = []

    def generate(self, messages, **_):
        self.told.append(str(messages))
        line = next(self.lines)
        function = smolagents.models.ChatMessageToolCallFunction(name=line.tool, arguments=line.arguments)
        call = smolagents.models.ChatMessageToolCall(function=function, id=f"call_{next(_numbers)}", type="function")
        return smolagents.ChatMessage(role="assistant", content=line.text, tool_calls=[call])


@pytest.mark.parametrize(("state", "starts"), [("accepted", 1), ("rejected", 0)])
def test_smolagents(server, lines, state, starts):
    server.answer(state, target="writer", message="The total is missing.")
    names = lines(3)

    def done(text):
        return Say("", "final_answer", {"answer": text})

    theirs = SmolModel(done("Ordered."))
    writer = names["GatedAgent"](tools=[], model=theirs, name="writer", description="Writes.", verbosity_level=0)
    model = SmolModel(Say("", "writer", {"task": "Order from Acme."}), done("Done."))
    manager = smolagents.ToolCallingAgent(tools=[], model=model, managed_agents=[writer], verbosity_level=0)
    with names["audit"].trace("order-20"):
        assert manager.run(QUESTION) == "Done."
    assert routes(server) == [("manager", "writer")]
    assert data(server) == ["Order from Acme."]
    assert len(theirs.told) == starts
    assert ("The total is missing." in model.told[-1]) == (state == "rejected")


def test_a_code_agent_of_smolagents_keeps_the_trace_without_a_limit_of_time(server, lines):
    names = lines(3)
    theirs = SmolModel(Say("", "final_answer", {"answer": "Ordered."}))
    writer = names["GatedAgent"](tools=[], model=theirs, name="writer", description="Writes.", verbosity_level=0)
    model = SmolModel(Say("<code>final_answer(writer(task='Order from Acme.'))</code>"))
    options = {"executor_kwargs": {"timeout_seconds": None}, "verbosity_level": 0}
    manager = smolagents.CodeAgent(tools=[], model=model, managed_agents=[writer], **options)
    with names["audit"].trace("order-20"):
        assert "Ordered." in str(manager.run(QUESTION))
    assert routes(server) == [("manager", "writer")]
    assert {one["trace_id"] for one in server.handoffs.values()} == {"order-20"}
