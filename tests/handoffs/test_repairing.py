"""Tests of repair candidates for rejected handoffs, stored as new attempts."""

import threading
from dataclasses import replace

import orjson
import pytest
from django.db import connection, transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.api.examples import UNIVERSAL
from handoffaudit.handoffs import attempts, compare, queries, repairs
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.review import decisions, queue
from handoffaudit.policy.kinds import strictness
from tests.handoffs.support import NOT_JSON, SENDER, assert_counts_are_right, circular, judged, payload, submit

pytestmark = pytest.mark.django_db


def without_meta() -> dict[str, object]:
    handoff = {name: value for name, value in UNIVERSAL["handoff"].items() if name != "schema_type"}
    return {"handoff": handoff}


def test_a_repaired_document_is_a_new_attempt_and_the_first_is_as_it_came(tenant: Tenant) -> None:
    first = judged(tenant, without_meta(), handoff_id="h", repair=True)
    second = Handoff.objects.get(handoff_id="h~2")
    assert (first.state, second.state, second.attempt, second.repaired) == ("superseded", "accepted", 2, True)
    assert orjson.loads(bytes(HandoffBody.objects.get(pk=first.pk).original)) == without_meta()
    changed = compare.compare_attempts(second)[1].changed
    assert changed is not None
    assert [change.field_path for change in changed.changes] == ["handoff.meta.token_count", "handoff.schema_type"]
    events = [event.reason for event in queries.events(second)]
    assert events == ["repair, try 1: defaults and hints", "", ""]
    record = attempts.load_record(first)
    assert record is not None
    assert (record.state, record.resolution) == ("resolved", "passed")
    assert_counts_are_right()


def test_a_document_that_is_only_a_text_is_compared(tenant: Tenant) -> None:
    first = judged(tenant, b'"done"', handoff_id="a")
    second = judged(tenant, b'"finished"', handoff_id="b", retry_of="a")
    assert Handoff.objects.get(pk=second.pk).attempt == 2
    for told in (compare.compare_attempts(second)[1], compare.compare_pair(first, second)):
        assert told.why == ""
        assert told.changed is not None
        assert [(one.before, one.after) for one in told.changed.changes] == [("done", "finished")]


def test_attempts_that_differ_only_in_a_digit_of_a_long_integer_are_compared(tenant: Tenant) -> None:
    first, second = b'{"invoice": 100000000000000000001}', b'{"invoice": 100000000000000000002}'
    judged(tenant, first, handoff_id="a")
    told = compare.compare_attempts(judged(tenant, second, handoff_id="b", retry_of="a"))[1].changed
    assert told is not None
    assert [(one.field_path, one.before, one.after) for one in told.changes] == [
        ("invoice", "100000000000000000001", "100000000000000000002")
    ]


def test_without_being_asked_nothing_is_repaired(tenant: Tenant) -> None:
    first = judged(tenant, without_meta(), handoff_id="h")
    assert (first.state, Handoff.objects.count()) == (State.REJECTED, 1)


def test_a_type_can_have_what_is_rejected_repaired(tenant: Tenant) -> None:
    rows = [replace(row, repair=True) if row.handoff_type == "*" else row for row in strictness.as_shipped.rows]
    strictness.save(tenant=tenant, base_version=0, rows=rows, actor="ada")
    first = judged(tenant, without_meta(), handoff_id="h")
    assert (first.state, Handoff.objects.get(repaired=True).state) == (State.SUPERSEDED, State.ACCEPTED)


