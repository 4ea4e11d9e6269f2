"""Tests of the pages of handoff file reports."""

from typing import Any

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.diagnostics.files import apart
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs import judge
from handoffaudit.policy.kinds import file_policy
from tests.dashboard.log_lines import gate, health, moment, older, take
from tests.diagnostics.files.support import BLOCK, GOOD, received, report
from tests.pages import links, select, text_of, texts

pytestmark = pytest.mark.django_db
ADDRESS = "/t/acme/diagnostics/files/"
HISTORY = "/t/acme/policies/history/?kind=handoff_files"


@pytest.fixture(autouse=True)
def _ready(settings: Any) -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def shown(client: Client, query: str = "", status: int = 200) -> str:
    response = client.get(ADDRESS + query)
    assert response.status_code == status
    return response.content.decode()


def stored(tenant: Tenant, document: dict[str, Any]) -> FileReport:
    found = received(tenant, document).report
    assert found is not None
    return found


def test_with_no_report_it_says_how_to_send_the_first(viewer: Person) -> None:
    page = shown(signed_in(viewer))
    assert "handoffaudit report-file --path" in page
    assert 'handoffaudit watch runs/1 --expect "{phase}/{agent}/handoff.json"' in text_of(page)


def test_a_name_with_blanks_at_its_ends_leads_to_its_reports(tenant: Tenant, viewer: Person) -> None:
    one = stored(tenant, report(GOOD, agent=" writer "))
    client = signed_in(viewer)
    (address,) = [link for link in links(shown(client, f"{one.pk}/")) if "?agent=" in link]
    assert f"{ADDRESS}{one.pk}/" in client.get(address).text


def test_the_list_tells_what_became_of_each(tenant: Tenant, viewer: Person) -> None:
    used = stored(tenant, report(GOOD, agent="writer"))
    missing = stored(tenant, report(None, agent="coder", elsewhere=["run-17/handoff.json"]))
    fallback = stored(tenant, report("{", agent="tester", response_text=BLOCK))
    page = shown(signed_in(viewer))
    for one in (used, missing, fallback):
        assert f"{ADDRESS}{one.pk}/" in page
    assert page.index("tester") < page.index("coder") < page.index("writer")
    assert all(word in page for word in ("failed", "fallback", "used", "run-17/handoff.json"))


def test_the_list_has_the_keys_and_the_skip_link_of_other_lists(tenant: Tenant, viewer: Person) -> None:
    client = signed_in(viewer)
    # The style sheet hides the link while its target is missing.
    assert select(shown(client), "table#rows") == []
    stored(tenant, report(GOOD, agent="writer"))
    page = shown(client)
    assert len(select(page, "script[src*='js/lists.']")) == 1
    assert len(select(page, "a.skip[href='#rows']")) == len(select(page, "table#rows a[data-row]")) == 1


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("?agent=coder", "coder in", "writer in"),
        ("?reason=file_missing", "coder in", "writer in"),
        ("?failed=no", "writer in", "coder in"),
        ("?since=24h&source=handoff_json", "writer in", "coder in"),
    ],
)
def test_filters_are_in_the_address(query: str, there: str, gone: str, tenant: Tenant, viewer: Person) -> None:
    stored(tenant, report(GOOD, agent="writer"))
    stored(tenant, report(None, agent="coder"))
    page = text_of(shown(signed_in(viewer), query))
    assert there in page
    assert gone not in page


def test_filters_that_fit_nothing_or_cannot_be_read(tenant: Tenant, viewer: Person) -> None:
    stored(tenant, report(GOOD))
    client = signed_in(viewer)
    assert "No report fits these filters" in shown(client, "?agent=nobody")
    assert "use one of file_missing" in shown(client, "?reason=gone", 400)
    assert client.get(ADDRESS + "?agent=&phase=plan").headers["Location"] == f"{ADDRESS}?phase=plan"


def test_what_was_counted_from_logs_is_a_link_away(tenant: Tenant, viewer: Person) -> None:
    stored(tenant, report(GOOD, agent="planner"))
    client = signed_in(viewer)
    asked = "?agent=planner&phase=plan&reason=schema_invalid&run=run-7&since=7d"
    assert "Health lines of logs" not in shown(client, asked)
    take(tenant, gate(moment()))
    assert "Health lines of logs" not in shown(client, asked)
    take(tenant, health(moment()))
    page = shown(client, asked)
    assert "No report fits these filters" in page
    link = client.get(ADDRESS + asked).context["log_lines"]
    assert page.count(f'href="{link.replace("&", "&amp;")}"') == 2
    query = "kind=health&agent=planner&phase=plan&event=schema_invalid&trace=run-7&since=7d"
    assert link == f"/t/acme/diagnostics/logs/?{query}"
    assert "run=run-7" in client.get(link).content.decode()
    take(tenant, older(moment()))
    assert "agent=%22+coder+%22" in client.get(ADDRESS + "?agent=%22+coder+%22").context["log_lines"]
    link = client.get(ADDRESS + "?runtime=codex").context["log_lines"]
    assert "slot_b" in client.get(link).content.decode()
    assert "run=run-7" not in client.get(link).content.decode()
    assert "event=text_fallback_ok" in client.get(ADDRESS + "?fallback=text_fallback_ok").context["log_lines"]
    for unknown_to_logs in ("failed=yes", "source=text_fallback", "reason=file_missing&fallback=text_fallback_ok"):
        assert client.get(f"{ADDRESS}?{unknown_to_logs}").context["log_lines"] == ""


