"""Tests of the compliance report: one report in four formats with the same content."""

import csv
from datetime import timedelta
from io import StringIO
from pathlib import Path

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import compliance_report
from handoffaudit.diagnostics.compliance_export import (
    COLUMNS,
    WIDTH,
    as_csv,
    as_json,
    as_text,
    count_columns,
    escape_formula,
    shorten,
    strip_controls,
)
from handoffaudit.diagnostics.compliance_report import KINDS, ComplianceReport, build_report, parse_expected_pairs
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import counts
from handoffaudit.handoffs.periods import HOUR, Window
from tests.diagnostics.support import NOW, counted, window_then

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_all_hours_kept")]
GOLDEN = Path(__file__).with_name("golden.txt")
WEEK = window_then({})
STATES = {"accepted": 7, "approved": 1, "rejected": 2, "held": 1, "declined": 1, "superseded": 5}


def handoffs(tenant: Tenant, number: int = 1, code: str = "", source: str = "planner", kind: str = "memo") -> None:
    """Count `number` times as many handoffs of each state as STATES has."""
    hour = (NOW - HOUR).replace(minute=0, second=0, microsecond=0)
    place = counts.CountKey(tenant.pk, hour, kind, source, "writer")
    counts.apply(counts.Deltas({(place, state, code): many * number for state, many in STATES.items()}))


def reported(tenant: Tenant, *expected: tuple[str, str], window: Window = WEEK) -> ComplianceReport:
    return build_report(tenant, window, NOW, expected)


@pytest.fixture
def filled(tenant: Tenant) -> Tenant:
    """Store the counts of agents that skip files, write bad files, never ran, or have hostile names."""
    counted(tenant, "planner", 199)
    counted(tenant, "planner", 1, "schema_invalid", fallback="text_fallback_ok")
    counted(tenant, "slot_b", 40, phase="plan_review", runtime="codex")
    counted(tenant, "slot_b", 50, "file_missing", phase="plan_review", runtime="codex", fallback="text_fallback_fail")
    counted(tenant, "slot_b", 10, "json_parse_error", phase="plan_review", runtime="codex")
    counted(tenant, "gone", 3, phase="deploy", runtime="", ago=timedelta(days=40))
    counted(tenant, "=HYPERLINK(1)", 1, phase="\x1b[31mred\u202e", runtime="")
    counted(tenant, "実装者" * 12, 1, "file_missing", phase="a phase with a long name of its own", runtime="")
    handoffs(tenant)
    handoffs(tenant, 3, source="@researcher", kind="report")
    handoffs(tenant, 2, code="chain.circular")
    return tenant


def test_pairs_that_never_ran_are_told_and_are_not_zero_percent(filled: Tenant):
    pairs = {(pair.phase, pair.agent): str(pair.tally.share) for pair in reported(filled, ("fix", "never")).files.pairs}
    assert pairs["deploy", "gone"] == pairs["fix", "never"] == "0/0 (n/a)"
    assert pairs["plan", "planner"] == "199/200 (99.5%)"
    assert pairs["plan_review", "slot_b"] == "40/100 (40.0%)"


def test_handoffs_are_counted_as_on_the_overview(filled: Tenant):
    validation = reported(filled).validation
    assert str(validation.overall.share) == "28/48 (58.3%)"
    assert (validation.overall.decided, validation.overall.stopped) == (4, 16)
    assert {kind: [line.names for line in validation.by[kind].lines] for kind in KINDS} == {
        "type": [("report",), ("memo",)],
        "source": [("@researcher",), ("planner",)],
        "target": [("writer",)],
        "source_target": [("@researcher", "writer"), ("planner", "writer")],
        "code": [("chain.circular",)],
    }
    assert str(validation.by["source"].lines[0].judged.share) == "21/36 (58.3%)"
    assert sum(one.value.total for one in validation.over_time) == 48


def test_what_is_not_listed_is_summed(filled: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compliance_report, "MOST_LINES", 1)
    monkeypatch.setattr("handoffaudit.diagnostics.file_stats.MOST_PAIRS", 1)
    report = reported(filled)
    assert [(line.names, line.judged.total) for line in report.validation.by["type"].lines] == [(("report",), 36)]
    assert report.validation.by["type"].others.total == 12
    listed = sum(pair.tally.total for pair in report.files.pairs)
    assert listed + report.files.others.total == report.files.overall.total == 302


