"""Tests of the first steps: a key, the first handoff, a decision, people."""

from collections.abc import Callable

import pytest
from django.test import Client

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import AuditEntry, Key, Membership, Person, Role, Tenant
from handoffaudit.dashboard import first_run
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
START = "/t/acme/start/"


def test_an_empty_overview_leads_through_the_first_steps(sign_in: SignIn, admin: Person) -> None:
    page = sign_in(admin).get("/t/acme/")
    assert "No handoffs have come yet" in page.text
    assert "0 of 4 steps done" in page.text
    assert f'action="{START}key/"' in page.text
    assert "Waiting for the first handoff" in page.text
    assert 'action="/t/acme/sample/"' in page.text


def test_an_empty_sample_is_on_its_way_and_asks_for_no_key(sign_in: SignIn, admin: Person, tenant: Tenant) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(is_sample=True)
    page = sign_in(admin).get("/t/acme/")
    assert "The sample is on its way" in page.text
    assert "Waiting for the first handoff" not in page.text
    assert f'action="{START}key/"' not in page.text


def test_a_click_makes_a_real_key_and_the_commands_have_it(sign_in: SignIn, admin: Person, tenant: Tenant) -> None:
    page = sign_in(admin).post(f"{START}key/", follow=True)
    secret = page.context["secret"]
    identity = keys.authenticate(secret)
    assert identity is not None
    assert (identity.tenant_slug, identity.name, identity.scopes) == ("acme", "first steps", {"ingest", "read"})
    for command in (*page.context["commands"], page.context["held"]):
        assert secret in command.text
    assert "YOUR_KEY" not in page.text
    assert AuditEntry.objects.filter(tenant=tenant, action="key.create", actor=admin.username).exists()


def test_the_secret_is_shown_only_once(sign_in: SignIn, admin: Person) -> None:
    client = sign_in(admin)
    secret = client.post(f"{START}key/", follow=True).context["secret"]
    again = client.get(START)
    assert secret not in again.text
    assert "YOUR_KEY" in again.text


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
def test_who_may_not_make_a_key_is_told_whom_to_ask(
    who: str, sign_in: SignIn, admin: Person, request: pytest.FixtureRequest
) -> None:
    client = sign_in(request.getfixturevalue(who))
    page = client.get("/t/acme/")
    assert f"{START}key/" not in page.text
    assert admin.username in page.text
    assert client.post(f"{START}key/").status_code == 403
    assert not Key.objects.exists()


def test_the_page_hears_of_the_first_handoff_and_of_its_verdict(
    sign_in: SignIn, viewer: Person, submit_to: Submit, tenant: Tenant
) -> None:
    client = sign_in(viewer)
    seen = first_run.steps_of(tenant).seen
    assert client.get(f"{START}arrived/", {"seen": seen}).status_code == 204
    submit_to(tenant, judged=False)
    came = client.get(f"{START}arrived/", {"seen": seen})
    assert "is being judged" in came.text
    assert "data-live=" in came.text
    judge.drain()
    settled = client.get(
        f"{START}arrived/", {"seen": first_run.Steps(True, Handoff.objects.get(), False, False).seen + "x"}
    )
    assert "accepted" in settled.text
    assert "data-live=" not in settled.text
    assert f"/t/acme/handoffs/{Handoff.objects.get().pk}/" in settled.text


def test_a_new_key_in_an_old_tenant_still_sees_its_first_handoff_arrive(
    sign_in: SignIn, admin: Person, submit_to: Submit, tenant: Tenant
) -> None:
    submit_to(tenant)
    client = sign_in(admin)
    assert "Waiting for" not in client.get(START).text
    page = client.post(f"{START}key/", follow=True)
    assert "Waiting for the first handoff with the key first steps" in page.text
    submit_to(tenant)
    seen = first_run.steps_of(tenant).seen
    assert client.get(f"{START}arrived/", {"seen": seen}).status_code == 204, "that was another key's"
    assert keys.authenticate(page.context["secret"]) is not None
    document = {
        "tenant_id": "acme",
        "source_agent_id": "planner",
        "target_agent_id": "writer",
        "call_chain": ["planner"],
    }
    document |= {"call_chain": ["planner"], "handoff_type": "message"}
    body = {"document": {**document, "data": {"text": "It is done."}}}
    sent = Client().post(
        "/api/v1/handoffs", body, "application/json", headers={"Authorization": f"Bearer {page.context['secret']}"}
    )
    assert sent.status_code == 202
    judge.drain()
    came = client.get(f"{START}arrived/", {"seen": seen})
    assert f"/t/acme/handoffs/{sent.json()['id']}/" in came.text
    assert "data-live=" not in came.text


def test_steps_are_ticked_as_they_are_done(
    sign_in: SignIn, admin: Person, tenant: Tenant, submit: Submit, held: Handoff
) -> None:
    client = sign_in(admin)
    Membership.objects.filter(tenant=tenant).exclude(person=admin).delete()
    assert _done(client) == (False, True, False, False)
    client.post(f"{START}key/")
    assert _done(client) == (True, True, False, False)
    Handoff.objects.filter(pk=held.pk).update(state="approved")
    assert _done(client) == (True, True, True, False)
    person = Person.objects.create_user("grace")
    Membership.objects.create(tenant=tenant, person=person, role=Role.VIEWER)
    assert _done(client) == (True, True, True, True)


def _done(client: Client) -> tuple[bool, ...]:
    steps = client.get(START).context["steps"]
    return steps.key_made, steps.arrived, steps.decided, steps.invited
