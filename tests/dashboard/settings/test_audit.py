"""Tests of the page of the audit log: its filters, and the page of each entry."""

from django.test import Client

from handoffaudit.accounts import audit, keys, people
from handoffaudit.accounts.models import AuditEntry, Person, Role, Tenant
from handoffaudit.dashboard.settings.audit import ACTIONS, KINDS
from handoffaudit.diagnostics.agents import declare_role
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import Kind
from handoffaudit.validation.config import TypePolicy
from tests.pages import text_of

PAGE = "/t/acme/settings/"


def test_the_audit_log_is_narrowed_by_who_what_and_when(as_admin: Client, tenant: Tenant) -> None:
    for number in range(52):
        keys.create(tenant=tenant, name=f"key-{number}-", scopes=["read"], expires_at=None, actor="ada")
    people.invite(tenant=tenant, name="mira", role=Role.VIEWER, actor="grace")
    page = as_admin.get(f"{PAGE}audit/", {"kind": "key", "person": "ada"}).text
    assert "key-51-" in page
    assert "mira" not in text_of(page, "tbody")
    assert f"{PAGE}audit/?person=ada&amp;kind=key&amp;before=3" in page
    older = as_admin.get(f"{PAGE}audit/", {"kind": "key", "person": "ada", "before": "3"}).text
    assert "key-1-" in older
    assert "key-2-" not in older
    assert "No entry fits" in as_admin.get(f"{PAGE}audit/", {"from": "2099-01-01"}).text
    assert "No entry fits" in as_admin.get(f"{PAGE}audit/", {"to": "1999-01-01"}).text
    assert "mira" in as_admin.get(f"{PAGE}audit/", {"kind": "person", "from": "2020-01-01", "to": "2098-12-31"}).text
    for bad in ({"from": "soon"}, {"kind": "nothing"}, {"person": "\0"}):
        assert as_admin.get(f"{PAGE}audit/", bad).status_code == 400


def test_the_counts_of_an_erasure_are_words_in_the_log(as_admin: Client, tenant: Tenant) -> None:
    detail = {"found": {"documents": 11, "file_reports": 3}, "held": {}, "reason": "request 12"}
    audit.record(tenant=tenant, actor="ada", action="erasure.confirm", target="an id", detail=detail)
    shown = text_of(as_admin.get(f"{PAGE}audit/"), "tbody")
    assert "found: documents 11, file reports 3; reason: request 12" in shown
    assert "held" not in shown


def test_a_key_that_may_speak_for_any_agent_again_has_none_in_the_log(as_admin: Client, tenant: Tenant) -> None:
    key, _ = keys.create(tenant=tenant, name="k", scopes=["ingest"], expires_at=None, actor="ada", agents=["planner"])
    keys.bind(tenant=tenant, key_id=key.pk, agents=[], actor="ada")
    assert "agents: none; before: planner" in text_of(as_admin.get(f"{PAGE}audit/"), "tbody")


def test_the_log_shows_signs_that_turn_text(as_admin: Client, tenant: Tenant) -> None:
    agent = "plan\u202ener"
    entry = audit.record(tenant=tenant, actor="key k", action="key.refuse", target=agent, detail={"agent": agent})
    for address in (f"{PAGE}audit/", f"{PAGE}audit/{entry.number}/"):
        page = as_admin.get(address).text
        assert page.count("plan⟨U+202E⟩ner") == 2
        assert "\u202e" not in page


def test_an_entry_has_a_page_with_all_that_was_recorded(
    as_admin: Client, tenant: Tenant, other_tenant: Tenant, stranger: Person
) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("deal_data", token_budget=9), actor="admin")
    keys.create(tenant=other_tenant, name="theirs", scopes=["read"], expires_at=None, actor="stranger")
    keys.create(tenant=other_tenant, name="theirs too", scopes=["read"], expires_at=None, actor="stranger")
    number = AuditEntry.objects.get(tenant=tenant, action="strictness.save").number
    assert f'href="{PAGE}audit/{number}/"' in as_admin.get(f"{PAGE}audit/").text
    page = as_admin.get(f"{PAGE}audit/{number}/").text
    for text in ("token budget", "&quot;new&quot;: 9", "/t/acme/strictness/compare/?from=0&amp;to=1"):
        assert text in page
    assert as_admin.get(f"{PAGE}audit/{number + 1}/").status_code == 404
    assert as_admin.get(f"{PAGE}audit/{'9' * 30}/").status_code == 404


def test_an_entry_about_roles_links_to_the_comparison_of_the_versions(as_admin: Client, tenant: Tenant) -> None:
    declare_role(tenant, "browser", "observer", "admin")
    number = AuditEntry.objects.get(tenant=tenant, action="roles.save").number
    assert "/t/acme/roles/compare/?from=0&amp;to=1" in as_admin.get(f"{PAGE}audit/{number}/").text


def test_every_action_can_be_narrowed_to() -> None:
    assert {action.partition(".")[0] for action in ACTIONS} == set(KINDS)


def test_each_kind_of_policy_has_a_text() -> None:
    assert {f"{kind}.save" for kind in Kind} <= set(ACTIONS)
