"""Tests that decisions, verdicts and policies are sealed, and that each change behind the product's back is found."""

import errno
import hashlib
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.cli import trust as cli_trust
from handoffaudit.diagnostics import erasure, removal
from handoffaudit.handoffs import db, judge_leases, leases
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, Verdict, new_id
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.trust import bundle, chain, seals, signatures
from handoffaudit.trust.bundle_check import check
from handoffaudit.trust.models import Seal, SealProgress, TrustLease
from handoffaudit.trust.signatures import EVENT, POLICY, VERDICT, Sealed, SealKey, make_key, unpack
from tests.diagnostics.retention.support import age, keep, run_all
from tests.handoffs.support import circular, judged, payload, submit
from tests.trust.support import decide, own_key, run_sql, seal_all, sealed_history, undone, verify

pytestmark = pytest.mark.django_db


MODELS = {model.__name__: model for model in (Event, Verdict, PolicyVersion, Seal)}


def changed(value: object, kind: str) -> object:
    """Return another value of the same type; `kind` is Django's name of the type of the column."""
    if kind in ("UUIDField", "ForeignKey") and not isinstance(value, int):
        return uuid.uuid4() if connection.vendor == "postgresql" else uuid.uuid4().hex
    if kind == "DateTimeField":
        return timezone.now() - timedelta(days=400)
    if kind == "BinaryField":
        return bytes(value)[:-1] + bytes([bytes(value)[-1] ^ 1])
    return value + 1000 if isinstance(value, int) else f"{str(value)[:-1]}{'x' if str(value)[-1:] != 'x' else 'y'}"


def test_verdicts_decisions_policies_and_the_audit_log_are_sealed(tenant: Tenant) -> None:
    handoffs = sealed_history(tenant)
    report = verify(tenant)
    assert (report.problems, report.notes, report.waiting) == ([], [], 0)
    listed = [one for seal in Seal.objects.order_by("number") for one in unpack(bytes(seal.rows))]
    events = Event.objects.filter(pk__in=[one.number for one in listed if one.kind == EVENT])
    assert set(events.values_list("handoff", flat=True)) == {one.pk for one in handoffs}
    assert {one.actor for one in events} == {"handoffaudit", "ada"}
    assert {one.number for one in listed if one.kind == VERDICT} == {one.int for one in verdict_ids()}
    assert len([one for one in listed if one.kind == POLICY]) == 1
    newest = Seal.objects.latest("number")
    assert newest.audit_number == Tenant.objects.get(pk=tenant.pk).audit_number > 0
    assert report.rows == len(listed) == 3 + 3 + 2 + 1 + 1


def verdict_ids() -> list[uuid.UUID]:
    return list(Verdict.objects.values_list("pk", flat=True))


def test_sealing_again_adds_no_seal(tenant: Tenant) -> None:
    sealed_history(tenant)
    number = Seal.objects.count()
    seal_all()
    assert Seal.objects.count() == number


@pytest.mark.parametrize("model", MODELS)
def test_a_change_of_any_column_is_found_and_the_row_is_named(tenant: Tenant, model: str) -> None:
    sealed_history(tenant)
    table = MODELS[model]
    row = table.objects.get(number=2) if model == "Seal" else rows_sealed_first(table)
    pk = row.pk if connection.vendor == "postgresql" or not isinstance(row.pk, uuid.UUID) else row.pk.hex
    name = {"Event": f"event {row.pk}", "Verdict": f"verdict {row.pk}", "Seal": "seal "}
    for field in table._meta.concrete_fields:
        # The number of the row of a seal is not part of the chain: seals are read by tenant and number.
        if (model, field.column) == ("Seal", "id"):
            continue
        value = getattr(row, field.attname)
        statement = f'UPDATE "{table._meta.db_table}" SET "{field.column}" = %s WHERE id = %s'  # noqa: S608
        with undone():
            if field.column == "tenant_id":
                Tenant.objects.create(pk=value + 1000, slug="other", name="Other")
            assert run_sql(statement, changed(value, field.get_internal_type()), pk) == 1
            problems = verify(tenant).problems
        assert any(one.startswith(name.get(model, f"policy version {row.pk}")) for one in problems), (field, problems)


