"""Tests of the handoffs whose verdict a dry run changes: the list, its filters, and both verdicts."""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.policies import dry_runs as pages
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Handoff, Trial
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.layers.chain import CIRCULAR
from handoffaudit.validation.verdict import Verdict
from tests.dashboard.policies.test_policies import start, strictness_form
from tests.handoffs.support import judged, payload
from tests.pages import texts
from tests.validation.support import judge
from tests.validation.support import payload as core


def with_two_flips(as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]) -> tuple[str, Handoff, Handoff]:
    """Return the address of a finished dry run, a handoff that it rejects, and a handoff that it accepts."""
    long = submit(call_chain=["a", "b", "c", "d", "e", "planner"])
    large = submit(data={"text": "Three sources agree on the date. " * 20})
    form = strictness_form(tenant, "message", token_budget=100, approval_length=9)
    trial = start(as_admin, "strictness", form)
    dry_runs.run_waiting()
    trial.refresh_from_db()
    assert trial.flips == {"accepted>rejected": 1, "held>accepted": 1}
    return f"/t/acme/trials/{trial.pk}/", large, long


def test_what_would_flip_is_narrowed_to_a_way_and_to_a_code(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    address, large, long = with_two_flips(as_admin, tenant, submit)
    for asked, there, gone in (
        ("flip=accepted-rejected", large, long),
        ("flip=held-accepted", long, large),
        ("code=chain.needs_approval", long, large),
    ):
        assert f"?{asked}#which" in as_admin.get(address).text
        page = as_admin.get(f"{address}?{asked}").text
        assert there.handoff_id in page
        assert gone.handoff_id not in page
        assert "Show all" in page
    assert "None of those that are listed." in as_admin.get(f"{address}?code=nothing.like_it").text


def test_both_verdicts_of_a_handoff_are_compared(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    address, large, long = with_two_flips(as_admin, tenant, submit)
    assert f'href="{address}{large.pk}/"' in as_admin.get(address).text
    page = as_admin.get(f"{address}{large.pk}/").text
    assert "tokens.over_budget" in page
    assert ">new<" in page
    assert ">gone<" in as_admin.get(f"{address}{long.pk}/").text
    before = Handoff.objects.get(pk=large.pk)
    assert (before.state, before.version) == (large.state, large.version)


def test_a_warning_that_the_draft_makes_an_error_is_told_once_with_both(as_admin: Client, tenant: Tenant) -> None:
    document = payload(data={"revenue": 42_000}, handoff_type="message")
    invented = judged(tenant, document, context={"note": "The revenue was 17 EUR."})
    assert invented.state == "accepted"
    trial = start(as_admin, "strictness", strictness_form(tenant, "message", grounding="reject"))
    dry_runs.run_waiting()
    trial.refresh_from_db()
    assert trial.flips == {"accepted>rejected": 1}
    (changed,) = pages.changed_handoffs(trial)
    assert set(dict(changed.codes).values()) == {"error"}
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/{invented.pk}/").text
    assert "warning → error" in page
    assert not {"new", "gone"} & set(texts(page, "span"))


def test_only_a_comparison_with_more_findings_than_the_limit_is_cut(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, large, _ = with_two_flips(as_admin, tenant, submit)
    monkeypatch.setattr(pages, "MOST_ISSUES", 1)
    one = as_admin.get(f"{address}{large.pk}/")
    assert (len(one.context["findings"]), one.context["is_cut"]) == (1, False)
    monkeypatch.setattr(pages, "MOST_ISSUES", 0)
    assert as_admin.get(f"{address}{large.pk}/").context["is_cut"]


def test_only_handoffs_of_the_tenant_are_compared(
    as_admin: Client, tenant: Tenant, other_tenant: Tenant, submit: Callable[..., Handoff], submit_to: Any
) -> None:
    address, *_ = with_two_flips(as_admin, tenant, submit)
    theirs = submit_to(other_tenant)
    assert as_admin.get(f"{address}{theirs.pk}/").status_code == 404
    assert as_admin.get(f"{address}{uuid.uuid4()}/").status_code == 404


def listed(*rows: list[tuple[str, str]], deciding: int = 0) -> list[pages.ChangedHandoff]:
    """Return the rows that a dry run lists for handoffs with these codes and severities."""
    return pages.changed_handoffs(
        Trial(
            changed=[
                {
                    "handoff": str(uuid.uuid4()),
                    "handoff_id": "h",
                    "before": "accepted",
                    "after": "rejected",
                    "codes": [code for code, _ in row],
                    "levels": [level for _, level in row],
                    "deciding": deciding or len(row),
                }
                for row in rows
            ]
        )
    )


def test_a_code_with_two_severities_is_counted_once_with_the_gravest() -> None:
    rows = listed([("schema.required", "error")], [("schema.required", "critical")], [("schema.type", "error")])
    assert pages.codes(rows) == [("schema.required", "critical", 2), ("schema.type", "error", 1)]


def test_codes_that_have_no_room_are_named_and_those_not_kept_counted() -> None:
    shown = [("schema.required", "error"), ("schema.type", "error"), ("chain.circular", "error")]
    (three,) = listed(shown)
    assert (three.more, three.more_named) == (1, CIRCULAR.title)
    (seven,) = listed(shown, deciding=7)
    assert (seven.more, seven.more_named) == (5, f"{CIRCULAR.title} and 4 more")


def test_the_page_names_the_codes_that_have_no_room(as_admin: Client, tenant: Tenant) -> None:
    trial = start(as_admin, "strictness", strictness_form(tenant, "message", token_budget=1))
    codes = ["schema.required", "schema.type", "chain.circular"]
    row = {"handoff": str(uuid.uuid4()), "handoff_id": "h", "before": "accepted", "after": "rejected"}
    row |= {"codes": codes, "levels": ["error"] * 3, "deciding": 9}
    Trial.objects.update(changed=[row], flips={"accepted>rejected": 1}, total=1, judged=1, finished_at=timezone.now())
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/").text
    assert texts(page, f'[title="{CIRCULAR.title} and 6 more"]') == [f"+7 more: {CIRCULAR.title} and 6 more"]


def test_equal_findings_of_both_verdicts_are_one_line_and_notes_none() -> None:
    def issue(number: int, **changes: Any) -> Issue:
        place = ("data", "rows", number)
        made = Issue("schema", "schema.type", Severity.ERROR, f"Row {number} is not a number.", "", place)
        return msgspec.structs.replace(made, **changes)

    now = msgspec.structs.replace(
        judge(core()), issues=tuple(issue(number, severity=Severity.WARNING) for number in range(3))
    )
    then = msgspec.structs.replace(
        now, issues=(*(issue(number) for number in range(44)), issue(50, severity=Severity.INFO))
    )
    new, changed = pages.compare_verdicts(now, then)
    assert (new.change, new.issue.message, len(new.others)) == (pages.Change.NEW, "Row 3 is not a number.", 40)
    assert (changed.change, changed.before, len(changed.others)) == (pages.Change.SEVERITY, "warning", 2)


def test_each_of_several_findings_at_one_place_is_compared() -> None:
    def verdict(*messages: str) -> Verdict:
        place = ("data", "code")
        found = (Issue("schema", "schema.pattern", Severity.ERROR, message, "", place) for message in messages)
        return msgspec.structs.replace(judge(core()), issues=tuple(found))

    gone, same = pages.compare_verdicts(verdict("It has no digit.", "It has no dash."), verdict("It has no dash."))
    assert (gone.change, gone.issue.message, gone.others) == (pages.Change.GONE, "It has no digit.", ())
    assert (same.change, same.issue.message, same.others) == (pages.Change.SAME, "It has no dash.", ())
    (same,) = pages.compare_verdicts(verdict("It has 9 of 5 letters."), verdict("It has 9 of 3 letters."))
    assert (same.change, same.issue.message) == (pages.Change.SAME, "It has 9 of 3 letters.")


def test_one_more_type_is_told_as_one() -> None:
    names = [f"type-{number}" for number in range(pages.MOST_TYPES + 1)]
    assert pages.join_types(names).endswith(" and 1 more type")
    assert pages.join_types([*names, "other"]).endswith(" and 2 more types")
