from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.diagnostics import logs
from handoffaudit.diagnostics.logs import search
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.times import utc_text
from tests.dashboard.log_lines import BAD, gate, health, moment, older, take, trace
from tests.pages import text_of

SignIn = Callable[[Person], Client]
ADDRESS = "/t/acme/diagnostics/logs/"
HTMX = {"HX-Request": "true", "HX-Target": "lines"}


@pytest.fixture
def log(tenant: Tenant) -> None:
    at = moment(30)
    take(
        tenant,
        health(at),
        older(at + timedelta(seconds=1)),
        gate(at + timedelta(seconds=2)),
        trace(at + timedelta(seconds=3)),
        BAD,
    )


def shown(client: Client, **asked: str) -> list[str]:
    return [row.kind for row in client.get(f"{ADDRESS}?{urlencode(asked)}").context["rows"]]


def test_without_a_log_the_page_says_what_one_may_hold_and_how_to_send_it(
    sign_in: SignIn, reviewer: Person, viewer: Person
) -> None:
    page = sign_in(reviewer).get(ADDRESS).text
    for told in ("agent=planner phase=plan", "handoff_json=missing", "[VALIDATION]", "trace_id"):
        assert told in page
    for way in ("handoffaudit import-log FILE --tenant acme", "http://testserver/api/v1/logs", 'type="file"'):
        assert way in page
    assert 'type="file"' not in sign_in(viewer).get(ADDRESS).text


def test_lines_are_shown_newest_first_with_what_they_say(sign_in: SignIn, viewer: Person, log: None) -> None:
    page = sign_in(viewer).get(ADDRESS)
    assert [row.kind for row in page.context["rows"]] == ["bad", "trace", "gate", "older", "health"]
    for told in ("schema_invalid", "file_missing", "plan-gate", "handoff_created", "planner, writer", "teleport"):
        assert told in page.text


@pytest.mark.parametrize(
    ("said", "event", "icon"),
    [
        ("source=handoff_json", "handoff_json", "passed"),
        ("source=text_fallback reason=text_fallback_ok", "text_fallback_ok", "warning"),
        ("source=text_fallback reason=file_missing fallback=text_fallback_ok", "file_missing", "warning"),
        ("source=text_fallback reason=text_fallback_fail", "text_fallback_fail", "error"),
        ("source=text_fallback reason=file_missing fallback=text_fallback_fail", "file_missing", "error"),
        ("source=text_fallback reason=schema_invalid", "schema_invalid", "error"),
        ("source=text_fallback", "text_fallback", "error"),
    ],
)
def test_a_health_line_is_coloured_by_the_outcome(
    sign_in: SignIn, viewer: Person, tenant: Tenant, said: str, event: str, icon: str
) -> None:
    take(tenant, f"agent=planner phase=plan {said} timestamp={utc_text(moment())}")
    [row] = sign_in(viewer).get(ADDRESS).context["rows"]
    assert (row.glance.event, row.glance.icon) == (event, icon)


def test_reasons_take_a_fallback_as_given(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    at = utc_text(moment())
    take(
        tenant,
        *(
            f"agent=planner phase={phase} source=text_fallback reason=text_fallback_fail timestamp={at}"
            for phase in "ab"
        ),
    )
    page = sign_in(viewer).get("/t/acme/diagnostics/")
    assert [card.found.reason for card in page.context["cards"]] == ["text_fallback_fail"]
    assert "No reason given" not in page.text


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"q": "HANDOFF_json"}, ["older"]),
        ({"kind": "health"}, ["older", "health"]),
        ({"kind": "bad"}, ["bad"]),
        ({"agent": "planner"}, ["trace", "health"]),
        ({"agent": "plan-gate"}, ["gate"]),
        ({"phase": "plan_review"}, ["older"]),
        ({"event": "file_missing"}, ["older"]),
        ({"event": "handoff_created"}, ["trace"]),
        ({"level": "warning"}, ["trace"]),
        ({"level": "error"}, ["gate"]),
        ({"level": "ERROR"}, ["gate"]),
        ({"level": "Warn"}, ["trace"]),
        ({"trace": "trace-9"}, ["trace"]),
        ({"trace": "run-7"}, ["health"]),
        ({"source": "other.log"}, []),
        ({"since": "1h", "agent": "slot_b"}, ["older"]),
        ({"until": "2026-01-01"}, []),
    ],
)
def test_lines_are_narrowed_by_the_address(sign_in: SignIn, viewer: Person, log: None, asked, kinds) -> None:
    assert shown(sign_in(viewer), **asked) == kinds


