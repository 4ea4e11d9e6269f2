"""Tests of the rows that are stored of a verdict."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Finding, State, Verdict
from tests.handoffs.support import circular, judged, payload

pytestmark = pytest.mark.django_db


def test_findings_are_the_issues_from_warning_up(tenant: Tenant) -> None:
    handoff = judged(tenant, circular(confidence=0.2))
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    from_warning_up = {
        (issue["code"], issue["severity"], issue["layer"], issue["field_path"])
        for issue in verdict["issues"]
        if issue["severity"] != "info"
    }
    assert set(Finding.objects.values_list("code", "severity", "layer", "field_path")) == from_warning_up
    assert {code for code, *_ in from_warning_up} == {"chain.circular", "confidence.low"}
    assert handoff.codes == sorted({code for code, *_ in from_warning_up})


@pytest.mark.parametrize(("confidence", "warned"), [(0.9, False), (0.2, True)])
def test_warnings_are_flagged_and_unverified_handoffs_apart_from_them(
    tenant: Tenant, confidence: float, warned: bool
) -> None:
    handoff = judged(tenant, payload(confidence=confidence))
    assert (handoff.state, handoff.warnings, handoff.unverified) == (State.ACCEPTED, warned, True)


def test_an_event_says_what_decided(tenant: Tenant) -> None:
    reasons = [
        queries.events(judged(tenant, document))[-1].reason for document in (payload(), circular(confidence=0.2))
    ]
    assert reasons == ["", "chain.circular"]


def test_a_path_as_long_as_it_may_be_is_cut(tenant: Tenant) -> None:
    data = value = {}
    for _ in range(5):
        value["k" * 199] = value = {}
    value["\0"] = 1
    judged(tenant, payload(call_chain=[1] * 3, **{"x" * 600: data}))
    assert all(len(path) <= 500 for path in Finding.objects.values_list("field_path", flat=True))
    assert Finding.objects.exists()


def test_hundreds_of_issues_become_a_bounded_number_of_rows(tenant: Tenant) -> None:
    handoff = judged(tenant, payload(call_chain=[1] * 5000))
    assert handoff.state == State.REJECTED
    assert 1 <= Finding.objects.count() <= 200
    assert len(Verdict.objects.get().content) < 200_000
