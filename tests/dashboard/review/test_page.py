from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.review.page import FIRST_ONES
from handoffaudit.diagnostics import attribution
from handoffaudit.handoffs.models import Event, Handoff, ReviewHold
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.layers.chain import CIRCULAR, NEEDS_APPROVAL
from tests.handoffs.support import judged
from tests.pages import attributes, hidden_fields, links, only, select, text_of, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LONG_CHAIN = ["a", "b", "c", "d", "e", "planner"]


def form_of(page: Any) -> dict[str, str]:
    """Return the fields that a browser without JavaScript sends with the decision form, without the button."""
    return dict(hidden_fields(only(page, "form#decide"))) | {"note": ""}


def decide(client: Client, handoff: Handoff, decision: str, **changes: str) -> Any:
    form = form_of(client.get(f"/t/acme/review/{handoff.pk}/"))
    return client.post(f"/t/acme/handoffs/{handoff.pk}/decide/", form | {"decision": decision} | changes)


def state_of(handoff: Handoff) -> str:
    return Handoff.objects.get(pk=handoff.pk).state


def test_held_ones_come_first_oldest_on_top_then_rejected_newest_on_top(
    sign_in: SignIn, viewer: Person, submit: Submit
) -> None:
    old_rejected = submit(call_chain=["writer", "planner"])
    old_held = submit(call_chain=LONG_CHAIN)
    new_held = submit(call_chain=LONG_CHAIN)
    new_rejected = submit(call_chain=["writer", "planner"])
    submit()
    queue = sign_in(viewer).get("/t/acme/review/").context["queue"]
    assert [row.handoff for row in queue.rows] == [old_held, new_held, new_rejected, old_rejected]


def test_the_trace_of_the_open_handoff_is_named_in_whole_and_linked(
    sign_in: SignIn, viewer: Person, held: Handoff
) -> None:
    for trace, address in (
        ("2026-02-15T10:00:00Z-orders-7", "traces/2026-02-15T10:00:00Z-orders-7/"),
        ("a/../b\u202e", "handoffs/?trace=a%2F..%2Fb%E2%80%AE"),
    ):
        Handoff.objects.filter(pk=held.pk).update(trace_id=trace)
        page = sign_in(viewer).get(f"/t/acme/review/{held.pk}/")
        (link,) = select(page, f'a.mono[href="/t/acme/{address}"]')
        assert text_of(link) == trace.replace("\u202e", "⟨U+202E⟩")


