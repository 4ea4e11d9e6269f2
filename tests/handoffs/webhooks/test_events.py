"""Tests that each event becomes deliveries once, that no event is lost, and that no earlier event is sent."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Max
from django.utils import timezone
from structlog.testing import capture_logs

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import ActorKind, Alert, Delivery, Event, Gathering, Handoff, Subscriber
from handoffaudit.handoffs.review import activity, undo
from handoffaudit.handoffs.review import decisions as review_decide
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.webhooks import events, subscriptions
from handoffaudit.policy.retention import LEAST, Data
from tests.handoffs.support import at_once, circular, held, judged, payload, set_policy
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db
ADA = Actor(ActorKind.PERSON, "ada")


def abouts() -> list[str]:
    return list(Delivery.objects.order_by("id").values_list("about", flat=True))


def decide(tenant: Tenant, handoff: Handoff, decision: Decision = Decision.APPROVE) -> None:
    review_decide.decide_handoff(
        tenant=tenant, reference=str(handoff.pk), decision=decision, note="seen", actor=ADA, seen_version=None
    )


def event(handoff: Handoff, pk: int | None = None) -> Event:
    return Event.objects.create(
        pk=pk,
        tenant_id=handoff.tenant_id,
        handoff=handoff,
        at=timezone.now(),
        actor_kind=ActorKind.SYSTEM,
        actor="handoffaudit",
        from_state="validating",
        to_state="accepted",
    )


def gaps_after(last: int) -> list[tuple[int, int]]:
    """Return the gaps after the id `last`.

    A PostgreSQL sequence goes on from test to test, so ids before the first event are missing, too.
    """
    return [(first, until) for first, until, _ in Gathering.objects.get().gaps if first > last]


def test_a_verdict_is_told_once(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscribe()
    handoff = judged(tenant, circular(), trace_id="t-1")
    (delivery,) = tell()
    (told,) = receiver.told
    assert told == {
        "id": str(delivery.pk),
        "event": "verdict",
        "at": told["at"],
        "tenant": "acme",
        "handoff": {
            "id": str(handoff.pk),
            "handoff_id": handoff.handoff_id,
            "state": "rejected",
            "flagged": False,
            "handoff_type": "research_result",
            "source_agent_id": "researcher",
            "target_agent_id": "planner",
            "trace_id": "t-1",
            "quality_score": handoff.score,
            "codes": handoff.codes,
            "link": f"/t/acme/handoffs/{handoff.pk}/",
        },
    }
    assert len(tell()) == 1


def test_a_decision_is_told_with_who_and_why(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscribe(events=["decision"])
    decide(tenant, judged(tenant, held()))
    tell()
    (told,) = receiver.told
    assert (told["event"], told["handoff"]["state"]) == ("decision", "approved")
    assert (told["actor"], told["note"]) == ({"kind": "person", "name": "ada"}, "seen")


def test_a_decision_that_is_taken_back_is_told_with_who_and_why(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe(events=["decision"])
    subscribe(name="Verdicts", events=["verdict"])
    handoff = judged(tenant, held())
    decide(tenant, handoff)
    undo.reopen(tenant=tenant, reference=str(handoff.pk), note="too soon", actor=ADA, seen_version=None)
    decide(tenant, handoff, Decision.DECLINE)
    tell()
    decisions = [told for told in receiver.told if told["event"] == "decision"]
    assert [told["handoff"]["state"] for told in decisions] == ["approved", "held", "declined"]
    assert (decisions[1]["actor"]["name"], decisions[1]["note"]) == ("ada", "too soon")
    assert [told["handoff"]["state"] for told in receiver.told if told["event"] == "verdict"] == ["held"]


@pytest.mark.parametrize("document", [held, circular])
def test_what_leaves_the_state_as_it_is_is_told_to_nobody(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell, document
) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    subscribe()
    handoff = judged(tenant, document())
    decide(tenant, handoff)
    activity.reassign(tenant=tenant, reference=str(handoff.pk), note="you", actor=ADA, to=None, seen_version=None)
    activity.return_to_queue(tenant=tenant, reference=str(handoff.pk), actor=ADA, seen_version=None)
    tell()
    assert [told["event"] for told in receiver.told] == ["verdict"]
    review_decide.decide_handoff(
        tenant=tenant,
        reference=str(handoff.pk),
        decision=Decision.APPROVE,
        note="",
        actor=Actor(ActorKind.PERSON, "ben"),
        seen_version=None,
    )
    tell()
    assert [told["event"] for told in receiver.told] == ["verdict", "decision"]
    assert receiver.told[1]["note"] == "proposed by ada: “seen”; confirmed by ben"


def test_comments_and_assignments_are_told_and_are_no_decisions(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, reviewer: Person, tell
) -> None:
    subscribe(events=["comment", "assignment", "decision"])
    handoff = judged(tenant, held())
    decide(tenant, handoff)
    about = {"tenant": tenant, "reference": str(handoff.pk), "actor": ADA}
    activity.add_comment(**about, text="Call them.")
    activity.assign(**about, to=reviewer, note="Yours.", seen_version=None)
    activity.assign(**about, to=None, note="Done.", seen_version=None)
    tell()
    heard = {told["event"]: told for told in receiver.told if told["event"] != "assignment"}
    assert heard.keys() == {"decision", "comment"}
    assert heard["comment"]["comment"]["text"] == "Call them."
    assert heard["comment"]["actor"] == {"kind": "person", "name": "ada"}
    assert heard["comment"]["handoff"]["state"] == "approved"
    given = [told["assignment"] for told in receiver.told if told["event"] == "assignment"]
    assert given == [{"to": "reviewer", "note": "Yours."}, {"to": None, "note": "Done."}]


def test_only_what_was_asked_for_is_told(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscribe(events=["verdict"], states=["held"])
    for document in (payload(), circular(), held()):
        judged(tenant, document)
    tell()
    assert [told["handoff"]["state"] for told in receiver.told] == ["held"]


def test_who_is_new_hears_nothing_of_before(tenant: Tenant, subscribe: Subscribe, tell) -> None:
    judged(tenant, payload())
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WEBHOOK_FAILING, 1)
    subscribe()
    assert tell() == []
    judged(tenant, payload())
    judged(tenant, payload())
    subscribe(name="Later")
    assert {delivery.subscriber.name for delivery in tell()} == {"CI"}


def test_who_was_switched_off_hears_nothing_of_meanwhile(tenant: Tenant, subscribe: Subscribe, tell) -> None:
    one = subscribe()
    subscriptions.switch(tenant=tenant, pk=one.pk, on=False, actor="ada")
    judged(tenant, payload())
    subscriptions.switch(tenant=tenant, pk=one.pk, on=True, actor="ada")
    assert tell() == []


def test_tenants_hear_of_their_own(tenant: Tenant, other_tenant: Tenant, subscribe: Subscribe, tell) -> None:
    subscribe(name="Ours")
    subscribe(name="Theirs", tenant=other_tenant)
    judged(tenant, payload())
    judged(other_tenant, payload(tenant_id="globex"))
    assert sorted((one.tenant.slug, one.subscriber.name) for one in tell()) == [("acme", "Ours"), ("globex", "Theirs")]


def test_events_that_fail_keep_no_others_back(
    tenant: Tenant, other_tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(events=["alert", "verdict"])
    other = subscribe(tenant=other_tenant, events=["alert", "verdict"])
    alerts.raise_alert(tenant.pk, "webhook_failing", 1)
    alerts.raise_alert(other_tenant.pk, "webhook_failing", 1)
    judged(tenant, payload())
    judged(other_tenant, payload(tenant_id=other_tenant.slug))
    dump = events.dump

    def fail_for_the_first(delivery: UUID, event: str, at: datetime, tenant_slug: str, content: Any) -> str:
        if tenant_slug == tenant.slug:
            raise KeyError(tenant_slug)
        return dump(delivery, event, at, tenant_slug, content)

    monkeypatch.setattr(events, "dump", fail_for_the_first)
    with capture_logs() as logs:
        events.dispatch()
    assert {one["tenant"] for one in logs} == {tenant.pk}
    assert sorted(Delivery.objects.values_list("subscriber", "event")) == [(other.pk, "alert"), (other.pk, "verdict")]


def test_where_nobody_hears_nothing_is_asked(tenant: Tenant, django_assert_num_queries) -> None:
    judged(tenant, payload())
    with django_assert_num_queries(1):
        assert events.dispatch() == 0


def test_what_commits_late_with_an_earlier_id_is_told_once(tenant: Tenant, subscribe: Subscribe) -> None:
    subscribe(events=["verdict"])
    handoff = judged(tenant, payload())
    events.dispatch()
    last = Event.objects.aggregate(last=Max("id"))["last"]
    # Two transactions took ids 1 to 3 and 5, and the one with 4 and 5 ended first.
    event(handoff, last + 4)
    events.dispatch()
    assert abouts()[1:] == [f"event:{last + 4}"]
    event(handoff, last + 2)
    events.dispatch()
    event(handoff, last + 3)
    event(handoff, last + 1)
    event(handoff, last + 5)
    events.dispatch()
    events.dispatch()
    assert abouts()[2:] == [f"event:{last + number}" for number in (2, 1, 3, 5)]
    assert gaps_after(last) == []


def test_all_events_of_two_large_transactions_at_once_are_told(tenant: Tenant, subscribe: Subscribe) -> None:
    subscribe(events=["verdict"])
    judged(tenant, payload())
    events.dispatch()
    last = Event.objects.latest("id")
    same = {name: getattr(last, name) for name in ("tenant_id", "handoff_id", "at", "actor_kind", "actor", "to_state")}
    # Two workers store the verdicts on 400 handoffs each, and take ids in turns.
    for first in (2, 1):
        ids = range(last.pk + first, last.pk + 801, 2)
        Event.objects.bulk_create([Event(id=pk, **same) for pk in ids])
        events.dispatch()
    assert len(abouts()) == 801
    assert gaps_after(last.pk) == []


def test_an_id_that_never_comes_is_given_up(
    tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(events=["verdict"])
    handoff = judged(tenant, payload())
    last = Event.objects.aggregate(last=Max("id"))["last"]
    event(handoff, last + 10)
    events.dispatch()
    assert gaps_after(last) == [(last + 1, last + 9)]
    monkeypatch.setattr(events, "GAP_SECONDS", -1)
    events.dispatch()
    assert Gathering.objects.get().gaps == []


def test_many_are_gone_over_in_parts(tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BATCH", 2)
    subscribe(events=["verdict"])
    for _ in range(4):
        judged(tenant, payload())
    assert events.dispatch() == 4
    assert len(abouts()) == 4


@pytest.mark.django_db(transaction=True)
def test_several_at_once_make_each_once(tenant: Tenant, subscribe: Subscribe) -> None:
    subscribe(events=["verdict"])
    for _ in range(5):
        judged(tenant, payload())
    results = at_once(*[events.dispatch] * 4)
    events.dispatch()
    assert not [result for result in results if isinstance(result, Exception)]
    assert len(abouts()) == len(set(abouts())) == 5


def test_who_is_deleted_in_that_moment_stops_nobody(
    tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, stays = subscribe(name="Gone"), subscribe(name="Stays")
    judged(tenant, payload())
    found = subscriptions.list_active()
    Subscriber.objects.filter(pk=gone.pk).delete()
    monkeypatch.setattr(events, "list_active", lambda: found)
    events.dispatch()
    assert [one.subscriber_id for one in Delivery.objects.all()] == [stays.pk]


def test_an_alert_is_told_when_it_opens_again_and_when_it_ends(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe(events=["alert"])
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 2)
    tell()
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
    tell()
    alert = Alert.objects.get()
    Alert.objects.update(notified_at=alert.opened_at + timedelta(hours=4))
    tell()
    alerts.acknowledge(tenant=tenant, alert=alert.pk, actor="ada")
    tell()
    tell()
    assert [told["alert"]["change"] for told in receiver.told] == ["opened", "again", "closed"]
    last = receiver.told[-1]["alert"]
    assert (last["kind"], last["level"], last["value"]) == ("would_have_rejected", "alert", 3)
    assert last["text"] == "The LLM would have rejected 3 handoffs that passed without its check"
    assert last["link"] == "/t/acme/handoffs/?flag=flagged"


def test_what_was_told_of_an_alert_and_is_forgotten_is_not_told_again(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    long_ago = timezone.now() - timedelta(days=LEAST[Data.DELIVERIES])
    subscriber = subscribe(events=["alert"])
    Subscriber.objects.filter(pk=subscriber.pk).update(heard_from=long_ago - timedelta(days=1))
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 2)
    Alert.objects.update(opened_at=long_ago)
    tell()
    assert receiver.requests == []


def test_older_alerts_keep_no_newer_alert_back(
    tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH", 2)
    subscriber = subscribe(events=["alert"])
    now = timezone.now()
    Subscriber.objects.filter(pk=subscriber.pk).update(heard_from=now - timedelta(days=1))
    made = [
        Alert(tenant=tenant, kind="queue_age", opened_at=at, last_at=at, acknowledged_at=at + timedelta(seconds=30))
        for at in (now - timedelta(hours=5 - number) for number in range(5))
    ]
    Alert.objects.bulk_create(made[:3])
    assert [events.dispatch(), events.dispatch()] == [6, 0]
    Alert.objects.bulk_create(made[3:])
    assert [events.dispatch(), events.dispatch()] == [4, 0]
    told = Delivery.objects.order_by("id").values_list("about", flat=True)
    pks = Alert.objects.order_by("opened_at").values_list("pk", flat=True)
    assert list(told) == [f"alert:{pk}:{change}" for pk in pks for change in ("opened", "closed")]


def test_what_is_flagged_later_is_told(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscribe(events=["verdict"])
    handoff = judged(tenant, payload())
    tell()
    stayed = event(handoff)
    Event.objects.filter(pk=stayed.pk).update(from_state="accepted")
    tell()
    assert len(receiver.requests) == 1
    Handoff.objects.update(flagged=True)
    stayed = event(handoff)
    Event.objects.filter(pk=stayed.pk).update(from_state="accepted")
    tell()
    assert [told["handoff"]["flagged"] for told in receiver.told] == [False, True]


def test_a_flag_of_an_approved_handoff_is_told_as_a_verdict(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe(name="Accepted", events=["verdict", "decision"], states=["accepted"])
    subscribe(name="Rejected", events=["verdict", "decision"], states=["rejected"])
    handoff = judged(tenant, held())
    decide(tenant, handoff)
    for flagged in (False, True):
        Handoff.objects.update(flagged=flagged)
        Event.objects.filter(pk=event(handoff).pk).update(from_state="approved", to_state="approved")
        tell()
    told = sorted((told["event"], told["handoff"]["state"], told["handoff"]["flagged"]) for told in receiver.told)
    assert told == [("decision", "approved", False)] * 2 + [("verdict", "approved", True)]
