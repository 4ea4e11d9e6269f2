"""Who may open which page: every address of the URL table has its row here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Key, Membership, Person, Role, SavedView, Tenant
from handoffaudit.diagnostics import attributing
from handoffaudit.diagnostics.models import FileReport, FindingGroup, LogImport, Watermark
from handoffaudit.handoffs import alerts, trials
from handoffaudit.handoffs.models import Alert, Delivery, Handoff, Subscriber, Trial
from handoffaudit.policy.models import Kind
from tests.access.support import everything, page_names
from tests.api.support import make_key
from tests.diagnostics.files.support import received
from tests.diagnostics.files.support import report as file_report
from tests.handoffs.support import held, judged

pytestmark = pytest.mark.django_db
PUBLIC, SIGNED_IN = "public", "signed in"
RANK = [Role.VIEWER, Role.REVIEWER, Role.ADMIN]


@dataclass(frozen=True)
class Row:
    """`least`: who may. `status`: what they are answered. `data` is sent by those that POST; {handoff}, {person} and
    {key} stand for what the address is about. `foreign`: what is answered where that belongs to another tenant."""

    least: str
    status: int = 200
    method: str = "GET"
    data: dict[str, str] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    foreign: int = 404


def post(least: str, status: int = 302, about: str = "", foreign: int = 404, **data: str) -> Row:
    return Row(least, status, "POST", data, (about,) if about else (), foreign)


ABOUT_HANDOFF = ("handoff",)
BY_PK = ("view", "handoff", "trial", "file_report")
DECISION = {"decision": "decline", "note": "no"}
TABLE = {
    "home": Row(SIGNED_IN, 302),
    "healthz": Row(PUBLIC),
    "readyz": Row(PUBLIC),
    "account_login": Row(PUBLIC),
    "account_logout": Row(SIGNED_IN),
    "welcome": Row(PUBLIC, 410),
    "password": Row(SIGNED_IN),
    "help_codes": Row(PUBLIC),
    "help_code": Row(PUBLIC),
    "help_problems": Row(PUBLIC),
    "help_problem": Row(PUBLIC),
    "dashboard:overview": Row(Role.VIEWER),
    "dashboard:gallery": Row(Role.VIEWER),
    "dashboard:theme": post(Role.VIEWER, theme="dark"),
    "dashboard:handoffs": Row(Role.VIEWER),
    "dashboard:handoffs_new": Row(Role.VIEWER, data={"after": str(UUID(int=0))}),
    "dashboard:handoffs_export": Row(Role.VIEWER, data={"format": "csv"}),
    "dashboard:handoffs_count": Row(Role.VIEWER),
    "dashboard:review_export": Row(Role.VIEWER, data={"format": "csv"}),
    "dashboard:groups_export": Row(Role.VIEWER, data={"format": "csv"}),
    "dashboard:handoffs_find": Row(Role.VIEWER, data={"q": "nothing is named so"}),
    "dashboard:live": Row(Role.VIEWER, 204),
    "dashboard:view_make": post(Role.VIEWER, page="handoffs", name="Held", query="state=held"),
    "dashboard:view_opening": post(Role.VIEWER, page="handoffs", view="waiting"),
    "dashboard:view_change": post(Role.ADMIN, about="view", action="rename", name="Theirs"),
    "dashboard:handoff": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_part": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_raw": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_repair": Row(Role.REVIEWER, 302, about=ABOUT_HANDOFF),
    "dashboard:handoff_again": post(Role.ADMIN, about="handoff"),
    "dashboard:review": Row(Role.VIEWER),
    "dashboard:review_next": Row(Role.VIEWER, 302),
    "dashboard:review_item": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:decide": post(Role.REVIEWER, about="handoff", version="2", **DECISION),
    "dashboard:review_hold": post(Role.REVIEWER, 409, about="handoff", version="0"),
    "dashboard:review_live": Row(Role.VIEWER),
    "dashboard:pass_on": post(Role.REVIEWER, about="handoff", version="2", note="Ask the writer."),
    "dashboard:take_back": post(Role.REVIEWER, 400, about="handoff", version="2"),
    "dashboard:reopen": post(Role.REVIEWER, 400, about="handoff", version="2", note="Look again."),
    "dashboard:undo": post(Role.REVIEWER, 400, about="handoff", version="2"),
    "dashboard:undo_last": post(Role.REVIEWER),
    "dashboard:several": post(Role.REVIEWER, 200, foreign=200, select="{handoff}:2", **DECISION),
    "dashboard:several_all": Row(Role.REVIEWER),
    "dashboard:several_run": post(Role.REVIEWER, 200, foreign=200, select="{handoff}:2", **DECISION),
    "dashboard:several_undo": post(Role.REVIEWER, 200, foreign=200, undo="{handoff}:2"),
    "dashboard:strictness": Row(Role.VIEWER),
    "dashboard:strictness_save": post(Role.ADMIN, 400, row="deal_data", base_version="0", token_budget="none"),
    "dashboard:strictness_delete": post(Role.ADMIN, row="deal_data", base_version="0"),
    "dashboard:strictness_history": Row(Role.VIEWER),
    "dashboard:strictness_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:strictness_row": Row(Role.VIEWER, 302, data={"type": "deal_data"}),
    "dashboard:strictness_switch": post(Role.ADMIN, row="deal_data", to="shadow", base_version="0"),
    "dashboard:strictness_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:strictness_try": post(Role.ADMIN, 400, row="deal_data", base_version="0", token_budget="none"),
    "dashboard:rules": Row(Role.VIEWER),
    "dashboard:rules_save": post(Role.ADMIN, editor="set", set_id="deals", name="Deals", base_version="0"),
    "dashboard:rules_delete": post(Role.ADMIN, editor="set", set="deals", base_version="0"),
    "dashboard:rules_example": post(Role.ADMIN, example="signal_validation_v1", base_version="0"),
    "dashboard:rules_try": post(Role.ADMIN, editor="set", set_id="deals", name="Deals", base_version="0"),
    "dashboard:rules_history": Row(Role.VIEWER),
    "dashboard:rules_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:rules_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:prompts": Row(Role.VIEWER),
    "dashboard:prompts_save": post(Role.ADMIN, use="grounding", text="Is it so?", base_version="0"),
    "dashboard:prompts_delete": post(Role.ADMIN, 409, row="grounding all", use="grounding", base_version="0"),
    "dashboard:prompts_try": post(Role.ADMIN, 400, use="grounding", text="Is it so?", base_version="0"),
    "dashboard:prompts_history": Row(Role.VIEWER),
    "dashboard:prompts_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:prompts_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:schemas": Row(Role.VIEWER),
    "dashboard:schemas_save": post(Role.ADMIN, handoff_type="deal_data", claim_fields="thesis", base_version="0"),
    "dashboard:schemas_delete": post(Role.ADMIN, 409, row="deal_data", base_version="0"),
    "dashboard:schemas_try": post(Role.ADMIN, handoff_type="deal_data", claim_fields="thesis", base_version="0"),
    "dashboard:schemas_history": Row(Role.VIEWER),
    "dashboard:schemas_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:schemas_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:groups": Row(Role.VIEWER),
    "dashboard:group": Row(Role.VIEWER, about=("group",)),
    "dashboard:group_newest": Row(Role.VIEWER, 302, about=("group",)),
    "dashboard:group_mute": post(Role.REVIEWER, about="group", until="10", note="known"),
    "dashboard:group_unmute": post(Role.REVIEWER, about="group"),
    "dashboard:group_acknowledge": post(Role.REVIEWER, about="group"),
    "dashboard:agents": Row(Role.VIEWER),
    "dashboard:agent": Row(Role.VIEWER),
    "dashboard:declared": Row(Role.VIEWER),
    "dashboard:declared_save": post(Role.ADMIN, text="planner -> writer", base_version="0"),
    "dashboard:declared_history": Row(Role.VIEWER),
    "dashboard:declared_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:declared_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:trial": Row(Role.VIEWER, about=("trial",)),
    "dashboard:trial_cancel": post(Role.ADMIN, about="trial"),
    "dashboard:trial_handoff": Row(Role.VIEWER, about=("trial",)),
    "dashboard:trial_save": post(Role.ADMIN, about="trial"),
    "dashboard:diagnostics": Row(Role.VIEWER),
    "dashboard:compliance": Row(Role.VIEWER),
    "dashboard:compliance_json": Row(Role.VIEWER),
    "dashboard:compliance_csv": Row(Role.VIEWER),
    "dashboard:compliance_text": Row(Role.VIEWER),
    "dashboard:noise": Row(Role.VIEWER),
    "dashboard:code": Row(Role.VIEWER),
    "dashboard:model_health": Row(Role.VIEWER),
    "dashboard:logs": Row(Role.VIEWER),
    "dashboard:logs_new": Row(Role.VIEWER, 204, data={"after": "2099-01-01T00:00:00Z"}),
    "dashboard:log_import": Row(Role.VIEWER),
    "dashboard:log_imported": Row(Role.VIEWER, about=("log_import",)),
    "dashboard:log_send": post(Role.REVIEWER, 400, origin="ci"),
    "dashboard:handoff_logs": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:traces": Row(Role.VIEWER),
    "dashboard:trace": Row(Role.VIEWER, about=("trace_id",)),
    "dashboard:file_reports": Row(Role.VIEWER),
    "dashboard:file_report": Row(Role.VIEWER, about=("file_report",)),
    "dashboard:handoff_files": Row(Role.VIEWER, 302),
    "dashboard:handoff_files_history": Row(Role.VIEWER),
    "dashboard:handoff_files_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:handoff_files_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:file_policy_save": post(Role.ADMIN, strict="on", base_version="0"),
    "dashboard:alerts": Row(Role.VIEWER),
    "dashboard:alert_acknowledge": post(Role.REVIEWER, about="alert"),
    "dashboard:start": Row(Role.VIEWER),
    "dashboard:start_key": post(Role.ADMIN),
    "dashboard:start_arrived": Row(Role.VIEWER),
    "dashboard:sample": post(Role.ADMIN),
    "dashboard:sample_remove": post(Role.ADMIN),
    "dashboard:sample_progress": Row(Role.VIEWER, 404),
    "dashboard:help": Row(Role.VIEWER, data={"q": "chain"}),
    "dashboard:help_codes": Row(Role.VIEWER),
    "dashboard:help_guide": Row(Role.VIEWER),
    "dashboard:help_problems": Row(Role.VIEWER),
    "dashboard:help_api": Row(Role.VIEWER),
    "dashboard:help_call": Row(Role.VIEWER),
    "dashboard:settings": Row(Role.ADMIN),
    "dashboard:settings_invite": post(Role.ADMIN, name="grace", role="viewer"),
    "dashboard:settings_link": post(Role.ADMIN, about="person"),
    "dashboard:settings_role": post(Role.ADMIN, about="person", role="reviewer"),
    "dashboard:settings_remove": post(Role.ADMIN, about="person"),
    "dashboard:settings_keys": Row(Role.ADMIN),
    "dashboard:settings_key_create": post(Role.ADMIN, 400, name=""),
    "dashboard:settings_key_revoke": post(Role.ADMIN, about="key"),
    "dashboard:settings_webhooks": Row(Role.ADMIN),
    "dashboard:settings_webhook_create": post(Role.ADMIN, 400, name=""),
    "dashboard:settings_webhook": Row(Role.ADMIN, about=("subscriber",)),
    "dashboard:settings_webhook_change": post(Role.ADMIN, 400, about="subscriber", name=""),
    "dashboard:settings_webhook_switch": post(Role.ADMIN, about="subscriber", on="0"),
    "dashboard:settings_webhook_rotate": post(Role.ADMIN, about="subscriber"),
    "dashboard:settings_webhook_delete": post(Role.ADMIN, about="subscriber"),
    "dashboard:settings_webhook_test": post(Role.ADMIN, 200, about="subscriber"),
    "dashboard:settings_delivery": Row(Role.ADMIN, about=("subscriber", "delivery")),
    "dashboard:settings_delivery_again": Row(Role.ADMIN, 302, "POST", about=("subscriber", "delivery")),
    "dashboard:thresholds": Row(Role.ADMIN),
    "dashboard:thresholds_save": post(Role.ADMIN, row="queue_age", base_version="0"),
    "dashboard:thresholds_history": Row(Role.VIEWER),
    "dashboard:thresholds_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:thresholds_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:retention": Row(Role.ADMIN),
    "dashboard:retention_save": post(Role.ADMIN, kind="logs", days="30", base_version="0"),
    "dashboard:retention_history": Row(Role.VIEWER),
    "dashboard:retention_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:retention_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:settings_audit": Row(Role.ADMIN),
    "dashboard:settings_audit_entry": Row(Role.ADMIN),
}
NAMES = sorted(TABLE)
NAMED = {"help_problem": "key-needed", "dashboard:help_guide": "reviewer", "dashboard:help_call": "submit_handoff"}
IN_TENANT = [name for name in NAMES if name.startswith("dashboard:")]


@dataclass
class Things:
    """What addresses can be about, in one tenant."""

    tenant: Tenant
    handoff: Handoff
    group: FindingGroup
    person: Person
    key: Key
    trial: Trial
    alert: Alert
    file_report: FileReport
    log_import: LogImport
    subscriber: Subscriber
    delivery: Delivery
    view: SavedView

    @classmethod
    def of(cls, tenant: Tenant) -> "Things":
        person = Person.objects.create_user(f"member-of-{tenant.slug}", password="x")
        Membership.objects.create(tenant=tenant, person=person, role=Role.VIEWER)
        make_key(tenant, "read")
        report = received(tenant, file_report({})).report
        assert report is not None
        handoff = judged(tenant, held(tenant_id=tenant.slug), trace_id=f"trace-of-{tenant.slug}")
        attributing.run()
        group = FindingGroup.objects.filter(tenant=tenant)[0]
        content: dict[str, Any] = {"rows": [{"handoff_type": "deal_data", "claim_fields": []}]}
        trial = trials.start(tenant=tenant, kind=Kind.SCHEMAS, content=content, base_version=0, actor="tests")
        alerts.raise_alert(tenant.pk, alerts.Kind.WOULD_HAVE_REJECTED, 1)
        [alert] = alerts.open_of(tenant)
        # No request goes there: it is not a public address.
        subscriber = Subscriber.objects.create(
            tenant=tenant, kind="webhook", name="CI", address="https://127.0.0.1/", secret="of nobody", events=["alert"]
        )
        delivery = Delivery.objects.create(
            tenant=tenant, subscriber=subscriber, event="alert", about="it", payload="{}", created_at=timezone.now()
        )
        log = LogImport.objects.create(tenant=tenant, source="a.log", sent_by="tests", started_at=timezone.now())
        key = Key.objects.get(tenant=tenant)
        view = SavedView.objects.create(tenant=tenant, page="handoffs", name="Shared", query="", created_by="somebody")
        return cls(tenant, handoff, group, person, key, trial, alert, report, log, subscriber, delivery, view)


def ask(client: Client, name: str, tenant: Tenant, things: Things) -> Any:
    """The row's request, in a tenant, about things of that or of another one."""
    row = TABLE[name]
    kwargs: dict[str, Any] = {"tenant": tenant.slug} if name.startswith("dashboard:") else {}
    if name == "welcome":
        kwargs = {"uidb64": "MQ", "token": "x-y"}
    if name in ("dashboard:code", "help_code"):
        kwargs["code"] = "chain.circular"
    if name in NAMED:
        kwargs["name"] = NAMED[name]
    if name == "dashboard:agent":
        kwargs["name"] = "researcher"
    if name == "dashboard:settings_audit_entry":
        kwargs["number"] = 1
    if name == "dashboard:trial_handoff":
        kwargs["handoff"] = things.handoff.pk
    for about in row.about:
        thing = things.handoff.trace_id if about == "trace_id" else getattr(things, about).pk
        kwargs["pk" if about in BY_PK else about] = thing
    filled = {key: value.format(handoff=things.handoff.pk) for key, value in row.data.items()}
    return client.generic_request(row.method, reverse(name, kwargs=kwargs), filled)


