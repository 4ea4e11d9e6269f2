"""Tests of the plug-in for CrewAI with the real framework and scripted models."""

import threading

import pytest
from handoffaudit_client import Client

from tests.frameworks.conftest import data, need, routes
from tests.frameworks.scripted import Say, crewai_model
from tests.frameworks.snippets import blocks, example, execute

need("crewai")

from crewai import Agent, Crew, Task
from crewai.hooks import get_after_tool_call_hooks, get_before_tool_call_hooks
from crewai.tools import tool
from handoffaudit_client.crewai import HandoffGate
from pydantic import BaseModel

# The framework warns of its own parts.
pytestmark = pytest.mark.filterwarnings("default")

FOUND = "Acme: 60 chairs a week, 12.40 EUR"


@tool("find")
def find(query: str) -> str:
    """Find suppliers."""
    return FOUND


@tool("broken")
def broken() -> str:
    """Break."""
    raise OSError("the disk is full")


class Supplier(BaseModel):
    name: str


@pytest.fixture
def gates():
    """Return a list of gates that are closed at the end."""
    opened = []
    yield opened
    for gate in opened:
        gate.close()
    assert get_before_tool_call_hooks() == get_after_tool_call_hooks() == []


@pytest.fixture
def gate(audit, gates):
    def open_one(client=audit, *arguments, **options):
        gates.append(HandoffGate(client, *arguments, **options))
        return gates[-1]

    return open_one


def delegate(coworker, task, context="40 chairs"):
    return Say("", "delegate_work_to_coworker", {"task": task, "context": context, "coworker": coworker})


def agent(role, *script, native=True, **options):
    model = crewai_model(*script, native=native)
    return Agent(role=role, goal="Work.", backstory="You work.", llm=model, verbose=False, **options)


def told(agent):
    return agent.llm.told


def task(agent, **options):
    return Task(description=f"The task of {agent.role}.", expected_output="A text.", agent=agent, **options)


def run(*tasks, agents=()):
    agents = list(agents) or [one.agent for one in tasks]
    return Crew(agents=agents, tasks=list(tasks), verbose=False).kickoff().raw


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("policy", ["block", "observe"])
def test_delegations_are_sent_once_and_tools_are_captured(server, audit, gate, policy, native):
    gate(audit, policy)
    researcher = agent("researcher", Say("", "find", {"query": "chairs"}), Say(FOUND), native=native, tools=[find])
    script = [delegate("Researcher", "Find suppliers."), Say("Done.")]
    triage = agent("triage", *script, native=native, allow_delegation=True)
    with audit.trace("order-17"):
        assert run(task(triage), agents=[triage, researcher]) == "Done."
    assert audit.flush()
    assert routes(server) == [("triage", "researcher")]
    assert data(server) == [{"task": "Find suppliers.", "context": "40 chairs"}]
    (found,) = server.tool_results["order-17"]
    assert (found["tool"], found["agent"], found["result"]) == ("find", "researcher", FOUND)
    assert found["arguments"] == {"query": "chairs"}


@pytest.mark.parametrize("native", [True, False])
def test_a_blocked_delegation_does_not_happen_and_the_llm_reads_why(server, gate, native):
    gate()
    server.answer("rejected", target="writer", message="The total is missing.")
    writer = agent("writer", native=native)
    triage = agent("triage", delegate("writer", "Order."), Say("I stop."), native=native, allow_delegation=True)
    assert run(task(triage), agents=[triage, writer]) == "I stop."
    assert told(writer) == []
    assert "The total is missing." in str(told(triage)[1])
    assert server.tool_results == {}


@pytest.mark.parametrize(("decision", "starts"), [("approved", 1), ("declined", 0)])
def test_a_held_delegation_waits_for_the_decision(server, gate, decision, starts):
    gate()
    server.answer("held", target="writer")
    writer = agent("writer", Say("Ordered."))
    triage = agent("triage", delegate("writer", "Order."), Say("Done."), allow_delegation=True)

    def decide():
        (held,) = server.wait_for(1)
        server.decide(held["handoff_id"], decision)

    threading.Timer(0.3, decide).start()
    assert run(task(triage), agents=[triage, writer]) == "Done."
    assert len(told(writer)) == starts


