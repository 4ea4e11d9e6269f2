from collections.abc import Callable, Iterator

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from tests.api.support import client, make_key
from tests.handoffs.conftest import *  # noqa: F403 -- the database of threads


@pytest.fixture
def key(tenant: Tenant) -> str:
    """May do everything in `tenant`."""
    return make_key(tenant, "ingest", "read", "review", "admin")


@pytest.fixture
def api(key: str) -> Iterator[httpx.Client]:
    with client(key) as opened:
        yield opened


@pytest.fixture
def api_with(tenant: Tenant) -> Callable[..., httpx.Client]:
    """A client whose key has these scopes."""
    return lambda *scopes: client(make_key(tenant, *scopes))
