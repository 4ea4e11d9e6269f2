from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import overview
from handoffaudit.dashboard.templatetags.formats import describe_change
from handoffaudit.diagnostics import attribution, group_store
from handoffaudit.diagnostics.models import FindingGroup, Watermark
from handoffaudit.handoffs import recount
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import Finding, Handoff, HourlyTotal, new_id
from handoffaudit.handoffs.periods import HOUR, PERIODS, window_of
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy import kinds
from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.handoffs.support import held as needs_approval
from tests.handoffs.support import judged
from tests.pages import select, text_of, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
TO_ITSELF = {"target_agent_id": "planner"}


def test_each_number_leads_to_its_handoffs(
    sign_in: SignIn, viewer: Person, submit: Submit, held: Handoff, circular: Handoff
) -> None:
    submit()
    client = sign_in(viewer)
    page = client.get("/t/acme/?period=7d")
    assert page.status_code == 200
    figures = {figure.state: figure.number for figure in page.context["figures"]}
    assert (figures["accepted"], figures["held"], figures["rejected"]) == (1, 1, 1)
    assert str(page.context["judged"].share) == "1/3 (33.3%)"
    since = page.context["since"]
    for state, shown in {"accepted": "1", "held": "1"}.items():
        assert f'href="/t/acme/handoffs/?state={state}&amp;since={since}"' in page.text
        listed = client.get(f"/t/acme/handoffs/?state={state}&since={since}")
        assert str(len(listed.context["handoffs"])) == shown


def test_the_acceptance_rate_is_compared_with_the_period_before() -> None:
    found = overview._stats(PERIODS["24h"], {"accepted": 3, "rejected": 1}, {"accepted": 1, "rejected": 1})
    told = describe_change(found["change"])
    assert "better by 25.0 points" in told
    assert "Before: 1/2 (50.0 %)" in told


def test_the_period_before_is_that_of_the_compliance_report(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit
) -> None:
    submit()
    window = window_of({"period": "24h"}, timezone.now())
    for hour, state in ((window.before_since, "accepted"), (window.before_until - HOUR, "rejected")):
        HourlyTotal.objects.create(tenant=tenant, hour=hour, state=state, number=1)
    client = sign_in(viewer)
    change = client.get("/t/acme/?period=24h").context["change"]
    assert str(change.before) == "1/2 (50.0%)"
    assert change == client.get("/t/acme/diagnostics/compliance/?period=24h").context["change"]


def test_a_figure_keeps_its_height_when_its_number_becomes_that_of_before(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit
) -> None:
    submit()
    HourlyTotal.objects.create(tenant=tenant, hour=timezone.now() - timedelta(hours=30), state="accepted", number=1)
    page = sign_in(viewer).get("/t/acme/").text
    notes = [texts(figure, ".figure-note") for figure in select(page, "#figures .figure:not(.figure--main)")]
    assert ["as before"] in notes
    assert all(len(note) == 1 for note in notes)


def test_what_waits_for_a_worker_is_counted_whenever_it_came(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit
) -> None:
    """Most handoffs of the period before are judged, so a difference to that period would say nothing."""
    yesterday = timezone.now() - timedelta(hours=30)
    old = Handoff.objects.filter(pk=submit(judged=False).pk)
    old.update(id=first_id_at(yesterday), received_at=yesterday)
    HourlyTotal.objects.create(tenant=tenant, hour=yesterday, state="accepted", number=1)
    client = sign_in(viewer)
    page = client.get("/t/acme/")
    assert "on the 24 hours before" in text_of(page)
    [figure] = select(page, 'a.figure[href*="state=received"]')
    assert figure.text().split() == ["received", "1", "now"]
    assert numbers_of_lists(page.text)["/t/acme/handoffs/?state=received"] == 1