def test_block_gives_up_after_its_time(server, gate):
    gate(timeout=0.2)
    server.answer("held", target="writer")
    triage = agent("triage", delegate("writer", "Order."), Say("I wait."), allow_delegation=True)
    assert run(task(triage), agents=[triage, agent("writer")]) == "I wait."
    assert "person has to decide" in str(told(triage)[1])


def test_tasks_of_other_agents_are_observed(server, audit, gate):
    gate(type="purchase")
    researcher, checker, writer = agent("researcher", Say(FOUND), Say("More.")), agent("checker", Say("Right.")), None
    writer = agent("writer", Say("Ordered."))
    first, same = task(researcher), task(researcher)
    check = task(checker)
    report = task(writer, context=[same, check])
    assert run(first, same, check, report) == "Ordered."
    assert audit.flush()
    checks, writes = ("researcher", "checker"), [("researcher", "writer"), ("checker", "writer")]
    assert routes(server) == [checks, checks, *writes]
    assert data(server) == [FOUND, "More.", "More.", "Right."]
    sent = server.handoffs.values()
    assert len({one["trace_id"] for one in sent}) == 1
    assert {one["document"]["handoff_type"] for one in sent} == {"purchase"}


def test_each_agent_gets_the_result_of_a_task_once_in_a_run(server, audit, gate):
    gate()
    writer = agent("writer", Say("Ordered."), Say("Corrected."))
    found, check = task(agent("researcher", Say(FOUND))), task(agent("checker", Say("Wrong.")))
    assert run(found, task(writer), check, task(writer)) == "Corrected."
    assert all(text in str(told(writer)[1]) for text in (FOUND, "Wrong."))
    for _ in range(2):
        run(task(agent("buyer", Say("Paid.")), context=[found]))
    assert audit.flush()
    found, buys = ("researcher", "writer"), ("researcher", "buyer")
    checks = [("researcher", "checker"), ("writer", "checker"), ("checker", "writer")]
    assert routes(server) == [found, *checks, buys, buys]


def test_a_task_that_gets_no_results_is_sent_none(server, audit, gate):
    gate()
    beside, alone = agent("writer", Say("Ordered.")), agent("checker", Say("Right."))
    end = task(agent("editor", Say("Done.")))
    run(task(agent("researcher", Say(FOUND))), task(beside, async_execution=True), task(alone, context=None), end)
    assert not any(FOUND in str(told(one)) for one in (beside, alone))
    assert audit.flush()
    assert routes(server) == [("researcher", "editor"), ("writer", "editor"), ("checker", "editor")]


def test_each_run_of_a_crew_has_a_trace(server, audit, gate):
    gate()
    for _ in range(2):
        run(task(agent("researcher", Say(FOUND))), task(agent("writer", Say("Ordered."))))
    assert audit.flush()
    assert len({one["trace_id"] for one in server.handoffs.values()}) == 2


def test_a_guardrail_lets_the_agent_correct_its_task(server, audit, gate):
    server.answer("rejected", target="writer", message="The total is missing.")

    def corrected():
        server.answer("accepted", target="writer")
        return Say("496 EUR in total.")

    researcher, writer = agent("researcher", Say("Acme."), corrected), agent("writer", Say("Ordered."))
    found = task(researcher, guardrail=gate().guardrail("writer"))
    assert run(found, task(writer)) == "Ordered."
    assert audit.flush()
    assert routes(server) == [("researcher", "writer")] * 2
    assert data(server) == ["Acme.", "496 EUR in total."]
    assert "The total is missing." in str(told(researcher)[1])
    assert len({one["trace_id"] for one in server.handoffs.values()}) == 1


def test_a_task_without_a_guardrail_is_sent_beside_one_with_a_guardrail(server, audit, gate):
    researcher, writer = agent("researcher", Say("Acme."), Say("Globex.")), agent("writer", *[Say("Ordered.")] * 2)
    guarded = task(researcher, guardrail=gate().guardrail("writer"))
    run(guarded, task(writer), task(researcher), task(writer))
    assert audit.flush()
    assert [one for one in routes(server) if one == ("researcher", "writer")] == [("researcher", "writer")] * 2
    assert [one for one in data(server) if one != "Ordered."] == ["Acme.", "Globex."]


