"""Who may open which page: every address of the URL table has its row here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from handoffaudit.accounts.models import Key, Membership, Person, Role, Tenant
from handoffaudit.handoffs import trials
from handoffaudit.handoffs.models import Handoff, Trial
from handoffaudit.policy.models import Kind
from tests.access.support import everything, page_names
from tests.api.support import make_key
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
BY_PK = ("handoff", "trial")
DECISION = {"decision": "decline", "note": "no"}
TABLE = {
    "home": Row(SIGNED_IN, 302),
    "healthz": Row(PUBLIC),
    "readyz": Row(PUBLIC),
    "account_login": Row(PUBLIC),
    "account_logout": Row(SIGNED_IN),
    "welcome": Row(PUBLIC, 410),
    "password": Row(SIGNED_IN),
    "dashboard:overview": Row(Role.VIEWER),
    "dashboard:theme": post(Role.VIEWER, theme="dark"),
    "dashboard:handoffs": Row(Role.VIEWER),
    "dashboard:handoffs_new": Row(Role.VIEWER, data={"after": str(UUID(int=0))}),
    "dashboard:handoff": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_part": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_raw": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:handoff_repair": Row(Role.REVIEWER, 302, about=ABOUT_HANDOFF),
    "dashboard:handoff_again": post(Role.ADMIN, about="handoff"),
    "dashboard:review": Row(Role.VIEWER),
    "dashboard:review_next": Row(Role.VIEWER, 302),
    "dashboard:review_item": Row(Role.VIEWER, about=ABOUT_HANDOFF),
    "dashboard:decide": post(Role.REVIEWER, about="handoff", version="2", **DECISION),
    "dashboard:decide_many": post(Role.REVIEWER, foreign=302, select="{handoff}:2", **DECISION),
    "dashboard:strictness": Row(Role.VIEWER),
    "dashboard:strictness_save": post(Role.ADMIN, 400, row="deal_data", base_version="0", token_budget="none"),
    "dashboard:strictness_delete": post(Role.ADMIN, row="deal_data", base_version="0"),
    "dashboard:strictness_history": Row(Role.VIEWER),
    "dashboard:strictness_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
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
    "dashboard:schemas": Row(Role.VIEWER),
    "dashboard:schemas_save": post(Role.ADMIN, handoff_type="deal_data", claim_fields="thesis", base_version="0"),
    "dashboard:schemas_delete": post(Role.ADMIN, 409, row="deal_data", base_version="0"),
    "dashboard:schemas_try": post(Role.ADMIN, handoff_type="deal_data", claim_fields="thesis", base_version="0"),
    "dashboard:schemas_history": Row(Role.VIEWER),
    "dashboard:schemas_compare": Row(Role.VIEWER, data={"from": "0", "to": "0"}),
    "dashboard:schemas_revert": post(Role.ADMIN, to_version="0", base_version="0"),
    "dashboard:trial": Row(Role.VIEWER, about=("trial",)),
    "dashboard:trial_save": post(Role.ADMIN, about="trial"),
    "dashboard:settings": Row(Role.ADMIN),
    "dashboard:settings_invite": post(Role.ADMIN, 200, name="grace", role="viewer"),
    "dashboard:settings_link": post(Role.ADMIN, 200, about="person"),
    "dashboard:settings_role": post(Role.ADMIN, about="person", role="reviewer"),
    "dashboard:settings_remove": post(Role.ADMIN, about="person"),
    "dashboard:settings_keys": Row(Role.ADMIN),
    "dashboard:settings_key_create": post(Role.ADMIN, 400, name=""),
    "dashboard:settings_key_revoke": post(Role.ADMIN, about="key"),
    "dashboard:settings_audit": Row(Role.ADMIN),
}
NAMES = sorted(TABLE)
IN_TENANT = [name for name in NAMES if name.startswith("dashboard:")]


@dataclass
class Things:
    """What addresses can be about, in one tenant."""

    tenant: Tenant
    handoff: Handoff
    person: Person
    key: Key
    trial: Trial

    @classmethod
    def of(cls, tenant: Tenant) -> "Things":
        person = Person.objects.create_user(f"member-of-{tenant.slug}", password="x")
        Membership.objects.create(tenant=tenant, person=person, role=Role.VIEWER)
        make_key(tenant, "read")
        handoff = judged(tenant, held(tenant_id=tenant.slug))
        content: dict[str, Any] = {"rows": [{"handoff_type": "deal_data", "claim_fields": []}]}
        trial = trials.start(tenant=tenant, kind=Kind.SCHEMAS, content=content, base_version=0, actor="tests")
        return cls(tenant, handoff, person, Key.objects.get(tenant=tenant), trial)


def ask(client: Client, name: str, tenant: Tenant, things: Things) -> Any:
    """The row's request, in a tenant, about things of that or of another one."""
    row = TABLE[name]
    kwargs: dict[str, Any] = {"tenant": tenant.slug} if name.startswith("dashboard:") else {}
    if name == "welcome":
        kwargs = {"uidb64": "MQ", "token": "x-y"}
    for about in row.about:
        kwargs["pk" if about in BY_PK else about] = getattr(things, about).pk
    filled = {key: value.format(handoff=things.handoff.pk) for key, value in row.data.items()}
    return client.generic_request(row.method, reverse(name, kwargs=kwargs), filled)


class Asking(Client):
    def generic_request(self, method: str, address: str, data: dict[str, str]) -> Any:
        return self.post(address, data) if method == "POST" else self.get(address, data)


@pytest.fixture(autouse=True)
def _ready(tmp_path, settings) -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    settings.QUEUE_FOLDER.mkdir(parents=True, exist_ok=True)


@pytest.fixture
def here(tenant: Tenant) -> Things:
    return Things.of(tenant)


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
