"""Test of the recount of a million handoffs beside a sender: nothing waits for a lock, and its memory stays small."""

import os
import threading
import time

import httpx
import psycopg
import pytest

from tests.endurance.servers import OwnPostgres
from tests.resilience.processes import Installation

pytestmark = [pytest.mark.nightly, pytest.mark.services]

ROWS = int(os.environ.get("HANDOFFAUDIT_TEST_ROWS", "1000000"))
FILL = (
    "from benchmarks import server_rows\n"
    "from handoffaudit.accounts.models import Tenant\n"
    f"server_rows.fill(Tenant.objects.get(), {ROWS}, every=20)\n"
)
SPOIL = (
    "from handoffaudit.handoffs.models import HourlyCount, HourlyTotal\n"
    "HourlyTotal.objects.all().delete()\n"
    "pks = list(HourlyCount.objects.values_list('pk', flat=True)[:1000])\n"
    "HourlyCount.objects.filter(pk__in=pks).update(number=7_000_000)\n"
    "print(len(pks))"
)
RECOUNT = (
    "import resource\n"
    "from handoffaudit.handoffs import recount\n"
    "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    "found = recount.recount()\n"
    "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
    "print(found.wrong, grown // 1024)"
)


# The time for which a session of the server has waited for a lock.
LONGEST_WAIT = (
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock'"
)


def test_a_sender_does_not_wait_for_the_recount_of_a_million(installation: Installation, postgres: OwnPostgres) -> None:
    installation.run(FILL)
    spoiled = int(installation.run(SPOIL))
    installation.web()
    installation.worker()
    said: list[str] = []
    counting = threading.Thread(target=lambda: said.append(installation.run(RECOUNT)))
    longest, sent = 0.0, 0
    with (
        httpx.Client(headers={"Authorization": f"Bearer {installation.key}"}, timeout=30) as sender,
        psycopg.connect(postgres.url, autocommit=True) as server,
    ):
        counting.start()
        while counting.is_alive():
            document = {"document": {"n": sent}, "handoff_id": f"beside-{sent}", "format": "payload"}
            answer = sender.post(f"{installation.url}/api/v1/handoffs", json=document)
            row = server.execute(LONGEST_WAIT).fetchone()
            longest = max(longest, float(row[0]) if row else 0.0)
            assert answer.status_code in (200, 202), answer.text
            sent += 1
            time.sleep(0.02)
    wrong, megabytes = map(int, said[0].split())
    assert wrong > spoiled
    assert megabytes < 200
    assert sent > 10
    assert longest < 1.0
    time.sleep(3)
    assert (
        installation.run("from handoffaudit.handoffs import recount; print(recount.recount(repair=False).wrong)") == "0"
    )
