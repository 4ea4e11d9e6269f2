import csv
import io
import tracemalloc

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import export
from handoffaudit.handoffs.export import Form
from handoffaudit.handoffs.filters import LOWEST, NEWEST, OLDEST, Filters
from handoffaudit.handoffs.models import Handoff

MEGABYTE = 1024 * 1024


def rows(tenant: Tenant, number: int, **columns: str) -> None:
    now = timezone.now()
    made = (
        {"handoff_id": f"handoff-{index}", "handoff_type": "message", "source_agent_id": "a", "target_agent_id": "b"}
        for index in range(number)
    )
    Handoff.objects.bulk_create(
        Handoff(tenant=tenant, format="payload", state="accepted", received_at=now, size_bytes=3, **(each | columns))
        for each in made
    )


def read(tenant: Tenant, form: Form = Form.CSV) -> str:
    return b"".join(export.render_list(tenant, Filters(), form)).decode()


def test_each_row_is_in_the_file_once_over_many_parts(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PART", 7)
    rows(tenant, 50)
    found = [row["handoff_id"] for row in csv.DictReader(io.StringIO(read(tenant)))]
    assert found == [f"handoff-{index}" for index in range(49, -1, -1)]


@pytest.mark.parametrize("sort", [NEWEST, OLDEST, LOWEST])
def test_what_comes_while_it_is_sent_is_not_in_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch, sort: str) -> None:
    monkeypatch.setattr(export, "PART", 2)
    rows(tenant, 4, score="0.5")
    parts = export.render_list(tenant, Filters(sort=sort), Form.NDJSON)
    first = next(parts)
    rows(tenant, 1, handoff_id="late", score="0.6")
    lines = b"".join([first, *parts]).decode().splitlines()
    assert len(lines) == 4
    assert not [line for line in lines if "late" in line]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", " =1", "\u00a0=1"])
def test_no_name_becomes_a_formula(tenant: Tenant, name: str) -> None:
    rows(tenant, 1, source_agent_id=name)
    (row,) = csv.DictReader(io.StringIO(read(tenant), newline=""))
    assert row["source_agent_id"] == f"'{name}"


def test_a_name_with_commas_quotes_and_lines_stays_one_cell(tenant: Tenant) -> None:
    name = 'a,"b"\nc\u2028d'
    rows(tenant, 1, source_agent_id=name)
    (row,) = csv.DictReader(io.StringIO(read(tenant), newline=""))
    assert row["source_agent_id"] == name
    assert row["target_agent_id"] == "b"


@pytest.mark.parametrize("form", Form)
def test_many_rows_need_no_more_memory_than_a_few_parts(
    tenant: Tenant, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PART", 100)
    rows(tenant, 2_000)
    list(export.render_list(tenant, Filters(source="nobody"), form))
    tracemalloc.start()
    try:
        number = sum(part.count(b"\n") for part in export.render_list(tenant, Filters(), form))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert number == 2_000 + (form is Form.CSV)
    # All of these at once are 10 megabytes.
    assert peak < 2 * MEGABYTE
