"""Tests of switching the mode of a row in place, with the effect of the switch shown beside it."""

import dataclasses
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.policies.strictness import effects
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.validation.config import Mode
from tests.pages import links, only, text_of

PAGE = "/t/acme/strictness/"
HANDOFF = re.compile(r"/t/acme/handoffs/[0-9a-f-]{36}/")
HTMX = {"HX-Request": "true", "HX-Target": "strictness"}


def put(tenant: Tenant, handoff_type: str, **changed: Any) -> int:
    now = strictness.current(tenant)
    row = now.row(handoff_type) or now.row("*")
    assert row is not None
    row = dataclasses.replace(row, handoff_type=handoff_type, **changed)
    return strictness.upsert_row(tenant=tenant, base_version=now.version, row=row, actor="bob").version


def mode(tenant: Tenant, handoff_type: str) -> Mode:
    row = strictness.current(tenant).row(handoff_type)
    assert row is not None
    return row.mode


@pytest.fixture
def in_shadow(tenant: Tenant, submit: Callable[..., Handoff]) -> int:
    """Submit three messages in shadow mode, of which two would be blocked, and return the version of the table."""
    version = put(tenant, "message", mode=Mode.SHADOW)
    submit()
    submit(target_agent_id="planner")
    submit(call_chain=["a", "b", "c", "d", "e", "planner"])
    return version


def test_a_row_in_shadow_tells_how_many_it_would_block_and_links_to_them(
    as_admin: Client, tenant: Tenant, in_shadow: int
) -> None:
    page = as_admin.get(PAGE)
    assert "would block 2 of 3 (66.7 %)" in text_of(page)
    (address,) = set(links(page, 'a[href*="flag=shadowed"]'))
    listed = links(as_admin.get(address))
    assert len({found[0] for one in listed if (found := HANDOFF.match(one))}) == 2


