from collections.abc import Callable
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.pages import attributes, links, only, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
HTMX = {"HX-Request": "true", "HX-Target": "results"}


def test_a_row_tells_who_what_and_why(sign_in: SignIn, viewer: Person, circular: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/handoffs/")
    for text in ("planner", "writer", "rejected", "message", CIRCULAR.title, f"/t/acme/handoffs/{circular.pk}/"):
        assert text in page.text


def test_a_name_cannot_turn_the_direction_of_its_row(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    submit(source_agent_id="a\u202e", call_chain=["a\u202e", "writer"])
    client = sign_in(viewer)
    for address in ("handoffs", "review"):
        assert '<span class="agent" title="a⟨U+202E⟩">a⟨U+202E⟩</span>' in client.get(f"/t/acme/{address}/").text


def test_a_row_has_the_whole_id_of_its_trace_as_a_link(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    for trace_id in ("2026-02-15T10:00:00Z-orders-7", "a\u202e", ".."):
        Handoff.objects.filter(pk=submit().pk).update(trace_id=trace_id)
    page = sign_in(viewer).get("/t/acme/handoffs/")
    assert texts(page, ".col-trace .trace-link") == ["..", "a⟨U+202E⟩", "2026-02-15T10:00:00Z-orders-7"]
    assert attributes(page, ".col-trace .trace-link", "href") == [
        "/t/acme/handoffs/?trace=..",
        "/t/acme/traces/a%E2%80%AE/",
        "/t/acme/traces/2026-02-15T10:00:00Z-orders-7/",
    ]


def test_filters_stand_in_the_address(sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff) -> None:
    client = sign_in(viewer)
    for query, wanted in {
        "state=held": [held],
        "state=held&state=rejected": [circular, held],
        "code=chain.circular": [circular],
        "type=status_update": [],
        "source=planner&since=24h": [circular, held],
    }.items():
        assert client.get(f"/t/acme/handoffs/?{query}").context["handoffs"] == wanted, query


def test_each_filter_in_force_can_be_taken_away(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    page = sign_in(viewer).get("/t/acme/handoffs/?state=held&state=rejected&source=planner&since=7d&quality_min=0.5")
    chips = {(chip.label, chip.value): chip.without for chip in page.context["active_filters"]}
    assert chips == {
        ("State", "held"): "state=rejected&source=planner&since=7d&quality_min=0.5",
        ("State", "rejected"): "state=held&source=planner&since=7d&quality_min=0.5",
        ("Source", "planner"): "state=held&state=rejected&since=7d&quality_min=0.5",
        ("Since", "last 7 days"): "state=held&state=rejected&source=planner&quality_min=0.5",
        ("Score from", "0.5"): "state=held&state=rejected&source=planner&since=7d",
    }
    for query in chips.values():
        assert f'href="/t/acme/handoffs/?{escape(query)}"' in page.text


@pytest.mark.parametrize("blank", ["", "%20", "%0A"])
def test_a_rule_code_links_to_its_page_whatever_blanks_are_around_it(
    sign_in: SignIn, viewer: Person, circular: Handoff, blank: str
) -> None:
    client = sign_in(viewer)
    page = client.get(f"/t/acme/handoffs/?code={blank}chain.circular{blank}")
    assert page.context["handoffs"] == [circular]
    (about,) = links(page, ".results-actions > a.small")
    assert client.get(about).status_code == 200


def test_a_plain_form_is_sent_on_to_an_address_without_blanks(sign_in: SignIn, viewer: Person) -> None:
    answer = sign_in(viewer).get("/t/acme/handoffs/?state=held&type=&source=&code=&since=")
    assert answer.status_code == 302
    assert answer["Location"] == "/t/acme/handoffs/?state=held"


def test_htmx_gets_the_rows_alone_and_the_clean_address(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    answer = sign_in(viewer).get("/t/acme/handoffs/?state=held&type=", headers=HTMX)
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert f"/t/acme/handoffs/{held.pk}/" in answer.text
    assert answer["HX-Push-Url"] == "/t/acme/handoffs/?state=held"


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_both_bodies_of_the_address_are_kept_apart(sign_in: SignIn, viewer: Person, headers: dict[str, str]) -> None:
    answer = sign_in(viewer).get("/t/acme/handoffs/", headers=headers)
    assert {"HX-Request", "HX-Target"} <= {name.strip() for name in answer["Vary"].split(",")}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("quality_max=high", "<b>quality_max</b> is <code>high</code>"),
        ("state=lost", "<b>state</b> is <code>lost</code>: use one of received,"),
        ("since=yesterday", "<b>since</b> is <code>yesterday</code>"),
        ("flag=red", "<b>flag</b> is <code>red</code>: use one of parked,"),
        ("cursor=abc", "<b>cursor</b> is <code>abc</code>"),
        ("type=%3Cb%3E%00", "<b>type</b> is <code>&lt;b&gt;"),
    ],
)
def test_a_filter_that_cannot_be_read_is_told(sign_in: SignIn, viewer: Person, query: str, told: str) -> None:
    client = sign_in(viewer)
    for headers in ({}, HTMX):
        page = client.get(f"/t/acme/handoffs/?{query}", headers=headers)
        assert page.status_code == 400
        assert told in page.text


def test_pages_by_cursor_hold_each_handoff_once(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    made = {submit(judged=False).pk for _ in range(53)}
    client = sign_in(viewer)
    first = client.get("/t/acme/handoffs/?source=planner")
    assert len(first.context["handoffs"]) == 50
    assert first.context["newest"] == ""
    second = client.get(first.context["next"])
    assert len(second.context["handoffs"]) == 3
    assert second.context["next"] == ""
    assert second.context["newest"] == "/t/acme/handoffs/?source=planner"
    assert {handoff.pk for page in (first, second) for handoff in page.context["handoffs"]} == made


def test_new_rows_are_counted_and_not_pushed_in(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    seen = submit(judged=False)
    client = sign_in(viewer)
    address = f"/t/acme/handoffs/new/?source=planner&after={seen.pk}"
    assert client.get(address).text.strip() == ""
    submit(judged=False)
    submit(judged=False)
    submit(judged=False, source_agent_id="other", call_chain=["other"])
    answer = client.get(address)
    assert "2 new, show" in answer.text
    assert 'href="/t/acme/handoffs/?source=planner"' in answer.text


def test_the_count_needs_to_know_since_when(sign_in: SignIn, viewer: Person) -> None:
    answer = sign_in(viewer).get("/t/acme/handoffs/new/?after=x")
    assert answer.status_code == 400
    assert "after is 'x'" in answer.text


def test_an_empty_list_says_what_to_do(sign_in: SignIn, viewer: Person, tenant: Tenant, submit_to: Submit) -> None:
    client = sign_in(viewer)
    assert "Send the first one" in client.get("/t/acme/handoffs/").text
    submit_to(tenant)
    assert "Clear all filters" in client.get("/t/acme/handoffs/?state=declined").text


def test_what_a_sender_wrote_is_text_and_no_markup(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    hostile = {
        name: f"""{name}"'><script>x</script>&"""
        for name in ("source_agent_id", "target_agent_id", "handoff_id", "handoff_type", "trace_id")
    }
    handoff = submit()
    Handoff.objects.filter(pk=handoff.pk).update(**hostile, codes=["<script>x</script>"], state="held")
    client = sign_in(viewer)
    whole = client.get("/t/acme/handoffs/")
    seen = f"{handoff.pk.hex}.{handoff.version - 1}"
    live = client.get(f"/t/acme/handoffs/new/?rows={seen}&type={quote(hostile['handoff_type'])}")
    assert f'id="state-{handoff.pk.hex}"' in live.text
    for page in (whole.text, f"<table><tr>{live.text}</tr></table>"):
        assert "x</script>" not in page
        assert "<script>x</script>" in texts(page, "td.col-codes .code span")
    row = only(whole, "tr:has(td.col-time)")
    assert set(hostile.values()) <= {*texts(row, ".agent, .trace-link"), *attributes(row, "[title]", "title")} | {
        attributes(row, "input.row-select", "aria-label")[0].rpartition(", ")[2]
    }


def test_another_tenants_handoffs_are_not_listed(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    submit_to(other_tenant, source_agent_id="spy", call_chain=["spy"])
    page = sign_in(viewer).get("/t/acme/handoffs/?source=spy")
    assert page.context["handoffs"] == []
    assert "spy" not in [*page.context["known"].sources]


def test_a_row_names_what_is_unverified_flagged_or_open(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    handoff = submit()
    client = sign_in(viewer)
    for flag in ("unverified", "flagged", "open"):
        Handoff.objects.filter(pk=handoff.pk).update(unverified=False, flagged=False, open=False)
        Handoff.objects.filter(pk=handoff.pk).update(**{flag: True})
        page = client.get(f"/t/acme/handoffs/?flag={flag}")
        assert page.context["handoffs"] == [handoff]
        # Without a key, all strict handoffs are unverified, and the list does not say so of each.
        assert (f"</svg>{flag}</span>" in page.text) == (flag != "unverified")
    Handoff.objects.filter(pk=handoff.pk).update(unverified=True, codes=["semantic.unavailable"])
    assert "</svg>unverified</span>" in client.get("/t/acme/handoffs/").text


def test_what_was_not_checked_is_said_last_and_muted(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    alone, graver, alike = submit(), submit(), submit()
    for handoff, codes in (
        (alone, ["semantic.unavailable"]),
        (graver, ["semantic.unavailable", "chain.circular"]),
        (alike, ["semantic.unavailable", "grounding.name"]),
    ):
        Handoff.objects.filter(pk=handoff.pk).update(codes=codes)
    page = sign_in(viewer).get("/t/acme/handoffs/")
    filters = links(page, 'a[title="Only this rule code"]')
    shown = ("grounding.name", "chain.circular", "semantic.unavailable")
    assert filters == [f"/t/acme/handoffs/?code={code}" for code in shown]
    first = attributes(page, ".col-codes > .codes > .code:first-child", "class")
    assert first == ["code code--wait", "code code--bad", "code code--quiet"]
