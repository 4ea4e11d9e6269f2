"""Tests of a later attempt that supersedes the attempt that it names."""

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, judge, queries
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Event, Handoff, Remediation, State
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from tests.handoffs.support import NOT_JSON, SENDER, assert_counts_are_right, circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db


def state_of(name: str) -> str:
    return Handoff.objects.get(handoff_id=name).state


@pytest.mark.parametrize("document", [payload, circular, held])
def test_a_retry_supersedes_what_was_judged(tenant: Tenant, document) -> None:
    judged(tenant, document(handoff_id="first"))
    second = judged(tenant, payload(handoff_id="second"), retry_of="first")
    assert (state_of("first"), second.state, second.attempt) == (State.SUPERSEDED, State.ACCEPTED, 2)
    event = Event.objects.filter(to_state=State.SUPERSEDED).get()
    assert (event.actor, event.reason) == ("sender", "second took its place")
    assert_counts_are_right()


def test_attempts_are_numbered_and_of_many_the_newest_are_listed(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="a"))
    judged(tenant, circular(handoff_id="b"), retry_of="a")
    third = judged(tenant, circular(handoff_id="c"), retry_of="b")
    assert third.attempt == 3
    first = Handoff.objects.get(handoff_id="a")
    for one in (first, third):
        listed = {
            limit: "".join(row.handoff_id for row in attempts.list_attempts(one, limit)) for limit in (1, 2, 3, 9)
        }
        assert listed == {1: "c", 2: "bc", 3: "abc", 9: "abc"}


def test_attempts_within_one_batch_are_numbered_too(tenant: Tenant) -> None:
    items = [payload(handoff_id="a"), *({"document": payload(handoff_id=b), "retry_of": a} for a, b in ("ab", "bc"))]
    store.accept_batch(tenant, SENDER, [orjson.dumps(item) for item in items])
    assert dict(Handoff.objects.values_list("handoff_id", "attempt")) == {"a": 1, "b": 2, "c": 3}


def test_of_several_retries_in_a_batch_the_last_is_named(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="a"))
    items = [{"document": payload(handoff_id=name), "retry_of": "a"} for name in ("z", "b")]
    store.accept_batch(tenant, SENDER, [orjson.dumps(item) for item in items])
    assert Event.objects.get(to_state=State.SUPERSEDED).reason == "b took its place"


def test_what_a_person_approved_is_not_superseded(tenant: Tenant) -> None:
    first = judged(tenant, held(handoff_id="first"))
    decisions.decide_handoff(
        tenant=tenant, reference=str(first.pk), decision=Decision.APPROVE, note="", actor=SENDER, seen_version=None
    )
    judged(tenant, payload(handoff_id="second"), retry_of="first")
    assert state_of("first") == State.APPROVED


def test_what_is_not_judged_yet_keeps_its_state(tenant: Tenant) -> None:
    submit(tenant, payload(handoff_id="first"))
    submit(tenant, payload(handoff_id="second"), retry_of="first")
    assert state_of("first") == State.RECEIVED
    judge.drain()
    assert_counts_are_right()


def test_a_retry_of_itself_supersedes_nothing(tenant: Tenant) -> None:
    receipt = submit(tenant, NOT_JSON.replace(b"{", b"["), retry_of=None)
    itself = store.accept_batch(tenant, SENDER, [b'{"document": [], "handoff_id": "x", "retry_of": "x"}'])[0]
    assert (receipt.status, itself.status) == (422, 422)
    handoff = queries.get(tenant, "x")
    assert handoff.state == State.REJECTED
    assert attempts.list_attempts(handoff, 9) == [handoff]


def test_a_retry_of_something_unknown_is_stored_as_it_is(tenant: Tenant) -> None:
    handoff = judged(tenant, payload(), retry_of="nobody")
    assert (handoff.state, handoff.retry_of, handoff.attempt) == (State.ACCEPTED, "nobody", 1)


