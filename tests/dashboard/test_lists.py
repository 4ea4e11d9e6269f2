"""Tests of the rows of lists."""

from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.templatetags.lists import pick_most_severe, row_address
from handoffaudit.dashboard.templatetags.ui import codes, options
from handoffaudit.validation.layers.chain import CIRCULAR, CIRCULAR_WITH_REASON, NEEDS_APPROVAL
from tests.dashboard.log_lines import gate, moment, take
from tests.pages import text_of


@pytest.mark.parametrize("slug", ["acme", "9007199254740991"])
def test_the_address_of_a_row_is_that_of_the_page(slug: str) -> None:
    for pk in (UUID(int=7), UUID(int=2**128 - 1)):
        assert row_address("dashboard:review_item", slug, pk) == reverse("dashboard:review_item", args=[slug, pk])
    for number in (1, 9_007_199_254_740_991):
        assert row_address("dashboard:group", slug, number) == reverse("dashboard:group", args=[slug, number])


def test_options_say_which_is_chosen_and_let_no_name_out_of_its_place() -> None:
    assert options(['"><b>', "b"], "b") == (
        '<option value="&quot;&gt;&lt;b&gt;">&quot;&gt;&lt;b&gt;</option><option value="b" selected>b</option>'
    )
    assert options(["chain.circular"], "", "codes") == f'<option value="chain.circular">{CIRCULAR.title}</option>'
    assert options(["b"], "a") == '<option value="b">b</option><option value="a" selected>a</option>'


def test_reasons_that_a_row_has_no_room_for_are_counted_and_named() -> None:
    others = f"{NEEDS_APPROVAL.title}, {CIRCULAR_WITH_REASON.title}"
    row = codes(["chain.needs_approval", "chain.circular", "chain.circular_with_reason"], 1)
    assert f"<span>{CIRCULAR.title}</span>" in row
    assert f'title="{others}">+2 more<span class="hidden">: {others}</span></span>' in row
    assert "more" not in codes(["chain.circular"], 1)


def test_the_gravest_reason_stands_first_and_of_like_ones_what_holds() -> None:
    warnings = ["chain.declared_differs", "chain.needs_approval", "semantic.unavailable"]
    assert pick_most_severe(warnings) == "chain.needs_approval"
    assert pick_most_severe([*warnings, "chain.self_handoff"]) == "chain.self_handoff"
    assert pick_most_severe(["semantic.unavailable", "evidence.unused_evidence"]) == "evidence.unused_evidence"


@pytest.mark.parametrize(
    ("page", "target", "name"),
    [
        ("handoffs", "results", "source"),
        ("groups", "results", "agent"),
        ("traces", "results", "agent"),
        ("diagnostics/logs", "lines", "agent"),
        ("diagnostics/files", "results", "agent"),
    ],
)
def test_the_fold_of_filters_follows_a_filter_that_is_set_or_removed(
    tenant: Tenant, as_viewer: Client, page: str, target: str, name: str
) -> None:
    take(tenant, gate(moment()))
    for value, expected in (("planner", "Filters in force"), ("", "Filters")):
        address = f"/t/acme/{page}/?{name}={value}"
        whole = as_viewer.get(address, follow=True)
        part = as_viewer.get(address, headers={"HX-Request": "true", "HX-Target": target})
        assert text_of(whole, "summary#filters-name") == expected
        assert text_of(part, "[hx-swap-oob]#filters-name") == expected
        # To restore its history, htmx requests the whole page.
        restored = as_viewer.get(
            address, headers={"HX-Request": "true", "HX-History-Restore-Request": "true"}, follow=True
        )
        assert restored.content.count(b'id="filters-name"') == 1
