"""Tests of a rolling upgrade under load, from the commit that made the upgrade fixtures."""

import io
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from tests.endurance.load import Load, assert_nothing_is_lost
from tests.endurance.servers import OwnPostgres
from tests.resilience.processes import Installation, OwnRedis, eventually

pytestmark = [pytest.mark.nightly, pytest.mark.services]

ROOT = Path(__file__).resolve().parents[2]
OLD = "138bf8d4348ff9791b09a6ae619caf7c7124a088"
STEP_SECONDS = 8
# The old processes add nothing to this table of counts, which they do not know, so `docs/deploy.md` asks for a recount.
# Other tables are not recounted, because that would hide wrong counts.
RECOUNT = """
from handoffaudit.handoffs import counts, recount
recount.correct(counts.HOURLY_SOURCES, recount._compare_all()[1][counts.HOURLY_SOURCES])
"""


@pytest.fixture
def old_code(tmp_path: Path) -> Path:
    """Unpack the older product from the history of this checkout, and return its folder."""
    packed = subprocess.run(["git", "archive", OLD], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def end(installation: Installation, *processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.terminate()
        process.wait(60)
        installation.processes.remove(process)


def test_old_and_new_processes_work_side_by_side(
    tmp_path: Path, postgres: OwnPostgres, redis_server: OwnRedis, old_code: Path
) -> None:
    """After a migration under load: old web with new worker, new web with old worker, new web with new worker."""
    broker = f"redis://127.0.0.1:{redis_server.port}/0"
    old = Installation(tmp_path / "data", {"DATABASE_URL": postgres.url, "REDIS_URL": broker}, old_code)
    new = object.__new__(Installation)
    new.__dict__ = {**old.__dict__, "code": None}
    try:
        web, worker = old.web(), old.worker()
        with Load(old, pause=0.02) as load:
            time.sleep(STEP_SECONDS)
            new.run("from django.core.management import call_command; call_command('migrate', verbosity=0)")
            time.sleep(STEP_SECONDS)
            new_worker = new.worker()
            end(old, worker)
            judged_with(new, "an old web server with a new worker")
            end(old, web)
            new.web()
            old.url = new.url
            old_worker = old.worker()
            end(new, new_worker)
            judged_with(new, "a new web server with an old worker")
            new.worker()
            end(old, old_worker)
            judged_with(new, "new processes alone")
        new.run(RECOUNT)
        assert_nothing_is_lost(new, load)
    finally:
        new.clear()


def judged_with(installation: Installation, what: str) -> None:
    before = verdicts(installation)
    time.sleep(STEP_SECONDS)
    eventually(lambda: verdicts(installation) > before + 50, seconds=30, what=f"{what}: {installation.log()}")


def verdicts(installation: Installation) -> int:
    ((number,),) = installation.query("SELECT count(*) FROM handoffs_verdict")
    return int(number)