def test_a_held_one_is_approved_and_the_next_opens(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    answer = decide(client, first, "approve", note="I know this chain.")
    assert (answer.status_code, answer["Location"]) == (302, f"/t/acme/review/{second.pk}/?done={first.pk}")
    assert state_of(first) == "approved"
    event = Event.objects.filter(handoff=first.pk).latest("id")
    assert (event.actor, event.to_state, event.reason) == ("reviewer", "approved", "I know this chain.")
    told = client.get(answer["Location"]).context["notice"]
    assert (told.handoff, told.text, told.may_undo) == (first, "approved.", True)


def test_a_refused_decision_is_told_on_a_page_of_review(sign_in: SignIn, reviewer: Person, circular: Handoff) -> None:
    refused = decide(sign_in(reviewer), circular, "approve")
    assert refused.status_code == 400
    assert links(refused, 'nav[aria-label="Pages"] a[aria-current=page]') == ["/t/acme/review/"]


def test_after_the_last_one_nothing_waits(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client = sign_in(reviewer)
    decide(client, held, "decline")
    assert state_of(held) == "declined"
    assert "Nothing waits for a person" in client.get("/t/acme/review/next/", follow=True).text


def test_approving_a_rejected_one_needs_a_note(sign_in: SignIn, reviewer: Person, circular: Handoff) -> None:
    client = sign_in(reviewer)
    answer = decide(client, circular, "approve", note="  ")
    assert answer.status_code == 400
    assert "Write in the note why you approve a rejected handoff." in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert state_of(circular) == "rejected"
    assert decide(client, circular, "approve", note="Wanted: a second look.").status_code == 302
    assert state_of(circular) == "approved"


def test_a_note_that_is_too_long_is_told_and_kept(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    note = "n" * 5001
    answer = decide(sign_in(reviewer), held, "approve", note=note)
    assert answer.status_code == 400
    assert "The note has 5,001 characters" in answer.text
    assert note in answer.text


def test_a_self_handoff_has_no_way_to_be_approved(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    handoff = submit(target_agent_id="planner")
    client = sign_in(reviewer)
    page = client.get(f"/t/acme/review/{handoff.pk}/")
    assert 'value="decline"' in page.text
    assert 'data-decision="approve"' not in page.text
    answer = decide(client, handoff, "approve", note="please")
    assert answer.status_code == 400
    assert state_of(handoff) == "rejected"


def test_a_stale_view_is_told_what_happened_and_overwrites_nothing(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    seen = form_of(client.get(f"/t/acme/review/{held.pk}/"))
    other = Client()
    other.force_login(colleague)
    decide(other, held, "decline", note="Too long a way.")
    events = Event.objects.filter(handoff=held.pk).count()
    answer = client.post(f"/t/acme/handoffs/{held.pk}/decide/", seen | {"decision": "approve", "note": "Fine by me"})
    assert answer.status_code == 409
    assert "colleague changed the state to declined. The note: “Too long a way.”" in answer.text
    assert "Fine by me" in answer.text
    assert 'name="decision"' not in answer.text
    assert state_of(held) == "declined"
    assert Event.objects.filter(handoff=held.pk).count() == events


@pytest.mark.parametrize(
    "changes", [{"decision": ""}, {"decision": "postpone"}, {"version": "x"}, {"version": ""}, {"version": "9" * 5000}]
)
def test_an_incomplete_form_decides_nothing(
    sign_in: SignIn, reviewer: Person, held: Handoff, changes: dict[str, str]
) -> None:
    answer = decide(sign_in(reviewer), held, **{"decision": "approve"} | changes)
    assert answer.status_code == 400
    assert "Nothing was changed" in answer.text
    assert state_of(held) == "held"


def test_a_decision_on_the_handoffs_own_page_leads_back_there(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    answer = decide(sign_in(reviewer), held, "approve", next="handoff")
    assert answer["Location"] == f"/t/acme/handoffs/{held.pk}/"


def test_after_a_decision_it_needs_no_person(sign_in: SignIn, reviewer: Person, circular: Handoff) -> None:
    Handoff.objects.filter(pk=circular.pk).update(escalated=True)
    client = sign_in(reviewer)
    addresses = (f"/t/acme/handoffs/{circular.pk}/", f"/t/acme/review/{circular.pk}/")
    words = ("<span>escalated</span>", "<dt>Escalated</dt>", "Needs a person")

    def told() -> list[str]:
        text = "".join(client.get(address).text for address in addresses)
        return [word for word in words if word in text]

    assert told() == list(words)
    assert decide(client, circular, "approve", note="Wanted: a second look.").status_code == 302
    assert told() == []


def test_opening_holds_it_for_five_minutes_and_others_see_who_has_it(
    sign_in: SignIn, reviewer: Person, colleague: Person, submit: Submit
) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    sign_in(reviewer).get(f"/t/acme/review/{first.pk}/")
    hold = ReviewHold.objects.get()
    assert hold.person == reviewer
    assert timedelta(minutes=4) < hold.until - timezone.now() <= timedelta(minutes=5)
    other = Client()
    other.force_login(colleague)
    assert "<b>reviewer</b> has this open" in other.get(f"/t/acme/review/{first.pk}/").text
    assert other.get("/t/acme/review/next/")["Location"] == f"/t/acme/review/{second.pk}/"
    queue = other.get("/t/acme/review/").context["queue"]
    assert [row.hold and row.hold.person for row in queue.rows] == [reviewer, None]


def test_who_has_it_open_stops_nobody_from_deciding(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    sign_in(reviewer).get(f"/t/acme/review/{held.pk}/")
    other = Client()
    other.force_login(colleague)
    assert decide(other, held, "approve").status_code == 302
    assert state_of(held) == "approved"


def test_opening_another_lets_go_of_the_first(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    for handoff in (first, second):
        client.get(f"/t/acme/review/{handoff.pk}/")
    assert [hold.handoff_id for hold in ReviewHold.objects.all()] == [second.pk]


def test_a_viewer_sees_the_queue_holds_nothing_and_has_no_buttons(
    sign_in: SignIn, viewer: Person, held: Handoff
) -> None:
    page = sign_in(viewer).get(f"/t/acme/review/{held.pk}/")
    assert page.status_code == 200
    assert NEEDS_APPROVAL.title in page.text
    assert 'name="decision"' not in page.text
    assert 'type="checkbox"' not in page.text
    assert not ReviewHold.objects.exists()


def test_htmx_gets_the_item_alone(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    headers = {"HX-Request": "true", "HX-Target": "item"}
    answer = sign_in(reviewer).get(f"/t/acme/review/{held.pk}/", headers=headers)
    assert "<html" not in answer.text
    assert "queue-rows" not in answer.text
    assert 'id="decide"' in answer.text


@pytest.mark.parametrize(
    "search",
    [
        "chain.circular",
        CIRCULAR.title,
        CIRCULAR.title.upper().replace(" ", "  "),
        "seeker",
        "acquittal",
        "trace-7",
        "its id",
    ],
)
def test_the_queue_is_searched_by_reason_agent_type_trace_and_id(
    sign_in: SignIn, viewer: Person, submit: Submit, held: Handoff, search: str
) -> None:
    wanted = submit(
        source_agent_id="seeker", call_chain=["writer", "seeker"], handoff_type="acquittal", trace_id="trace-7"
    )
    if search == "trace-7" and not wanted.trace_id:
        Handoff.objects.filter(pk=wanted.pk).update(trace_id="trace-7")
    text = wanted.handoff_id if search == "its id" else search
    queue = sign_in(viewer).get("/t/acme/review/", {"q": text}).context["queue"]
    assert [row.handoff for row in queue.rows] == [wanted]
    assert "q=" in queue.query


def test_the_queue_is_narrowed_to_what_is_held_and_so_is_what_is_decided_at_once(
    sign_in: SignIn, reviewer: Person, held: Handoff, circular: Handoff
) -> None:
    client = sign_in(reviewer)
    for state, wanted in (("held", held), ("rejected", circular)):
        page = client.get(f"/t/acme/review/?state={state}")
        assert [row.handoff for row in page.context["queue"].rows] == [wanted]
        assert page.context["queue_filters"].active_filters == [("State", state, "?view=all")]
        assert "1 found" in page.text
        several = client.get(f"/t/acme/review/several/all/?state={state}").context["forecast"]
        assert (several.number, getattr(several, state)) == (1, 1)
    assert client.get("/t/acme/review/?state=approved").status_code == 400


def test_what_is_found_has_the_focus_where_somebody_narrowed_the_queue(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    for query, told in (
        ("?type=message", ["1 found"]),
        ("?state=rejected", ["Nothing that waits fits these filters"]),
        ("?view=mine", ["Nothing is assigned to you"]),
        ("", []),
    ):
        assert texts(client.get(f"/t/acme/review/{query}"), "p[class][autofocus], h2[class][autofocus]") == told


def test_what_does_not_wait_is_looked_for_among_all_handoffs(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    accepted = submit()
    page = sign_in(reviewer).get("/t/acme/review/", {"q": accepted.handoff_id})
    assert f'href="/t/acme/search/?q={accepted.handoff_id}"' in page.text


def test_a_long_queue_goes_on_on_the_next_page(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    made = [submit(call_chain=LONG_CHAIN) for _ in range(51)]
    client = sign_in(reviewer)
    queue = client.get("/t/acme/review/").context["queue"]
    assert [row.handoff for row in queue.rows] == made[:50]
    rest = client.get(f"/t/acme/review/{queue.next.query}").context["queue"]
    assert [row.handoff for row in rest.rows] == made[50:]


def test_a_cursor_that_cannot_be_read_is_told(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/review/?cursor=held:x")
    assert page.status_code == 400
    assert "<b>cursor</b>" in page.text


def test_what_is_held_too_long_says_so_in_the_queue_and_beside_the_decision(
    sign_in: SignIn, reviewer: Person, submit: Submit
) -> None:
    late, early = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    Handoff.objects.filter(pk=late.pk).update(review_due_at=timezone.now() - timedelta(minutes=1))
    client = sign_in(reviewer)
    numbers = [
        client.get(f"/t/acme/review/{place}").text.count("</svg>overdue</span>")
        for place in ("", f"{late.pk}/", f"{early.pk}/")
    ]
    assert numbers == [1, 2, 1]


def test_the_way_to_the_next_one_passes_all_that_others_have_open(
    sign_in: SignIn, reviewer: Person, viewer: Person, submit: Submit
) -> None:
    *taken, free = [submit(call_chain=LONG_CHAIN) for _ in range(FIRST_ONES + 2)]
    for handoff in taken:
        ReviewHold.objects.create(handoff=handoff, person=viewer, until=timezone.now() + timedelta(minutes=5))
    client = sign_in(reviewer)
    assert client.get("/t/acme/review/next/")["Location"] == f"/t/acme/review/{free.pk}/"
    ReviewHold.objects.create(handoff=free, person=viewer, until=timezone.now() + timedelta(minutes=5))
    # Without `view=all`, the address would lead to the default view.
    assert client.get("/t/acme/review/next/")["Location"] == "/t/acme/review/?view=all"
    assert client.get("/t/acme/review/next/?view=held")["Location"] == "/t/acme/review/?view=held"
    assert client.get("/t/acme/review/next/?view=no")["Location"] == "/t/acme/review/?view=all"


def test_another_tenants_handoff_is_not_found(
    sign_in: SignIn, reviewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    theirs = submit_to(other_tenant, call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    assert client.get(f"/t/acme/review/{theirs.pk}/").status_code == 404
    sent = {"decision": "approve", "version": theirs.version, "note": ""}
    assert client.post(f"/t/acme/handoffs/{theirs.pk}/decide/", sent).status_code == 404
    client.post("/t/acme/review/several/run/", {"select": f"{theirs.pk}:{theirs.version}", "decision": "approve"})
    assert state_of(theirs) == "held"


def test_what_is_wrong_leads_to_its_code_and_to_the_handoffs_like_it(
    sign_in: SignIn, reviewer: Person, submit: Submit, circular: Handoff
) -> None:
    submit(call_chain=["writer", "planner"])
    attribution.run()
    page = sign_in(reviewer).get(f"/t/acme/review/{circular.pk}/")
    why = select(page, "li.why")[0]
    assert "/t/acme/diagnostics/codes/chain.circular/" in links(why)
    assert texts(why, 'a[href^="/t/acme/groups/"]') == ["2 similar handoffs"]


def test_of_a_long_chain_a_pane_shows_the_ends_and_what_is_marked(
    sign_in: SignIn, reviewer: Person, submit: Submit
) -> None:
    long = submit(call_chain=[*(f"agent-{number}" for number in range(37)), "planner"])
    drawn = sign_in(reviewer).get(f"/t/acme/review/{long.pk}/").context["chain"]
    assert list(drawn) == ["wide", "pane", "narrow"]
    for name in drawn:
        assert texts(drawn[name].svg, "text.chain-name") == [
            *("agent-0", "agent-1", "… 2 more …", "agent-4", "agent-5"),
            *("… 30 more …", "agent-36", "planner", "writer"),
        ]


def test_the_title_names_what_is_open_and_each_box_what_it_selects(
    sign_in: SignIn, reviewer: Person, submit: Submit, held: Handoff
) -> None:
    nameless = submit(call_chain=LONG_CHAIN)
    Handoff.objects.filter(pk=nameless.pk).update(target_agent_id="")
    client = sign_in(reviewer)
    assert "<title>Review · " in client.get("/t/acme/review/").text
    page = client.get(f"/t/acme/review/{held.pk}/").text
    named = f"planner → writer · Review · {held.tenant.name}"
    assert text_of(page, "head title") == named
    assert f'data-title="{named}"' in page
    assert attributes(page, '[aria-label^="Select "]', "aria-label") == [
        f"Select planner to {target}, received {one.received_at:%H:%M:%S}"
        for one, target in ((held, "writer"), (nameless, "(no name)"))
    ]


@pytest.mark.parametrize("is_escalated", [False, True])
def test_a_handoff_of_an_agent_to_itself_is_listed_to_be_declined(
    sign_in: SignIn, reviewer: Person, submit: Submit, is_escalated: bool
) -> None:
    alone = submit(target_agent_id="planner")
    Handoff.objects.filter(pk=alone.pk).update(escalated=is_escalated)
    client = sign_in(reviewer)
    assert [row.handoff for row in client.get("/t/acme/review/").context["queue"].rows] == [alone]
    page = client.get("/t/acme/review/?code=chain.self_handoff")
    assert '<option value="chain.self_handoff" selected>' in page.text
    assert [row.handoff for row in page.context["queue"].rows] == [alone]
    offered = attributes(client.get(f"/t/acme/review/{alone.pk}/"), "form#decide [value]", "value")
    assert "decline" in offered
    assert "approve" not in offered
    decide(client, alone, "decline")
    assert state_of(alone) == "declined"


def test_what_could_not_be_read_offers_no_approval_and_no_repair(
    sign_in: SignIn, reviewer: Person, tenant: Tenant
) -> None:
    handoffs = [judged(tenant, b"{") for _ in range(3)]
    client = sign_in(reviewer)
    for address in (f"/t/acme/review/{handoffs[0].pk}/", f"/t/acme/handoffs/{handoffs[0].pk}/"):
        page = client.get(address)
        box = only(page, "form#decide")
        assert attributes(box, "[name=decision]", "value") == ["decline", "resend", "handled"]
        assert "Ask for a resend declines it" in text_of(box)
        assert "Repair…" not in page.text
    for handoff, (decision, told) in zip(
        handoffs,
        {
            "approve": "An unreadable handoff cannot be approved",
            "resend": "declined, and its sender is asked to send it again",
            "handled": "marked as handled, without a decision.",
        }.items(),
        strict=True,
    ):
        form = form_of(client.get(f"/t/acme/review/{handoff.pk}/"))
        answer = client.post(
            f"/t/acme/handoffs/{handoff.pk}/decide/", form | {"decision": decision, "note": "x"}, follow=True
        )
        assert told in answer.text
    assert [state_of(one) for one in handoffs] == ["rejected", "declined", "rejected"]


def test_more_than_are_counted_are_said_to_be_more(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handoffaudit.dashboard.review.page.MOST_WAITING", 1)
    client = sign_in(reviewer)
    for number in ("1", "1+"):
        reference, actor = str(submit(call_chain=LONG_CHAIN).pk), Actor.key("another")
        activity.reassign(
            tenant=tenant, reference=reference, to=reviewer, note="Yours.", actor=actor, seen_version=None
        )
        assert texts(client.get("/t/acme/review/"), "span.views-number") == [number]
