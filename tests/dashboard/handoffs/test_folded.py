"""Tests of folded findings: one entry for each rule code on the page of a handoff and in review; notes stand apart."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff, Verdict
from handoffaudit.validation.layers.grounding.findings import BY_KIND
from tests.dashboard.handoff_page import address, payload, store
from tests.pages import attributes, select, text_of, texts

pytestmark = pytest.mark.django_db

NUMBER = BY_KIND["number"]
SignIn = Callable[[Person], Client]
HINT = "Supply the source as context or evidence, or remove the value."


@pytest.fixture
def browser(sign_in: SignIn, reviewer: Person) -> Client:
    return sign_in(reviewer)


def issue(number: int, **changes: Any) -> dict[str, Any]:
    """Return a finding in the form of the API."""
    return {
        "issue_id": f"issue-{number}",
        "layer": "grounding",
        "severity": "warning",
        "code": "grounding.number",
        "message": f"data.rows[{number}] gives the number {number}, which is in no source.",
        "field_path": f"data.rows[{number}]",
        "json_pointer": f"/data/rows/{number}",
        "expected": None,
        "actual": str(number),
        "hint": HINT,
        "metadata": {"text": str(number), "closest": ""},
        **changes,
    }


def found(tenant: Tenant, issues: list[dict[str, Any]], **document: Any) -> Handoff:
    """Return a judged handoff whose verdict has these findings."""
    handoff = store(tenant, payload(data={"rows": list(range(120))}, **document))
    stored = Verdict.objects.get(pk=handoff.verdict)
    stored.content = orjson.dumps(orjson.loads(stored.content) | {"issues": issues}).decode()
    stored.save()
    return handoff


def test_equal_findings_are_one_entry_with_each_finding_folded_in_it(browser: Client, tenant: Tenant) -> None:
    handoff = found(tenant, [issue(number) for number in range(1, 45)])
    page = browser.get(address(handoff)).text
    (entry,) = select(page, "#why .issues > li")
    title = f"{NUMBER.title}: 44 times "
    assert text_of(entry, ".issue-message") == f'{title}"1" "2" "3" "4" "5" and 39 more'
    assert text_of(entry, ".issue-hint") == f"Better: {HINT}"
    assert text_of(entry, ".issue-where").startswith("data.rows[1] data.rows[2] data.rows[3] and 41 more places")
    (folded,) = select(entry, "details.issue-each:not([open])")
    assert text_of(folded, "summary") == f"All 44 findings of {NUMBER.title}"
    assert attributes(folded, "li[id]", "id") == [f"issue-{number}" for number in range(1, 45)]
    assert "data.rows[44] gives the number 44, which is in no source." in text_of(folded, "#issue-44")
    assert page.count(HINT.split(",", maxsplit=1)[0]) == 1 + page.count("here-hint")
    assert text_of(page, "#issues-warning") == "Warnings 1"
    assert text_of(page, "#verdict-title") == "Accepted with 1 warning"
    assert text_of(page, '.sections a[href="#why"]') == "Why 1 finding"


def test_one_finding_with_many_values_lists_each_with_the_closest(browser: Client, tenant: Tenant) -> None:
    values = [{"text": str(2000 + number), "start": 0, "end": 4, "closest": ""} for number in range(20)]
    values[1]["closest"] = "2024"
    handoff = found(tenant, [issue(1, metadata={"values": values, "count": 31}), issue(2, metadata={"values": values})])
    (entry,) = select(browser.get(address(handoff)).text, "#why .issues > li")
    assert text_of(entry, ".issue-message") == f"{NUMBER.title}: 31 values 2000 2001 2002 2003 2004 and 26 more"
    handoff = found(tenant, [issue(1, metadata={"values": values, "count": 31})], handoff_id="h-2")
    (entry,) = select(browser.get(address(handoff)).text, "#why .issues > li")
    assert text_of(entry, ".issue-message").startswith("data.rows[1] gives the number 1")
    (folded,) = select(entry, "details.issue-each:not([open])")
    assert text_of(folded, "summary") == f"All 31 values of {NUMBER.title}"
    assert texts(folded, "li")[:2] == ["2000", "2001 closest: 2024"]
    assert texts(folded, "li")[-1] == "and 11 more"


def test_a_value_at_several_places_is_listed_and_counted_once(browser: Client, tenant: Tenant) -> None:
    values = [{"text": text, "start": at, "end": at + 1, "closest": ""} for at, text in enumerate("abacb")]
    handoff = found(tenant, [issue(1, metadata={"values": values, "count": 5})])
    (folded,) = select(browser.get(address(handoff)).text, "#why .issues > li details.issue-each")
    assert text_of(folded, "summary") == f"All 3 values of {NUMBER.title}"
    assert texts(folded, "li") == ["a", "b", "c"]


def test_findings_with_hints_of_their_own_keep_them(browser: Client, tenant: Tenant) -> None:
    handoff = found(tenant, [issue(1, hint="Did you mean 11?"), issue(2, hint="Did you mean 22?")])
    (entry,) = select(browser.get(address(handoff)).text, "#why .issues > li")
    assert text_of(entry, ".issue-hint").startswith("Better: Supply the source")
    assert "Did you mean 11?" in text_of(entry, "#issue-1")
    assert "Did you mean 22?" in text_of(entry, "#issue-2")


def test_findings_of_one_code_with_two_severities_are_two_entries(browser: Client, tenant: Tenant) -> None:
    handoff = found(tenant, [issue(1, severity="error"), issue(2), issue(3)])
    page = browser.get(address(handoff)).text
    assert (text_of(page, "#issues-decides"), text_of(page, "#issues-warning")) == ("What decides 1", "Warnings 1")


def test_notes_are_folded_and_count_nowhere(browser: Client, tenant: Tenant) -> None:
    notes = [issue(number, severity="info") for number in range(1, 13)]
    page = browser.get(address(found(tenant, notes))).text
    (folded,) = select(page, "details#issues-info:not([open])")
    assert text_of(folded, "#issues-info > summary") == "1 note"
    assert "data.rows[12] gives the number 12" in text_of(folded, "#issue-12")
    assert text_of(page, "#verdict-title") == "Accepted: no findings in the checks that ran"
    assert text_of(page, '.sections a[href="#why"]') == "Why"
    assert select(page, "#document .here") == select(page, "#document .below") == []
    assert "note" not in text_of(page, "#layers")


def test_a_place_in_the_document_says_equal_findings_once(browser: Client, tenant: Tenant) -> None:
    same = {"field_path": "data.rows", "json_pointer": "/data/rows"}
    page = browser.get(address(found(tenant, [issue(number, **same) for number in range(1, 45)]))).text
    assert "rows [ ] 120 entries" in text_of(page, "#document")
    assert "1 finding inside" in text_of(page, "#document")
    (here,) = texts(page, "#document .here")
    assert here.startswith(f'{NUMBER.title}: 44 times "1" "2"')


def test_review_folds_them_too_and_leaves_notes_out(browser: Client, tenant: Tenant) -> None:
    issues = [*(issue(number) for number in range(1, 45)), issue(45, code="references.ephemeral", severity="info")]
    handoff = found(tenant, issues, target_agent_id="planner")
    page = browser.get(f"/t/acme/review/{handoff.pk}/").text
    (entry,) = select(page, ".whys > .why")
    assert "44 times" in text_of(entry, ".why-title")
    (folded,) = select(entry, "details:not([open])")
    assert text_of(folded, "summary") == f"20 of 44 findings of {NUMBER.title}"
    assert len(select(folded, "li")) == 20
    assert len(texts(page, ".why-title")) == 1


@pytest.mark.parametrize(
    "metadata",
    [
        {"values": "x" * 10_000},
        {"values": [None, 7, {"text": 7}, {"text": "a", "closest": ["b"]}], "count": "many"},
        {"values": [{"text": "\u202e<b>" * 500, "closest": "\0" * 500}] * 100, "count": -3},
        {"values": [{"text": "a"}], "count": 10**15},
    ],
    ids=["no list", "other types", "much", "a large count"],
)
def test_odd_values_are_shown_and_bounded(browser: Client, tenant: Tenant, metadata: dict[str, Any]) -> None:
    issues = [issue(number, metadata=metadata, actual="<i>" * 100) for number in range(1, 120)]
    answer = browser.get(address(found(tenant, issues)))
    assert (answer.status_code, len(answer.content) < 300_000) == (200, True)
    assert not {"\u202e", "\0"} & set(answer.text)
    assert "further on in the list" in answer.text
