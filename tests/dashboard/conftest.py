"""Signed-in clients, and handoffs that went the real way: submitted, judged."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.core.management import call_command
from django.test import Client

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.transitions import Actor

LONG_CHAIN = ["a", "b", "c", "d", "e", "planner"]

Submit = Callable[..., Handoff]


@pytest.fixture(scope="session", autouse=True)
def collected() -> None:
    """The static files as a server has them: a page that names one that is not there fails."""
    call_command("collectstatic", verbosity=0, interactive=False)


@pytest.fixture
def sign_in(client: Client) -> Callable[[Person], Client]:
    def sign_in(person: Person) -> Client:
        client.force_login(person)
        return client

    return sign_in


@pytest.fixture
def as_admin(admin: Person) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def as_viewer(viewer: Person) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


@pytest.fixture
def submit_to(db: None) -> Submit:
    """Submits a handoff to a tenant, and judges it unless `judged=False`; other arguments change its document."""
    return _submit_to


def _submit_to(tenant: Tenant, *, judged: bool = True, **changes: Any) -> Handoff:
    document: dict[str, Any] = {
        "source_agent_id": "planner",
        "target_agent_id": "writer",
        "tenant_id": tenant.slug,
        "call_chain": ["planner"],
        "handoff_type": "message",
        "data": {"text": "Three sources agree on the date."},
        **changes,
    }
    (receipt,) = store.accept_batch(tenant, Actor.key("tests"), [orjson.dumps({"document": document})])
    if judged:
        judge.drain()
    return Handoff.objects.get(pk=receipt.id)


@pytest.fixture
def submit(tenant: Tenant) -> Submit:
    """Submits a handoff of `tenant` that is accepted as it is; keyword arguments change its document."""

    def submit(**changes: Any) -> Handoff:
        return _submit_to(tenant, **changes)

    return submit


@pytest.fixture
def held(submit: Submit) -> Handoff:
    handoff = submit(call_chain=LONG_CHAIN)
    assert handoff.state == "held"
    return handoff


@pytest.fixture
def circular(submit: Submit) -> Handoff:
    """Rejected, and a person may let it through."""
    handoff = submit(call_chain=["writer", "planner"])
    assert (handoff.state, handoff.approvable) == ("rejected", True)
    return handoff


@pytest.fixture
def colleague(tenant: Tenant) -> Person:
    """A second reviewer."""
    person = Person.objects.create_user(username="colleague")
    Membership.objects.create(tenant=tenant, person=person, role=Role.REVIEWER)
    return person