def test_what_waits_for_a_worker_is_counted_once(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    submit(judged=False)
    client = sign_in(viewer)
    with CaptureQueriesContext(connection) as asked:
        client.get("/t/acme/")
    assert sum("FILTER (WHERE" in query["sql"] and '"parked"' in query["sql"] for query in asked) == 1


def test_every_number_is_that_of_the_list_behind_it(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, submit: Submit
) -> None:
    """The handoffs are muted, reassigned, not approvable, overdue, parked, or received in an earlier hour."""
    for changes in ({"call_chain": ["writer", "planner"]}, {"call_chain": ["writer", "planner"]}, TO_ITSELF):
        submit(**changes)
    held, passed = (judged(tenant, needs_approval()) for _ in range(2))
    activity.reassign(
        tenant=tenant, reference=str(passed.pk), note="you", actor=Actor.person(reviewer), to=None, seen_version=None
    )
    submit()
    parked, _ = submit(judged=False), submit(judged=False)
    Handoff.objects.filter(pk=parked.pk).update(parked=True)
    Handoff.objects.filter(pk=held.pk).update(review_due_at=timezone.now() - timedelta(hours=1))
    attribution.run()
    client = sign_in(reviewer)
    for muted in (False, True):
        if muted:
            for group in FindingGroup.objects.filter(code="chain.circular"):
                group_store.mute_group(tenant=tenant, group=group.pk, until="good", note="known", actor="rui")
        page = client.get("/t/acme/").text
        followed = numbers_of_lists(page)
        assert len(followed) >= 10
        for href, number in followed.items():
            shown = client.get(href).context
            rows = shown["queue"].rows if "/review/" in href else shown["handoffs"]
            assert len(rows) == number, href
        waits = followed["/t/acme/review/?view=all"]
        # What is held, what nobody can approve, and the circular ones.
        assert waits == 2 + (0 if muted else 2)
        assert text_of(page).count(f"; {3 if muted else 1} more {'are' if muted else 'is'} reassigned or muted") == 1
        # The number beside Review counts what is held or escalated.
        assert texts(page, ".badge") == ["1 waiting"]
        assert f">{waits}</b> left" in client.get("/t/acme/review/").text


def numbers_of_lists(page: str) -> dict[str, int]:
    """Return the number that each link to a list of handoffs shows, by its address."""
    found = {}
    for link in select(page, 'a[href*="/handoffs/"], a[href*="/review/"]'):
        marked = select(link, '[class$="figure-value"], [class$="number"]')
        numbers = [number for one in marked if (number := one.text(deep=False).strip()).isdecimal()]
        if numbers:
            found[link.attributes["href"] or ""] = int(numbers[0])
    return found


def test_the_menu_says_99_at_most(
    sign_in: SignIn, viewer: Person, tenant: Tenant, circular: Handoff, held: Handoff
) -> None:
    columns = {field.attname: getattr(held, field.attname) for field in Handoff._meta.concrete_fields}
    Handoff.objects.bulk_create(
        Handoff(**{**columns, "id": new_id(), "handoff_id": f"h{number}"}) for number in range(99)
    )
    client = sign_in(viewer)
    page = client.get("/t/acme/").text
    assert '<span aria-hidden="true">99+</span><span class="hidden"> more than 99 waiting' in page
    assert 'data-live-seen="waiting=100"' in page
    Handoff.objects.filter(pk=held.pk).delete()
    assert texts(client.get("/t/acme/"), ".badge") == ["99 waiting"]


def test_top_reasons_are_told_by_title_and_lead_to_their_handoffs(
    sign_in: SignIn, viewer: Person, circular: Handoff
) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert CIRCULAR.title in page.text
    assert f'href="/t/acme/handoffs/?code=chain.circular&amp;since={page.context["since"]}"' in page.text


def test_top_findings_count_handoffs(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    """A handoff with two findings of a rule code counts once, as in the list behind the number."""
    handoff = submit(source_agent_id="", target_agent_id="")
    assert Finding.objects.filter(handoff=handoff.pk, code="structure.empty").count() == 2
    page = sign_in(viewer).get("/t/acme/")
    [line] = select(page, '#top-codes a[href*="structure.empty"] .reason-number')
    assert line.text() == "1 handoff"
    assert "handoffs with the finding in the last 24 hours" in text_of(page)


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


def test_a_worker_that_is_gone_is_told_where_handoffs_wait_for_it(
    sign_in: SignIn, viewer: Person, held: Handoff, submit: Submit
) -> None:
    waiting = submit(judged=False)
    client = sign_in(viewer)
    assert "No worker runs" not in client.get("/t/acme/").text
    Handoff.objects.filter(pk=waiting.pk).update(received_at=timezone.now() - timedelta(minutes=2))
    assert "No worker is running; handoffs are queued</b>: none seen yet." in client.get("/t/acme/").text
    Watermark.objects.create(name="worker", at=timezone.now())
    assert "No worker runs" not in client.get("/t/acme/").text


def test_commands_name_the_data_folder_where_it_is_no_usual_one(
    sign_in: SignIn, admin: Person, settings: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    settings.DATA_FOLDER = tmp_path / "my data"
    client = sign_in(admin)
    assert f"FILE --tenant acme --data '{tmp_path}/my data'" in " ".join(texts(client.get("/t/acme/"), "code"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings.DATA_FOLDER = tmp_path / "handoffaudit"
    assert any(one.endswith("FILE --tenant acme") for one in texts(client.get("/t/acme/"), "code"))


def test_a_viewer_of_an_empty_tenant_is_not_sent_to_a_page_that_is_closed(sign_in: SignIn, viewer: Person) -> None:
    page = sign_in(viewer).get("/t/acme/")
    assert "ask an administrator" in page.text
    assert "/t/acme/settings/" not in page.text


def test_a_period_without_handoffs_is_no_first_visit(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit_to: Submit
) -> None:
    handoff = submit_to(tenant)
    Handoff.objects.filter(pk=handoff.pk).update(received_at=timezone.now() - timedelta(days=3))
    recount.recount()
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


def test_saved_policies_are_marks_on_the_chart_with_a_link(
    as_admin: Client, submit: Submit, tenant: Tenant, other_tenant: Tenant
) -> None:
    submit()
    for number in range(overview.MOST_MARKS + 2):
        row = TypePolicy("visa_check", recommended_length=number + 3)
        kinds.strictness.upsert_row(tenant=tenant, base_version=number, row=row, actor="mara<b>", note="Shorter.")
    kinds.strictness.upsert_row(
        tenant=other_tenant, base_version=0, row=TypePolicy("visa_check"), actor="theirs", note="Other."
    )
    page = as_admin.get("/t/acme/")
    marks = select(page, ".chart--wide a.chart-mark")
    assert len(marks) == overview.MOST_MARKS
    assert {one.attributes["href"] for one in marks} == {"/t/acme/policies/history/?kind=strictness"}
    assert "saved by mara<b>" in (marks[-1].attributes["aria-label"] or "")
    assert f"version {overview.MOST_MARKS + 2}" in (marks[-1].attributes["aria-label"] or "")
    assert "theirs" not in page.text
    # Without JavaScript, each bar is a link to its part of the period.
    (bar, *_) = select(page, ".chart--wide a.column")
    assert "since=" in (bar.attributes["href"] or "")
    assert "until=" in (bar.attributes["href"] or "")