@pytest.mark.parametrize("model", [*MODELS, "AuditEntry"])
def test_a_value_that_cannot_be_read_is_found_and_the_row_is_named(tenant: Tenant, model: str) -> None:
    """SQLite stores any bytes in any column. PostgreSQL refuses them, but it has times that Python does not have."""
    sealed_history(tenant)
    table: type[Model] = MODELS.get(model, AuditEntry)
    row = rows_sealed_first(table) if model in ("Event", "Verdict", "PolicyVersion") else table.objects.get(number=1)
    pk = row.pk.hex if isinstance(row.pk, uuid.UUID) else row.pk
    name = {"Event": f"event {row.pk}", "Verdict": f"verdict {row.pk}", "PolicyVersion": f"policy version {row.pk}"}
    column = {"Verdict": "validated_at", "PolicyVersion": "changed_at"}.get(model, "at")
    times = ("'infinity'", "'-infinity'", "'20000-01-01 00:00:00+00'", "'0044-03-15 00:00:00+00 BC'")
    for value in ("'no time'", "x'ff'", "CAST(x'ff' AS TEXT)", "'9999-99-99 00:00:00'", *times):
        statement = f'UPDATE "{table._meta.db_table}" SET "{column}" = {value} WHERE id = %s'  # noqa: S608
        if connection.vendor == "postgresql" and value not in times:
            with pytest.raises(DatabaseError), transaction.atomic():
                run_sql(statement, pk)
            continue
        with undone():
            assert run_sql(statement, pk) == 1
            problems = verify(tenant).problems
        assert any(one.startswith(name.get(model, ("seal 1", "audit entry 1"))) for one in problems), (value, problems)


def rows_sealed_first(table: type[Model]) -> Model:
    return (seals.sealed_events() if table is Event else table.objects).order_by("pk")[0]


def test_a_state_that_no_event_gave_is_found_and_the_handoff_is_named(tenant: Tenant) -> None:
    """Agents and lists read the state of the handoff, which no seal covers."""
    declined, waits = str(sealed_history(tenant)[2].pk), str(submit(tenant, payload()).id)
    # A worker that judges a new handoff stores no event before the verdict.
    Handoff.objects.filter(pk=waits).update(state="validating")
    assert verify(tenant).problems == []
    Handoff.objects.filter(pk=declined).update(state="approved")
    Handoff.objects.filter(pk=waits).update(state="accepted")
    assert verify(tenant).problems == [
        f"handoff {declined}: its state is approved, and its newest event says declined",
        f"handoff {waits}: its state is accepted, and its newest event says received",
    ]


@pytest.mark.parametrize("model", ["Event", "Verdict", "PolicyVersion"])
def test_a_removed_row_is_found_and_named(tenant: Tenant, model: str) -> None:
    sealed_history(tenant)
    row = rows_sealed_first(MODELS[model])
    MODELS[model].objects.filter(pk=row.pk).delete()
    assert any(f"{row.pk}" in one and "it is missing" in one for one in verify(tenant).problems)


def test_an_added_decision_is_found(tenant: Tenant) -> None:
    handoff = sealed_history(tenant)[0]
    newest = Event.objects.latest("id")
    # A gap in the ids lets an attacker add a row below the sealed rows.
    Event.objects.filter(pk=newest.pk).update(id=newest.pk + 10)
    run_sql("UPDATE trust_sealprogress SET reached = %s", newest.pk + 10)
    at = timezone.now() - timedelta(days=1)
    made = Event.objects.create(
        pk=newest.pk + 5, tenant=tenant, handoff=handoff, at=at, actor_kind="person", actor="eve", to_state="approved"
    )
    assert f"event {made.pk}: it is in no seal, although later events are" in verify(tenant).problems


def test_an_added_verdict_is_found(tenant: Tenant) -> None:
    handoff = sealed_history(tenant)[0]
    made = Verdict.objects.create(
        pk=new_id(),
        tenant=tenant,
        handoff=handoff,
        outcome="accepted",
        policy_version=0,
        validated_at=timezone.now() - timedelta(days=1),
        content="{}",
    )
    [problem] = verify(tenant).problems
    assert problem.startswith(f"verdict {made.pk} of handoff {handoff.pk}: it is in no seal")


