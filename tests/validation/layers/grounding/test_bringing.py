"""Who brings facts of their own is not held against what was known before."""

from typing import Any

import pytest

from handoffaudit.validation.verdict import Verdict
from tests.validation.support import judge, payload, universal

CONTEXT = {"policy": "Agents help with reservations."}
CALL = '[{"name": "get_user", "arguments": "{\\"user_id\\": \\"mia_4516\\"}"}]'


def judged(source: str, data: dict[str, Any], context: dict[str, Any] = CONTEXT) -> Verdict:
    document = payload(source_agent_id=source, call_chain=[source], data=data)
    return judge(document, envelope={"context": context})


def grounding(verdict: Verdict) -> tuple[str, str]:
    return next((layer.status.value, layer.why) for layer in verdict.layers if layer.name == "grounding")


def told(verdict: Verdict) -> list[str]:
    return [issue.code for issue in verdict.issues if issue.layer == "grounding"]


@pytest.mark.parametrize("source", ["user", "Customer", "User_Proxy", "human"])
def test_a_person_is_not_asked_where_a_fact_comes_from(source: str) -> None:
    verdict = judged(source, {"text": "My user id is mia_4516, I fly on 12 May 2024."})
    status, why = grounding(verdict)
    assert status == "skipped"
    assert why.startswith("the source is taken for a person because the name is that of a person")
    assert why.endswith("declare the role of the agent on its page")


@pytest.mark.parametrize(
    ("source", "data", "context"),
    [
        ("Computer_terminal", {"text": "exitcode: 0, found 4711 rows"}, CONTEXT),
        ("search", {"role": "tool", "content": "Room 4711 is free."}, CONTEXT),
        ("get_user", {"text": "Mia Garcia, 4516 Elm Street"}, {"earlier": [{"agent": "assistant", "text": CALL}]}),
        ("get_user", {"text": "Mia Garcia, 4516 Elm Street"}, {"calls": [{"name": "get_user", "arguments": {}}]}),
    ],
)
def test_a_tools_answer_brings_facts(source: str, data: dict[str, Any], context: dict[str, Any]) -> None:
    verdict = judged(source, data, context)
    status, why = grounding(verdict)
    assert (status, told(verdict)) == ("skipped", [])
    assert why.startswith("the source is taken for an observer because ")
    assert {mark.status for claim in verdict.claims for mark in claim.marks} >= {"reported"}


def test_an_agent_that_is_only_named_in_the_context_is_judged() -> None:
    verdict = judged("researcher", {"text": "Room 4711 is free."}, {"plan": 'ask "researcher", name: researcher'})
    assert "grounding.number" in told(verdict)


@pytest.mark.parametrize("text", ['{"room": 4711}', '["4711", {"a": "Mia Garcia"}]', "mia_garcia_4516"])
def test_what_a_program_put_out_states_nothing(text: str) -> None:
    assert grounding(judged("assistant", {"text": text})) == ("skipped", "no claim states a fact")


def test_an_agents_call_and_a_field_of_its_own_are_judged() -> None:
    assert told(judged("assistant", {"text": CALL, "tool_calls": [{"name": "get_user"}]}))
    assert told(judged("assistant", {"user_id": "mia_garcia_4516"})) == ["grounding.identifier"]


def test_hostile_names_and_contexts_are_only_looked_up() -> None:
    name = 'a"\\(.*' * 20
    assert grounding(judged(name, {"text": "Room 4711 is free."}, {"x": name * 100}))[0] != "error"


def test_what_an_agent_says_of_its_own_run_needs_no_source() -> None:
    assert told(judged("assistant", {"confidence": 0.8})) == []
    assert told(judged("assistant", {"share": 0.8})) == ["grounding.number"]
    assert told(judged("assistant", {"run_id": "8f80e01c-1296", "elapsed_ms": 1532, "total_tokens": 2411})) == []
    assert told(judged("assistant", {"confidence": "As sure as Mia Garcia was on 12 May 2024."}))


REPORT = {"report": "Revenue was 1,200 euros in March, as the bank in Porto wrote."}


def test_departing_wording_is_one_finding_of_its_claim() -> None:
    issues = judged("assistant", {"text": "Lorries of every colour queued 4711 hours at dawn."}, REPORT).issues
    wording = [issue for issue in issues if issue.code == "grounding.wording"]
    assert len(wording) == 1
    assert wording[0].metadata["count"] > 1
    assert '"Lorries' in wording[0].message
    assert [issue.code for issue in issues].count("grounding.number") == 1


def test_an_assumption_restates_nothing_and_its_values_are_looked_up() -> None:
    text = "Lorries of every colour queue 4711 hours at dawn."
    assert told(judged("assistant", {"text": text, "assumptions": ["text"]}, REPORT)) == ["grounding.number"]


@pytest.mark.parametrize(
    ("kind", "status"), [("implementation", "skipped"), ("creative", "skipped"), ("research", "passed")]
)
def test_an_order_rests_on_nothing_unless_evidence_comes_with_it(kind: str, status: str) -> None:
    order = universal(
        context={"summary": "Build it.", "problem_type": kind}, payload={"working": {"note": "Room 4711 is free."}}
    )
    assert grounding(judge(order, envelope={"context": CONTEXT}))[0] == status
    with_evidence = judge(order, envelope={"context": CONTEXT, "evidence": [{"source": "list", "content": "Rooms"}]})
    assert "grounding.number" in told(with_evidence)
