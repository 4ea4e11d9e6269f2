"""Tests of the help page of each rule code, which is a click away wherever the code is shown."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution, codes
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import Kind
from tests.diagnostics.files.support import received
from tests.diagnostics.files.support import report as file_report
from tests.diagnostics.trace_support import made_up
from tests.pages import links, text_of

NUMBER = "grounding.number"
HELP = "/t/acme/diagnostics/codes/"


def linked(browser: Client, address: str) -> list[str]:
    page = browser.get(address)
    assert page.status_code == 200
    paths = (one.partition("?")[0] for one in links(page, f'[href^="{HELP}"]'))
    return [path.removeprefix(HELP).removesuffix("/") for path in paths if path != HELP]


@pytest.fixture
def flagged(tenant: Tenant) -> list[Handoff]:
    """Submit handoffs of one trace; the second and the third contain a number that is in no source."""
    found = made_up(tenant)
    attribution.run()
    return found


def test_pages_and_lists_about_codes_lead_to_what_they_mean(as_admin: Client, flagged: list[Handoff]) -> None:
    for address in (
        "/t/acme/?period=30d",
        "/t/acme/agents/solver/",
        "/t/acme/diagnostics/",
        "/t/acme/diagnostics/compliance/",
        "/t/acme/traces/work/1/",
        f"/t/acme/handoffs/?code={NUMBER}",
        f"/t/acme/groups/?code={NUMBER}",
    ):
        assert NUMBER in linked(as_admin, address), address


def test_the_page_of_a_code_says_if_it_lists_only_some_sources(
    as_admin: Client, flagged: list[Handoff], monkeypatch: pytest.MonkeyPatch
) -> None:
    def head() -> str:
        return text_of(as_admin.get(f"{HELP}{NUMBER}/?period=7d"), ".card:has(#whose) .card-head")

    assert head() == "By agent sources"
    monkeypatch.setattr(codes, "MOST_SOURCES", 1)
    assert head() == "By agent sources, the 1 with the most handoffs"


def test_the_queue_of_a_code_leads_to_what_it_means(as_admin: Client, circular: Handoff) -> None:
    assert linked(as_admin, "/t/acme/review/?code=chain.circular") == ["chain.circular"]


def test_where_a_single_handoff_stands_each_of_its_issues_leads_to_its_code(
    as_admin: Client, flagged: list[Handoff]
) -> None:
    for handoff in flagged:
        for address in (f"/t/acme/handoffs/{handoff.pk}/", f"/t/acme/review/{handoff.pk}/"):
            found = linked(as_admin, address)
            assert [code for code in handoff.codes if code not in found] == []


def test_what_is_wrong_with_a_handoff_file_leads_to_its_code(as_admin: Client, tenant: Tenant) -> None:
    report = received(tenant, file_report({})).report
    assert report is not None
    assert "structure.missing_field" in linked(as_admin, f"/t/acme/diagnostics/files/{report.pk}/")


def test_a_list_leads_to_no_code_that_nothing_has(as_admin: Client, flagged: list[Handoff]) -> None:
    for name in ("handoffs", "groups", "review"):
        assert linked(as_admin, f"/t/acme/{name}/?code=no.such") == []


def test_trials_lead_to_the_codes_that_decide(as_admin: Client, tenant: Tenant, flagged: list[Handoff]) -> None:
    rows = strictness.to_plain(strictness.current(tenant).rows)
    for row in rows["rows"]:
        row["token_budget"] = 1
    begun = dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=rows, base_version=0, actor="ada")
    dry_runs.run_waiting()
    (changed, *_) = dry_runs.get(tenant, begun.pk).changed
    assert "tokens.over_budget" in linked(as_admin, f"/t/acme/trials/{begun.pk}/")
    assert "tokens.over_budget" in linked(as_admin, f"/t/acme/trials/{begun.pk}/{changed['handoff']}/")