def test_an_added_policy_version_is_found(tenant: Tenant) -> None:
    sealed_history(tenant)
    version = PolicyVersion.objects.get(tenant=tenant)
    forged = PolicyVersion.objects.create(tenant=tenant, kind="rules", number=1, content="{}", changed_by="eve")
    # The attacker uses an id below the sealed one.
    PolicyVersion.objects.filter(pk=forged.pk).update(id=version.pk - 1)
    assert f"policy version {version.pk - 1}: it is in no seal, although later versions are" in verify(tenant).problems


def test_swapped_rows_are_found(tenant: Tenant) -> None:
    sealed_history(tenant)
    one, other = Event.objects.filter(actor="ada").order_by("id")[:2]
    for pk, source in ((one.pk, other), (other.pk, one)):
        Event.objects.filter(pk=pk).update(reason=source.reason, to_state=source.to_state, handoff=source.handoff_id)
    problems = verify(tenant).problems
    assert {problem.partition(" of")[0] for problem in problems} == {f"event {one.pk}", f"event {other.pk}"}


def test_swapped_and_removed_seals_are_found(tenant: Tenant) -> None:
    sealed_history(tenant)
    for before, after in ((1, 99), (2, 1), (99, 2)):
        run_sql("UPDATE trust_seal SET number = %s WHERE number = %s", after, before)
    assert any(one.startswith("seal 1: ") for one in verify(tenant).problems)
    Seal.objects.filter(number=2).delete()
    assert any("the seal before it is missing" in one for one in verify(tenant).problems)


def test_seals_without_their_tail_leave_decisions_in_no_seal(tenant: Tenant) -> None:
    sealed_history(tenant)
    Seal.objects.filter(number=Seal.objects.latest("number").number).delete()
    Event.objects.update(at=timezone.now() - timedelta(days=1))
    assert any("it is in no seal" in one for one in verify(tenant).problems)


def test_a_consistent_chain_of_another_key_is_found(tenant: Tenant) -> None:
    sealed_history(tenant)
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    while seals.seal_batch(make_key()):
        pass
    [problem] = verify(tenant).problems
    assert problem.startswith("the last seal is signed with the key ")
    assert "which was compared with nothing" in chain.verify(tenant, None).notes[0]


def test_a_changed_document_hash_is_found(tenant: Tenant) -> None:
    handoff = sealed_history(tenant)[0]
    Handoff.objects.filter(pk=handoff.pk).update(content_hash="0" * 64)
    [problem] = verify(tenant).problems
    assert "the hash of the judged document" in problem


def test_a_row_that_retention_removed_is_no_problem_and_any_other_is(tenant: Tenant) -> None:
    handoffs = sealed_history(tenant)
    before = timezone.now() + timedelta(minutes=1)
    detail = {"removed": 3, "kept_days": 365, "before": before.isoformat(timespec="seconds")}
    audit.record(tenant=tenant, actor="handoffaudit", action="retention.remove", target="handoffs", detail=detail)
    # The decision of a handoff that is still stored was removed by somebody else.
    event, verdict = Event.objects.filter(handoff=handoffs[1].pk, actor="ada").first(), Verdict.objects.first()
    assert event
    assert verdict
    Event.objects.filter(pk=event.pk).delete()
    Verdict.objects.filter(pk=verdict.pk).delete()
    assert len(verify(tenant).problems) == 2
    with transaction.atomic():
        removal.remove_handoffs(tenant, [one.pk for one in handoffs], before)
    report = verify(tenant)
    assert report.problems == []
    listed = [one for seal in Seal.objects.all() for one in unpack(bytes(seal.rows))]
    assert report.removed == len([one for one in listed if one.kind != POLICY])
    PolicyVersion.objects.all().delete()
    assert len(verify(tenant).problems) == 1