def test_three_tries_that_do_not_pass_are_kept_and_a_person_is_called(tenant: Tenant) -> None:
    long = "A sentence that says very little about anything at all. " * 40
    data = {f"field_{number}": number for number in range(1200)}
    first = judged(tenant, payload(handoff_id="big", data={**data, "text": long}), repair=True)
    assert (first.state, first.escalated) == (State.REJECTED, True)
    tries = Handoff.objects.filter(lineage="big").order_by("attempt")
    assert {handoff.state for handoff in tries} == {State.SUPERSEDED}
    assert [handoff.handoff_id for handoff in tries] == ["big~2"]
    reason = Event.objects.get(handoff=tries[0].pk, to_state=State.SUPERSEDED).reason
    assert reason == "try 2 of repair did not pass"
    record = attempts.load_record(first)
    assert record is not None
    assert record.actions_taken[-1]["reason"] == "repair_failed"
    told = queries.current_verdict(first)
    assert told is not None
    assert (told["recommended_action"], told["remediation"]) == ("escalate", record.to_dict())
    assert queries.verdicts(first)[0].content.count('"recommended_action":"retry"') == 1
    assert queue.list_queue(tenant, None).items[0].pk == first.pk
    assert_counts_are_right()


def test_an_integer_that_a_repair_would_round_is_left_to_the_sender(tenant: Tenant) -> None:
    faulty = payload(confidence=1.5, data={"wei": 0, "gas": "1" * 30, "moles": 6.02214076e23})
    document = orjson.dumps(faulty).replace(b'"wei":0', b'"wei":100000000000000000001')
    first = judged(tenant, document, repair=True)
    assert (first.state, Handoff.objects.filter(repaired=True).count()) == (State.REJECTED, 0)
    found = repairs.repair_stored(handoff=first, actor=SENDER)
    assert (found.status, found.attempts) == ("not_possible", ())
    assert "an integer beyond 64 bits" in found.why
    # Long numbers of other kinds lose nothing.
    assert judged(tenant, faulty, repair=True).state == State.SUPERSEDED
    assert Handoff.objects.get(repaired=True).state == State.ACCEPTED


def test_a_retry_that_a_person_has_approved_already_is_not_repaired(tenant: Tenant) -> None:
    first = judged(tenant, payload(handoff_id="first", confidence=1.5))
    seen = {"note": "fine", "actor": SENDER, "seen_version": None}
    decisions.decide_handoff(tenant=tenant, reference="first", decision=decisions.Decision.APPROVE, **seen)
    again = judged(tenant, payload(handoff_id="second", confidence=1.5), retry_of="first", repair=True)
    assert (again.state, again.escalated) == (State.APPROVED, False)
    assert set(Handoff.objects.values_list("pk", flat=True)) == {first.pk, again.pk}
    assert_counts_are_right()


def test_what_no_rule_can_mend_has_no_candidates(tenant: Tenant) -> None:
    first = judged(tenant, circular(handoff_id="loop"), repair=True)
    assert Handoff.objects.count() == 1
    assert first.escalated
    judged(tenant, NOT_JSON)
    assert Handoff.objects.filter(repaired=True).count() == 0


def test_a_repair_that_a_sender_named_already_gets_another_name(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="h~2"))
    judged(tenant, without_meta(), handoff_id="h", repair=True)
    repaired = Handoff.objects.get(repaired=True)
    assert repaired.handoff_id == str(repaired.pk)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_a_repair_that_a_sender_names_meanwhile_gets_another_name(tenant: Tenant) -> None:
    def repair() -> None:
        try:
            judged(tenant, without_meta(), handoff_id="h", repair=True)
        finally:
            connection.close()

    worker = threading.Thread(target=repair)
    with transaction.atomic():
        submit(tenant, payload(handoff_id="h~2"))
        worker.start()
        worker.join(0.3)
    worker.join(60)
    repaired = Handoff.objects.get(repaired=True)
    assert (repaired.handoff_id, repaired.state) == (str(repaired.pk), State.ACCEPTED)
    assert Handoff.objects.get(handoff_id="h").state == State.SUPERSEDED


def test_of_two_who_repair_at_once_the_second_is_told(tenant: Tenant) -> None:
    first = judged(tenant, circular())
    repairs.repair_stored(handoff=first, actor=SENDER)
    number = Handoff.objects.count()
    with pytest.raises(repairs.NotRepairable, match="changed"):
        repairs.repair_stored(handoff=first, actor=SENDER)
    assert Handoff.objects.count() == number
