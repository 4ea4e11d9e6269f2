"""Signed-in clients, and handoffs that were submitted and judged in the usual way."""

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
    """Collect the static files as a server has them, so that a page that names a missing file fails."""
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
    """Return a function that submits a handoff to a tenant.

    The function judges the handoff unless `judged=False`; its other arguments change the document.
    """
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
    """Return a function that submits an acceptable handoff of `tenant`; keyword arguments change the document."""

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
    """Return a rejected handoff that a reviewer may approve."""
    handoff = submit(call_chain=["writer", "planner"])
    assert (handoff.state, handoff.approvable) == ("rejected", True)
    return handoff


@pytest.fixture
def colleague(tenant: Tenant) -> Person:
    """Return a second reviewer."""
    person = Person.objects.create_user(username="colleague")
    Membership.objects.create(tenant=tenant, person=person, role=Role.REVIEWER)
    return person
