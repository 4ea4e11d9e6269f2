"""Tests of the roles that may open each page: every address of the URL table has a row."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Key, Membership, Person, Role, SavedView, Tenant
from handoffaudit.dashboard.urls import urlpatterns
from handoffaudit.diagnostics import attribution, erasure
from handoffaudit.diagnostics.models import Erasure, ErasureState, FileReport, FindingGroup, LogImport, Watermark
from handoffaudit.handoffs import alerts, dry_runs, legal_holds, policy_cases
from handoffaudit.handoffs.models import (
    Alert,
    Comment,
    Delivery,
    Handoff,
    LegalHold,
    PolicyCase,
    Subscriber,
    ToolResult,
    Trial,
)
from handoffaudit.policy.models import Kind
from tests.access.page_rows import ABOUT_NO_OBJECT, MAY, PUBLIC, SIGNED_IN, TABLE
from tests.access.support import nothing_changes, page_names
from tests.api.support import make_key
from tests.diagnostics.files.support import received
from tests.diagnostics.files.support import report as file_report
from tests.handoffs.support import held, judged
from tests.scale import cases

pytestmark = pytest.mark.django_db
NAMES = sorted(TABLE)
NAMED = {"help_problem": "key-needed", "dashboard:help_guide": "reviewer", "dashboard:help_call": "submit_handoff"}
MEMBERS = [(name, who) for name in NAMES for who in Role.values]
# By day: the first role that may open the page, the last that may not, and the administrator, who sees most.
ROLES_BY_DAY = {Role.REVIEWER: (Role.VIEWER, Role.REVIEWER, Role.ADMIN), Role.ADMIN: (Role.REVIEWER, Role.ADMIN)}
MEMBERS_BY_DAY = {
    (name, who) for name, who in MEMBERS if who in ROLES_BY_DAY.get(TABLE[name].least, (Role.VIEWER, Role.ADMIN))
}
IN_TENANT = [name for name in NAMES if name.startswith("dashboard:")]
PARAMETERS = {f"dashboard:{one.name}": set(one.pattern.converters) for one in urlpatterns}
OBJECTS = [
    (name, "handoff" if about == "trace_id" else about)
    for name in IN_TENANT
    for about in (*TABLE[name].about, *(["handoff"] if "{handoff}" in str(TABLE[name].data) else []))
]


@dataclass
class Things:
    """The objects of one tenant that addresses can be about."""

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
    tool_result: ToolResult
    comment: Comment
    hold: LegalHold
    erasure: Erasure
    case: PolicyCase

    @classmethod
    def of(cls, tenant: Tenant) -> "Things":
        person = Person.objects.create_user(f"member-of-{tenant.slug}", password="x")
        Membership.objects.create(tenant=tenant, person=person, role=Role.VIEWER)
        make_key(tenant, "read")
        report = received(tenant, file_report({})).report
        assert report is not None
        handoff = judged(tenant, held(tenant_id=tenant.slug), trace_id=f"trace-of-{tenant.slug}")
        attribution.run()
        group = FindingGroup.objects.filter(tenant=tenant)[0]
        content: dict[str, Any] = {"rows": [{"handoff_type": "deal_data", "claim_fields": []}]}
        trial = dry_runs.start(tenant=tenant, kind=Kind.SCHEMAS, content=content, base_version=0, actor="tests")
        alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
        [alert] = alerts.list_open(tenant)
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
        result = ToolResult.objects.create(
            tenant=tenant, trace_id="t", call_id="c", tool="t", at=timezone.now(), grade="said", content="1", size=1
        )
        comment = Comment.objects.create(
            tenant=tenant, handoff=handoff, actor_kind="person", actor="somebody", text="Seen.", at=timezone.now()
        )
        found = (tenant, handoff, group, person, key, trial, alert, report, log, subscriber, delivery, view, result)
        # Each of them is of another tenant's value, so that it is found only in its own tenant.
        hold = legal_holds.place(tenant=tenant, scope="trace", key=handoff.trace_id, reason="a case", actor="somebody")
        asked = erasure.request(tenant=tenant, value=f"{tenant.slug}@example.com", reason="asked", actor="somebody")
        Erasure.objects.filter(pk=asked.pk).update(state=ErasureState.COUNTED, counted_at=timezone.now())
        case = policy_cases.keep(tenant=tenant, reference=str(handoff.pk), expected="held", actor="somebody")
        return cls(*found, comment, hold, asked, case)


def ask(client: Client, name: str, tenant: Tenant, things: Things) -> Any:
    """Send the request of a row in a tenant, about objects of that tenant or of another tenant."""
    row = TABLE[name]
    kwargs: dict[str, Any] = {"tenant": tenant.slug} if name.startswith("dashboard:") else {}
    if name == "welcome":
        kwargs = {"uidb64": "MQ", "token": "x-y"}
    if name == "mfa_remove_webauthn":
        kwargs["pk"] = 1
    if name in ("dashboard:code", "help_code"):
        kwargs["code"] = "chain.circular"
    if name in NAMED:
        kwargs["name"] = NAMED[name]
    if name == "dashboard:agent":
        kwargs["name"] = "researcher"
    if name == "dashboard:settings_audit_entry":
        kwargs["number"] = 1
    kwargs |= ids_of(name, things)
    filled = {key: value.format(handoff=things.handoff.pk) for key, value in row.data.items()}
    return client.generic_request(row.method, reverse(name, kwargs=kwargs), filled)


def ids_of(name: str, things: Things) -> dict[str, Any]:
    """Return the parameters of the address that say what it is about."""
    ids = {
        about: things.handoff.trace_id if about == "trace_id" else getattr(things, about).pk
        for about in TABLE[name].about
    }
    return {about if about in PARAMETERS[name] else "pk": pk for about, pk in ids.items()}


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
    """Record a worker: without a worker, each request to `/readyz` makes the web server evaluate the alert rules."""
    Watermark.objects.create(name="worker", at=timezone.now())


@pytest.fixture(scope="module")
def elsewhere(kept_other_tenant: Tenant) -> Things:
    return Things.of(kept_other_tenant)


@pytest.fixture(scope="module")
def sessions(kept_tenant: Tenant, kept_other_tenant: Tenant) -> dict[str, str]:
    """Return the session cookie of each person, who signs in once for the whole module."""
    people = {role.value: (kept_tenant, role) for role in Role} | {"stranger": (kept_other_tenant, Role.ADMIN)}
    cookies = {}
    for name, (tenant, role) in people.items():
        person = Person.objects.create_user(username=name, email=f"{name}@example.com", password="x")
        Membership.objects.create(tenant=tenant, person=person, role=role)
        client = Client()
        client.force_login(person)
        cookies[name] = client.cookies[settings.SESSION_COOKIE_NAME].value
    return cookies


@pytest.fixture
def signed_in(sessions: dict[str, str]) -> Callable[..., Asking]:
    def sign_in(who: str, **options: bool) -> Asking:
        client = Asking(**options)
        client.cookies[settings.SESSION_COOKIE_NAME] = sessions[who]
        return client

    return sign_in


def to_sign_in(response: Any) -> bool:
    return response.status_code == 302 and response["Location"].startswith("/sign-in/")


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    assert page_names() == set(TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_who_is_not_signed_in_sees_or_changes_anything(name: str, here: Things) -> None:
    with nothing_changes():
        response = ask(Asking(), name, here.tenant, here)
    if TABLE[name].least == PUBLIC:
        assert response.status_code == TABLE[name].status
    elif name == "account_logout":
        assert response.status_code == 302
    else:
        assert to_sign_in(response), response


@pytest.mark.parametrize("member", cases(MEMBERS, MEMBERS_BY_DAY), ids="-".join)
def test_a_member_may_what_the_role_allows(member: tuple[str, str], here: Things, signed_in) -> None:
    name, who = member
    row, client = TABLE[name], signed_in(who)
    allowed = row.least in (PUBLIC, SIGNED_IN) or row.least in MAY[who]
    with nullcontext() if allowed else nothing_changes():
        response = ask(client, name, here.tenant, here)
    if name == "account_login":
        assert response.status_code == 302
    elif allowed:
        assert response.status_code == row.status, response.content[:500]
        assert not to_sign_in(response)
    else:
        assert response.status_code == 403


@pytest.mark.parametrize("name", IN_TENANT)
def test_another_tenants_administrator_finds_nothing_there(name: str, here: Things, signed_in) -> None:
    client = signed_in("stranger")
    with nothing_changes():
        assert ask(client, name, here.tenant, here).status_code == 404


def test_the_row_of_an_address_with_parameters_names_an_object_for_each() -> None:
    unnamed = {name for name in IN_TENANT if len(PARAMETERS[name]) != len(TABLE[name].about)}
    assert unnamed == ABOUT_NO_OBJECT


@pytest.mark.parametrize(("name", "about"), OBJECTS)
def test_what_belongs_to_another_tenant_cannot_be_named_in_ones_own(
    name: str, about: str, here: Things, elsewhere: Things, signed_in
) -> None:
    """Each object of the address belongs to another tenant in turn, and the others to the tenant of the address."""
    client = signed_in("admin")
    with nothing_changes():
        response = ask(client, name, here.tenant, replace(here, **{about: getattr(elsewhere, about)}))
    # A comment of nobody, of somebody else and of another tenant look the same.
    assert response.status_code == (409 if about == "comment" else TABLE[name].foreign)
    assert str(elsewhere.person) not in response.content.decode()


@pytest.mark.parametrize("name", IN_TENANT)
def test_a_tenant_that_does_not_exist_looks_the_same(name: str, here: Things, signed_in) -> None:
    client = signed_in("admin")
    assert ask(client, name, Tenant(slug="nobody"), here).status_code == 404


@pytest.mark.parametrize("name", [name for name in IN_TENANT if TABLE[name].method == "POST"])
def test_nothing_is_changed_without_a_token_of_the_page(name: str, here: Things, signed_in) -> None:
    client = signed_in("admin", enforce_csrf_checks=True)
    with nothing_changes():
        assert ask(client, name, here.tenant, here).status_code == 403


@pytest.mark.parametrize("name", [name for name in IN_TENANT if TABLE[name].method == "POST"])
def test_nothing_is_changed_by_looking(name: str, here: Things, signed_in) -> None:
    client = signed_in("admin")
    kwargs = {"tenant": here.tenant.slug} | ids_of(name, here)
    with nothing_changes():
        assert client.get(reverse(name, kwargs=kwargs)).status_code == 405


def test_a_person_without_a_tenant_is_told(db: None) -> None:
    client = Client()
    client.force_login(Person.objects.create_user("nobody", password="x"))
    assert client.get("/").status_code == 403
    assert settings.LOGIN_URL == "account_login"