def test_pages_of_the_list(tenant: Tenant, viewer: Person) -> None:
    for number in range(51):
        stored(tenant, report(GOOD, agent=f"agent-{number:03}"))
    client = signed_in(viewer)
    first = shown(client)
    assert "agent-001" in first
    assert "agent-000" not in first
    (following,) = links(first, "a[rel=next]")
    assert "agent-000" in shown(client, following.removeprefix(ADDRESS))


def test_a_report_shows_where_json_breaks(tenant: Tenant, viewer: Person) -> None:
    one = stored(tenant, report('{\n  "status": nope\n}'))
    page = shown(signed_in(viewer), f"{one.pk}/")
    assert "line 2, column 13" in page
    assert "<mark>n</mark>ope" in page
    assert "The phase failed" in page
    assert "nothing to read in place of the file" in text_of(page)
    assert f"/t/acme/handoffs/{one.handoff}/" in page


def test_a_report_shows_what_differs_of_the_paths(tenant: Tenant, viewer: Person) -> None:
    one = stored(tenant, report(None, elsewhere=["run-17/plan/handoff.json"]))
    page = shown(signed_in(viewer), f"{one.pk}/")
    assert "run-17/planner/handoff.json" in text_of(page)
    assert texts(page, "mark") == ["planner", "plan"]


def test_a_report_shows_the_block_that_was_read_or_what_it_lacks(tenant: Tenant, viewer: Person) -> None:
    read = stored(tenant, report({"status": 1}, response_text=BLOCK))
    lacking = stored(tenant, report({"status": 1}, response_text="---HANDOFF---\nSTATUS: <b>complete</b>"))
    client = signed_in(viewer)
    page = shown(client, f"{read.pk}/")
    assert "no agent: the work ends" in page
    assert "artifacts" in page
    page = shown(client, f"{lacking.pk}/")
    assert "has no ARTIFACTS, no NEXT and no SUMMARY." in page
    assert "STATUS: &lt;b&gt;complete" in page


def test_a_report_has_its_log_line_to_copy(tenant: Tenant, viewer: Person) -> None:
    one = stored(tenant, report(GOOD))
    page = shown(signed_in(viewer), f"{one.pk}/")
    assert "agent=planner phase=plan source=handoff_json timestamp=" in page
    assert 'data-copy="log-line"' in page
    assert "The file was used" in page


def test_a_handoff_leads_to_its_report(tenant: Tenant, viewer: Person) -> None:
    one = stored(tenant, report(None))
    judge.drain()
    page = signed_in(viewer).get(f"/t/acme/handoffs/{one.handoff}/").content.decode()
    assert f'<a href="{ADDRESS}{one.pk}/">file_missing</a>' in page


def test_the_policy_is_set_by_an_administrator(tenant: Tenant, admin: Person, viewer: Person) -> None:
    stored(tenant, report("{", response_text=BLOCK))
    stored(tenant, report(None))
    stored(tenant, report(GOOD))
    assert "Require handoff file</button>" not in shown(signed_in(viewer))
    client = signed_in(admin)
    page = shown(client)
    assert "1 had neither file nor text; with this policy 2 fail." in text_of(page)
    client.post(f"{ADDRESS}policy/", {"strict": "on", "base_version": "0", "note": "Agents are ready."})
    assert file_policy.current(tenant).rows[0].strict_handoff_files
    page = shown(client)
    assert "Saved as version 1" in page
    assert "Agents are ready." in page
    assert "Changed by admin" in page
    client.post(f"{ADDRESS}policy/", {"strict": "on", "base_version": "0"})
    assert "admin changed the policy meanwhile" in shown(client)
    client.post(f"{ADDRESS}policy/", {"base_version": "1"})
    assert not file_policy.current(tenant).rows[0].strict_handoff_files
    assert client.post(f"{ADDRESS}policy/", {"base_version": "x"}).status_code == 400


def test_paths_apart() -> None:
    def told(path: str, other: str) -> str:
        return "".join(f"[{piece.text}]" if piece.differs else piece.text for piece in apart(path, other))

    assert told("a/b/c.json", "a/x/c.json") == "a/[b]/c.json"
    assert told("a/b/c.json", "a/c.json") in ("a/[b/]c.json", "a[/b]/c.json")
    assert told("a/c.json", "a/b/c.json") == "a/c.json"
    assert told("a", "") == "a"
    assert told("", "a") == ""


def test_the_policy_has_a_history_and_can_be_gone_back(tenant: Tenant, admin: Person) -> None:
    client = Client()
    client.force_login(admin)
    client.post(f"{ADDRESS}policy/", {"strict": "on", "base_version": "0", "note": "Agents are ready."})
    page = client.get(ADDRESS, {"policy": "open"}).text
    assert f'href="{HISTORY}"' in page
    history = client.get(HISTORY).text
    for told in ("Version 1", "Agents are ready.", "default"):
        assert told in text_of(history)
    assert (texts(history, "del"), texts(history, "ins")) == (["off"], ["on"])
    compared = client.get(f"{ADDRESS}policy/compare/", {"from": "1", "to": "0"}).text
    assert "Go back to version 0" in compared
    client.post(f"{ADDRESS}policy/revert/", {"to_version": "0", "base_version": "1", "note": "They were not."})
    now = file_policy.current(tenant)
    assert (now.version, now.note) == (2, "Reverted to version 0: They were not.")
    assert not now.rows[0].strict_handoff_files
