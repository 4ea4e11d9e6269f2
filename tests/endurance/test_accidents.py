"""Tests of long accidents under load.

No acknowledged handoff is lost or judged twice, and every rejected request says when to retry.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.endurance.load import Load, assert_nothing_is_lost
from tests.endurance.servers import OwnPostgres
from tests.resilience.processes import Installation, OwnRedis, eventually

pytestmark = [pytest.mark.nightly, pytest.mark.services]

OUTAGE_SECONDS = float(os.environ.get("HANDOFFAUDIT_TEST_OUTAGE_SECONDS", "60"))
LOAD_SECONDS = float(os.environ.get("HANDOFFAUDIT_TEST_LOAD_SECONDS", "600"))
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def test_a_minute_without_the_database(installation: Installation, postgres: OwnPostgres) -> None:
    installation.web()
    workers = [installation.worker(), installation.worker()]
    with Load(installation, pause=0.02) as load:
        time.sleep(5)
        before = len(load.acknowledged)
        postgres.stop()
        time.sleep(2)
        began = time.monotonic()
        answer = httpx.get(f"{installation.url}/readyz", timeout=30)
        assert (answer.status_code, time.monotonic() - began < 2.5) == (503, True), answer.text
        time.sleep(OUTAGE_SECONDS)
        during = load.answers["503"]
        postgres.start()
        eventually(lambda: len(load.acknowledged) > before + 50, what=installation.log())
        time.sleep(5)
    assert during > 0
    assert load.slowest < 8
    assert [worker.poll() for worker in workers] == [None, None]
    assert_nothing_is_lost(installation, load)


def test_a_while_without_the_broker(installation: Installation, redis_server: OwnRedis) -> None:
    """Workers look for work in the database by themselves."""
    installation.web()
    installation.worker()
    with Load(installation, senders=2, pause=0.1) as load:
        time.sleep(5)
        redis_server.stop()
        time.sleep(5)
        judged = installation.query("SELECT count(*) FROM handoffs_verdict")[0][0]
        time.sleep(OUTAGE_SECONDS)
        later = installation.query("SELECT count(*) FROM handoffs_verdict")[0][0]
        redis_server.start()
        time.sleep(3)
    assert later - judged > OUTAGE_SECONDS
    assert set(load.answers) == {"202"}
    assert_nothing_is_lost(installation, load)


def test_the_clock_steps(installation: Installation, tmp_path: Path) -> None:
    """The clocks of web and workers step an hour ahead and two hours back, PostgreSQL's clock does not."""
    if not Path(FAKETIME).exists():
        pytest.fail("libfaketime is not installed")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    installation.environment |= {
        "LD_PRELOAD": FAKETIME,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    installation.web()
    installation.worker()
    installation.worker()
    with Load(installation, pause=0.05) as load:
        for step in ("+0", "+3600", "-3600", "+0"):
            clock.write_text(step)
            time.sleep(10)
    for name in ("LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"):
        del installation.environment[name]
    assert set(load.answers) == {"202"}
    assert_nothing_is_lost(installation, load)


def memory_of(process: subprocess.Popen[bytes]) -> int:
    """Return the resident memory of a process and its children, in MiB. Each test process leads its own group."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=True, timeout=10)
    sizes = [int(rss) for group, rss in map(str.split, listed.stdout.splitlines()) if int(group) == process.pid]
    assert sizes
    return sum(sizes) // 1024


def test_memory_stays_flat_at_full_load(
    installation: Installation, record_property: Callable[[str, object], None]
) -> None:
    web, worker = installation.web(), installation.worker()
    with Load(installation, senders=8) as load:
        time.sleep(LOAD_SECONDS / 5)
        early = (memory_of(web), memory_of(worker))
        time.sleep(LOAD_SECONDS * 4 / 5)
        late = (memory_of(web), memory_of(worker))
    record_property("memory of web and worker in MiB, early and late", (early, late))
    record_property("handoffs", len(load.acknowledged))
    assert (late[0] - early[0] < 40, late[1] - early[1] < 40) == (True, True), (early, late)
    assert_nothing_is_lost(installation, load)
