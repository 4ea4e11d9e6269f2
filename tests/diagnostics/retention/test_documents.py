"""Tests of handoffs whose documents were deleted: verdicts stay, and every page and API call still works."""

from hashlib import sha256

import orjson
import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.handoffs import compare, dry_runs, export, queries, recount
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, ModelCheck, RemovedDocument, TraceFact
from handoffaudit.handoffs.review import base, decisions, undo
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.models import Kind
from handoffaudit.policy.retention import Data
from tests.diagnostics.retention.support import age, days_ago, keep, newest_run, run_all
from tests.handoffs.support import circular, held, judged, payload, submit, to_itself
from tests.pages import text_of

pytestmark = pytest.mark.django_db
ADA = Actor.key("ada")


def remove(tenant: Tenant, days: int = 30) -> None:
    keep(tenant, documents=days)
    RetentionRun.objects.all().delete()
    run_all()


@pytest.fixture(autouse=True)
def _static(settings) -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)


@pytest.fixture
def gone(tenant: Tenant) -> Handoff:
    """Return an accepted handoff whose document was deleted."""
    handoff = age(judged(tenant, payload(), context={"day": "Monday"}, handoff_id="first"))
    remove(tenant)
    assert not HandoffBody.objects.filter(pk=handoff.pk).exists()
    return handoff


@pytest.fixture
def as_admin(client: Client, admin: Person) -> Client:
    client.force_login(admin)
    return client


def test_what_it_brought_into_its_trace_goes_with_it(tenant: Tenant) -> None:
    document = payload(source_agent_id="terminal", call_chain=["terminal"], data={"text": "exitcode: 0, 4711 rows"})
    age(judged(tenant, document, trace_id="t"))
    judged(tenant, document, trace_id="u")
    remove(tenant)
    assert list(TraceFact.objects.values_list("trace_id", flat=True)) == ["u"]


def test_what_is_said_of_it_stays(tenant: Tenant) -> None:
    handoff = age(judged(tenant, payload()))
    sent = bytes(HandoffBody.objects.get(pk=handoff.pk).original)
    recount.recount()
    before = [queries.current_verdict(handoff), [event.to_state for event in queries.events(handoff)]]
    remove(tenant)
    left = RemovedDocument.objects.get()
    assert (left.handoff_id, left.days, left.sha256) == (handoff.pk, 30, sha256(sent).hexdigest())
    assert [queries.current_verdict(handoff), [event.to_state for event in queries.events(handoff)]] == before
    assert recount.recount(repair=False).wrong == 0
    assert newest_run(tenant, Data.DOCUMENTS).number == 1


def test_what_waits_for_anybody_is_not_touched(tenant: Tenant, other_tenant: Tenant) -> None:
    kept = [age(judged(tenant, held())), age(judged(tenant, circular())), age(judged(tenant, to_itself()))]
    handed_out = age(judged(tenant, payload()))
    Handoff.objects.filter(pk=handed_out.pk).update(open=True)
    due = age(judged(tenant, payload()))
    ModelCheck.objects.create(handoff=due, tenant=tenant, kind="recheck", since=timezone.now())
    fresh, theirs = age(judged(tenant, payload()), 29), age(judged(other_tenant, payload(tenant_id="globex")))
    waiting = queries.get(tenant, submit(tenant, payload()).id)
    kept += [handed_out, due, fresh, theirs, age(waiting)]
    keep(tenant, documents=30)
    run_all()
    assert set(HandoffBody.objects.values_list("pk", flat=True)) == {one.pk for one in kept}


def test_an_unverified_one_is_kept_while_the_model_is_asked_about_it_again(tenant: Tenant) -> None:
    asked, given_up = age(judged(tenant, payload()), 7), age(judged(tenant, payload()), 9)
    Handoff.objects.filter(pk__in=[asked.pk, given_up.pk]).update(unverified=True)
    keep(tenant, documents=2)
    run_all()
    assert list(HandoffBody.objects.values_list("pk", flat=True)) == [asked.pk]


