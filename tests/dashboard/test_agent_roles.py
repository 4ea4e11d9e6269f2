"""Tests of the roles of agents on the pages of agents."""

import pytest
from django.test import Client
from django.urls import reverse

from handoffaudit.accounts.models import AuditEntry, Person, Tenant
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.handoffs import policy_cases
from handoffaudit.policy import kinds
from handoffaudit.validation.agents import AgentRole
from tests.handoffs.support import circular, judged, payload
from tests.pages import attributes, links, only, select, text_of, texts

pytestmark = pytest.mark.django_db

ROLES = "/t/acme/roles/"
DECLARE = "/t/acme/roles/declare/"


@pytest.fixture
def boss(client: Client, admin: Person) -> Client:
    client.force_login(admin)
    return client


def shown(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.content[:300]
    return response.content.decode()


def roles_of(tenant: Tenant) -> dict[str, AgentRole]:
    return {row.agent: row.role for row in kinds.roles.current(tenant).rows}


def test_an_agent_page_says_whether_its_role_is_guessed_and_why(boss: Client, tenant: Tenant) -> None:
    judged(tenant, payload(source_agent_id="terminal", call_chain=["terminal"]))
    address = build_agent_url("acme", "terminal")
    section = only(shown(boss, address), "#role")
    assert text_of(section, ".agents-role") == "observer, guessed"
    assert "because the name is that of a tool" in text_of(section)
    assert attributes(section, "option[selected]", "value") == ["guessed"]
    form = only(section, "form")
    assert (form.attributes["method"], form.attributes["action"]) == ("post", DECLARE)
    boss.post(DECLARE, {"agent": "terminal", "role": "worker", "back": "agent"})
    section = only(shown(boss, address), "#role")
    assert text_of(section, ".agents-role") == "worker, declared"
    assert "Declared by admin" in text_of(section)


def test_the_list_of_agents_names_each_role(boss: Client, tenant: Tenant) -> None:
    judged(tenant, payload(source_agent_id="terminal", call_chain=["terminal"]))
    kinds.roles.upsert_row(
        tenant=tenant, base_version=0, row=kinds.roles.parse([{"agent": "writer", "role": "worker"}])[0], actor="ada"
    )
    found = texts(shown(boss, "/t/acme/agents/?period=30d"), "section[aria-labelledby=agents] tbody td:nth-child(2)")
    assert sorted(text.partition(":")[0] for text in found) == ["observer, guessed", "worker, declared"]


def test_a_role_is_declared_before_the_first_handoff_and_withdrawn(boss: Client, tenant: Tenant) -> None:
    answer = boss.post(DECLARE, {"agent": "crawler", "role": "observer"})
    assert (answer.status_code, answer["Location"]) == (302, ROLES)
    assert roles_of(tenant) == {"crawler": AgentRole.OBSERVER}
    page = shown(boss, ROLES)
    assert texts(page, "tbody td")[0] == "observer"
    assert "by admin on" in texts(page, "tbody td")[1]
    assert AuditEntry.objects.filter(tenant=tenant, action="roles.save").count() == 1
    boss.post(DECLARE, {"agent": "crawler", "role": "guessed"})
    assert roles_of(tenant) == {}
    boss.post(reverse("dashboard:roles_revert", args=["acme"]), {"to_version": "1", "base_version": "2"})
    assert roles_of(tenant) == {"crawler": AgentRole.OBSERVER}
    assert "crawler" in shown(boss, "/t/acme/policies/history/?kind=roles")


def test_a_saved_role_says_which_kept_cases_fail_now(boss: Client, tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="kept"))
    case = policy_cases.keep(tenant=tenant, reference="kept", expected="accepted", actor="ada")
    page = boss.post(DECLARE, {"agent": "terminal", "role": "worker"}, follow=True)
    assert "terminal is declared as worker. Kept cases: 1 of 1 fails now." in text_of(page, ".note--warning")
    assert links(page, ".note--warning a") == ["/t/acme/cases/"]
    selected = {"select": "terminal", "role": "guessed", "confirmed": "1", "page": "agents"}
    page = boss.post("/t/acme/agents/selected/role/", selected, follow=True)
    assert "1 agent no longer declared. Kept cases: 1 of 1 fails now." in text_of(page, ".note--warning")
    case.delete()
    page = boss.post(DECLARE, {"agent": "terminal", "role": "worker"}, follow=True)
    assert texts(page, ".note--success") == ["terminal is declared as worker."]


@pytest.mark.parametrize(("agent", "role"), [("", "worker"), ("a\nb", "worker"), ("x" * 300, "worker"), ("a", "judge")])
def test_a_wrong_declaration_is_refused_with_the_reason(boss: Client, tenant: Tenant, agent: str, role: str) -> None:
    answer = boss.post(DECLARE, {"agent": agent, "role": role})
    assert answer.status_code == 400
    assert text_of(answer.content.decode(), ".field-error")
    assert roles_of(tenant) == {}


def test_htmx_gets_the_section_alone(boss: Client, tenant: Tenant) -> None:
    headers = {"HX-Request": "true", "HX-Target": "role"}
    answer = boss.post(DECLARE, {"agent": "<b>", "role": "person"}, headers=headers).content.decode()
    assert "<html" not in answer
    assert text_of(answer, ".agents-role") == "person, declared"
    assert attributes(answer, "input[name=agent]", "value") == ["<b>"]
    headers["HX-Target"] = "roles"
    assert select(boss.post(DECLARE, {"agent": "c", "role": "worker"}, headers=headers).content.decode(), "#roles")


def test_only_an_administrator_of_the_tenant_declares(
    client: Client, tenant: Tenant, reviewer: Person, stranger: Person
) -> None:
    judged(tenant, payload(source_agent_id="terminal", call_chain=["terminal"]))
    client.force_login(reviewer)
    assert not select(shown(client, ROLES), "form[action$='roles/declare/']")
    assert not select(shown(client, build_agent_url("acme", "terminal")), "#role form")
    assert client.post(DECLARE, {"agent": "a", "role": "worker"}).status_code == 403
    client.force_login(stranger)
    assert client.post(DECLARE, {"agent": "a", "role": "worker"}).status_code == 404
    assert roles_of(tenant) == {}