def test_each_filter_in_force_can_be_taken_away(sign_in: SignIn, viewer: Person, log: None) -> None:
    page = sign_in(viewer).get(f"{ADDRESS}?q=plan&kind=health&agent=planner&since=24h")
    chips = {(chip.label, chip.value): chip.without for chip in page.context["active_filters"]}
    assert chips == {
        ("Text", "plan"): "kind=health&agent=planner&since=24h",
        ("Kind", "Health"): "q=plan&agent=planner&since=24h",
        ("Agent or component", "planner"): "q=plan&kind=health&since=24h",
        ("Since", "last 24 hours"): "q=plan&kind=health&agent=planner",
    }
    for query in chips.values():
        assert f'href="{ADDRESS}?{escape(query)}"' in page.text


def test_a_plain_form_is_sent_on_to_an_address_without_blanks(sign_in: SignIn, viewer: Person, log: None) -> None:
    answer = sign_in(viewer).get(f"{ADDRESS}?q=plan&kind=&agent=&since=")
    assert (answer.status_code, answer["Location"]) == (302, f"{ADDRESS}?q=plan")


def test_htmx_gets_the_lines_alone_and_the_clean_address(sign_in: SignIn, viewer: Person, log: None) -> None:
    answer = sign_in(viewer).get(f"{ADDRESS}?kind=gate&agent=", headers=HTMX)
    assert "<html" not in answer.text
    assert "plan-gate" in answer.text
    assert answer["HX-Push-Url"] == f"{ADDRESS}?kind=gate"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("kind=old", "<b>kind</b> is <code>old</code>: use one of health, older"),
        ("since=yesterday", "<b>since</b> is <code>yesterday</code>"),
        ("cursor=1", "<b>cursor</b> is <code>1</code>"),
        (f"q={'x' * 201}", "<b>q</b> is <code>xxx"),
    ],
)
def test_a_filter_that_is_not_understood_is_told(
    sign_in: SignIn, viewer: Person, log: None, query: str, told: str
) -> None:
    answer = sign_in(viewer).get(f"{ADDRESS}?{query}")
    assert answer.status_code == 400
    assert told in answer.text


def test_every_field_of_a_line_leads_to_lines_like_it(sign_in: SignIn, viewer: Person, log: None) -> None:
    client = sign_in(viewer)
    rows = client.get(ADDRESS).context["rows"]
    for row in rows:
        for fact in row.facts:
            if fact.narrow:
                found = client.get(f"{ADDRESS}?{fact.narrow}").context["rows"]
                assert row.text in [one.text for one in found], (row.kind, fact)
    trace_row = next(row for row in rows if row.kind == "trace")
    facts = {fact.name: fact.value for fact in trace_row.facts if fact.name != "agent"}
    assert facts == {
        "kind": "Trace",
        "trace": "trace-9",
        "event": "handoff_created",
        "workflow": "build",
        "phase": "build",
        "level": "WARN",
        "duration": "12.5 ms",
        "details": '{"source_agent": "planner", "target_agent": "writer"}',
        "attempt_of": "day",
    }


def test_a_line_leads_to_its_handoffs_and_to_the_reports_with_its_reason(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit
) -> None:
    handoff = submit()
    Handoff.objects.update(trace_id="trace-9")
    take(tenant, health(moment(0)), trace(moment(0)))
    client = sign_in(viewer)
    links = {link.text: link.address for row in client.get(ADDRESS).context["rows"] for link in row.links}
    for text in ("Handoffs of this trace", "Handoffs of planner around this time"):
        assert client.get(links[text]).context["handoffs"] == [handoff], text
    assert links["Handoffs of this run"] == "/t/acme/handoffs/?trace=run-7"
    reports = client.get(links["Reports with this reason"])
    assert [chip.without for chip in reports.context["active_filters"]] == [""]