def test_another_tenants_handoff_is_never_superseded(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(other_tenant, circular(handoff_id="first", tenant_id="globex"))
    second = judged(tenant, payload(handoff_id="second"), retry_of="first")
    assert (state_of("first"), second.attempt) == (State.REJECTED, 1)
    assert attempts.list_attempts(second, 9) == [second]


def test_counts_are_applied_once_for_all_that_a_batch_changes(tenant: Tenant, monkeypatch) -> None:
    """Each update would take locks in another order than the workers do."""
    for name in "abc":
        judged(tenant, circular(handoff_id=name))
    applied = []
    monkeypatch.setattr("handoffaudit.handoffs.counts.apply", applied.append)
    items = [NOT_JSON, *(orjson.dumps({"document": payload(), "retry_of": name}) for name in "abc")]
    store.accept_batch(tenant, SENDER, items)
    assert len(applied) == 1


def test_what_is_judged_after_its_retry_came_is_superseded_too(tenant: Tenant) -> None:
    items = [circular(handoff_id="a"), {"document": payload(handoff_id="b"), "retry_of": "a"}]
    store.accept_batch(tenant, SENDER, [orjson.dumps(item) for item in items])
    assert state_of("a") == State.RECEIVED
    judge.drain()
    assert (state_of("a"), state_of("b")) == (State.SUPERSEDED, State.ACCEPTED)
    assert attempts.later_attempt(Handoff.objects.get(handoff_id="a")) == Handoff.objects.get(handoff_id="b")
    assert_counts_are_right()


def test_retries_that_all_name_the_first_one_are_attempts_of_one_lineage(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="first"))
    judged(tenant, circular(handoff_id="second"), retry_of="first")
    third = judged(tenant, payload(handoff_id="third"), retry_of="first")
    assert (third.attempt, third.lineage) == (3, "first")
    assert [handoff.handoff_id for handoff in attempts.list_attempts(third, 9)] == ["first", "second", "third"]
    assert (state_of("first"), state_of("second"), third.state) == (State.SUPERSEDED, State.SUPERSEDED, State.ACCEPTED)
    assert Event.objects.get(to_state=State.SUPERSEDED, handoff__handoff_id="second").reason == "third took its place"
    assert_counts_are_right()


def test_an_attempt_at_what_is_not_known_here_is_the_first_one(tenant: Tenant) -> None:
    only = judged(tenant, payload(handoff_id="only"), retry_of="elsewhere")
    assert (only.attempt, only.lineage, attempts.list_attempts(only, 9)) == (1, "elsewhere", [only])


def test_a_retry_that_was_here_first_stands(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="second"), retry_of="first")
    judged(tenant, circular(handoff_id="first"))
    assert (state_of("first"), state_of("second")) == (State.SUPERSEDED, State.ACCEPTED)
    assert_counts_are_right()


@pytest.mark.parametrize("order", ["dcba", "cbad", "cadb", "bdac", "dbca"])
@pytest.mark.parametrize("together", [False, True])
def test_retries_of_retries_form_one_lineage_in_any_order(tenant: Tenant, order: str, *, together: bool) -> None:
    named = {"a": None, "b": "a", "c": "b", "d": "c"}
    items = [orjson.dumps({"document": circular(handoff_id=name), "retry_of": named[name]}) for name in order]
    for batch in [items] if together else [[item] for item in items]:
        store.accept_batch(tenant, SENDER, batch)
        judge.drain()
    stored = {name: state_of(name) for name in named}
    assert stored == dict.fromkeys("abc", State.SUPERSEDED) | {"d": State.REJECTED}
    last = Handoff.objects.get(handoff_id="d")
    assert [one.handoff_id for one in attempts.list_attempts(last, 9)] == ["a", "b", "c", "d"]
    assert list(Remediation.objects.values_list("lineage", flat=True)) == ["a"]
    assert_counts_are_right()


def test_a_retry_of_another_agent_that_was_here_first_keeps_its_lineage(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="c", source_agent_id="other", call_chain=["other"]), retry_of="b")
    judged(tenant, circular(handoff_id="a"))
    judged(tenant, payload(handoff_id="b"), retry_of="a")
    assert dict(Handoff.objects.values_list("handoff_id", "lineage")) == {"a": "", "b": "a", "c": "b"}
    assert (state_of("a"), state_of("b"), state_of("c")) == (State.SUPERSEDED, State.ACCEPTED, State.ACCEPTED)


def test_the_agents_of_a_long_lineage_are_read_once(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="a"))
    for number in range(3):
        judged(tenant, circular(handoff_id=f"b-{number}"), retry_of="a")
    judged(tenant, circular(handoff_id="c", source_agent_id="writer"), retry_of="a")
    with CaptureQueriesContext(connection) as queries:
        found = attempts.list_agents(tenant.pk, {"a", "b-1", "unknown"})
    agents = circular()["source_agent_id"], "writer"
    assert sorted(found) == sorted((name, agent) for name in ("a", "b-1") for agent in agents)
    with connection.cursor() as cursor:
        cursor.execute(queries[-1]["sql"])
        assert sorted(cursor.fetchall()) == sorted(("a", agent) for agent in agents)
