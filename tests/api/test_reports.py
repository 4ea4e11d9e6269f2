"""Tests of the API of compliance and diagnostics."""

import csv
from io import StringIO

import httpx
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.review.decisions import Decision
from tests.api.support import problem
from tests.diagnostics.support import counted, decided
from tests.handoffs.support import circular, judged

pytestmark = pytest.mark.django_db


@pytest.fixture
def filled(tenant: Tenant) -> Tenant:
    now = timezone.now()
    counted(tenant, "planner", 199, now=now)
    counted(tenant, "planner", 1, "file_missing", now=now)
    for number in range(3):
        decided(tenant, judged(tenant, circular()), Decision.APPROVE, f"fine {number}")
    return tenant


@pytest.mark.parametrize(
    "of", ["compliance", "diagnostics", "diagnostics/model", "agents", "alerts", "logs", "handoff-files"]
)
def test_a_parameter_that_is_misspelt_is_no_parameter_left_out(api: httpx.Client, of: str) -> None:
    told = problem(api.get(f"/{of}?perio=24h"), 400)
    assert "there is no such filter" in told["detail"]


def test_compliance_comes_in_three_forms_that_agree(api: httpx.Client, filled: Tenant) -> None:
    asked = {"period": "24h", "expect": "fix/never"}
    shown = api.get("/compliance", params=asked).json()
    assert shown["handoff_files"]["overall"]["told"] == "199/200 (99.5%)"
    assert shown["handoff_files"]["by_phase_and_agent"][0]["told"] == "0/0 (n/a)"
    assert shown["validation"]["overall"] | {"total": 3, "approved": 3} == shown["validation"]["overall"]
    table = api.get("/compliance", params=asked | {"format": "csv"})
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert next(csv.DictReader(StringIO(table.text)))["told"] == "199/200 (99.5%)"
    text = api.get("/compliance", params=asked | {"format": "text"})
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "overall  199/200 (99.5%)" in text.text


def test_any_period_can_be_asked_for(api: httpx.Client, filled: Tenant) -> None:
    shown = api.get("/compliance", params={"since": "2020-01-01", "until": "2020-02-01"}).json()
    assert (shown["period"], shown["since"], shown["until"]) == (None, "2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z")
    assert shown["handoff_files"]["overall"]["told"] == "0/0 (n/a)"
    assert shown["handoff_files"]["overall"]["percent"] is None


@pytest.mark.parametrize("path", ["/compliance", "/diagnostics"])
@pytest.mark.parametrize("asked", [{"period": "1y"}, {"since": "x"}, {"until": "2026-01-01"}])
def test_a_period_that_cannot_be_read_is_told(api: httpx.Client, path: str, asked: dict[str, str]) -> None:
    assert problem(api.get(path, params=asked), 400)["remedy"]


@pytest.mark.parametrize("asked", [{"format": "pdf"}, {"expect": "planner"}])
def test_other_parameters_that_cannot_be_read_are_told(api: httpx.Client, asked: dict[str, str]) -> None:
    assert problem(api.get("/compliance", params=asked), 400)["field"] == next(iter(asked))


def test_diagnostics_tell_reasons_and_noise(api: httpx.Client, filled: Tenant) -> None:
    shown = api.get("/diagnostics", params={"period": "24h"}).json()
    assert shown["overall"]["told"] == "199/200 (99.5%)"
    assert [(one["reason"], one["number"], one["agents"]) for one in shown["by_reason"]] == [
        ("file_missing", 1, {"planner": 1})
    ]
    [agent] = shown["by_agent"]
    assert agent["change"] == {"points": None, "direction": "none", "before": "0/0 (n/a)"}
    assert [(cell["phase"], cell["main_reason"]) for cell in agent["phases"]] == [("plan", "file_missing")]
    assert sum(one["total"] for one in shown["over_time"]) == 200
    assert shown["noise"]["approved"] == shown["noise"]["decisions"] == 3
    noisy = [one for one in shown["noise"]["codes"] if one["noisy"]]
    assert [(one["code"], one["overturned"], one["percent"]) for one in noisy] == [("chain.circular", 3, 100.0)]
