"""Tests that a trace id that is a UUID names the same trace in upper and lower case."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.filters import Facets, LogQuery
from handoffaudit.diagnostics.traces import load_trace
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.logs.lines import TraceLine
from handoffaudit.validation.logs.reader import read_bytes
from tests.handoffs.support import judged, payload
from tests.validation.support import universal

UPPER = "D53A8F7E-049D-4F0D-910F-824BA3BF6E11"


@pytest.mark.django_db
def test_both_spellings_are_one_trace(tenant: Tenant) -> None:
    judged(tenant, universal(trace_id=UPPER))
    judged(tenant, payload(handoff_id="beside"), trace_id=UPPER.lower())
    assert set(Handoff.objects.values_list("trace_id", "state")) == {(UPPER.lower(), "accepted")}
    for spelling in (UPPER, UPPER.lower()):
        found = load_trace(tenant, spelling)
        assert found is not None
        assert len(found.handoffs) == 2
        assert len(queries.list_handoffs(tenant, Filters(trace=spelling)).items) == 2


@pytest.mark.django_db
def test_a_trace_stored_before_in_upper_case_is_still_found(tenant: Tenant) -> None:
    stored = judged(tenant, payload(), trace_id="other")
    Handoff.objects.filter(pk=stored.pk).update(trace_id=UPPER)
    assert [row.pk for row in queries.trace(tenant, UPPER)] == [stored.pk]


@pytest.mark.django_db
def test_other_ids_keep_their_case(tenant: Tenant) -> None:
    judged(tenant, payload(), trace_id="Run-7")
    assert [row.trace_id for row in queries.trace(tenant, "Run-7")] == ["Run-7"]
    assert queries.trace(tenant, "run-7") == []


def test_log_lines_are_found_in_either_case() -> None:
    text = f'{{"trace_id": "{UPPER}", "event_type": "handoff_created", "timestamp": "2026-02-01T08:00:00Z"}}'.encode()
    query, facets = LogQuery(trace=UPPER.lower()), Facets(traces=frozenset({UPPER}))
    assert (query.may_match(facets), query.may_stand_in(text)) == (True, True)
    line = read_bytes(text)
    assert isinstance(line, TraceLine)
    assert query.matches(line)
