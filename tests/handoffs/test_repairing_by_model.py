"""Tests of repairs by the LLM: in the queue of LLM checks, and on request."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import queries, repair_cases, repairs
from handoffaudit.handoffs.ingest.prepare import read_submission
from handoffaudit.handoffs.llm import run as llm_run
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, ModelCall, ModelCheck, State
from handoffaudit.validation.config import CritiquePolicy, Strictness
from handoffaudit.validation.prompts.question import Use
from tests.handoffs.support import SENDER, assert_counts_are_right, circular, judged, payload, set_policy
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, fails, says
from tests.messages_api.server import MessagesServer, running

pytestmark = pytest.mark.django_db(transaction=True)

MADE_UP = "Three suppliers deliver within a week, and all are certified."
SUPPORTED = "Three suppliers deliver within a week."
BY = "written by the LLM claude-haiku-5-5"


@pytest.fixture
def server(settings) -> Iterator[MessagesServer]:
    with running() as server:
        settings.ANTHROPIC_API_KEY = "sk-ant-local-tests"
        settings.MODEL_BASE_URL = server.url
        settings.MODEL_TRIES = 1
        server.respond = careful
        yield server


def careful(request: Request) -> Scripted | None:
    """Report the made-up claim wherever it appears, and remove it in answers to repair questions."""
    if request.use is Use.GROUNDING and "certified" in request.content:
        doubt = {"field": "summary", "kind": "unsupported", "quote": "all are certified", "reason": "It is not given."}
        return says({"valid": False, "issues": [doubt]})
    if request.use is Use.REPAIR:
        return says(json.dumps(document_in(request)).replace(MADE_UP, SUPPORTED))
    return None


def document_in(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.content.partition("<document>\n")[2].partition("\n</document>")[0])
    return found


def made_up(**changes: Any) -> dict[str, Any]:
    return payload(data={"summary": MADE_UP, "suppliers": 3}, **changes)


def checked(tenant: Tenant, document: dict[str, Any], **envelope: Any) -> Handoff:
    found = judged(tenant, document, **envelope)
    llm_run.drain()
    return queries.get(tenant, str(found.pk))


def uses(server: MessagesServer) -> list[str]:
    return [request.use.value for request in server.requests if request.use]


def test_what_only_a_model_can_mend_is_mended_in_the_queue_of_its_checks(
    tenant: Tenant, server: MessagesServer
) -> None:
    first = checked(tenant, made_up(handoff_id="h"), repair=True)
    second = Handoff.objects.get(handoff_id="h~2")
    assert (first.state, second.state, second.repaired) == (State.SUPERSEDED, State.ACCEPTED, True)
    assert not second.unverified
    assert json.loads(bytes(HandoffBody.objects.get(pk=second.pk).original))["data"]["summary"] == SUPPORTED
    assert json.loads(bytes(HandoffBody.objects.get(pk=first.pk).original))["data"]["summary"] == MADE_UP
    assert queries.events(second)[0].reason == f"repair, try 2: {BY}"
    assert uses(server) == ["grounding", "repair", "grounding"]
    assert {call.use for call in ModelCall.objects.filter(handoff=first.pk)} == {"grounding", "repair"}
    assert_counts_are_right()


def test_a_candidate_that_the_model_doubts_again_does_not_pass(tenant: Tenant, server: MessagesServer) -> None:
    still = MADE_UP.replace("Three", "Four")
    server.respond = lambda request: (
        says(json.dumps(document_in(request)).replace(MADE_UP, still))
        if request.use is Use.REPAIR
        else careful(request)
    )
    first = checked(tenant, made_up(handoff_id="h"), repair=True)
    assert (first.state, first.escalated) == (State.REJECTED, True)
    assert Handoff.objects.get(handoff_id="h~2").state == State.SUPERSEDED
    assert Event.objects.filter(reason="try 2 of repair did not pass").count() == 1
    assert_counts_are_right()


def test_a_candidate_with_nothing_left_to_check_does_not_pass(tenant: Tenant, server: MessagesServer) -> None:
    server.respond = lambda request: (
        says(document_in(request) | {"data": {}}) if request.use is Use.REPAIR else careful(request)
    )
    first = checked(tenant, made_up(handoff_id="h"), repair=True)
    assert (first.state, first.escalated) == (State.REJECTED, True)
    assert Handoff.objects.get(handoff_id="h~2").state == State.SUPERSEDED


def test_where_the_model_is_away_for_the_repair_it_ends_as_without_it(tenant: Tenant, server: MessagesServer) -> None:
    server.respond = lambda request: fails(529) if request.use is Use.REPAIR else careful(request)
    first = checked(tenant, made_up(handoff_id="h"), repair=True)
    assert (first.state, first.escalated, Handoff.objects.count()) == (State.REJECTED, True, 1)


def test_a_rejection_by_the_model_is_what_a_later_repair_begins_with(tenant: Tenant, server: MessagesServer) -> None:
    first = checked(tenant, made_up(handoff_id="h"))
    assert first.state == State.REJECTED
    server.requests.clear()
    case = repair_cases.case_of_stored(first)
    assert server.requests == []
    assert [(issue.code, issue.location) for issue in case.held_against_it] == [
        ("semantic.unsupported_claim", ("data", "summary"))
    ]
    result = repairs.repair_stored(handoff=first, actor=SENDER)
    assert (result.status, result.attempts[-1].name) == ("repaired", BY)
    assert uses(server) == ["repair", "grounding"]
    second = Handoff.objects.get(handoff_id="h~2")
    assert (second.state, second.unverified) == (State.ACCEPTED, False)
    assert_counts_are_right()


def test_what_a_model_held_against_it_stands_while_none_can_be_asked(
    tenant: Tenant, server: MessagesServer, settings
) -> None:
    first = checked(tenant, made_up(handoff_id="h"))
    for key in ("sk-ant-local-tests", ""):
        settings.ANTHROPIC_API_KEY = key
        server.outage = 529
        result = repairs.make_candidates(repair_cases.case_of_stored(queries.get(tenant, str(first.pk))))
        assert (result.status, result.repaired) == ("escalated", None)
        assert {issue.code for issue in result.attempts[0].errors} == {"semantic.unsupported_claim"}


def test_a_layer_that_its_type_no_longer_asks_holds_nothing_against_it(tenant: Tenant, server: MessagesServer) -> None:
    first = checked(tenant, made_up(handoff_id="h"))
    set_policy(tenant, "research_result", layers_off=frozenset({"semantic"}))
    assert repair_cases.case_of_stored(queries.get(tenant, str(first.pk))).verdict.valid


@pytest.mark.parametrize(
    "asks_no_longer",
    [{"strictness": Strictness.LENIENT}, {"critique": CritiquePolicy.OFF}, {"critique": CritiquePolicy.OUTPUTS}],
)
def test_a_critique_that_its_type_no_longer_asks_holds_nothing_against_it(
    tenant: Tenant, server: MessagesServer, asks_no_longer: dict[str, Any]
) -> None:
    set_policy(tenant, "research_result", critique=CritiquePolicy.ALWAYS)
    server.respond = lambda request: (
        says({"overall_score": 0.1, "issues": [], "reasoning": "Thin."}) if request.use is Use.CRITIQUE else None
    )
    first = checked(tenant, payload(handoff_id="h"))
    case = repair_cases.case_of_stored(first)
    assert [issue.code for issue in case.held_against_it] == ["critique.low_score"]
    set_policy(tenant, "research_result", **asks_no_longer)
    assert repair_cases.case_of_stored(first).verdict.valid


def test_a_rule_that_mends_leaves_the_check_of_the_candidate_to_its_queue(
    tenant: Tenant, server: MessagesServer
) -> None:
    first = judged(tenant, payload(handoff_id="h", confidence="0.8"), repair=True)
    second = Handoff.objects.get(handoff_id="h~2")
    assert (first.state, second.state) == (State.SUPERSEDED, State.VALIDATING)
    llm_run.drain()
    second.refresh_from_db()
    assert (second.state, second.unverified) == (State.ACCEPTED, False)
    assert uses(server) == ["grounding"]
    assert_counts_are_right()


def test_a_candidate_that_the_model_has_not_seen_says_so(tenant: Tenant, server: MessagesServer) -> None:
    first = judged(tenant, payload(handoff_id="h", confidence="0.8"))
    result = repairs.make_candidates(repair_cases.case_of_stored(first))
    assert (result.status, result.why) == ("repaired", repairs.CHECKED_LATER)
    assert server.requests == []


def test_what_repair_made_is_not_repaired_again_unasked(tenant: Tenant, server: MessagesServer) -> None:
    set_policy(tenant, "research_result", repair=True)
    judged(tenant, made_up(handoff_id="h", confidence="0.8"))
    llm_run.drain()
    assert Handoff.objects.get(handoff_id="h~2").state == State.REJECTED
    assert Handoff.objects.count() == 2


def wrapped(request: Request) -> Scripted | None:
    if request.use is not Use.REPAIR:
        return None
    document = document_in(request)
    return says(document | {"data": {"summary": document["data"]}, "target_agent_id": "attacker"})


def test_what_the_structural_worker_cannot_mend_waits_for_the_model(tenant: Tenant, server: MessagesServer) -> None:
    server.respond = wrapped
    first = judged(tenant, payload(handoff_id="h", data=["Three suppliers deliver."]), repair=True)
    assert (first.state, first.escalated, Handoff.objects.count()) == (State.REJECTED, False, 1)
    assert ModelCheck.objects.get(handoff=first.pk).kind == "repair"
    assert server.requests == []
    llm_run.drain()
    second = Handoff.objects.get(handoff_id="h~2")
    first.refresh_from_db()
    assert (first.state, second.state, second.target_agent_id) == (State.SUPERSEDED, State.ACCEPTED, "writer")
    assert queries.events(second)[0].reason == f"repair, try 2: {BY}"
    assert uses(server) == ["repair", "grounding"]
    assert not ModelCheck.objects.exists()
    assert_counts_are_right()


def test_a_repair_that_waits_is_not_made_once_somebody_decided(tenant: Tenant, server: MessagesServer) -> None:
    server.respond = wrapped
    first = judged(tenant, payload(handoff_id="h", data=["Three suppliers deliver."]), repair=True)
    judged(tenant, payload(handoff_id="again"), retry_of="h")
    llm_run.drain()
    first.refresh_from_db()
    assert first.state == State.SUPERSEDED
    assert not Handoff.objects.filter(repaired=True).exists()
    assert not ModelCheck.objects.exists()
    assert uses(server) == ["grounding"]


def test_a_model_that_is_away_leaves_it_to_a_person(tenant: Tenant, server: MessagesServer) -> None:
    server.outage = 529
    first = judged(tenant, payload(handoff_id="h", data=["Three suppliers deliver."]), repair=True)
    llm_run.drain()
    first.refresh_from_db()
    assert (first.state, first.escalated, Handoff.objects.count()) == (State.REJECTED, True, 1)
    assert not ModelCheck.objects.exists()


def test_what_no_model_may_mend_does_not_wait_for_one(tenant: Tenant, server: MessagesServer) -> None:
    set_policy(tenant, "research_result", layers_off=frozenset({"semantic"}))
    first = judged(tenant, circular(handoff_id="loop"), repair=True)
    assert first.escalated
    assert not ModelCheck.objects.exists()


def test_an_event_of_an_agent_host_is_judged_whatever_may_be_mended_of_it(
    tenant: Tenant, server: MessagesServer
) -> None:
    set_policy(tenant, "delegation", token_budget=1, repair=True)
    event = json.loads((Path(__file__).parents[2] / "docs" / "examples" / "claude-code.json").read_text())
    handoff = checked(tenant, event)
    assert (handoff.state, handoff.codes, handoff.escalated) == (State.REJECTED, ["tokens.over_budget"], True)


def sent(tenant: Tenant, **changes: Any) -> Any:
    submission = read_submission(json.dumps(payload(data=["Three suppliers deliver."], **changes)).encode())
    return repairs.make_candidates(repair_cases.case_of_sent(tenant, submission))


def test_a_document_that_is_not_stored_is_mended_and_not_checked(tenant: Tenant, server: MessagesServer) -> None:
    server.respond = wrapped
    result = sent(tenant)
    assert (result.status, result.repaired.name) == ("repaired", BY)
    assert result.repaired.document == payload(data={"summary": ["Three suppliers deliver."]})
    assert {change.why for change in result.repaired.changes} == {BY}
    assert uses(server) == ["repair"]
    assert Handoff.objects.count() == 0


@pytest.mark.parametrize(
    ("outage", "said"),
    [(529, "The LLM made no repair: "), (401, "The LLM made no repair: ")],
)
def test_an_outage_is_said_in_the_note(tenant: Tenant, server: MessagesServer, outage: int, said: str) -> None:
    server.outage = outage
    result = sent(tenant)
    assert result.status == "escalated"
    assert said in result.attempts[1].note


def test_no_more_than_two_requests_ask_at_a_time(tenant: Tenant, server: MessagesServer, monkeypatch) -> None:
    monkeypatch.setattr(repair_cases, "WAIT_SECONDS", 0.1)
    turns = [repair_cases._turns.acquire(timeout=60) for _ in range(repair_cases.AT_ONCE)]
    try:
        result = sent(tenant)
    finally:
        for _ in turns:
            repair_cases._turns.release()
    assert "2 other requests are asking the LLM already" in result.attempts[1].note
    assert server.requests == []


def test_without_a_key_nothing_is_said_of_a_model(tenant: Tenant, settings) -> None:
    settings.ANTHROPIC_API_KEY = ""
    assert [attempt.note for attempt in sent(tenant).attempts if "model" in attempt.note] == []


def test_the_page_says_which_model_wrote_it(
    tenant: Tenant, server: MessagesServer, client: Client, reviewer: Person
) -> None:
    first = checked(tenant, made_up(handoff_id="h"))
    call_command("collectstatic", verbosity=0, interactive=False)
    client.force_login(reviewer)
    address = f"/t/{tenant.slug}/handoffs/{first.pk}/repair/"
    page = client.get(address).content.decode()
    assert f"Try 2: {BY}" in page
    asked = len(server.requests)
    assert client.post(address).status_code == 302
    # what the page showed is what is stored, and it was paid once
    assert len(server.requests) == asked
    assert Handoff.objects.get(handoff_id="h~2").state == State.ACCEPTED


def test_of_many_requests_all_but_one_are_told_at_once(tenant: Tenant, server: MessagesServer, monkeypatch) -> None:
    places = [repair_cases._places.acquire(timeout=60) for _ in range(repair_cases.AT_ONCE + 1)]
    monkeypatch.setattr(repair_cases, "WAIT_SECONDS", 300)
    started = time.monotonic()
    try:
        result = sent(tenant)
    finally:
        for _ in places:
            repair_cases._places.release()
    assert "2 other requests are asking the LLM already" in result.attempts[1].note
    assert time.monotonic() - started < 60