@pytest.mark.parametrize("shape", ["output_pydantic", "output_json"])
@pytest.mark.parametrize("text", ['{"name": "Acme"}', 'I found:\n```json\n{"name": "Acme"}\n```'])
def test_a_guardrail_judges_a_structured_result_as_an_object(server, audit, gate, shape, text):
    researcher, writer = agent("researcher", Say(text)), agent("writer", Say("Ordered."))
    found = task(researcher, guardrail=gate().guardrail("writer"), **{shape: Supplier})
    assert run(found, task(writer)) == "Ordered."
    assert audit.flush()
    assert data(server) == [{"name": "Acme"}]


def test_a_guardrail_judges_a_structured_result_that_is_no_object_as_text(server, audit, gate):
    server.answer("rejected", target="writer", message="The name is missing.")
    found = task(agent("researcher", Say("{Acme}")), guardrail=gate().guardrail("writer"), guardrail_max_retries=0)
    found.output_pydantic = Supplier
    with pytest.raises(Exception, match="The name is missing"):
        run(found, task(agent("writer")))
    assert data(server) == ["{Acme}"]


def test_a_result_that_a_later_guardrail_changes_is_sent_as_the_writer_gets_it(server, audit, gate):
    guardrails = [gate().guardrail("writer"), lambda output: (True, output.raw.upper())]
    writer = agent("writer", Say("Ordered."))
    run(task(agent("researcher", Say("Acme.")), guardrails=guardrails), task(writer))
    assert audit.flush()
    assert "ACME." in str(told(writer))
    assert data(server) == ["Acme.", "ACME."]


def test_a_guardrail_that_does_not_pass_ends_the_crew(server, gate):
    server.answer("rejected", target="writer", message="The total is missing.")
    researcher, writer = agent("researcher", *[Say("Acme.")] * 2), agent("writer")
    found = task(researcher, guardrail=gate().guardrail("writer"), guardrail_max_retries=1)
    with pytest.raises(Exception, match="The total is missing"):
        run(found, task(writer))
    assert told(writer) == []


def test_a_wrong_coworker_is_no_handoff_and_failed_tools_are_captured(server, audit, gate):
    gate()
    script = [delegate("nobody", "Order."), Say("", "delegate_work_to_coworker", {}), Say("", "broken"), Say("Done.")]
    triage = agent("triage", *script, allow_delegation=True, tools=[broken])
    with audit.trace("order-18"):
        run(task(triage), agents=[triage, agent("writer")])
    assert audit.flush()
    assert routes(server) == []
    failed = next(one for one in server.tool_results["order-18"] if one["tool"] == "broken")
    assert "the disk is full" in failed["result"]["error"]


def test_without_a_server_delegations_pass_or_stop(tmp_path, gate):
    for choice, number in (("pass", 1), ("stop", 0)):
        with Client("http://127.0.0.1:9", "ha_x", spool=tmp_path / choice, on_unreachable=choice) as away:
            one, writer = gate(away), agent("writer", Say("Ordered."))
            triage = agent("triage", delegate("writer", "Order."), Say("Done."), allow_delegation=True)
            run(task(triage), agents=[triage, writer])
            assert len(told(writer)) == number
            one.close()


def test_another_policy_is_refused(audit):
    with pytest.raises(ValueError, match='"block", "observe"'):
        HandoffGate(audit, "interrupt")


@pytest.mark.usefixtures("connected")
def test_the_lines_of_the_page_run(server, capsys, gates):
    page = blocks("connect-crewai.md")
    first = next(page)
    assert first == example("crewai.py")
    names = {"model": crewai_model(Say(FOUND), Say("We order."))}
    execute(first, names)
    gates.append(names["gate"])
    assert "We order." in capsys.readouterr().out
    assert routes(server) == [("researcher", "writer")]
    assert next(page, None) is None
