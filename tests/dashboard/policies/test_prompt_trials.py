"""Tests of both verdicts of a handoff in a dry run of prompts, by the LLM's answers in the dry run."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Handoff, ModelAnswer, Trial
from handoffaudit.policy.models import Kind
from tests.handoffs.support import checked, doubts, payload
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)

SHARP = "Doubt every number."


@pytest.fixture
def handoff(tenant: Tenant, model: MessagesServer) -> Handoff:
    """Return a handoff that the current prompt accepts and the draft rejects."""
    model.respond = lambda request: doubts() if SHARP in request.system else None
    return checked(tenant, payload())


@pytest.fixture
def trial(tenant: Tenant, handoff: Handoff) -> Trial:
    row = {"use": "grounding", "handoff_type": None, "workflow": None, "text": SHARP}
    begun = dry_runs.start(tenant=tenant, kind=Kind.PROMPTS, content={"rows": [row]}, base_version=0, actor="ada")
    dry_runs.run_waiting(with_model=True)
    return dry_runs.get(tenant, begun.pk)


def test_what_would_come_is_told_and_leads_to_its_place(
    client: Client, viewer: Person, model: MessagesServer, trial: Trial, handoff: Handoff
) -> None:
    client.force_login(viewer)
    address = f"/t/acme/trials/{trial.pk}/{handoff.pk}/"
    assert f'href="{address}"' in client.get(f"/t/acme/trials/{trial.pk}/").text
    asked = len(model.requests)
    page = client.get(address)
    assert (page.context["now"].outcome, page.context["then"].outcome) == ("accepted", "rejected")
    assert ">new<" in page.text
    assert "with the answers that the LLM gave in the dry run" in page.text
    assert f"/t/acme/handoffs/{handoff.pk}/" in page.text
    assert len(model.requests) == asked


def test_answers_that_are_gone_are_not_asked_for_again(
    client: Client, viewer: Person, model: MessagesServer, trial: Trial, handoff: Handoff
) -> None:
    client.force_login(viewer)
    ModelAnswer.objects.all().delete()
    asked = len(model.requests)
    page = client.get(f"/t/acme/trials/{trial.pk}/{handoff.pk}/").text
    assert "answers about this handoff are missing" in page
    assert f"/t/acme/prompts/?trial={trial.pk}" in page
    assert len(model.requests) == asked
