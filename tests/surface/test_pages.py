"""Snapshots of the query parameters of pages, because links are bookmarked, mailed and stored in saved views."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import QueryDict
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from tests.access.page_rows import TABLE
from tests.access.test_pages import Asking, Things, ask
from tests.surface.doors import Watermark
from tests.surface.snapshots import check


def recording(asked: set[str]) -> type[QueryDict]:
    """Return a query that writes down the names that it is asked for."""

    class Recording(QueryDict):
        def __getitem__(self, key: str) -> Any:
            asked.add(key)
            return super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            asked.add(str(key))
            return super().__contains__(key)

        def getlist(self, key: str, default: Any = None) -> Any:
            asked.add(key)
            return super().getlist(key, default)

    return Recording


@pytest.mark.django_db
def test_query_parameters_of_pages(tenant: Tenant, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    Watermark.objects.create(name="worker", at=timezone.now())
    things, client = Things.of(tenant), Asking()
    client.force_login(admin)
    found = {}
    for name in sorted(name for name, row in TABLE.items() if row.method == "GET"):
        asked: set[str] = set()
        kind = recording(asked)
        query: Callable[[WSGIRequest], QueryDict] = lambda request, kind=kind: kind(  # noqa: E731
            request.META.get("QUERY_STRING", ""), encoding=request._encoding
        )
        with monkeypatch.context() as patched:
            patched.setattr(WSGIRequest, "GET", property(query))
            ask(client, name, tenant, things)
        if asked:
            found[name] = sorted(asked)
    check("query-parameters-of-pages", found)
