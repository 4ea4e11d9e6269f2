"""Tests of the removal of whole weeks: their partitions are dropped if nobody needs a handoff of the week."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import attribution, removal, retention_run
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.diagnostics.removal import is_dense
from handoffaudit.diagnostics.retention_targets import Terms, _old_handoffs, remove_next_handoffs
from handoffaudit.handoffs import legal_holds, partitions, queries, recount
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, ModelCheck, State, Verdict
from handoffaudit.handoffs.partitions import WEEK, week_of
from handoffaudit.policy.retention import Data, Retention
from tests.diagnostics.retention.support import age, days_ago, keep, old_id, rows_of, run_all
from tests.handoffs.support import circular, held, judged, payload
from tests.trust.support import seal_all, verify

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no partitions"),
]
# The youngest week that is older than 30 days on each day of the week.
OLD = 38
# The oldest handoff of these tests needs no more, and each partition takes time in each test.
WEEKS = 8


@pytest.fixture
def weeks() -> None:
    """Give the last weeks partitions, as they have after two months."""
    for table in partitions.TABLES:
        assert partitions.detach(partitions.list_partitions(table), lambda: True)
        partitions.drop_detached(table)
        begin = week_of(timezone.now() - WEEKS * WEEK)
        assert all(partitions.make_week(table, begin + number * WEEK) for number in range(WEEKS + 2))
        partitions.make_ahead()


@pytest.fixture
def deleted() -> Callable[[], list[str]]:
    """Return a function that lists the tables from which rows of documents were deleted one after another."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE noted (name text)")
        cursor.execute(
            """CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN INSERT INTO noted VALUES (TG_TABLE_NAME); RETURN NULL; END $$"""
        )
        for table in partitions.TABLES:
            cursor.execute(f"CREATE TRIGGER noted AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION note()")

    def read() -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM noted")
            return [name for (name,) in cursor.fetchall()]

    return read


def names() -> set[str]:
    return {one.name for table in partitions.TABLES for one in partitions.list_partitions(table)}


def name_of(handoff: Handoff, table: str = "handoffs_handoffbody") -> str:
    (name,) = [one.name for one in partitions.find(handoff.pk) if one.table == table]
    return name


def age_verdict(handoff: Handoff, days: float) -> Handoff:
    """Return the handoff as if its verdict had been made that many days ago."""
    new = old_id(days)
    Verdict.objects.filter(pk=handoff.verdict).update(id=new)
    Handoff.objects.filter(pk=handoff.pk).update(verdict=new)
    return Handoff.objects.get(pk=handoff.pk)


def verdicts_of_week(handoff: Handoff) -> str:
    (one,) = [one for one in partitions.list_partitions(partitions.VERDICTS) if one.low <= handoff.verdict < one.high]
    return one.name


def test_a_week_that_is_due_in_all_tenants_is_dropped(tenant, other_tenant, weeks, deleted) -> None:
    gone = [age(judged(tenant, payload()), OLD), age(judged(other_tenant, payload(tenant_id="globex")), OLD)]
    stays = judged(tenant, payload())
    name = name_of(gone[0])
    recount.recount()
    keep(tenant, handoffs=30)
    keep(other_tenant, handoffs=20)
    run_all()
    assert list(Handoff.objects.values_list("pk", flat=True)) == [stays.pk]
    assert list(HandoffBody.objects.values_list("pk", flat=True)) == [stays.pk]
    assert name not in names()
    assert name not in deleted()
    assert recount.recount(repair=False).wrong == 0
    runs = RetentionRun.objects.filter(kind=Data.HANDOFFS.value).exclude(finished_at=None)
    assert list(runs.values_list("number", flat=True)) == [1, 1]


def test_a_week_that_another_tenant_keeps_is_deleted_row_by_row(tenant, other_tenant, weeks, deleted) -> None:
    gone, stays = age(judged(tenant, payload()), OLD), age(judged(other_tenant, payload(tenant_id="globex")), OLD)
    keep(tenant, handoffs=30)
    run_all()
    assert list(HandoffBody.objects.values_list("pk", flat=True)) == [stays.pk]
    assert name_of(gone) in names()
    assert name_of(gone) in deleted()


@pytest.fixture
def dropped(tenant, other_tenant, weeks, monkeypatch) -> list[Handoff]:
    """Return old handoffs of two tenants, in turn, whose documents and verdicts left with their week."""
    made = [(tenant, circular()), (other_tenant, circular(tenant_id="globex"))] * 2
    found = [age_verdict(age(judged(*one), OLD), OLD) for one in made]
    attribution.run()
    keep(tenant, handoffs=30)
    keep(other_tenant, handoffs=30)
    retention_run._drop(partitions.find(found[0].pk))
    assert not HandoffBody.objects.exists()
    return found


