"""Tests of the OpenAPI document in `docs/openapi.json`, and of the answers to any input."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from pydantic import BaseModel
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from handoffaudit.accounts.models import Tenant
from handoffaudit.api.app import api as ninja_api
from handoffaudit.api.examples import BODY_OF_A_SUBMISSION
from tests.access.support import api_operations
from tests.api.support import application, make_key
from tests.handoffs.support import judged, payload
from tests.scale import NIGHTLY

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "openapi.json"
RENEW = (
    "python manage.py export_openapi_schema --api handoffaudit.api.app.api"
    " --indent 2 --sorted --output docs/openapi.json"
)


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: Any) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@cache
def _served() -> str:
    return json.dumps(ninja_api.get_openapi_schema())


def document() -> dict[str, Any]:
    return json.loads(_served())


# Every test process reads the kept document, which takes milliseconds; a test compares it with the served document.
schema = schemathesis.openapi.from_dict(json.loads(KEPT.read_text()))
schema.app = application
# The thousands of inputs at the limits of each value take a minute of the processor.
schema.config.phases.coverage.enabled = NIGHTLY


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


@cache
def bodies() -> dict[str, tuple[str, str, str, list[Any]]]:
    """Return the method, the address, the first body's kind and the body's examples of each operation."""
    found = {}
    for path, methods in json.loads(KEPT.read_text())["paths"].items():
        for method, operation in methods.items():
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                given = [body["example"]] if "example" in body else [one["value"] for one in body["examples"].values()]
                found.setdefault(operation["operationId"], (method, path, kind, given))
                break
    return found


# Their paths name objects that must exist, so their own tests send the examples.
ABOUT_SOMETHING = {"review_handoff", "mute_group", "add_comment", "assign_handoff", "lift_legal_hold"}
NEEDED = {"send_log": {"source": "planner.log"}}


@pytest.mark.parametrize("name", sorted(bodies()))
def test_what_an_example_of_a_body_shows_is_accepted(
    name: str, api_key: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, path, kind, examples = bodies()[name]
    if name == "keep_policy_case":
        # Its body, and not its path, names the handoff.
        judged(tenant, payload(handoff_id=examples[0]["handoff"]))
    assert examples
    if name in ABOUT_SOMETHING:
        assert "{" in path
        return
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("93.184.215.14", 443))])
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": kind}
    with httpx.Client(transport=httpx.WSGITransport(app=application), base_url="http://testserver") as client:
        for example in examples:
            text = example if isinstance(example, str) else json.dumps(example)
            sent = text.replace('"tenant_id": "default"', '"tenant_id": "acme"')
            answer = client.request(method, path, content=sent, headers=headers, params=NEEDED.get(name))
            assert answer.is_success, answer.text


def test_no_two_shapes_share_a_name() -> None:
    """Otherwise the later schema would describe both."""

    def below(kind: type[BaseModel]) -> list[type[BaseModel]]:
        return [one for child in kind.__subclasses__() for one in (child, *below(child))]

    # The output of the MCP tools has shapes of its own, which another test may have loaded.
    ours = {one for one in below(BaseModel) if re.match(r"handoffaudit\.(?!cli\.)", one.__module__)}
    names = [one.__name__ for one in ours]
    assert sorted(name for name in names if names.count(name) > 1) == []


def test_every_field_says_what_it_means() -> None:
    shapes = document()["components"]["schemas"]
    shapes |= {"submission": BODY_OF_A_SUBMISSION, "evidence": BODY_OF_A_SUBMISSION["properties"]["evidence"]["items"]}
    silent = [
        f"{name}.{field}"
        for name, shape in shapes.items()
        for field, told in shape.get("properties", {}).items()
        if not told.get("description")
    ]
    assert silent == []


def test_refusals_are_told_where_they_happen() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            expected = {"401", "403"} if operation.get("security") else set()
            expected |= {"400", "413"} if "requestBody" in operation and not path.endswith("post-tool-use") else set()
            assert expected <= set(operation["responses"]), (method, path)


# What a filter, a cursor or a document may be is not all in its schema, and a document that is not JSON is stored as
# rejected: neither does a schema say all that is refused, nor is all refused that breaks it.
ABOUT_INPUT = [positive_data_acceptance, negative_data_rejection]


# Schemathesis makes no bodies in protobuf; the tests of OpenTelemetry send them.
@pytest.mark.filterwarnings("ignore:Skipped test cases with unsupported payload media types")
@schema.parametrize()
@settings(
    max_examples=12 if NIGHTLY else 2,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_input_is_answered_as_documented(case: schemathesis.Case, api_key: str) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {api_key}"}, excluded_checks=ABOUT_INPUT)


@pytest.fixture
def api_key(tenant: Tenant, settings) -> str:
    # No worker judges here, so a hook would wait until its timeout.
    settings.MAX_HOOK_SECONDS = 0
    return make_key(tenant, "ingest", "read", "review", "admin")


def test_the_generated_inputs_are_not_all_refused(api_key: str) -> None:
    """Otherwise the test above would prove nothing."""
    operation = schema["/api/v1/handoffs"]["GET"]
    case = operation.Case(query={"limit": 5})
    assert case.call(headers={"Authorization": f"Bearer {api_key}"}).status_code == 200
