from collections.abc import Iterator

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from handoffaudit.accounts.models import Tenant
from tests.api.support import client, make_key
from tests.handoffs.hooks.support import worker
from tests.messages_api.server import MessagesServer


@pytest.fixture
def key(tenant: Tenant) -> str:
    """Return an API key that may do everything in `tenant`."""
    return make_key(tenant, "ingest", "read", "review", "admin")


@pytest.fixture
def api(key: str) -> Iterator[httpx.Client]:
    with client(key) as opened:
        yield opened


@pytest.fixture
def gate(api: httpx.Client, model: MessagesServer, settings) -> Iterator[httpx.Client]:
    """Yield the API with workers and an LLM that finds every objective met."""
    # On a busy machine, a verdict takes long, and a worker that loses its connection leaves its lease for a minute.
    settings.MAX_HOOK_SECONDS = 120
    with worker():
        yield api


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Keep the connection of the test's transaction open between requests, as Django's test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
