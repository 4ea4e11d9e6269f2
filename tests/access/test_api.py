"""Tests of the scopes of API keys: every operation of the API has a row here."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Key, Person, Tenant
from handoffaudit.api.examples import TOOL_RESULT
from handoffaudit.diagnostics import attribution, erasure
from handoffaudit.diagnostics.models import Erasure, FindingGroup
from handoffaudit.handoffs import legal_holds, policy_cases
from handoffaudit.handoffs.models import Handoff, Subscriber, ToolResult, ValidationState, new_id
from handoffaudit.policy import rules
from handoffaudit.policy.kinds import KINDS, strictness
from handoffaudit.policy.models import Kind
from handoffaudit.policy.strictness import to_plain
from tests.access.support import api_operations, api_page_names, nothing_changes
from tests.api.support import client, make_key, problem
from tests.diagnostics.files.support import received
from tests.diagnostics.files.support import report as file_report
from tests.diagnostics.logs.support import gate_lines, send
from tests.handoffs.support import held, judged, payload

pytestmark = pytest.mark.django_db
SCOPES = ("ingest", "observe", "read", "review", "admin")
PUBLIC = ""
PHASE = {"workflow_id": "month-end", "phase_id": "semantic_Agent_session-"}
STATE = PHASE | {
    "session_id": "session",
    "validation_status": "PASSED",
    "persisted_at": "2026-02-15T00:15:00Z",
    "summary": {"total_rules_executed": 0, "results_count": 0},
    "rule_results": [],
}
TELEMETRY = ("POST", "/otlp/traces")
TABLE = {
    ("POST", "/handoffs"): ("ingest", 202),
    ("POST", "/handoffs/batch"): ("ingest", 200),
    ("GET", "/handoffs"): ("read", 200),
    ("GET", "/handoffs/{reference}"): ("read", 200),
    ("GET", "/handoffs/{reference}/verdicts"): ("read", 200),
    ("GET", "/handoffs/{reference}/events"): ("read", 200),
    ("GET", "/handoffs/{reference}/attempts"): ("read", 200),
    ("GET", "/handoffs/{reference}/chain.svg"): ("read", 200),
    ("POST", "/validate"): ("ingest", 200),
    ("POST", "/repair"): ("ingest", 200),
    ("POST", "/handoffs/{reference}/repair"): ("review", 409),
    ("POST", "/openai-agents/traces"): ("ingest", 200),
    TELEMETRY: ("ingest", 200),
    ("POST", "/handoffs/{reference}/use"): ("ingest", 409),
    ("POST", "/handoffs/{reference}/review"): ("review", 200),
    ("POST", "/handoffs/{reference}/assign"): ("review", 200),
    ("GET", "/handoffs/{reference}/comments"): ("read", 200),
    ("POST", "/handoffs/{reference}/comments"): ("review", 201),
    ("GET", "/review"): ("read", 200),
    ("POST", "/hooks/post-tool-use"): ("ingest", 200),
    ("GET", "/validation-state/{workflow_id}/{phase_id}"): ("read", 200),
    ("POST", "/handoff-files"): ("ingest", 201),
    ("GET", "/handoff-files"): ("read", 200),
    ("GET", "/handoff-files/policy"): ("read", 200),
    ("PUT", "/handoff-files/policy"): ("admin", 200),
    ("GET", "/handoff-files/{report_id}"): ("read", 200),
    ("POST", "/logs"): ("ingest", 202),
    ("GET", "/logs"): ("read", 200),
    ("GET", "/logs/imports"): ("read", 200),
    ("GET", "/logs/imports/{import_id}"): ("read", 200),
    ("GET", "/alerts"): ("read", 200),
    ("GET", "/diagnostics/model"): ("read", 200),
    ("GET", "/diagnostics"): ("read", 200),
    ("GET", "/compliance"): ("read", 200),
    ("GET", "/compliance/weeks"): ("read", 200),
    ("GET", "/traces/{trace_id}"): ("read", 200),
    ("GET", "/traces/{trace_id}/lanes.svg"): ("read", 200),
    ("GET", "/traces/{trace_id}/tool-results"): ("read", 200),
    ("POST", "/traces/{trace_id}/tool-results"): ("observe or ingest", 200),
    ("GET", "/groups"): ("read", 200),
    ("GET", "/groups/{group}"): ("read", 200),
    ("GET", "/groups/{group}/handoffs"): ("read", 200),
    ("POST", "/groups/{group}/mute"): ("review", 200),
    ("POST", "/groups/{group}/unmute"): ("review", 200),
    ("GET", "/strictness"): ("read", 200),
    ("PUT", "/strictness"): ("admin", 200),
    ("GET", "/rules"): ("read", 200),
    ("PUT", "/rules"): ("admin", 200),
    ("GET", "/schemas"): ("read", 200),
    ("PUT", "/schemas"): ("admin", 200),
    ("GET", "/prompts"): ("read", 200),
    ("PUT", "/prompts"): ("admin", 200),
    ("GET", "/policies"): ("admin", 200),
    ("PUT", "/policies"): ("admin", 200),
    ("GET", "/policies/cases"): ("read", 200),
    ("POST", "/policies/cases"): ("review", 201),
    ("DELETE", "/policies/cases/{case}"): ("review", 204),
    ("POST", "/policies/test"): ("read", 200),
    ("GET", "/agents"): ("read", 200),
    ("GET", "/agents/declared"): ("read", 200),
    ("PUT", "/agents/declared"): ("admin", 200),
    ("GET", "/agents/roles"): ("read", 200),
    ("PUT", "/agents/roles"): ("admin", 200),
    ("GET", "/webhooks"): ("admin", 200),
    ("POST", "/webhooks"): ("admin", 201),
    ("DELETE", "/webhooks/{webhook}"): ("admin", 204),
    ("POST", "/webhooks/{webhook}/test"): ("admin", 200),
    ("GET", "/evidence"): ("read", 200),
    ("GET", "/retention"): ("admin", 200),
    ("PUT", "/retention"): ("admin", 200),
    ("POST", "/retention/preview"): ("admin", 200),
    ("GET", "/retention/runs"): ("admin", 200),
    ("GET", "/legal-holds"): ("admin", 200),
    ("POST", "/legal-holds"): ("admin", 201),
    ("POST", "/legal-holds/{hold}/lift"): ("admin", 200),
    ("GET", "/erasures"): ("admin", 200),
    ("POST", "/erasures"): ("admin", 202),
    ("GET", "/erasures/{erasure_id}"): ("admin", 200),
    ("POST", "/erasures/{erasure_id}/confirm"): ("admin", 202),
    ("POST", "/erasures/{erasure_id}/cancel"): ("admin", 200),
    ("GET", "/schemas/{name}.json"): (PUBLIC, 200),
}
PUBLIC_PAGES = {"api:openapi-json": 200, "api:openapi-view": 200, "api:api-root": 404}
ROWS = sorted(TABLE)
CLOSED = [row for row in ROWS if TABLE[row][0] != PUBLIC]
EACH = [(row, scope) for row in ROWS for scope in SCOPES]
ALLOWED = [(row, scope) for row, scope in EACH if TABLE[row][0] == PUBLIC or scope in TABLE[row][0].split(" or ")]
REFUSED = [one for one in EACH if one not in ALLOWED]
# Any tenant may use any trace id, so these addresses are about a trace of the caller's tenant.
OF_ANY_TRACE = [row for row in ROWS if row[1] == "/traces/{trace_id}/tool-results"]
ABOUT_ONE = [row for row in CLOSED if "{" in row[1] and row not in OF_ANY_TRACE]
# Objects that exist in no tenant.
NOTHING: dict[str, Any] = {
    "reference": new_id(),
    "report_id": new_id(),
    "import_id": new_id(),
    "group": 10**9,
    "webhook": 10**9,
    "hold": 10**9,
    "erasure_id": new_id(),
    "case": new_id(),
    "trace_id": "nobodys-trace",
    "workflow_id": "nobodys-workflow",
    "phase_id": "nobodys-phase",
}
# Other places in a request that name an object.
IN_QUERY = [
    ("/handoffs", {"trace": "their-trace"}),
    ("/handoffs", {"group": "{group}"}),
    ("/handoffs", {"handoff_id": "theirs"}),
    ("/review", {"trace": "their-trace"}),
    ("/review", {"group": "{group}"}),
    ("/logs", {"trace": "their-trace"}),
]
IN_BODY = [(("POST", "/policies/cases"), 404), (("POST", "/legal-holds"), 422)]


@dataclass
class World:
    tenant: Tenant
    handoff: Handoff
    report_id: UUID
    import_id: UUID
    group: int
    webhook: int
    hold: int
    erasure: UUID
    case: UUID

    @property
    def ids(self) -> dict[str, Any]:
        """Return the objects that addresses can be about, by the name in the address."""
        return {
            "reference": self.handoff.pk,
            "report_id": self.report_id,
            "import_id": self.import_id,
            "group": self.group,
            "webhook": self.webhook,
            "hold": self.hold,
            "erasure_id": self.erasure,
            "case": self.case,
            "trace_id": "their-trace",
            "name": "payload",
            **PHASE,
        }

    def ask(self, row: tuple[str, str], key: str | None, **ids: Any) -> httpx.Response:
        method, path = row
        bodies: dict[tuple[str, str], Any] = {
            ("POST", "/openai-agents/traces"): {"data": []},
            TELEMETRY: {"resourceSpans": []},
            ("POST", "/handoffs"): payload(tenant_id=self.tenant.slug),
            ("POST", "/handoffs/batch"): [payload(tenant_id=self.tenant.slug)],
            ("POST", "/validate"): payload(tenant_id=self.tenant.slug),
            ("POST", "/repair"): payload(tenant_id=self.tenant.slug),
            ("POST", "/hooks/post-tool-use"): {"hook_event_name": "PostToolUse", "tool_name": "Bash"},
            ("POST", "/handoffs/{reference}/review"): {"decision": "decline", "note": "no"},
            ("POST", "/handoffs/{reference}/comments"): {"text": "Looks right."},
            ("POST", "/handoffs/{reference}/assign"): {"to": None},
            ("POST", "/groups/{group}/mute"): {"note": "known"},
            ("POST", "/handoff-files"): file_report({}),
            ("POST", "/logs"): {"not": "a line of any form"},
            ("POST", "/traces/{trace_id}/tool-results"): [TOOL_RESULT],
            ("POST", "/webhooks"): {"name": "CI", "address": "https://93.184.216.34/", "events": ["alert"]},
            ("PUT", "/handoff-files/policy"): {"base_version": 0, "strict_handoff_files": True},
            ("PUT", "/strictness"): {
                "base_version": 0,
                "rows": [to_plain(row) for row in strictness.as_shipped.rows if row.handoff_type in ("*", "deal_data")],
            },
            ("PUT", "/rules"): {
                "base_version": 0,
                "sets": [rules.rule_set_to_plain(one) for one in rules.example_sets()],
            },
            ("PUT", "/policies"): {"policies": {"roles": []}, "dry_run": True},
            ("POST", "/policies/cases"): {"handoff": str(self.handoff.pk), "expected": "held"},
            ("POST", "/policies/test"): {"policies": {"roles": []}},
            ("PUT", "/prompts"): {"base_version": 0, "rows": [{"use": "grounding", "text": "Is it so?"}]},
            ("PUT", "/retention"): {"base_version": 0, "rows": [{"name": "logs", "days": 30}]},
            ("POST", "/retention/preview"): {"rows": [{"name": "logs", "days": 30}]},
            ("POST", "/legal-holds"): {"scope": "handoff", "key": str(self.handoff.pk), "reason": "a case"},
            ("POST", "/legal-holds/{hold}/lift"): {"reason": "it is over"},
            ("POST", "/erasures"): {"value": "ada@example.com", "reason": "she asked"},
            ("PUT", "/agents/roles"): {"base_version": 0, "rows": [{"agent": "crawler", "role": "observer"}]},
            ("PUT", "/agents/declared"): {"base_version": 0, "rows": [{"source": "planner", "targets": ["writer"]}]},
            ("PUT", "/schemas"): {"base_version": 0, "rows": [{"handoff_type": "x", "claim_fields": ["thesis"]}]},
        }
        address = path.format(**self.ids | ids)
        query = {"source": "app.log"} if row == ("POST", "/logs") else None
        with client(key) as api:
            return api.request(method, address, json=bodies.get(row), params=query)


@pytest.fixture(scope="module")
def world(kept_tenant: Tenant) -> World:
    tenant = kept_tenant
    ValidationState.objects.create(tenant=tenant, event=new_id(), status="PASSED", content=json.dumps(STATE), **PHASE)
    report = received(tenant, file_report({})).report
    assert report is not None
    theirs = judged(tenant, held(handoff_id="theirs"), trace_id="their-trace")
    attribution.run()
    group = FindingGroup.objects.filter(tenant=tenant)[0].pk
    webhook = Subscriber.objects.create(tenant=tenant, kind="webhook", name="CI", address="https://127.0.0.1/").pk
    hold = legal_holds.place(tenant=tenant, scope="trace", key="their-trace", reason="a case", actor="tests").pk
    asked = erasure.request(tenant=tenant, value="grace@example.com", reason="asked", actor="tests").pk
    Erasure.objects.filter(pk=asked).update(state="counted", counted_at=timezone.now())
    # The case of a held handoff could not be removed.
    free = judged(tenant, held(handoff_id="free"))
    case = policy_cases.keep(tenant=tenant, reference=str(free.pk), expected="held", actor="tests")
    return World(tenant, theirs, report.pk, send(tenant, gate_lines(1, 2)).pk, group, webhook, hold, asked, case.pk)


@pytest.fixture(scope="module")
def by_scope(world: World) -> dict[str, str]:
    """Return a key for each scope."""
    return {scope: _used_key(world.tenant, scope, name=scope) for scope in SCOPES}


@pytest.fixture(scope="module")
def of_all_scopes(world: World) -> dict[str, str]:
    """Return a valid key of all scopes, and keys that are revoked, that are expired, and that have no scope left."""
    made = {name: _used_key(world.tenant, *SCOPES, name=name) for name in ("valid", "revoked", "expired", "bare")}
    Key.objects.filter(name="expired").update(expires_at=timezone.now() - timedelta(seconds=1))
    Key.objects.filter(name="bare").update(scopes=[])
    keys.revoke(tenant=world.tenant, key_id=Key.objects.get(name="revoked").pk, actor="tests")
    return made


def _used_key(tenant: Tenant, *scopes: str, name: str) -> str:
    """Make a key whose last use needs no update, so that a refused request writes nothing at all."""
    secret = make_key(tenant, *scopes, name=name)
    Key.objects.filter(name=name).update(last_used_at=timezone.now() + timedelta(days=1))
    return secret


def describe(value: tuple[str, str] | str) -> str:
    """Return the id of a parameter: an operation or a scope."""
    return value if isinstance(value, str) else " ".join(value)


def detail_of(row: tuple[str, str], response: httpx.Response, status: int) -> str:
    """Return why a request was refused. Exporters of OpenTelemetry read a `google.rpc.Status`."""
    if row != TELEMETRY:
        return str(problem(response, status)["detail"])
    assert response.status_code == status, response.text
    assert response.json().keys() == {"code", "message"}
    return str(response.json()["message"])


def test_every_operation_has_a_row_and_every_row_an_operation() -> None:
    assert api_operations() == set(TABLE)
    assert api_page_names() == set(PUBLIC_PAGES)


@pytest.mark.parametrize(("path", "status"), [("/openapi.json", 200), ("/docs", 200), ("/", 404)])
def test_the_documentation_is_open(path: str, status: int, db: None) -> None:
    with client(None) as api:
        assert api.get(path).status_code == status


@pytest.mark.parametrize(("row", "scope"), ALLOWED, ids=describe)
def test_a_key_may_what_its_scope_allows(
    row: tuple[str, str], scope: str, world: World, by_scope: dict[str, str]
) -> None:
    response = world.ask(row, by_scope[scope])
    assert response.status_code == TABLE[row][1], response.text


@pytest.mark.parametrize(("row", "scope"), REFUSED, ids=describe)
def test_a_key_may_nothing_else(row: tuple[str, str], scope: str, world: World, by_scope: dict[str, str]) -> None:
    needed = TABLE[row][0]
    with nothing_changes():
        response = world.ask(row, by_scope[scope])
    detail = detail_of(row, response, 403)
    assert needed in detail
    assert scope in detail
    assert row == TELEMETRY or response.json()["scope"] == needed.partition(" ")[0]


@pytest.mark.parametrize("row", CLOSED, ids=" ".join)
def test_no_key_no_answer(row: tuple[str, str], world: World, of_all_scopes: dict[str, str]) -> None:
    valid, revoked, expired, bare = of_all_scopes.values()
    with nothing_changes():
        for key in (None, "", "ha_", "nonsense", valid[:-1], valid + "x", valid.upper(), revoked, expired):
            response = world.ask(row, key)
            detail_of(row, response, 401)
            assert response.headers["WWW-Authenticate"] == "Bearer"
        detail_of(row, world.ask(row, bare), 403)


@pytest.mark.parametrize("authorization", ["Basic YTpi", "ha_x", "Bearer", "Token {key}", "bearer{key}"])
def test_only_a_bearer_is_read(authorization: str, world: World) -> None:
    key = make_key(world.tenant, *SCOPES)
    with client(None) as api:
        headers = {"Authorization": authorization.format(key=key)}
        problem(api.get("/handoffs", headers=headers), 401)
        assert api.get("/handoffs", headers={"Authorization": f"bearer  {key}"}).status_code == 200


@pytest.mark.parametrize("row", CLOSED, ids=" ".join)
def test_a_session_is_no_key(row: tuple[str, str], world: World, admin: Person) -> None:
    """Otherwise a page of another site could call the API through a signed-in browser."""
    browser = Client()
    browser.force_login(admin)
    with client(None) as api:
        cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
        address = row[1].format(**world.ids)
        response = api.request(row[0], address, headers=cookie, content=b"{}")
    detail_of(row, response, 401)
    assert "Set-Cookie" not in response.headers


@pytest.fixture(scope="module")
def foreign(world: World, kept_other_tenant: Tenant) -> str:
    """Return a key of another tenant that may do everything."""
    return _used_key(kept_other_tenant, *SCOPES, name="foreign")


@pytest.mark.parametrize("row", ABOUT_ONE, ids=" ".join)
def test_an_object_of_another_tenant_looks_like_an_object_that_does_not_exist(
    row: tuple[str, str], world: World, foreign: str
) -> None:
    with nothing_changes():
        theirs = world.ask(row, foreign)
        nobodys = world.ask(row, foreign, **NOTHING)
    problem(theirs, 404)
    problem(nobodys, 404)
    assert said_of(row, theirs, world.ids) == said_of(row, nobodys, world.ids | NOTHING)


def said_of(row: tuple[str, str], response: httpx.Response, ids: dict[str, Any]) -> str:
    """Return a problem without its request id and without the ids in the address of the row."""
    said = json.dumps({name: value for name, value in response.json().items() if name != "request_id"})
    for name in re.findall(r"\{(\w+)\}", row[1]):
        said = said.replace(str(ids[name]), name)
    return said


@pytest.mark.parametrize("row", [row for row in ABOUT_ONE if "{reference}" in row[1]], ids=" ".join)
def test_the_handoff_id_of_another_tenant_does_not_exist(row: tuple[str, str], world: World, foreign: str) -> None:
    with nothing_changes():
        problem(world.ask(row, foreign, reference="theirs"), 404)


def test_results_of_another_tenants_trace_are_neither_read_nor_changed(world: World, foreign: str) -> None:
    listed, sent = OF_ANY_TRACE
    assert world.ask(sent, _used_key(world.tenant, "observe", name="watcher")).status_code == 200
    before = list(ToolResult.objects.filter(tenant=world.tenant).values())
    assert before
    assert world.ask(listed, foreign).json()["items"] == []
    assert world.ask(sent, foreign).status_code == 200
    assert list(ToolResult.objects.filter(tenant=world.tenant).values()) == before


@pytest.mark.parametrize(("row", "status"), IN_BODY, ids=str)
def test_a_body_cannot_name_a_handoff_of_another_tenant(
    row: tuple[str, str], status: int, world: World, foreign: str
) -> None:
    with nothing_changes():
        problem(world.ask(row, foreign), status)


@pytest.mark.parametrize(("path", "query"), IN_QUERY, ids=str)
def test_a_filter_finds_nothing_of_another_tenant(path: str, query: dict[str, str], world: World, foreign: str) -> None:
    asked = {name: value.format(**world.ids) for name, value in query.items()}
    with client(foreign) as api, nothing_changes():
        response = api.get(path, params=asked)
    assert response.status_code == 200, response.text
    assert response.json()["items"] == []


@pytest.mark.parametrize(
    "asked", [{"trace": "their-trace"}, {"handoff": "{reference}"}, {"handoff": "theirs"}], ids=str
)
def test_evidence_of_another_tenant_does_not_exist(asked: dict[str, str], world: World, foreign: str) -> None:
    with client(foreign) as api, nothing_changes():
        response = api.get("/evidence", params={name: value.format(**world.ids) for name, value in asked.items()})
    problem(response, 404)


def test_another_tenants_lists_are_empty_and_its_table_its_own(world: World, other_tenant: Tenant) -> None:
    key = make_key(other_tenant, *SCOPES)
    assert world.ask(("GET", "/handoffs"), key).json()["items"] == []
    for kind, versions in KINDS.items():
        path = {Kind.AGENTS: "/agents/declared", Kind.ROLES: "/agents/roles"}.get(kind, f"/{kind}")
        assert world.ask(("PUT", path), key).status_code == 200
        assert versions.current(world.tenant).version == 0
        assert versions.current(other_tenant).version == 1
        assert world.ask(("GET", path), make_key(world.tenant, "read")).json()["version"] == 0


def test_a_key_of_another_tenant_submits_into_its_own_only(world: World, other_tenant: Tenant) -> None:
    key = make_key(other_tenant, *SCOPES)
    problem(world.ask(("POST", "/handoffs"), key), 403)
    assert world.ask(("POST", "/handoffs/batch"), key).json()["items"][0]["status"] == 403
    assert set(Handoff.objects.values_list("tenant__slug", flat=True)) == {"acme"}
