"""Tests of legal holds: what they cover, their limits, and the order of a removal and a hold."""

import threading
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.models import Comment, Event, Handoff, LegalHold
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import UnderLegalHold
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.support import judged, payload

ADA = Actor.key("ada")
UPPER = "D53A8F7E-049D-4F0D-910F-824BA3BF6E11"


def place(tenant: Tenant, scope: str = "tenant", key: str = "") -> LegalHold:
    return legal_holds.place(tenant=tenant, scope=scope, key=key, reason="a case", actor="ada")


@pytest.mark.django_db
def test_an_author_cannot_change_a_comment_under_a_hold(tenant: Tenant) -> None:
    one = judged(tenant, payload(), trace_id="run-42")
    about = {"tenant": tenant, "reference": str(one.pk), "actor": ADA}
    made = activity.add_comment(text="first", **about)
    hold = place(tenant, "trace", "run-42")
    for change in (
        lambda: activity.remove_comment(comment=made.pk, **about),
        lambda: activity.edit_comment(comment=made.pk, text="x", **about),
    ):
        with pytest.raises(UnderLegalHold):
            change()
    assert Comment.objects.get().text == "first"
    legal_holds.lift(tenant=tenant, hold=hold.pk, reason="over", actor="ada")
    activity.remove_comment(comment=made.pk, **about)


@pytest.mark.django_db
@pytest.mark.parametrize("key", [UPPER, UPPER.lower()])
def test_a_hold_on_a_trace_covers_old_handoffs_in_upper_case(tenant: Tenant, key: str) -> None:
    old, new = judged(tenant, payload(), trace_id=UPPER), judged(tenant, payload(), trace_id=UPPER)
    other = judged(tenant, payload(), trace_id="Run-7")
    Handoff.objects.filter(pk=old.pk).update(trace_id=UPPER)
    made = place(tenant, "trace", key)
    assert made.key == UPPER.lower()
    assert place(tenant, "trace", UPPER).pk == made.pk
    holds = legal_holds.read(tenant)
    assert list(holds.exclude(Handoff.objects.all(), "pk", "trace_id")) == [other]
    assert list(holds.exclude(Event.objects.all(), "handoff").values_list("handoff", flat=True).distinct()) == [
        other.pk
    ]
    assert holds.covers_trace(UPPER)
    assert not holds.covers_trace("run-7")
    for one in (old, new):
        one.refresh_from_db()
        assert legal_holds.of_handoff(one) == made


@pytest.mark.django_db
def test_a_hold_in_mixed_case_covers_the_handoffs_with_this_spelling_and_with_the_name(tenant: Tenant) -> None:
    mixed = UPPER.replace("D", "d")
    old, new = judged(tenant, payload(), trace_id=mixed), judged(tenant, payload(), trace_id=mixed)
    Handoff.objects.filter(pk=old.pk).update(trace_id=mixed)
    made = place(tenant, "trace", mixed)
    assert not legal_holds.read(tenant).exclude(Handoff.objects.all(), "pk", "trace_id").exists()
    for one in (old, new):
        one.refresh_from_db()
        assert legal_holds.of_handoff(one) == made


@pytest.mark.django_db
def test_a_line_break_of_a_form_counts_as_one_character(tenant: Tenant) -> None:
    # A form sends CR LF for each line break. The `maxlength` of its field counts one character.
    reason = "x\r\n" * (legal_holds.LONGEST_REASON // 2 - 1) + "xx"
    made = legal_holds.place(tenant=tenant, scope="tenant", key="", reason=reason, actor="ada")
    assert made.reason == reason.replace("\r", "")


@pytest.mark.django_db
def test_an_id_may_have_blanks_at_its_ends(tenant: Tenant) -> None:
    plain = judged(tenant, payload(), trace_id="run-7", handoff_id="h-7")
    blank = judged(tenant, payload(), trace_id=" run-7", handoff_id="h-7 ")
    assert place(tenant, "trace", " run-7").key == " run-7"
    assert place(tenant, "handoff", "h-7 ").key == str(blank.pk)
    assert not legal_holds.of_handoff(plain)
    assert place(tenant, "trace", "  run-7 ").key == "run-7"
    assert place(tenant, "handoff", f" {plain.pk} ").key == str(plain.pk)


@pytest.mark.django_db
def test_sample_data_under_a_hold_is_not_removed(tenant: Tenant, admin) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(is_sample=True)
    tenant.refresh_from_db()
    place(tenant)
    with pytest.raises(Refused, match="legal hold"):
        sample_tenants.remove_sample(tenant=tenant, person=admin)


@pytest.mark.django_db
def test_holds_are_limited_idempotent_and_in_the_audit_log(tenant: Tenant, other_tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(legal_holds, "MOST_HOLDS", 1)
    one = judged(tenant, payload())
    made = place(tenant, "handoff", one.handoff_id)
    assert place(tenant, "handoff", str(one.pk)).pk == made.pk
    with pytest.raises(Refused, match="holds already"):
        place(tenant)
    with pytest.raises(Refused, match="no handoff"):
        place(other_tenant, "handoff", str(one.pk))
    with pytest.raises(LegalHold.DoesNotExist):
        legal_holds.lift(tenant=other_tenant, hold=made.pk, reason="over", actor="eve")
    for _ in range(2):
        legal_holds.lift(tenant=tenant, hold=made.pk, reason="over", actor="ada")
    actions = AuditEntry.objects.filter(tenant=tenant, action__startswith="hold.").order_by("number")
    assert [entry.action for entry in actions] == ["hold.place", "hold.lift"]
    assert audit.verify(tenant) is None


def _share(tenant: Tenant) -> None:
    assert not legal_holds.share(tenant)


def _own_comment(tenant: Tenant) -> dict[str, Any]:
    about = {"tenant": tenant, "reference": str(judged(tenant, payload()).pk), "actor": ADA}
    return {**about, "comment": activity.add_comment(text="first", **about).pk}


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("prepare", "remove"),
    [
        (lambda tenant: {"tenant": tenant}, _share),
        (_own_comment, activity.remove_comment),
        (_own_comment, partial(activity.edit_comment, text="second")),
    ],
)
def test_a_hold_waits_for_the_removal_that_began_before_it(tenant: Tenant, prepare, remove) -> None:
    given = prepare(tenant)
    placed = threading.Event()

    def hold() -> None:
        try:
            place(tenant)
            placed.set()
        finally:
            connection.close()

    other = threading.Thread(target=hold)
    with transaction.atomic():
        remove(**given)
        other.start()
        assert not placed.wait(0.3)
    other.join(60)
    assert placed.is_set()
    with transaction.atomic():
        assert legal_holds.share(tenant).is_everything
