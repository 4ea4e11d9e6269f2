"""Tests of the pages of findings: the list, one finding group, and muting."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.template import Context
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.templatetags.page_parts import group_link
from handoffaudit.diagnostics import attribution, group_members, group_store
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupRoute
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.diagnostics.groups.support import found, group
from tests.diagnostics.support import RUI
from tests.handoffs.support import held, judged
from tests.pages import attributes, links, select, text_of, texts

pytestmark = pytest.mark.django_db

LIST = "/t/acme/groups/"
SignIn = Callable[[Person], Client]


@pytest.fixture
def browser(sign_in: SignIn, reviewer: Person) -> Client:
    return sign_in(reviewer)


def lines(page: str) -> list[str]:
    """Return the rule codes of the listed finding groups, in their order."""
    return [attributes(one, "[title]", "title")[0].partition(":")[0] for one in select(page, ".group-title")]


def test_the_list_says_what_where_how_often_and_what_waits(browser: Client, tenant: Tenant) -> None:
    found(tenant, 2)
    one = group(tenant)
    page = browser.get(LIST).text
    assert CIRCULAR.title in page
    assert "target_agent_id" in page
    assert "new" in page
    assert f'href="/t/acme/review/?group={one.pk}">2' in page
    assert "Handoffs per day, last 14 days: " + "0, " * 13 + "2." in page


def test_the_link_to_the_waiting_handoffs_of_a_muted_group_leads_to_all_of_them(
    browser: Client, tenant: Tenant
) -> None:
    handoffs = found(tenant, 2)
    one = group(tenant)
    group_store.mute_group(tenant=tenant, group=one.pk, until="good", note="known", actor="rui")
    (link,) = links(browser.get(f"{LIST}{one.pk}/"), "a.button--primary")
    listed = browser.get(link).context["queue"].rows
    assert {row.handoff.pk for row in listed} == {handoff.pk for handoff in handoffs}
    assert browser.get("/t/acme/review/").context["queue"].rows == []


def test_no_findings_are_said_to_be_none(browser: Client) -> None:
    assert "No findings" in browser.get(LIST).text


@pytest.mark.parametrize("query", ["status=closed", "sort=oldest", "code=%00", "agent=" + "x" * 201, "cursor=x"])
def test_a_filter_that_cannot_be_read_is_told(browser: Client, query: str) -> None:
    answer = browser.get(f"{LIST}?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


def test_an_address_that_is_shared_has_no_empty_fields(browser: Client) -> None:
    answer = browser.get(f"{LIST}?sort=most&code=&agent=critic")
    assert (answer.status_code, answer["Location"]) == (302, f"{LIST}?sort=most&agent=critic")


def test_htmx_is_answered_the_results_alone(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    answer = browser.get(f"{LIST}?code=chain.circular&sort=", headers={"HX-Request": "true", "HX-Target": "results"})
    assert "<html" not in answer.text
    assert answer["HX-Push-Url"] == f"{LIST}?code=chain.circular"


@pytest.mark.parametrize("text", [CIRCULAR.title, CIRCULAR.title.upper(), "CHAIN.circular"])
def test_a_reason_is_asked_for_as_it_is_shown(browser: Client, tenant: Tenant, text: str) -> None:
    found(tenant)
    page = browser.get(LIST, {"code": text})
    assert [one.group.code for one in page.context["lines"]] == ["chain.circular"]
    assert page.context["query"] == "code=chain.circular"


def test_a_group_says_what_it_is_and_what_would_make_it_pass(browser: Client, tenant: Tenant) -> None:
    (handoff,) = found(tenant)
    page = browser.get(f"{LIST}{group(tenant).pk}/").text
    assert "/t/acme/diagnostics/codes/chain.circular/" in page
    assert f"/t/acme/handoffs/{handoff.pk}/" in page
    assert "How to fix" in page
    assert "handoff_reason" in page
    assert "Nobody has decided" in page


def test_a_group_leads_to_all_its_handoffs_which_say_whose_they_are(browser: Client, tenant: Tenant) -> None:
    handoffs = found(tenant, 2)
    judged(tenant, held())
    one = group(tenant)
    assert f'href="/t/acme/handoffs/?group={one.pk}">all its handoffs' in browser.get(f"{LIST}{one.pk}/").text
    answer = browser.get(f"/t/acme/handoffs/?group={one.pk}&state=rejected")
    assert answer.context["handoffs"] == handoffs[::-1]
    (chip,) = [chip for chip in answer.context["active_filters"] if chip.label == "Finding"]
    assert chip.value == f"{CIRCULAR.title} at target_agent_id"
    assert chip.href == "/t/acme/handoffs/?state=rejected"
    assert f'<input type="hidden" name="group" value="{one.pk}">' in answer.text
    for form, parted in (("csv", 3), ("ndjson", 2)):
        file = browser.get(f"/t/acme/handoffs/export/?format={form}&group={one.pk}")
        assert len(file.getvalue().splitlines()) == parted


def test_a_group_lists_its_routes_with_links_to_their_handoffs(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    critic = found(tenant, 2, source_agent_id="c & c", call_chain=["planner", "c & c"])
    page = browser.get(f"{LIST}{group(tenant).pk}/").text
    links = attributes(page, ".group-routes a", "href")
    assert [link.partition("&")[2] for link in links] == [
        "source=c%20%26%20c&target=planner",
        "source=researcher&target=planner",
    ]
    assert browser.get(links[0]).context["handoffs"] == critic[::-1]
    assert text_of(browser.get(LIST).text, ".group-where > span:last-child") == "1 other route"


def test_a_line_says_in_short_that_more_routes_have_the_finding(
    browser: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_members, "MOST_ROUTES", 3)
    for agent in ("ann", "ben", "cleo", "dan"):
        found(tenant, source_agent_id=agent, call_chain=["planner", agent])
    assert text_of(browser.get(LIST).text, ".group-where > span:last-child") == "2+ other routes"


def test_a_route_without_a_target_has_a_number_and_no_link(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    found(tenant, 2, source_agent_id="critic", call_chain=["planner", "critic"])
    FindingGroupRoute.objects.filter(source_agent_id="critic").update(target_agent_id="")
    page = browser.get(f"{LIST}{group(tenant).pk}/").text
    assert [text.split()[0] for text in texts(page, ".group-routes td")] == ["2", "1"]
    # A list cannot be filtered by an empty name.
    (link,) = attributes(page, ".group-routes a", "href")
    assert link.endswith("&source=researcher&target=planner")


def test_a_group_that_is_not_there_has_no_handoffs_and_a_chip_of_its_number(browser: Client, tenant: Tenant) -> None:
    answer = browser.get("/t/acme/handoffs/?group=99")
    assert [chip.value for chip in answer.context["active_filters"]] == ["99"]
    assert browser.get("/t/acme/handoffs/?group=a").status_code == 400


def test_a_group_says_what_people_decided(browser: Client, tenant: Tenant) -> None:
    first, _ = found(tenant, 2)
    about = {"tenant": tenant, "actor": RUI, "seen_version": None}
    decisions.decide_handoff(reference=str(first.pk), decision=Decision.APPROVE, note="It is meant to.", **about)
    page = browser.get(f"{LIST}{group(tenant).pk}/").text
    assert "It is meant to." in page
    assert "1 approved, 0 declined, 1 not decided by anybody" in text_of(page)


def test_the_newest_handoffs_unfold_without_leaving_the_list(browser: Client, tenant: Tenant) -> None:
    handoffs = found(tenant, 4)
    address = f"{LIST}{group(tenant).pk}/newest/"
    part = browser.get(address, headers={"HX-Request": "true"}).text
    assert [str(one.pk) in part for one in handoffs] == [False, True, True, True]
    assert browser.get(address)["Location"] == f"{LIST}{group(tenant).pk}/#newest"


def test_a_reviewer_mutes_a_group_and_takes_it_back(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    address = f"{LIST}{group(tenant).pk}/"
    answer = browser.post(f"{address}mute/", {"until": "10", "note": "Known; mended on Monday."}, follow=True)
    assert "muted until it has 11 handoffs" in answer.text
    assert "Known; mended on Monday." in answer.text
    assert lines(browser.get(LIST).text) == []
    assert lines(browser.get(f"{LIST}?status=muted").text) == ["chain.circular"]
    answer = browser.post(f"{address}unmute/", follow=True)
    assert "is unmuted" in answer.text
    assert lines(browser.get(LIST).text) == ["chain.circular"]


def test_without_a_note_nothing_is_muted_and_the_page_says_so(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    answer = browser.post(f"{LIST}{group(tenant).pk}/mute/", {"until": "double", "note": " "})
    assert answer.status_code == 400
    assert "There is no note: write why the group is muted" in answer.text
    assert '<option value="double" selected>' in answer.text
    assert group(tenant).muted_at is None


def test_one_that_came_back_stands_first_until_somebody_has_seen_it(browser: Client, tenant: Tenant) -> None:
    found(tenant)
    judged(tenant, held())
    attribution.run()
    long_chain = FindingGroup.objects.order_by("-last_seen", "-id")[0].code
    assert lines(browser.get(LIST).text)[0] == long_chain
    FindingGroup.objects.filter(code="chain.circular").update(regressed_at=timezone.now())
    page = browser.get(LIST).text
    assert lines(page)[0] == "chain.circular"
    assert "regressed" in page
    browser.post(f"{LIST}{group(tenant).pk}/acknowledge/")
    assert lines(browser.get(LIST).text)[0] == long_chain


def test_a_viewer_sees_no_form(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    found(tenant)
    page = sign_in(viewer).get(f"{LIST}{group(tenant).pk}/").text
    assert "Mute until" not in page
    assert 'name="until"' not in page


@pytest.mark.parametrize("pk", ["0", "99", "9" * 30])
def test_a_group_that_is_not_there_is_not_found(browser: Client, pk: str) -> None:
    assert browser.get(f"{LIST}{pk}/").status_code == 404


def test_a_name_that_hides_the_page_is_made_visible(browser: Client, tenant: Tenant) -> None:
    found(tenant, 1, source_agent_id="<b>x</b>\u202e", call_chain=["planner", "<b>x</b>\u202e"])
    for address in (LIST, f"{LIST}{group(tenant).pk}/"):
        page = browser.get(address, headers={"HX-Request": "true", "HX-Target": "results"}).text
        assert "<b>x" not in page
        assert "\u202e" not in page


def test_a_group_whose_handoffs_were_judged_otherwise_is_still_a_page(browser: Client, tenant: Tenant) -> None:
    empty = FindingGroup.objects.create(
        tenant=tenant,
        code="old.code",
        key="k",
        first_seen=timezone.now(),
        last_seen=timezone.now() - timedelta(days=40),
    )
    assert "No handoff has it any more" in browser.get(f"{LIST}{empty.pk}/").text
    assert "old.code" not in browser.get(f"{LIST}?status=all").text


def test_a_finding_leads_to_its_group(tenant: Tenant, django_assert_num_queries: Callable[[int], object]) -> None:
    (handoff,) = found(tenant)
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        linked = group_link(Context({"who": None}), handoff, "chain.circular", "target_agent_id")
        other = group_link(Context({"who": None}), handoff, "chain.circular", "elsewhere")
    assert linked["group"] == group(tenant)
    assert other["group"] is None


def test_the_view_of_all_groups_is_not_named_like_the_one_of_groups_that_wait(browser: Client) -> None:
    assert texts(browser.get("/t/acme/groups/"), ".views-tabs a")[:2] == ["All", "Waiting for review"]