def remove_next(tenant: Tenant) -> int:
    terms = Terms(Retention(Data.HANDOFFS, 30), timezone.now(), legal_holds.read(tenant))
    done = remove_next_handoffs(tenant, terms, uuid.UUID(int=0), uuid.UUID(int=2**128 - 1))
    return done[1] if done else 0


def test_handoffs_of_a_dropped_week_leave_by_range(tenant, dropped) -> None:
    theirs = [rows_of(one) for one in dropped[1::2]]
    assert {"Finding", "Event", "Attribution", "TracedHandoff", "GroupedHandoff", "Handoff"} <= set(theirs[0])
    assert remove_next(tenant) == 2
    assert [rows_of(one) for one in dropped[::2]] == [{}, {}]
    assert [rows_of(one) for one in dropped[1::2]] == theirs
    run_all()
    assert not Handoff.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize("reason", ["held", "document", "sparse"])
def test_a_range_with_a_reason_against_it_stays_whole(tenant, dropped, monkeypatch, reason: str) -> None:
    if reason == "held":
        Handoff.objects.filter(pk=dropped[0].pk).update(state=State.HELD)
    if reason == "document":
        HandoffBody.objects.create(handoff=dropped[1], original=b"{}")
    if reason == "sparse":
        monkeypatch.setattr(removal, "is_dense", partial(is_dense, most=len(dropped) - 1))
    before = [rows_of(one) for one in dropped]
    assert remove_next(tenant) == 0
    assert [rows_of(one) for one in dropped] == before


def test_a_handoff_that_changes_meanwhile_keeps_its_range(tenant, dropped) -> None:
    before = [rows_of(one) for one in dropped]
    pks, due = sorted(one.pk for one in dropped[::2]), Handoff.objects.filter(tenant=tenant).exclude(pk=dropped[0].pk)
    with transaction.atomic():
        assert removal.remove_range(due, tenant, pks[0], pks[-1], timezone.now()) == 0
    assert [rows_of(one) for one in dropped] == before


