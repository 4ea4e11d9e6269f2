"""Helpers that send requests through the WSGI application that is served."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import httpx
from django.conf import settings

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.problem_types import PLAIN, type_of

# WhiteNoise, in the application, warns of a folder that is not there.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)

from handoffaudit.wsgi import application  # noqa: E402

BASE = "http://testserver/api/v1"


def client(key: str | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(transport=httpx.WSGITransport(app=application), base_url=BASE, headers=headers)


def make_key(tenant: Tenant, *scopes: str, name: str = "sender", agents: Iterable[str] = ()) -> str:
    return keys.create(tenant=tenant, name=name, scopes=scopes, expires_at=None, actor="tests", agents=agents)[1]


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """Return the problem document of a rejected request, after checks that the document is complete."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["title"]
    assert document["type"] == type_of(document["title"])
    # A problem with a title other than HTTP's phrase has a page in the help.
    assert document["type"] != PLAIN or document["title"] == HTTPStatus(status).phrase
    assert document["detail"]
    assert "Traceback" not in response.text
    return document


def submitted(api: httpx.Client, document: dict[str, Any], **envelope: Any) -> str:
    """Submit and judge a document, and return the handoff's id."""
    response = api.post("/handoffs", json={"document": document, **envelope})
    assert response.status_code == 202, response.text
    judge.drain()
    pk: str = response.json()["id"]
    return pk
