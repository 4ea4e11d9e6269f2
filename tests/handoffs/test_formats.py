"""Tests of each format from the submission to the verdict and the stored rows."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.verdicts import record_of
from tests.handoffs.support import judged, submit

pytestmark = pytest.mark.django_db
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def example(name: str, tenant: Tenant) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads((EXAMPLES / f"{name}.json").read_bytes())
    for part in (document, document.get("envelope", {})):
        if "tenant_id" in part:
            part["tenant_id"] = tenant.slug
    return document


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("payload", ("payload", "research_result", "researcher", "writer", "")),
        ("universal", ("universal", "research", "researcher", "writer", "d53a8f7e-049d-4f0d-910f-824ba3bf6e11")),
        ("output", ("output", "Signal", "analyst", "trader", "d53a8f7e-049d-4f0d-910f-824ba3bf6e11")),
        ("delegation", ("delegation", "delegation", "bookkeeper", "orchestrator", "month-end")),
        ("delegation-hook", ("delegation", "delegation", "bookkeeper", "orchestrator", "session-17")),
        ("claude-code", ("claude-code", "delegation", "main", "bookkeeper", "session-17")),
        ("claude-code-subagent", ("claude-code", "delegation", "bookkeeper", "main", "session-17")),
        ("framework", ("framework", "handoff", "triage", "researcher", "")),
        ("handoff-file-report", ("handoff-file", "phase_result", "planner", "plan_review", "run-17")),
    ],
)
def test_each_format_is_judged_and_read_again_the_same(name: str, expected: tuple[str, ...], tenant: Tenant) -> None:
    handoff = judged(tenant, example(name, tenant))
    found = (handoff.format, handoff.handoff_type, handoff.source_agent_id, handoff.target_agent_id, handoff.trace_id)
    assert found == expected
    assert handoff.state != State.RECEIVED
    assert "structure" not in str(handoff.codes)
    record = record_of(handoff, HandoffBody.objects.get())
    assert record is not None
    assert (record.source_agent_id, record.target_agent_id, record.trace_id) == expected[2:]


@pytest.mark.parametrize("ends", [("x" * 200 + "1", "x" * 200 + "2"), ("x\0", "x\ufffd")])
def test_a_native_id_that_cannot_be_stored_unchanged_is_no_identity(ends: tuple[str, str], tenant: Tenant) -> None:
    receipts = [submit(tenant, example("framework", tenant) | {"id": end, "content": end}) for end in ends]
    assert [receipt.status for receipt in receipts] == [202, 202]
    assert receipts[0].handoff_id == receipts[0].id


def test_a_handoff_file_gets_its_agent_and_run_from_the_submission(tenant: Tenant) -> None:
    handoff = judged(tenant, example("handoff-file", tenant), agent="planner", trace_id="run-17")
    assert (handoff.state, handoff.source_agent_id, handoff.trace_id) == (State.ACCEPTED, "planner", "run-17")
    record = record_of(handoff, HandoffBody.objects.get())
    assert record is not None
    assert record.source_agent_id == "planner"


def test_an_older_version_is_lifted_where_that_is_asked_for(tenant: Tenant) -> None:
    document = example("universal-2.0", tenant)
    assert judged(tenant, document).codes == ["structure.version_mismatch"]
    handoff = judged(tenant, document, adapt=True)
    assert (handoff.state, handoff.codes) == (State.ACCEPTED, ["structure.generated_trace_id"])
    body = HandoffBody.objects.get(pk=handoff.pk)
    assert orjson.loads(bytes(body.original)) == document
    record = record_of(handoff, body)
    assert record is not None
    assert orjson.loads(bytes(body.lifted)) == record.document
    assert record.document["handoff"]["trace_id"] == handoff.trace_id == record.trace_id


def test_a_lifted_document_keeps_the_digits_of_long_integers(tenant: Tenant) -> None:
    document = example("universal-2.0", tenant)
    document["handoff"]["findings"]["invoice"] = orjson.Fragment(b"100000000000000000001")
    handoff = judged(tenant, document, adapt=True)
    lifted = bytes(HandoffBody.objects.get(pk=handoff.pk).lifted)
    assert b'"invoice":100000000000000000001' in lifted
    assert orjson.loads(lifted)["handoff"]["trace_id"] == handoff.trace_id


def test_an_output_of_another_tenant_is_refused(tenant: Tenant) -> None:
    document = example("output", tenant)
    document["envelope"]["tenant_id"] = "another"
    assert submit(tenant, document).status == 403
    assert not Handoff.objects.exists()