def test_a_row_in_force_tells_how_many_it_blocked(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    put(tenant, "message")
    submit()
    submit(target_agent_id="planner")
    page = as_admin.get(PAGE).text
    assert "blocked 1 of 2 (50.0 %)" in text_of(page)
    assert "would block" not in text_of(page).partition("What the columns mean")[0]


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_the_switch_says_what_would_be_stopped_and_why_before_it_is_made(
    as_admin: Client, tenant: Tenant, in_shadow: int, headers: dict[str, str]
) -> None:
    asked = as_admin.get(PAGE, {"switch": "message"}, headers=headers).text
    for told in (
        "Enforce message?",
        "2 of 3 (66.7 %) passed only in shadow: 1 would have been rejected, 1 held for a person.",
        "planner 2",
    ):
        assert told in text_of(asked)
    assert "code=chain.needs_approval" in asked
    sent = {"row": "message", "to": "enforce", "base_version": in_shadow, "note": "a week was enough"}
    done = as_admin.post(f"{PAGE}switch/", sent, headers=headers)
    assert done.status_code == (200 if headers else 302)
    after = done.text if headers else as_admin.get(done.url).text
    assert "message is enforced from now on." in text_of(after)
    now = strictness.current(tenant)
    assert (now.version, now.changed_by, now.note) == (in_shadow + 1, "admin", "a week was enough")
    assert mode(tenant, "message") is Mode.ENFORCE


def test_the_switch_links_to_the_handoffs_of_a_source_with_blanks_in_its_name(
    as_admin: Client, tenant: Tenant, in_shadow: int
) -> None:
    Handoff.objects.filter(tenant=tenant).update(source_agent_id=" q ")
    (address,) = links(as_admin.get(PAGE, {"switch": "message"}), 'a[href*="source="]')
    assert {one.source_agent_id for one in as_admin.get(address).context["handoffs"]} == {" q "}


def test_what_came_before_a_row_was_in_shadow_is_no_part_of_its_share(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    put(tenant, "message")
    for _ in range(3):
        submit()
    put(tenant, "message", mode=Mode.SHADOW)
    # The moment of a version is finer than that of an id.
    PolicyVersion.objects.filter(tenant=tenant, number=2).update(changed_at=timezone.now() + timedelta(milliseconds=2))
    time.sleep(0.01)
    submit(target_agent_id="planner")
    submit()
    put(tenant, "other")
    asked = text_of(as_admin.get(PAGE, {"switch": "message"}))
    assert "Since the switch to shadow 1 hour ago: 1 of 2 (50.0 %) passed only in shadow" in asked


def test_the_figures_of_many_rows_put_in_shadow_one_by_one_cost_no_more_than_those_of_one(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    for number in range(6):
        put(tenant, f"type_{number}", mode=Mode.SHADOW)
        if number in (0, 5):
            now = strictness.current(tenant)
            # Two for the week, two for all rows, one for the versions, four for what came since the switches.
            with django_assert_num_queries(8):
                _, found = effects(tenant, now)
    starts = {one.stopping.since for row, one in found.items() if row.startswith("type_")}
    assert len(starts) == 6


def test_a_row_that_was_in_shadow_before_the_week_is_counted_by_the_week(tenant: Tenant) -> None:
    put(tenant, "message", mode=Mode.SHADOW)
    put(tenant, "other")
    PolicyVersion.objects.filter(tenant=tenant, number=1).update(changed_at=timezone.now() - timedelta(days=30))
    since, found = effects(tenant, strictness.current(tenant))
    assert found["message"].stopping.since == since


def test_only_the_mode_of_that_row_is_changed(as_admin: Client, tenant: Tenant) -> None:
    version = put(tenant, "message", token_budget=777)
    before = strictness.current(tenant).rows
    as_admin.post(f"{PAGE}switch/", {"row": "message", "to": "shadow", "base_version": version})
    (change,) = strictness.difference(before, strictness.current(tenant).rows)
    assert (change.row, change.field, change.new) == ("message", "mode", "shadow")


def test_a_switch_on_an_old_view_is_told_and_asked_again(as_admin: Client, tenant: Tenant) -> None:
    version = put(tenant, "message", mode=Mode.SHADOW)
    put(tenant, "message", mode=Mode.SHADOW, token_budget=5)
    sent = {"row": "message", "to": "enforce", "base_version": version, "note": "kept"}
    refused = as_admin.post(f"{PAGE}switch/", sent)
    assert refused.status_code == 409
    assert f"bob saved version {version + 1} meanwhile" in refused.text
    assert 'value="kept"' in refused.text
    assert f'name="base_version" value="{version + 1}"' in refused.text
    assert mode(tenant, "message") is Mode.SHADOW


@pytest.mark.parametrize(
    ("sent", "status"), [({"row": "nobody", "to": "enforce"}, 409), ({"row": "deal_data", "to": "off"}, 400)]
)
def test_what_cannot_be_switched_is_refused(
    as_admin: Client, tenant: Tenant, sent: dict[str, str], status: int
) -> None:
    assert as_admin.post(f"{PAGE}switch/", sent | {"base_version": "0"}).status_code == status
    assert strictness.current(tenant).version == 0


def test_viewers_see_the_figures_and_no_switch(tenant: Tenant, viewer: Person, in_shadow: int) -> None:
    client = Client()
    client.force_login(viewer)
    page = only(client.get(PAGE, {"switch": "message"}), "main")
    assert "would block 2 of 3" in text_of(page)
    assert "switch=" not in (page.html or "")
    assert "Enforce message?" not in text_of(page)
    assert client.post(f"{PAGE}switch/", {"row": "message", "to": "enforce"}).status_code == 403


def test_a_row_can_be_linked_to(as_admin: Client, tenant: Tenant) -> None:
    put(tenant, "odd type/1")
    page = as_admin.get(PAGE).text
    assert 'id="type-deal_data"' in page
    assert 'id="type-odd%20type%2F1"' in page


@pytest.mark.parametrize(("asked", "row"), [("deal_data", "deal_data"), ("unheard of", "%2A"), ("", "%2A")])
def test_from_elsewhere_one_comes_to_the_row_that_a_type_follows(
    tenant: Tenant, viewer: Person, asked: str, row: str
) -> None:
    client = Client()
    client.force_login(viewer)
    led = client.get(f"{PAGE}row/", {"type": asked})
    assert (led.status_code, led.url) == (302, f"{PAGE}#type-{row}")
    assert f'id="type-{row}"' in client.get(PAGE).text