def test_a_decision_of_today_can_be_undone_and_one_of_long_ago_cannot(tenant: Tenant) -> None:
    handoff = age(judged(tenant, held()))
    decide = {"tenant": tenant, "reference": str(handoff.pk), "actor": ADA, "seen_version": None}
    decisions.decide_handoff(decision=Decision.APPROVE, note="fine", **decide)
    remove(tenant)
    assert HandoffBody.objects.filter(pk=handoff.pk).exists()
    Event.objects.filter(handoff=handoff.pk).update(at=days_ago(2))
    remove(tenant)
    assert not HandoffBody.objects.filter(pk=handoff.pk).exists()
    with pytest.raises(base.ReviewError, match="Retention has removed"):
        undo.reopen(note="again", **decide)


def test_the_same_sent_again_is_answered_as_the_first(tenant: Tenant, gone: Handoff) -> None:
    document = {"document": payload(), "context": {"day": "Monday"}, "handoff_id": "first"}
    receipt = submit(tenant, orjson.dumps(document))
    assert (receipt.status, receipt.id) == (200, str(gone.pk))
    assert submit(tenant, orjson.dumps(document | {"document": payload(step=2)})).status == 409
    assert not HandoffBody.objects.filter(pk=gone.pk).exists()


def test_pages_say_when_and_by_which_rule(as_admin: Client, gone: Handoff) -> None:
    address = f"/t/acme/handoffs/{gone.pk}/"
    left = RemovedDocument.objects.get()
    for query in ("", "?view=raw", "?find=x", "?at=/data", "?open=all"):
        page = as_admin.get(address + query)
        assert page.status_code == 200
        assert "by retention, which keeps documents for 30 days" in text_of(page.text)
        assert left.sha256 in page.text
    part = as_admin.get(address, headers={"HX-Request": "true", "HX-Target": "document"})
    assert "by retention" in part.text
    assert as_admin.get(f"{address}part/?path=data").status_code == 404
    assert "nothing to download" in as_admin.get(f"{address}raw/", follow=True).text
    assert as_admin.get(f"/t/acme/review/{gone.pk}/").status_code in (200, 302, 404)
    assert as_admin.get(f"{address}logs/").status_code == 200


def test_attempts_say_why_they_are_not_compared(tenant: Tenant) -> None:
    first = judged(tenant, circular(), handoff_id="a")
    second = judged(tenant, payload(), handoff_id="b", retry_of="a")
    age(Handoff.objects.get(pk=first.pk))
    remove(tenant)
    told = [attempt.why for attempt in compare.compare_attempts(Handoff.objects.get(pk=second.pk))]
    assert told == ["", "the document of attempt 1 was removed by retention"]


def test_exports_leave_it_out_and_say_so(tenant: Tenant, gone: Handoff) -> None:
    judged(tenant, payload())
    lines = list(export.lines(tenant, Filters()))
    assert [(line.text is None, line.is_removed) for line in lines] == [(True, True), (False, False)]


@pytest.mark.parametrize("kind", [Kind.SCHEMAS, Kind.STRICTNESS])
def test_trials_pass_over_it_and_say_how_many(as_admin: Client, tenant: Tenant, gone: Handoff, kind: Kind) -> None:
    judged(tenant, payload())
    content: dict[str, object] = {"rows": [{"handoff_type": "research_result", "claim_fields": []}]}
    if kind is Kind.STRICTNESS:
        content = {"rows": [{"handoff_type": "*"}]}
    trial = dry_runs.start(tenant=tenant, kind=kind, content=content, base_version=0, actor="tests")
    dry_runs.run_waiting()
    trial.refresh_from_db()
    assert (trial.total, trial.judged, trial.removed, trial.error) == (2, 2, 1, "")
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/")
    assert "Retention has removed the documents of 1 of them" in page.text
    one = as_admin.get(f"/t/acme/trials/{trial.pk}/handoffs/{gone.pk}/", follow=True)
    assert one.status_code in (200, 404)


def test_causes_and_own_events_are_worked_out_without_it(tenant: Tenant) -> None:
    for number in range(3):
        age(judged(tenant, payload(), trace_id="t", handoff_id=f"t{number}"))
    remove(tenant)
    later = judged(tenant, payload(), trace_id="t", handoff_id="t9")
    assert attribution.rebuild() >= 1
    assert later.verdict