def test_nothing_in_a_line_hides_or_is_markup(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    take(tenant, gate(moment(), details="<script>alert(1)</script> \u202eturned \x1b[31mred"))
    page = sign_in(viewer).get(ADDRESS).text
    assert "<script>alert(1)" not in page
    assert "⟨U+202E⟩turned ⟨U+001B⟩[31mred" in page


def test_a_very_long_line_does_not_fill_the_page(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    take(tenant, *(gate(moment(), details="&" * 60_000) for _ in range(3)))
    assert len(sign_in(viewer).get(ADDRESS).content) < 1_000_000


def test_a_line_with_very_deep_details_is_shown(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    details = trace(moment()).replace('"planner"', "[" * 1000 + "]" * 1000)
    take(tenant, details)
    assert shown(sign_in(viewer)) == ["trace"]


def test_pages_go_back_through_all_lines_once(sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(logs, "LINES", 3)
    take(tenant, *(gate(moment(20 - number), details=f"number {number}") for number in range(8)))
    client, address, seen = sign_in(viewer), ADDRESS, []
    while address:
        page = client.get(address)
        seen += [row.glance.details for row in page.context["rows"]]
        address = page.context["next"]
    assert seen == [f"number {number}" for number in reversed(range(8))]


def test_a_search_that_looked_at_enough_says_how_far_back_and_goes_on_when_asked(
    sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch
) -> None:
    monkeypatch.setattr(search, "MOST_BLOCKS", 1)
    take(tenant, gate(moment(60), details="needle"), source="old.log")
    newer = moment(10)
    take(tenant, gate(newer), source="new.log")
    client = sign_in(viewer)
    page = client.get(f"{ADDRESS}?q=needle")
    assert page.context["rows"] == []
    assert "No line fits, as far back as" in text_of(page)
    assert "Search further back" in page.text
    further = client.get(page.context["next"])
    assert [row.glance.details for row in further.context["rows"]] == ["needle"]


@pytest.mark.parametrize(
    ("query", "told"), [("q=nothing", "All logs were searched"), ("cursor=1.0.0", "This was the end of the logs")]
)
def test_nothing_found_says_what_to_do_next(sign_in: SignIn, viewer: Person, log: None, query: str, told: str) -> None:
    assert told in sign_in(viewer).get(f"{ADDRESS}?{query}").text


def test_a_log_that_is_not_read_yet_is_not_taken_for_none(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    take(tenant, health(moment()), read=False)
    assert "No log lines yet" in sign_in(viewer).get(ADDRESS).text


def test_lines_of_another_tenant_are_never_shown(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, log: None
) -> None:
    take(other_tenant, gate(moment(), details="theirs alone"))
    assert "theirs alone" not in sign_in(viewer).get(ADDRESS).text


def test_a_line_with_long_names_links_to_lists_that_take_them(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    long = trace(moment(), trace_id="t" * 300).replace("WARN", f" {'W' * 300}")
    take(tenant, long, health(moment(), agent="a" * 300))
    client = sign_in(viewer)
    for row in client.get(ADDRESS).context["rows"]:
        for address in [*(f"{ADDRESS}?{fact.narrow}" for fact in row.facts), *(link.address for link in row.links)]:
            assert client.get(address).status_code == 200
        for fact in row.facts:
            assert row.text in [found.text for found in client.get(f"{ADDRESS}?{fact.narrow}").context["rows"]]


def new(client: Client, **asked: str):
    return client.get(f"{ADDRESS}new/?{urlencode(asked)}")


def test_lines_that_came_since_are_counted_as_far_as_they_fit(
    sign_in: SignIn, viewer: Person, tenant: Tenant, log: None
) -> None:
    client = sign_in(viewer)
    after = utc_text(timezone.now())
    quiet = new(client, after=after)
    assert (quiet.status_code, quiet.content) == (204, b"")
    take(tenant, gate(moment(1)), health(moment(1)), source="later.log")
    assert "2 new lines, show" in new(client, after=after).text
    one = new(client, after=after, kind="gate")
    assert "1 new line, show" in one.text
    assert f'href="{ADDRESS}?kind=gate"' in one.text
    assert new(client, after=after, trace="run-8").status_code == 204


def test_lines_older_than_all_that_is_shown_are_not_news(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    after = utc_text(timezone.now())
    take(tenant, gate(moment(90)))
    client = sign_in(viewer)
    assert new(client, after=after, shown_from=utc_text(moment(60))).status_code == 204
    assert new(client, after=after, shown_from=utc_text(moment(120))).status_code == 200


def test_of_a_log_that_grew_only_the_new_lines_are_news(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    first = [gate(moment(9), details=str(number)) for number in range(5)]
    take(tenant, *first)
    after = utc_text(timezone.now())
    take(tenant, *first, gate(moment(3)))
    assert "1 new line, show" in new(sign_in(viewer), after=after).text


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"after": "noon"},
        {"after": "2026-02-15T09:30:00"},
        {"after": "2026-02-30T00:00:00Z"},
        {"after": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_news_need_a_moment_to_count_from(sign_in: SignIn, viewer: Person, log: None, asked: dict[str, str]) -> None:
    answer = new(sign_in(viewer), **asked)
    assert answer.status_code == 400
    assert "after is" in answer.text


@pytest.mark.parametrize("at", [datetime(1970, 1, 1, 0, 5, tzinfo=UTC), datetime(9000, 12, 31, 23, 55, tzinfo=UTC)])
def test_the_handoffs_around_a_line_of_a_wrong_clock_can_be_listed(
    sign_in: SignIn, viewer: Person, tenant: Tenant, at: datetime
) -> None:
    take(tenant, health(at))
    client = sign_in(viewer)
    (row,) = client.get(ADDRESS).context["rows"]
    (address,) = [link.address for link in row.links if "around this time" in link.text]
    assert client.get(address).status_code == 200