def test_verdicts_may_be_missing_together_with_the_documents_of_their_handoffs(tenant: Tenant) -> None:
    """A run drops partitions of verdicts and documents at once, also those of handoffs that a new hold keeps."""
    sealed_history(tenant)
    detail = {"kept_days": 365, "before": (timezone.now() + timedelta(minutes=1)).isoformat()}
    audit.record(tenant=tenant, actor="handoffaudit", action="retention.begin", target="handoffs", detail=detail)
    Verdict.objects.all().delete()
    assert len(verify(tenant).problems) == 3
    HandoffBody.objects.all().delete()
    assert (verify(tenant).problems, verify(tenant).removed) == ([], 3)
    Event.objects.filter(actor="ada").first().delete()
    assert len(verify(tenant).problems) == 1
    audit.record(tenant=tenant, actor="handoffaudit", action="retention.remove", target="handoffs", detail=detail)
    assert len(verify(tenant).problems) == 1


def test_handoffs_that_a_retention_run_removes_are_no_problem_from_its_first_batch_on(tenant: Tenant) -> None:
    for one in sealed_history(tenant):
        age(one)
    # The seals of this test know the handoffs as they are now.
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    seal_all()
    keep(tenant, handoffs=30)
    run_all()
    AuditEntry.objects.filter(action="retention.remove").delete()
    report = verify(tenant)
    assert report.removed > 0
    assert all(problem.startswith("audit entry") for problem in report.problems)
    assert AuditEntry.objects.filter(action="retention.begin").count() == 1


def _confirm_erasure_of_a_sealed_note(tenant: Tenant) -> Handoff:
    handoff = judged(tenant, circular())
    decide(tenant, handoff, note="Ada Lovelace asked for it.")
    seal_all()
    made = erasure.request(tenant=tenant, value="Ada Lovelace", reason="She asked.", actor="ada")
    erasure.run(60.0)
    erasure.confirm(tenant=tenant, erasure=made.pk, actor="ada")
    return handoff


