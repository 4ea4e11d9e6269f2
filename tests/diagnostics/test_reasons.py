"""Tests of the matrix of agents and phases, and of its trend."""

from datetime import timedelta

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import reasons as reasons_module
from handoffaudit.diagnostics.file_stats import FileTally, Pair
from handoffaudit.diagnostics.reasons import load_reasons, matrix
from handoffaudit.handoffs.periods import window_of
from tests.diagnostics.support import NOW, counted


def test_the_worst_come_first_and_cells_stand_under_their_phases():
    pairs = [
        Pair("plan", "good", FileTally(used=50)),
        Pair("plan", "once", FileTally(file_missing=1)),
        Pair("fix", "bad", FileTally(used=10, json_parse_error=30)),
        Pair("plan", "bad", FileTally(used=5)),
    ]
    found = matrix(pairs, FileTally.of(pair.tally for pair in pairs))
    assert [row.agent for row in found.rows] == ["bad", "once", "good"]
    assert found.phases == ["fix", "plan"]
    assert found.rows[0].cells == [FileTally(used=10, json_parse_error=30), FileTally(used=5)]
    assert found.rows[1].cells == [None, FileTally(file_missing=1)]
    assert found.others.total == 0


def test_what_is_beyond_its_bounds_is_summed_as_others():
    pairs = [
        Pair(f"phase {phase:02}", f"agent {agent:02}", FileTally(used=1, file_missing=agent + phase))
        for agent in range(reasons_module.MOST_AGENTS + 3)
        for phase in range(reasons_module.MOST_PHASES + 2)
    ]
    whole = FileTally.of([FileTally(used=7), *(pair.tally for pair in pairs)])
    found = matrix(pairs, whole)
    assert (len(found.rows), len(found.phases)) == (reasons_module.MOST_AGENTS, reasons_module.MOST_PHASES)
    shown = FileTally.of(cell for row in found.rows for cell in row.cells if cell)
    assert FileTally.of([shown, found.others]) == whole
    assert found.others.used >= 7


@pytest.mark.django_db
def test_it_is_told_whether_it_got_better_overall_by_agent_and_by_reason(tenant: Tenant):
    counted(tenant, "planner", 90)
    counted(tenant, "planner", 10, "file_missing")
    counted(tenant, "planner", 50, ago=timedelta(days=8))
    counted(tenant, "planner", 50, "file_missing", ago=timedelta(days=8))
    counted(tenant, "planner", 20, "json_parse_error", ago=timedelta(days=8))
    found = load_reasons(tenant, window_of({}, NOW))
    assert (found.change.points, found.change.direction) == (48.3, "better")
    assert found.worst is not None
    assert (found.worst.agent, found.worst.change.points) == ("planner", 48.3)
    assert [(one.reason, one.change.fewer, one.agents) for one in found.reasons] == [
        ("file_missing", "better", [("planner", 10)]),
        ("json_parse_error", "better", []),
    ]


@pytest.mark.django_db
def test_an_agent_whose_files_are_all_used_is_not_the_worst(tenant: Tenant):
    counted(tenant, "planner", 3)
    assert load_reasons(tenant, window_of({}, NOW)).worst is None
