"""Tests of the product's own lines sent in as a log: no report is counted twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import event_log
from tests.diagnostics.files.support import AT, BLOCK, GOOD, received, report
from tests.diagnostics.logs.support import health, send

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def events(settings: Any, tmp_path: Path) -> Iterator[Path]:
    settings.EVENTS_FILE = tmp_path / "events.log"
    yield settings.EVENTS_FILE
    event_log._file.cache_clear()


def test_a_report_is_counted_once_where_its_line_comes_back(tenant: Tenant, events: Path) -> None:
    received(tenant, report(GOOD))
    received(tenant, report(None, response_text=BLOCK, iteration=2, runtime="claude"))
    received(tenant, report("{", timestamp=AT, agent="a b"))
    assert health(tenant) == {"": 1, "file_missing": 1, "json_parse_error": 1}
    with events.open("a") as file:
        file.write("agent=planner phase=plan source=handoff_json timestamp=2026-02-15T00:15:00Z run=of-others\n")
    made = send(tenant, events.read_bytes())
    assert (made.bad, made.lines) == (0, 7)
    assert health(tenant) == {"": 2, "file_missing": 1, "json_parse_error": 1}
