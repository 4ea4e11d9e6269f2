from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import counts
from handoffaudit.handoffs.models import Handoff

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]


def test_each_number_leads_to_its_handoffs(
    sign_in: SignIn, viewer: Person, submit: Submit, held: Handoff, circular: Handoff
) -> None:
    submit()
    client = sign_in(viewer)
    page = client.get("/t/acme/?period=7d")
    assert page.status_code == 200
    figures = {figure.state: figure.number for figure in page.context["figures"]}
    assert (figures["accepted"], figures["held"], figures["rejected"]) == (1, 1, 1)
    assert page.context["compliance"] == pytest.approx(100 / 3)
    for state, shown in {"accepted": "1", "held": "1"}.items():
        assert f'href="/t/acme/handoffs/?state={state}&amp;since=7d"' in page.text
        listed = client.get(f"/t/acme/handoffs/?state={state}&since=7d")
        assert str(len(listed.context["handoffs"])) == shown


def test_top_reasons_are_told_by_title_and_lead_to_their_handoffs(
    sign_in: SignIn, viewer: Person, circular: Handoff
) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert "Circular chain" in page.text
    assert 'href="/t/acme/handoffs/?code=chain.circular&amp;since=24h"' in page.text


def test_the_chart_has_its_numbers_as_a_table(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert page.context["chart"].columns == ("Period", "held")
    assert '<th scope="col" class="end">held</th>' in page.text


def test_what_waits_is_told_with_its_age(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    Handoff.objects.filter(pk=held.pk).update(received_at=timezone.now() - timedelta(hours=3, minutes=5))
    page = sign_in(viewer).get("/t/acme/")
    assert "oldest waits" in page.text
    assert ">3 h 5 min</time>" in page.text


def test_the_rejected_that_wait_lead_to_the_rejected_alone(sign_in: SignIn, viewer: Person, circular: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert page.context["waiting"].rejected_undecided == 1
    assert 'href="/t/acme/handoffs/?state=rejected"' in page.text


def test_parked_ones_come_with_what_to_do(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    client = sign_in(viewer)
    waiting = submit(judged=False)
    assert "Judge again" not in client.get("/t/acme/").text
    Handoff.objects.filter(pk=waiting.pk).update(parked=True)
    page = client.get("/t/acme/")
    assert 'href="/t/acme/handoffs/?flag=parked"' in page.text
    assert "Judge again" in page.text


def test_an_empty_tenant_is_told_how_to_send_the_first_one(sign_in: SignIn, admin: Person) -> None:
    page = sign_in(admin).get("/t/acme/", headers={"host": "localhost:8123"})
    assert "curl http://localhost:8123/api/v1/handoffs" in page.text
    assert "handoffaudit import FILE --tenant acme" in page.text
    assert 'action="/t/acme/start/key/"' in page.text


def test_the_address_to_send_to_is_the_public_one(sign_in: SignIn, admin: Person, settings: object) -> None:
    settings.PUBLIC_URL = "https://audit.example.com"  # type: ignore[attr-defined]
    assert "curl https://audit.example.com/api/v1/handoffs" in sign_in(admin).get("/t/acme/").text


def test_a_viewer_of_an_empty_tenant_is_not_sent_to_a_page_that_is_closed(sign_in: SignIn, viewer: Person) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert "Ask an administrator" in page.text
    assert "/t/acme/settings/" not in page.text


def test_a_period_without_handoffs_is_no_first_visit(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit_to: Submit
) -> None:
    handoff = submit_to(tenant)
    Handoff.objects.filter(pk=handoff.pk).update(received_at=timezone.now() - timedelta(days=3))
    counts.recount()
    page = sign_in(viewer).get("/t/acme/?period=24h")
    assert "No handoffs came in the last 24 hours" in page.text
    assert "curl" not in page.text


def test_a_wrong_period_is_told(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/?period=fortnight")
    assert page.status_code == 400
    assert "<b>period</b> is <code>fortnight</code>: use one of 24h, 7d, 30d." in page.text


def test_another_tenants_handoffs_are_not_counted(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, held: Handoff, submit_to: Submit
) -> None:
    submit_to(other_tenant)
    assert sign_in(viewer).get("/t/acme/").context["total"] == 1