class Asking(Client):
    def generic_request(self, method: str, address: str, data: dict[str, str]) -> Any:
        answer = self.post(address, data) if method == "POST" else self.get(address, data)
        if answer.streaming:
            # A file that nobody reads to its end keeps others from theirs.
            list(answer)
        return answer


@pytest.fixture(scope="module")
def here(kept_tenant: Tenant) -> Things:
    return Things.of(kept_tenant)


@pytest.fixture(autouse=True)
def _a_worker_runs(db: None) -> None:
    """Where none does, the web server evaluates thresholds in its place, whoever asks for `/readyz`."""
    Watermark.objects.create(name="worker", at=timezone.now())


@pytest.fixture
def elsewhere(other_tenant: Tenant) -> Things:
    return Things.of(other_tenant)


@pytest.fixture
def signed_in(request: pytest.FixtureRequest) -> Callable[[str], Asking]:
    def sign_in(who: str) -> Asking:
        client = Asking()
        client.force_login(request.getfixturevalue(who))
        return client

    return sign_in


def to_sign_in(response: Any) -> bool:
    return response.status_code == 302 and response["Location"].startswith("/sign-in/")


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    assert page_names() == set(TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_who_is_not_signed_in_sees_or_changes_anything(name: str, here: Things) -> None:
    before = everything()
    response = ask(Asking(), name, here.tenant, here)
    if TABLE[name].least == PUBLIC:
        assert response.status_code == TABLE[name].status
    elif name == "account_logout":
        assert response.status_code == 302
    else:
        assert to_sign_in(response), response
    assert everything() == before


@pytest.mark.parametrize("who", ["viewer", "reviewer", "admin"])
@pytest.mark.parametrize("name", NAMES)
def test_a_member_may_what_the_role_allows(name: str, who: str, here: Things, signed_in) -> None:
    row, client = TABLE[name], signed_in(who)
    before = everything()
    response = ask(client, name, here.tenant, here)
    allowed = row.least not in RANK or RANK.index(Role(who)) >= RANK.index(Role(row.least))
    if name == "account_login":
        assert response.status_code == 302
    elif allowed:
        assert response.status_code == row.status, response.content[:500]
        assert not to_sign_in(response)
    else:
        assert response.status_code == 403
        assert everything() == before


@pytest.mark.parametrize("name", IN_TENANT)
def test_another_tenants_administrator_finds_nothing_there(
    name: str, here: Things, stranger: Person, signed_in
) -> None:
    client = signed_in("stranger")
    before = everything()
    assert ask(client, name, here.tenant, here).status_code == 404
    assert everything() == before


@pytest.mark.parametrize(
    "name", [name for name in IN_TENANT if TABLE[name].about or "{handoff}" in str(TABLE[name].data)]
)
def test_what_belongs_to_another_tenant_cannot_be_named_in_ones_own(
    name: str, here: Things, elsewhere: Things, admin: Person, signed_in
) -> None:
    client = signed_in("admin")
    before = everything()
    response = ask(client, name, here.tenant, elsewhere)
    assert response.status_code == TABLE[name].foreign
    assert everything() == before
    assert str(elsewhere.person) not in response.content.decode()


@pytest.mark.parametrize("name", IN_TENANT)
def test_a_tenant_that_does_not_exist_looks_the_same(name: str, here: Things, admin: Person, signed_in) -> None:
    client = signed_in("admin")
    assert ask(client, name, Tenant(slug="nobody"), here).status_code == 404


@pytest.mark.parametrize("name", [name for name in IN_TENANT if TABLE[name].method == "POST"])
def test_nothing_is_changed_without_a_token_of_the_page(name: str, here: Things, admin: Person) -> None:
    client = Asking(enforce_csrf_checks=True)
    client.force_login(admin)
    before = everything()
    assert ask(client, name, here.tenant, here).status_code == 403
    assert everything() == before


@pytest.mark.parametrize("name", [name for name in IN_TENANT if TABLE[name].method == "POST"])
def test_nothing_is_changed_by_looking(name: str, here: Things, admin: Person, signed_in) -> None:
    client = signed_in("admin")
    before = everything()
    kwargs = {"tenant": here.tenant.slug}
    kwargs |= {"pk" if about in BY_PK else about: getattr(here, about).pk for about in TABLE[name].about}
    assert client.get(reverse(name, kwargs=kwargs)).status_code == 405
    assert everything() == before


def test_a_person_without_a_tenant_is_told(db: None) -> None:
    client = Client()
    client.force_login(Person.objects.create_user("nobody", password="x"))
    assert client.get("/").status_code == 403
    assert settings.LOGIN_URL == "account_login"