def test_what_retention_and_erasures_change_during_the_check_is_no_problem(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = _confirm_erasure_of_a_sealed_note(tenant)
    read_rows, before = seals.read_rows, timezone.now() + timedelta(minutes=1)

    def remove() -> None:
        detail = {"kept_days": 365, "before": before.isoformat()}
        audit.record(tenant=tenant, actor="handoffaudit", action="retention.begin", target="handoffs", detail=detail)
        removal.remove_handoffs(tenant, [handoff.pk], before)

    for change in (lambda: erasure.run(60.0), remove):
        due = [change]

        def read_late(listed: list[Sealed], due: list[Callable[[], None]] = due) -> Any:
            if due:
                with transaction.atomic():
                    due.pop()()
            return read_rows(listed)

        monkeypatch.setattr(seals, "read_rows", read_late)
        assert (verify(tenant).problems, due) == ([], [])
    assert not Event.objects.exists()


def test_a_count_of_removed_handoffs_excuses_no_missing_row(tenant: Tenant) -> None:
    """It is not in the audit log, so anybody who can write to the database can make one."""
    handoffs = sealed_history(tenant)
    before = timezone.now() + timedelta(minutes=1)
    with transaction.atomic():
        removal.remove_handoffs(tenant, [one.pk for one in handoffs[:1]], before)
    report = verify(tenant)
    assert (len(report.problems), report.removed) == (2, 0)


def test_rows_in_which_an_erasure_replaced_a_value_are_sealed_again(tenant: Tenant, tmp_path: Path) -> None:
    handoff = _confirm_erasure_of_a_sealed_note(tenant)
    erasure.run(60.0)
    seal_all()
    report = verify(tenant)
    assert (report.problems, report.erased) == ([], 1)
    with (tmp_path / "x.zip").open("wb") as file:
        subject = bundle.about_handoff(tenant, str(handoff.pk))
        file.writelines(bundle.build(subject, own_key(), by="ada", with_audit=False))
    assert check(tmp_path / "x.zip", own_key().public).problems == []
    decided = Event.objects.get(reason="[erased] asked for it.")
    Event.objects.filter(pk=decided.pk).update(reason="Eve asked for it.")
    assert all(one.startswith(f"event {decided.pk} ") for one in verify(tenant).problems)
    assert len(verify(tenant).problems) == 2


def test_an_erasure_without_the_right_key_is_not_held_up(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    handoff = judged(tenant, circular())
    decide(tenant, handoff, note="Ada Lovelace asked for it.")
    seal_all()
    monkeypatch.setenv(signatures.VARIABLE, "no key")
    made = erasure.request(tenant=tenant, value="Ada Lovelace", reason="She asked.", actor="ada")
    erasure.run(60.0)
    erasure.confirm(tenant=tenant, erasure=made.pk, actor="ada")
    erasure.run(60.0)
    assert Event.objects.filter(reason="[erased] asked for it.").exists()
    monkeypatch.delenv(signatures.VARIABLE)
    assert len(verify(tenant).problems) == 1


def test_a_decision_waits_for_its_seal_and_is_no_problem(tenant: Tenant) -> None:
    handoffs = sealed_history(tenant)
    decide(tenant, handoffs[1])
    report = verify(tenant)
    assert (report.problems, report.waiting) == ([], 1)
    assert report.waiting_since is not None
    assert "1 events wait for a seal, since" in cli_trust._lines("acme", report)[-1]


def test_an_event_that_commits_late_is_sealed(tenant: Tenant) -> None:
    handoff = judged(tenant, circular())
    event = seals.sealed_events().order_by("-id")[0]
    late = event.pk
    Event.objects.filter(pk=late).update(id=late + 100)
    seal_all()
    Event.objects.filter(pk=late + 100).update(id=late + 100)
    decided = Event.objects.create(
        pk=late + 50,
        tenant=tenant,
        handoff=handoff,
        at=timezone.now(),
        actor_kind="person",
        actor="ada",
        to_state="held",
    )
    seal_all()
    listed = [one.number for seal in Seal.objects.all() for one in unpack(bytes(seal.rows)) if one.kind == EVENT]
    assert sorted(listed) == [decided.pk, late + 100]


def test_all_events_of_two_large_transactions_at_once_are_sealed(tenant: Tenant) -> None:
    judged(tenant, circular())
    seal_all()
    last = Event.objects.latest("id")
    same = {name: getattr(last, name) for name in ("tenant_id", "handoff_id", "at", "actor_kind", "actor", "to_state")}
    for first in (2, 1):
        ids = range(last.pk + first, last.pk + 601, 2)
        Event.objects.bulk_create([Event(id=pk, **same) for pk in ids])
        seal_all()
    listed = [one.number for seal in Seal.objects.all() for one in unpack(bytes(seal.rows)) if one.kind == EVENT]
    assert sorted(listed) == list(range(last.pk, last.pk + 601))


def test_the_digest_of_a_row_does_not_depend_on_the_database(tenant: Tenant) -> None:
    event = Event(
        pk=7,
        tenant_id=3,
        handoff_id=uuid.UUID(int=5),
        at=datetime(2026, 2, 15, 1, 30, tzinfo=timezone.get_fixed_timezone(90)),
        actor_kind="person",
        actor="ada",
        from_state="held",
        to_state="approved",
        reason="It is “right” ☃",
    )
    event.save(force_insert=True)
    [row] = seals.read_events(Event.objects.filter(pk=7))
    text = (
        '{"actor":"ada","actor_kind":"person","at":"2026-02-15T00:00:00.000000+00:00","from_state":"held",'
        '"handoff_id":"00000000-0000-0000-0000-000000000005","id":7,"reason":"It is “right” ☃","row":"event",'
        '"tenant_id":3,"to_state":"approved"}'
    )
    assert row.sealed.digest == hashlib.sha256(text.encode()).digest()


def test_the_key_changes_as_an_entry_of_the_chain(tenant: Tenant) -> None:
    sealed_history(tenant)
    old, new = own_key(), make_key()
    assert seals.change_key(old, new) == 1
    judged(tenant, payload())
    assert seals.seal_batch(new) is False
    assert chain.verify(tenant, new.public).problems == []
    assert chain.verify(tenant, new.public).keys == [old.public, new.public]
    assert len(chain.verify(tenant, old.public).problems) == 1
    with pytest.raises(signatures.WrongKey, match="not"):
        seals.change_key(make_key(), make_key())


def test_a_key_that_cannot_be_read_or_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(signatures.os, "link", refuse)
    with pytest.raises(signatures.WrongKey, match="Operation not permitted"):
        signatures.load_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / signatures.KEY_FILE).write_bytes(b"\xff" * 32)
    with pytest.raises(signatures.WrongKey, match="is not a seal key"):
        signatures.load_key(tmp_path)


def test_a_lost_key_is_replaced_with_a_note(tenant: Tenant) -> None:
    sealed_history(tenant)
    new = make_key()
    seals.change_key(None, new)
    report = chain.verify(tenant, new.public)
    assert (report.problems, len(report.notes)) == ([], 1)
    assert "replaces a lost key" in report.notes[0]


def test_nobody_can_lead_a_forged_chain_over_to_the_right_key(tenant: Tenant) -> None:
    sealed_history(tenant)
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    forger = make_key()
    seals.seal_batch(forger)
    head = Seal.head_of(tenant)
    assert head is not None
    seal = seals.make_seal(tenant, head, (), head.reached, forger)
    seal.kind, seal.new_key = "key", own_key().public
    seal.sign(forger)
    seal.new_signature = seal.signature
    seal.save(force_insert=True)
    assert "seal 2: the new key has not signed it" in verify(tenant).problems


def test_a_process_with_another_key_seals_nothing(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_history(tenant)
    judged(tenant, payload())
    number = Seal.objects.count()
    monkeypatch.setenv(signatures.VARIABLE, make_key().secret)
    seal_all()
    assert Seal.objects.count() == number
    monkeypatch.delenv(signatures.VARIABLE)
    seal_all()
    assert Seal.objects.count() == number + 1
    assert verify(tenant).problems == []


def test_while_handoffs_wait_all_processes_pause_after_a_pass(tenant: Tenant) -> None:
    judged(tenant, payload())
    submit(tenant, payload())
    assert judge_leases.is_anything_waiting()
    seal_all()
    assert TrustLease.objects.get(name="seals").at > timezone.now()
    assert Seal.objects.count() == 1


def test_a_sample_tenant_has_no_seals(tenant: Tenant) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(is_sample=True)
    sealed_history(tenant)
    assert not Seal.objects.exists()
    tenant.refresh_from_db()
    assert verify(tenant).problems == []


def test_a_tenant_with_seals_is_verified_though_it_says_that_it_is_a_sample(tenant: Tenant) -> None:
    sealed_history(tenant)
    Event.objects.filter(tenant=tenant, actor="ada").update(reason="Forged.")
    Tenant.objects.filter(pk=tenant.pk).update(is_sample=True)
    tenant.refresh_from_db()
    assert len(verify(tenant).problems) == 3


def test_verifying_names_a_bounded_number_of_problems(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    for _ in range(60):
        Event.objects.create(
            tenant=tenant, handoff=handoff, at=timezone.now(), actor_kind="person", actor="ada", to_state="held"
        )
    seal_all()
    Event.objects.update(reason="changed")
    assert len(verify(tenant).problems) == chain.MOST_PROBLEMS + 1


def test_lists_of_rows_that_cannot_be_read_are_a_problem(tenant: Tenant) -> None:
    sealed_history(tenant)
    for packed in (b"\x00", b"\x09" * 65, b"\x01" + b"\xff" * 64, b"\x02" + b"\xff" * 64, b""):
        Seal.objects.filter(number=1).update(rows=packed)
        assert any(one.startswith("seal 1: ") for one in verify(tenant).problems)


def test_on_sqlite_other_background_work_waits(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, made = seals.seal_batch, []

    def check(key: SealKey) -> bool:
        assert leases._one_part.locked() is not db.is_postgresql()
        made.append(batch(key))
        return made[-1]

    monkeypatch.setattr(seals, "seal_batch", check)
    judged(tenant, payload())
    seals.seal_due()
    assert made == [False]
