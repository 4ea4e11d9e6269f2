"""Tests that a log line and the file report with the same content count once."""

import json

import pytest

from handoffaudit.accounts.models import Tenant
from tests.diagnostics.files.support import AT, received
from tests.diagnostics.files.support import report as file_report
from tests.diagnostics.logs.support import counted, health, send


def line_of(tenant: Tenant, **changes: object) -> bytes:
    """Store a report, and return its log line."""
    report = received(tenant, file_report({}, timestamp=AT, iteration=2, **changes)).report
    assert report is not None
    line: str = json.loads(report.content)["line"]
    return line.encode() + b"\n"


def test_the_line_of_a_report_is_not_counted_beside_it(tenant: Tenant) -> None:
    line = line_of(tenant)
    made = send(tenant, line)
    assert (made.read, counted(tenant)) == (1, {"health": 1})
    assert health(tenant) == {"schema_invalid": 1}


def test_nor_is_it_with_its_pairs_in_another_order(tenant: Tenant) -> None:
    agent, phase, rest = line_of(tenant).split(b" ", 2)
    send(tenant, b" ".join((phase, agent, rest)))
    assert health(tenant) == {"schema_invalid": 1}


@pytest.mark.parametrize(
    ("there", "other"),
    [
        (b"run=run-17", b"run=run-18"),
        (b"iter=2", b"iter=3"),
        (b"agent=planner", b"agent=writer"),
        (b"phase=plan", b"phase=draft"),
        (b"reason=schema_invalid", b"reason=json_parse_error"),
        (b"00:15:00Z", b"00:15:01Z"),
    ],
)
def test_another_line_is(tenant: Tenant, there: bytes, other: bytes) -> None:
    line = line_of(tenant)
    assert there in line
    send(tenant, line.replace(there, other))
    assert sum(health(tenant).values()) == 2


def test_the_report_of_another_tenant_is_none_of_its_own(tenant: Tenant, other_tenant: Tenant) -> None:
    send(other_tenant, line_of(tenant))
    assert health(other_tenant) == health(tenant) == {"schema_invalid": 1}
