"""Tests of comments on handoffs: who may change them, their limits, and what they leave alone."""

from collections.abc import Callable

import pytest

from handoffaudit.accounts.models import Membership, Person, Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.models import Comment, Event, Handoff
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import (
    MAX_NOTE,
    CommentTooLong,
    NoComment,
    NotYourComment,
    TooManyComments,
)
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.review.support import decide, now
from tests.handoffs.support import circular, held, judged, payload

pytestmark = pytest.mark.django_db


def add(handoff: Handoff, person: Person, text: str = "Looks right.") -> Comment:
    return activity.add_comment(tenant=handoff.tenant, reference=str(handoff.pk), text=text, actor=Actor.person(person))


def edit(handoff: Handoff, comment: Comment, actor: Actor, text: str = "Other") -> Comment:
    return activity.edit_comment(
        tenant=handoff.tenant, reference=str(handoff.pk), comment=comment.pk, text=text, actor=actor
    )


def remove(handoff: Handoff, comment: Comment, actor: Actor) -> Comment:
    return activity.remove_comment(tenant=handoff.tenant, reference=str(handoff.pk), comment=comment.pk, actor=actor)


@pytest.mark.parametrize("make", [held, circular, payload])
def test_a_comment_on_any_handoff_refuses_no_decision(
    tenant: Tenant, reviewer: Person, admin: Person, make: Callable[..., dict[str, object]]
) -> None:
    handoff = judged(tenant, make())
    events = Event.objects.count()
    made = add(handoff, admin, " One.\r\nTwo. ")
    assert (made.text, made.author) == ("One.\nTwo.", {"kind": "person", "name": "admin"})
    assert now(handoff).version == handoff.version
    assert Event.objects.count() == events
    if handoff.state == "held":
        assert decide(handoff, reviewer, seen=handoff.version).state == "approved"


def test_the_same_comment_sent_twice_is_stored_once(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    first = add(handoff, reviewer)
    assert add(handoff, reviewer).pk == first.pk
    assert add(handoff, admin).pk != first.pk
    remove(handoff, first, Actor.person(reviewer))
    assert add(handoff, reviewer).pk != first.pk


def test_only_its_author_changes_a_comment(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff, other = judged(tenant, held()), judged(tenant, held())
    made = add(handoff, reviewer)
    for actor in (Actor.person(admin), Actor.key(reviewer.get_username())):
        with pytest.raises(NotYourComment):
            edit(handoff, made, actor)
        with pytest.raises(NotYourComment):
            remove(handoff, made, actor)
    own = Actor.person(reviewer)
    with pytest.raises(NotYourComment):
        edit(other, made, own)
    assert edit(handoff, made, own).edited_at is not None
    assert remove(handoff, made, own).text == ""
    for change in (edit, remove):
        with pytest.raises(NotYourComment):
            change(handoff, made, own)
    assert Comment.objects.get(pk=made.pk).removed_at is not None


def test_a_comment_of_another_tenant_is_not_found(tenant: Tenant, other_tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    made = add(handoff, reviewer)
    person = Actor.person(reviewer)
    with pytest.raises(Handoff.DoesNotExist):
        activity.add_comment(tenant=other_tenant, reference=str(handoff.pk), text="x", actor=person)
    with pytest.raises(Handoff.DoesNotExist):
        activity.edit_comment(tenant=other_tenant, reference=str(handoff.pk), comment=made.pk, text="x", actor=person)
    theirs = judged(other_tenant, held(tenant_id=other_tenant.slug))
    with pytest.raises(NotYourComment):
        activity.remove_comment(tenant=other_tenant, reference=str(theirs.pk), comment=made.pk, actor=person)


@pytest.mark.parametrize(
    ("text", "error"), [("", NoComment), (" \n\t ", NoComment), ("x" * (MAX_NOTE + 1), CommentTooLong)]
)
def test_empty_and_too_long_comments_are_refused(
    tenant: Tenant, reviewer: Person, text: str, error: type[Exception]
) -> None:
    handoff = judged(tenant, held())
    with pytest.raises(error):
        add(handoff, reviewer, text)
    made = add(handoff, reviewer)
    with pytest.raises(error):
        edit(handoff, made, Actor.person(reviewer), text)


def test_a_hostile_comment_is_stored_as_text(tenant: Tenant, reviewer: Person) -> None:
    made = add(judged(tenant, held()), reviewer, "<script>\0\ud800\u202e" + "x" * 4000)
    made.refresh_from_db()
    assert made.text.startswith("<script>")
    assert "\0" not in made.text
    assert len(made.text) <= MAX_NOTE


def test_a_handoff_has_a_limited_number_of_comments(
    tenant: Tenant, reviewer: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MOST_COMMENTS", 3)
    handoff = judged(tenant, held())
    for number in range(3):
        add(handoff, reviewer, f"{number}")
    with pytest.raises(TooManyComments):
        add(handoff, reviewer, "one more")


def test_pages_of_comments_list_each_once(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    made = [add(handoff, reviewer, f"{number}").pk for number in range(5)]
    seen, cursor = [], ""
    for _ in range(3):
        page = activity.list_comments(handoff, cursor=cursor, limit=2)
        seen += [one.pk for one in page.items]
        cursor = page.next or ""
    assert (seen, cursor) == (made[::-1], "")
    with pytest.raises(FilterError):
        activity.list_comments(handoff, cursor="x", limit=2)


def test_every_change_of_the_comments_changes_the_mark(tenant: Tenant, reviewer: Person) -> None:
    handoff, own = judged(tenant, held()), Actor.person(reviewer)
    marks = [activity.mark_of_comments(handoff)]
    made = add(handoff, reviewer)
    marks.append(activity.mark_of_comments(handoff))
    edit(handoff, made, own)
    marks.append(activity.mark_of_comments(handoff))
    remove(handoff, made, own)
    marks.append(activity.mark_of_comments(handoff))
    assert len(set(marks)) == 4


def test_a_person_who_left_keeps_the_comment(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    made = add(handoff, reviewer)
    Membership.objects.filter(person=reviewer).delete()
    reviewer.delete()
    assert activity.comments_of(handoff).get().pk == made.pk
