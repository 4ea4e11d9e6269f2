"""Tests that submit every file of a suite of valid and invalid JSON."""

from pathlib import Path

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.ingest.prepare import read_submission
from handoffaudit.handoffs.models import Handoff, HandoffBody
from tests.handoffs.support import judged, submit

pytestmark = pytest.mark.django_db
SUITE = Path(__file__).parents[1] / "validation" / "data" / "malformed-json"


def named(prefix: str) -> list[Path]:
    return sorted(SUITE.glob(f"{prefix}*.json"))


@pytest.mark.parametrize("declared", [None, "payload"])
def test_every_file_is_stored_as_it_came(tenant: Tenant, declared: str | None) -> None:
    for path in named(""):
        assert read_submission(path.read_bytes(), declared).document == path.read_bytes()
    if declared is None:
        for path in named(""):
            receipt = submit(tenant, path.read_bytes())
            assert receipt.status in (200, 202, 422)
            assert bytes(HandoffBody.objects.get(handoff_id=receipt.id).original) == path.read_bytes()


def test_what_is_no_json_is_rejected_with_its_place(tenant: Tenant) -> None:
    for path in named("n_"):
        receipt = submit(tenant, path.read_bytes())
        (issue,) = receipt.issues
        assert (receipt.status, receipt.state, issue.code) == (422, "rejected", "structure.json_parse"), path.name
        assert issue.metadata["line"] >= 1
        assert issue.metadata["column"] >= 1


def test_what_is_json_is_judged_as_what_it_says(tenant: Tenant) -> None:
    for path in [*named("y_"), *named("i_")]:
        receipt = submit(tenant, path.read_bytes())
        codes = {issue.code for issue in receipt.issues}
        if path.name.startswith("y_"):
            assert codes <= {"structure.wrong_type", "structure.unrecognised_format"}, path.name
        assert codes, path.name


@pytest.mark.parametrize("path", [*named("y_"), *named("i_")], ids=lambda path: path.stem)
def test_any_json_as_data_comes_to_a_verdict(tenant: Tenant, path: Path) -> None:
    document = (
        b'{"source_agent_id": "researcher", "target_agent_id": "writer", "tenant_id": "acme", "call_chain": '
        b'["researcher"], "handoff_type": "t", "data": {"value": ' + path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    )
    handoff = judged(tenant, document + b'}, "timestamp": "2026-02-15T00:15:00Z"}')
    assert handoff.state in ("accepted", "rejected")
    if path.name.startswith("y_"):
        assert handoff.state == "accepted"
    assert Handoff.objects.count() == 1