def test_runtimes_that_are_not_listed_are_summed_in_every_form(filled: Tenant, monkeypatch: pytest.MonkeyPatch):
    assert reported(filled).files.other_runtimes.total == 0
    monkeypatch.setattr("handoffaudit.diagnostics.file_stats.MOST_RUNTIMES", 1)
    report = reported(filled)
    assert [(one.name, one.tally.total) for one in report.files.runtimes] == [("codex", 100)]
    assert "others   200/202 (99.0%)" in as_text(report).partition("phase / agent")[0]
    assert as_json(report)["handoff_files"]["other_runtimes"]["told"] == "200/202 (99.0%)"
    rows = csv.DictReader(StringIO(as_csv(report)))
    assert [row["told"] for row in rows if row["by"] == "runtime_others"] == ["200/202 (99.0%)"]


def test_another_tenant_has_nothing_of_it(filled: Tenant, other_tenant: Tenant):
    report = reported(other_tenant)
    assert report.files.overall.total == report.validation.overall.total == 0
    assert report.files.pairs == []


def test_json_has_numbers_and_null_for_a_share_of_nothing(filled: Tenant):
    shown = orjson.loads(orjson.dumps(as_json(reported(filled))))
    assert shown["since"] == "2026-02-07T16:00:00Z"
    assert shown["until"] == "2026-02-14T16:00:00Z"
    overall = shown["handoff_files"]["overall"]
    assert (overall["used"], overall["total"], overall["percent"]) == (240, 302, 79.5)
    assert overall["reasons"]["file_missing"] == {"number": 51, "percent": 16.9}
    gone = next(one for one in shown["handoff_files"]["by_phase_and_agent"] if one["agent"] == "gone")
    assert (gone["total"], gone["percent"], gone["told"]) == (0, None, "0/0 (n/a)")
    assert shown["validation"]["by_source_target"]["items"][0]["source"] == "@researcher"


def test_csv_has_a_row_for_each_line_and_no_formula(filled: Tenant):
    rows = list(csv.DictReader(StringIO(as_csv(reported(filled)))))
    assert all(tuple(row) == COLUMNS for row in rows)
    assert {row["second_name"] for row in rows} >= {"planner", "'=HYPERLINK(1)"}
    assert "'@researcher" in {row["name"] for row in rows}
    [pair] = [row for row in rows if row["second_name"] == "slot_b"]
    assert (pair["good"], pair["total"], pair["percent"], pair["told"]) == ("40", "100", "40.0", "40/100 (40.0%)")
    assert (pair["file_missing"], pair["text_fallback_fail"]) == ("50", "50")


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "  =", "\u00a0=", "\uff1d"])
def test_no_text_is_taken_for_a_formula(begin: str):
    assert escape_formula(f"{begin}1+1") == f"'{begin}1+1"


@pytest.mark.parametrize("cell", ["plan-b", "a=b", "", -1, 2.5])
def test_other_cells_stay_as_they_are(cell: str | float):
    assert escape_formula(cell) == cell


def test_the_text_is_as_it_was(filled: Tenant):
    assert as_text(reported(filled, ("fix", "never"))) == GOLDEN.read_text()


def test_the_text_fits_a_terminal_and_moves_no_cursor(filled: Tenant):
    lines = as_text(reported(filled)).splitlines()
    assert max(map(count_columns, lines)) <= WIDTH
    assert all(character.isprintable() for line in lines for character in line)


def test_an_empty_report_has_all_forms(tenant: Tenant):
    report = reported(tenant)
    assert "0/0 (n/a)" in as_text(report)
    assert as_json(report)["validation"]["overall"]["percent"] is None
    assert "0/0 (n/a)" in as_csv(report)


def test_names_are_cut_in_the_middle_by_the_columns_they_take():
    assert shorten("implementation", 9) == "impl…tion"
    assert count_columns(shorten("実装者" * 5, 9)) <= 9
    assert strip_controls("a\x1b[2Jb\u202ec") == "a?[2Jb?c"


def test_expected_pairs_are_read_from_an_address():
    assert parse_expected_pairs(["plan/planner", " fix / a/b "]) == [("plan", "planner"), ("fix", "a/b")]


@pytest.mark.parametrize("values", [["plan"], ["/planner"], ["plan/"], ["a/\x00"], ["a/b"] * 201])
def test_pairs_that_cannot_be_read_are_told(values: list[str]):
    with pytest.raises(FilterError) as caught:
        parse_expected_pairs(values)
    assert caught.value.field == "expect"
