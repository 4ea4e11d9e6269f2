"""The documented contract: the OpenAPI document, kept in `docs/openapi.json`, and what any input is answered."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from handoffaudit.accounts.models import Tenant
from handoffaudit.api.app import api as ninja_api
from tests.access.support import api_operations
from tests.api.support import application, make_key

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "openapi.json"
RENEW = (
    "python manage.py export_openapi_schema --api handoffaudit.api.app.api"
    " --indent 2 --sorted --output docs/openapi.json"
)


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: Any) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


def document() -> dict[str, Any]:
    return json.loads(json.dumps(ninja_api.get_openapi_schema()))


schema = schemathesis.openapi.from_dict(document())
schema.app = application


def test_the_kept_contract_is_the_one_that_is_served(db: None) -> None:
    with httpx.Client(transport=httpx.WSGITransport(app=application), base_url="http://testserver") as client:
        served = client.get("/api/v1/openapi.json").json()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else None
    assert kept == served, f"The API's contract changed. Look at the change; where it is meant: {RENEW}"


def test_every_operation_is_documented_with_its_refusals() -> None:
    documented = {
        (method.upper(), path.removeprefix("/api/v1")): operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(documented) == api_operations()
    for operation in documented.values():
        assert operation["summary"]
        assert operation["operationId"]


def test_every_parameter_says_what_it_means() -> None:
    silent = [
        f"{method.upper()} {path}: {one['name']}"
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        for one in operation.get("parameters", [])
        if not (one.get("description") or one["schema"].get("description"))
    ]
    assert silent == []


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_input_is_answered_with_our_mistake(case: schemathesis.Case, api_key: str) -> None:
    response = case.call(headers={"Authorization": f"Bearer {api_key}"})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert response.headers["content-type"][0] == "application/problem+json"


@pytest.fixture
def api_key(tenant: Tenant, settings) -> str:
    # Nobody judges here, so a hook would wait as long as it may.
    settings.MAX_HOOK_SECONDS = 0
    return make_key(tenant, "ingest", "read", "review", "admin")


def test_the_generated_inputs_are_not_all_refused(api_key: str) -> None:
    """Otherwise the test above would show nothing."""
    operation = schema["/api/v1/handoffs"]["GET"]
    case = operation.Case(query={"limit": 5})
    assert case.call(headers={"Authorization": f"Bearer {api_key}"}).status_code == 200
