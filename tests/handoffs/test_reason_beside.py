"""Tests of the reason of a handoff beside its document."""

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import export, queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import HandoffBody, State
from handoffaudit.handoffs.verdicts import record_of
from tests.handoffs.support import circular, judged, payload, submit

pytestmark = pytest.mark.django_db

WHY = "The figures need a second check."


def test_the_reason_beside_fills_the_reason_of_the_document(tenant: Tenant) -> None:
    assert judged(tenant, circular()).state == State.REJECTED
    handoff = judged(tenant, circular(), reason=WHY)
    assert (handoff.state, handoff.codes) == (State.HELD, ["chain.circular_with_reason"])
    assert WHY in str(queries.current_verdict(handoff))
    body = HandoffBody.objects.get(pk=handoff.pk)
    assert (body.reason, b"handoff_reason" in bytes(body.original)) == (WHY, False)


@pytest.mark.parametrize(("own", "used"), [("Mine.", "Mine."), ("", WHY), ("  ", WHY)])
def test_the_reason_of_the_document_comes_first(tenant: Tenant, own: str, used: str) -> None:
    handoff = judged(tenant, circular(handoff_reason=own), reason=WHY)
    record = record_of(handoff, HandoffBody.objects.get())
    assert record is not None
    assert record.handoff_reason == used


@pytest.mark.parametrize("blank", ["", "  ", "\u200b", "\0", "\u3164\n"])
def test_a_reason_that_nobody_can_read_is_none(tenant: Tenant, blank: str) -> None:
    assert judged(tenant, circular(), reason=blank).codes == ["chain.circular"]
    assert judged(tenant, circular(handoff_reason=blank)).codes == ["chain.circular"]


def test_a_universal_document_gets_it_too(tenant: Tenant) -> None:
    document = {
        "handoff": {
            "version": "3.0",
            "schema_type": "universal",
            "timestamp": "2026-02-01T08:00:00Z",
            "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
            "source": {"skill": "writer", "workflow_id": "w", "session_path": "s", "phase": "one"},
            "target": {"skill": "editor"},
            "context": {"summary": "Write it.", "problem_type": "implementation"},
            "payload": {"working": {"draft": "A draft."}},
            "meta": {"token_count": 110, "confidence": "high", "handoff_chain": ["writer", "editor"]},
        }
    }
    assert judged(tenant, document).codes == ["chain.circular"]
    assert "chain.circular_with_reason" in judged(tenant, document, reason=WHY).codes


def test_another_reason_is_another_handoff(tenant: Tenant) -> None:
    answers = [
        submit(tenant, payload(handoff_id="h"), **beside).status
        for beside in ({"reason": WHY}, {"reason": WHY}, {"reason": "Another."}, {})
    ]
    assert answers == [202, 200, 409, 409]
    assert [submit(tenant, payload(handoff_id="i"), **beside).status for beside in ({}, {"reason": ""})] == [202, 200]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("x" * 900_000, "x" * 1999 + "…"), ("a\x00b", "a\ufffdb"), ("<script>", "<script>")],
    ids=["long", "nul", "markup"],
)
def test_a_hostile_reason_is_cut_and_cleaned(tenant: Tenant, sent: str, kept: str) -> None:
    handoff = judged(tenant, circular(), reason=sent)
    assert HandoffBody.objects.get(pk=handoff.pk).reason == kept


@pytest.mark.parametrize("wrong", [7, [], {"why": 1}])
def test_a_reason_of_another_type_is_said(tenant: Tenant, wrong: object) -> None:
    (issue,) = submit(tenant, payload(), reason=wrong).issues
    assert (issue.code, issue.location) == ("structure.wrong_type", ("reason",))


def test_a_reason_with_half_a_surrogate_pair_is_unreadable(tenant: Tenant) -> None:
    sent = b'{"document": %s, "reason": "\\ud800"}' % orjson.dumps(payload())
    assert submit(tenant, sent).status == 422


def test_the_export_has_it(tenant: Tenant) -> None:
    judged(tenant, payload(), reason=WHY)
    (line,) = export.lines(tenant, Filters())
    assert line.text is not None
    assert f'"reason": "{WHY}"'.encode() in line.text