def test_a_handoff_that_arrives_meanwhile_keeps_its_range(tenant, dropped, monkeypatch) -> None:
    before = [rows_of(one) for one in dropped]
    pks, delete = sorted(one.pk for one in dropped[::2]), removal._delete

    def delete_late(*given: Any) -> None:
        # A sender that sends late submits a handoff of the time of the range.
        between = uuid.UUID(int=(pks[0].int + pks[-1].int) // 2)
        if not Handoff.objects.filter(pk=between).exists():
            Handoff.objects.filter(pk=judged(tenant, payload()).pk).update(id=between)
        delete(*given)

    monkeypatch.setattr(removal, "_delete", delete_late)
    with transaction.atomic():
        due = Handoff.objects.filter(tenant=tenant)
        assert removal.remove_range(due, tenant, pks[0], pks[-1], timezone.now()) == 0
    assert [rows_of(one) for one in dropped] == before


def test_verdicts_leave_with_their_week(tenant, weeks, deleted) -> None:
    gone = age_verdict(age(judged(tenant, payload()), OLD), OLD)
    name = verdicts_of_week(gone)
    keep(tenant, handoffs=30)
    run_all()
    assert Verdict.objects.count() == 0
    assert name not in names()
    assert name not in deleted()


def test_seals_stay_intact_between_the_drop_of_a_week_and_the_removal_of_its_handoffs(tenant, weeks) -> None:
    gone = age_verdict(age(judged(tenant, payload()), OLD), OLD)
    seal_all()
    keep(tenant, handoffs=30)
    retention_run._drop(partitions.find(gone.pk))
    assert Verdict.objects.count() == 0
    assert verify(tenant).is_intact
    run_all()
    assert not Handoff.objects.exists()
    assert verify(tenant).is_intact
    assert AuditEntry.objects.filter(action=retention_run.BEGUN).count() == 1


def test_verdicts_of_a_dropped_week_on_handoffs_of_another_week_stay(tenant, weeks, deleted) -> None:
    gone = age_verdict(age(judged(tenant, payload()), OLD), OLD)
    kept = age_verdict(age(judged(tenant, payload()), OLD + 7), OLD)
    legal_holds.place(tenant=tenant, scope="handoff", key=str(kept.pk), reason="case 7", actor="ada")
    name = verdicts_of_week(gone)
    keep(tenant, handoffs=30)
    run_all()
    assert name not in names()
    assert name not in deleted()
    assert list(Verdict.objects.values_list("pk", flat=True)) == [kept.verdict]
    assert [one.pk for one in queries.verdicts(kept)] == [kept.verdict]
    assert queries.current_verdict(kept) is not None


def test_verdicts_on_too_many_handoffs_of_other_weeks_keep_their_partition(tenant, weeks, deleted, monkeypatch) -> None:
    monkeypatch.setattr(partitions, "MOST_STRAYS", 0)
    gone = age_verdict(age(judged(tenant, payload()), OLD), OLD)
    kept = age_verdict(age(judged(tenant, payload()), OLD + 7), OLD)
    hold = legal_holds.place(tenant=tenant, scope="handoff", key=str(kept.pk), reason="case 7", actor="ada")
    name = verdicts_of_week(gone)
    keep(tenant, handoffs=30)
    run_all()
    assert name in names()
    assert name in deleted()
    assert list(Verdict.objects.values_list("pk", flat=True)) == [kept.verdict]
    legal_holds.lift(tenant=tenant, hold=hold.pk, reason="over", actor="ada")
    RetentionRun.objects.update(started_at=timezone.now() - timedelta(days=2))
    run_all()
    assert Verdict.objects.count() == 0
    assert name not in names()


def test_a_held_week_stays_and_leaves_after_the_hold(tenant, weeks) -> None:
    gone, kept = age(judged(tenant, payload()), OLD), age(judged(tenant, payload()), OLD)
    hold = legal_holds.place(tenant=tenant, scope="handoff", key=str(kept.pk), reason="case 7", actor="ada")
    keep(tenant, handoffs=30)
    run_all()
    assert list(HandoffBody.objects.values_list("pk", flat=True)) == [kept.pk]
    name = name_of(gone)
    assert name in names()
    legal_holds.lift(tenant=tenant, hold=hold.pk, reason="over", actor="ada")
    RetentionRun.objects.update(started_at=timezone.now() - timedelta(days=2))
    run_all()
    assert HandoffBody.objects.count() == 0
    assert name not in names()


def test_a_run_goes_on_after_a_week_of_which_something_stays(tenant, weeks, deleted) -> None:
    early, kept = age(judged(tenant, payload()), OLD + 7), age(judged(tenant, held()), OLD + 6.999999)
    late = age(judged(tenant, payload()), OLD)
    name = name_of(late)
    keep(tenant, handoffs=30)
    run_all()
    assert list(Handoff.objects.values_list("pk", flat=True)) == [kept.pk]
    assert name_of(early) in deleted()
    assert name not in names()
    assert name not in deleted()


def test_a_week_leaves_when_all_of_it_is_older_than_the_term(tenant, weeks) -> None:
    """A handoff stays until its whole week is older than the term, so at most seven days longer."""
    sent = age(judged(tenant, payload()), OLD)
    end = week_of(days_ago(OLD)) + WEEK
    days = (timezone.now() - end).days
    keep(tenant, handoffs=days + 1)
    run_all()
    assert Handoff.objects.filter(pk=sent.pk).exists()
    keep(tenant, handoffs=days)
    run_all()
    assert not Handoff.objects.filter(pk=sent.pk).exists()


def test_an_empty_week_is_dropped_and_coming_weeks_are_not(tenant, weeks) -> None:
    before = names()
    run_all()
    now = first_id_at(timezone.now())
    coming = {one.name for table in partitions.TABLES for one in partitions.list_partitions(table) if one.high > now}
    assert names() == coming < before


REASONS = {
    "settled": {},
    "received": {"state": State.RECEIVED},
    "held": {"state": State.HELD},
    "rejected": {"state": State.REJECTED},
    "approved": {"state": State.APPROVED},
    "open": {"open": True},
    "unverified long ago": {"unverified": True},
    "type with a longer term": {"handoff_type": "kept_longer"},
    "type that is kept forever": {"handoff_type": "kept_forever"},
}


@pytest.mark.parametrize("reason", [*REASONS, "check", "decided lately", "held by a case", "held by a trace"])
def test_a_week_stays_for_the_reasons_for_which_a_handoff_stays(tenant: Tenant, reason: str) -> None:
    handoff = age(judged(tenant, payload()), OLD)
    Handoff.objects.filter(pk=handoff.pk).update(trace_id="t-1", **REASONS.get(reason, {}))
    if reason == "check":
        ModelCheck.objects.create(handoff=handoff, tenant=tenant, kind="first", since=timezone.now())
    if reason == "decided lately":
        Handoff.objects.filter(pk=handoff.pk).update(state=State.APPROVED)
        Event.objects.create(
            tenant=tenant, handoff=handoff, at=timezone.now(), actor_kind="person", actor="ada", to_state="approved"
        )
    if reason == "held by a case":
        legal_holds.place(tenant=tenant, scope="handoff", key=str(handoff.pk), reason="case 7", actor="ada")
    if reason == "held by a trace":
        legal_holds.place(tenant=tenant, scope="trace", key="t-1", reason="case 7", actor="ada")
    rule = Retention(Data.HANDOFFS, 30, {"kept_longer": 90, "kept_forever": None})
    terms = Terms(rule, timezone.now(), legal_holds.read(tenant))
    low = first_id_at(week_of(days_ago(OLD)))
    high = first_id_at(week_of(days_ago(OLD)) + WEEK)
    is_due = terms.holds.exclude(_old_handoffs(tenant, terms), "pk", "trace_id").exists()
    assert terms.keeps_some(tenant, low, high) is not is_due
    assert is_due is (reason in {"settled", "rejected", "approved", "unverified long ago"})
