"""Tests of the activity of a handoff: comments, the assignment and events in one timeline, and its live updates."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Comment, Handoff
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.transitions import Actor
from tests.dashboard.handoff_page import address, opened, payload, store
from tests.pages import attributes, only, texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def handoff(tenant: Tenant) -> Handoff:
    return store(tenant, payload())


@pytest.fixture
def ada(reviewer: Person) -> Client:
    client = Client()
    client.force_login(reviewer)
    return client


@pytest.fixture
def vik(viewer: Person) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


def own_of(handoff: Handoff) -> Comment:
    return Comment.objects.get(handoff=handoff)


def live(client: Client, handoff: Handoff, page: str) -> tuple[int, str]:
    """Ask what is newer than the page, as the script does."""
    seen = "&".join(attributes(page, "[data-live-seen]", "data-live-seen"))
    answer = client.get(address(handoff, f"live/?{seen}"), headers={"HX-Request": "true", "X-Live": "1"})
    return answer.status_code, answer.text


def test_a_comment_is_added_edited_and_removed_without_javascript(ada: Client, handoff: Handoff) -> None:
    sent = ada.post(address(handoff, "comments/"), {"text": "Is <b>this</b> right?"})
    comment = own_of(handoff)
    assert (sent.status_code, sent["Location"]) == (302, f"{address(handoff)}#comment-{comment.pk}")
    page = opened(ada, handoff)
    assert "Is <b>this</b> right? " in page.text("activity")
    assert "<b>this</b>" not in page.html
    change = address(handoff, f"comments/{comment.pk}/")
    ada.post(change, {"text": "It is.", "action": "edit"})
    assert "It is." in opened(ada, handoff).text("activity")
    assert "edited" in opened(ada, handoff).text("activity")
    ada.post(change, {"action": "remove"})
    page = opened(ada, handoff)
    assert "It is." not in page.html
    assert "Comment removed" in page.text("activity")
    assert ada.post(change, {"text": "again", "action": "edit"}).status_code == 409


def test_only_the_author_is_offered_a_change(ada: Client, vik: Client, admin: Person, handoff: Handoff) -> None:
    activity.add_comment(tenant=handoff.tenant, reference=str(handoff.pk), text="Mine.", actor=Actor.person(admin))
    for client in (ada, vik):
        page = opened(client, handoff)
        assert "Mine." in page.text("activity")
        assert "comment-edit" not in page.html
    assert "comment-text" not in opened(vik, handoff).ids
    assert ada.post(address(handoff, f"comments/{own_of(handoff).pk}/"), {"text": "x"}).status_code == 409
    assert ada.post(address(handoff, f"comments/{uuid4()}/"), {"action": "remove"}).status_code == 409
    assert own_of(handoff).text == "Mine."


@pytest.mark.parametrize(("text", "said"), [(" ", "Write a comment."), ("x" * 5001, "5,001 characters")])
def test_a_refused_comment_is_shown_again(ada: Client, handoff: Handoff, text: str, said: str) -> None:
    for place in ({}, {"next": "review"}):
        refused = ada.post(address(handoff, "comments/"), {"text": text, **place})
        assert refused.status_code == 400
        assert said in refused.text
        assert text.strip() in refused.text
    assert not Comment.objects.exists()


def test_a_comment_from_review_leads_back_to_review(ada: Client, handoff: Handoff) -> None:
    sent = ada.post(address(handoff, "comments/"), {"text": "Seen.", "next": "review", "view": "mine"})
    assert sent["Location"].startswith(f"/t/acme/review/{handoff.pk}/?view=mine#comment-")
    assert "Seen." in ada.get(f"/t/acme/review/{handoff.pk}/").text


def test_events_and_comments_are_one_timeline_and_are_read_page_by_page(ada: Client, handoff: Handoff) -> None:
    at = timezone.now()
    kept = {"tenant": handoff.tenant, "handoff": handoff, "actor_kind": "person", "actor": "ada"}
    Comment.objects.bulk_create(
        # Several comments of the same moment.
        Comment(text=f"comment {number}.", at=at + timedelta(seconds=number // 40), **kept)
        for number in range(130)
    )
    read, rest = "", ""
    for _ in range(3):
        page = opened(ada, handoff, rest)
        read += page.text("activity")
        older = [link for link in page.links() if link.startswith("?before=")]
        rest = older[0].partition("#")[0] if older else ""
    assert rest == ""
    assert all(read.count(f"comment {number}.") == 1 for number in range(130))
    assert read.index("comment 129.") < read.index("comment 0.") < read.index("received")


def test_two_people_see_each_others_comments_and_changes(
    ada: Client, admin: Person, reviewer: Person, handoff: Handoff
) -> None:
    page = opened(ada, handoff).html
    assert attributes(page, "[data-live]", "data-live") == [address(handoff, "live/")]
    assert live(ada, handoff, page)[0] == 204
    activity.add_comment(tenant=handoff.tenant, reference=str(handoff.pk), text="I looked.", actor=Actor.person(admin))
    status, newer = live(ada, handoff, page)
    assert status == 200
    assert only(newer, "#activity-new button").text(strip=True) == "1 new entry, show"
    assert "I looked." in texts(newer.replace("template>", "div>"), "#activity-new #activity-list")[0]
    assert texts(newer, "#changed") == []
    client = Client()
    client.force_login(admin)
    client.post(address(handoff, "assign/"), {"to": "reviewer", "version": handoff.version})
    newer = live(ada, handoff, page)[1]
    assert "admin changed this handoff: assigned to reviewer." in texts(newer, "#changed")[0]


def test_a_handoff_is_assigned_on_its_page(ada: Client, vik: Client, reviewer: Person, handoff: Handoff) -> None:
    assert "Assigned to nobody" in opened(ada, handoff).text("assignment")
    assert "assignment" not in opened(vik, handoff).ids
    ada.post(address(handoff, "assign/"), {"to": "reviewer", "note": "Ask the desk.", "version": handoff.version})
    assert "Assigned to reviewer by reviewer" in opened(vik, handoff).text("assignment")
    assert "“Ask the desk.”" in opened(vik, handoff).text("assignment")
    mine = ada.get("/t/acme/review/?view=mine")
    assert f"/t/acme/review/{handoff.pk}/" in mine.text
    assert "queue-select" not in mine.text
    assert "Assigned to reviewer" in texts(ada.get(f"/t/acme/review/{handoff.pk}/"), "#assignment")[0]
    stale = ada.post(address(handoff, "assign/"), {"to": "", "version": handoff.version}, follow=True)
    assert "This handoff changed since you opened it" in stale.text
    ada.post(address(handoff, "assign/"), {"to": "", "version": handoff.version + 1})
    assert "Assigned to nobody" in opened(ada, handoff).text("assignment")


def test_nobody_is_assigned_who_may_not_decide(ada: Client, vik: Client, handoff: Handoff) -> None:
    for name in ("viewer", "stranger", "x" * 10_000):
        refused = ada.post(address(handoff, "assign/"), {"to": name, "version": "2"}, follow=True)
        assert "is not a reviewer of this tenant" in refused.text
    assert vik.post(address(handoff, "assign/"), {"to": "reviewer"}).status_code == 403


def test_a_decided_handoff_still_says_who_decided(ada: Client, reviewer: Person, tenant: Tenant) -> None:
    held = store(tenant, payload(call_chain=[f"agent_{number}" for number in range(30)], source_agent_id="agent_29"))
    ada.post(address(held, "decide/"), {"decision": "approve", "note": "ok", "version": held.version})
    held.refresh_from_db()
    ada.post(address(held, "assign/"), {"to": "reviewer", "note": "Next step.", "version": held.version})
    assert "Approved by reviewer" in opened(ada, held).text("verdict-title")
    assert "Next step." not in opened(ada, held).text("why")


def test_a_superseded_handoff_still_says_why(ada: Client, tenant: Tenant, handoff: Handoff) -> None:
    store(tenant, payload(handoff_id="again"), retry_of=handoff.handoff_id)
    handoff.refresh_from_db()
    assert handoff.state == "superseded"
    before = opened(ada, handoff).text("why")
    ada.post(address(handoff, "assign/"), {"to": "reviewer", "note": "Look.", "version": handoff.version})
    assert opened(ada, handoff).text("why") == before


def test_the_open_handoff_in_review_is_live(ada: Client, admin: Person, handoff: Handoff) -> None:
    page = ada.get(f"/t/acme/review/{handoff.pk}/")
    seen = "&".join(attributes(page, "[data-live-seen]", "data-live-seen"))
    assert f"item={handoff.pk}" in seen
    activity.add_comment(tenant=handoff.tenant, reference=str(handoff.pk), text="I looked.", actor=Actor.person(admin))
    newer = ada.get(f"/t/acme/review/live/?{seen}").text
    assert only(newer, "#activity-new button").text(strip=True) == "1 new entry, show"
    assert "I looked." in texts(newer.replace("template>", "div>"), "#activity-new #activity-list")[0]
    assert f"item={handoff.pk}" in only(newer, "#activity-new").attributes["data-live-seen"]
    # A change of an entry that the page shows is no new entry.
    seen = "&".join(attributes(ada.get(f"/t/acme/review/{handoff.pk}/"), "[data-live-seen]", "data-live-seen"))
    Comment.objects.update(text="Looked.", edited_at=timezone.now())
    newer = ada.get(f"/t/acme/review/live/?{seen}").text
    assert only(newer, "#activity-new button").text(strip=True) == "Changed, show"
    assert ada.get(f"/t/acme/review/live/?activity=x&item={uuid4()}").status_code == 404
