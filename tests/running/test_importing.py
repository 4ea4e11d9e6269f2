"""Tests of an import that is repeated or killed: no handoff is lost or stored twice."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from tests import warm
from tests.running.conftest import PRODUCT, clean_environment, run, wait_for
from tests.scale import size


def handoffs(folder) -> int:
    try:
        with closing(sqlite3.connect(folder / "handoffaudit.sqlite3")) as database:
            return int(database.execute("SELECT count(*) FROM handoffs_handoff").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def write_lines(path, number: int) -> None:
    with path.open("w") as file:
        for at in range(number):
            # Every third line has no id of its own, and every ninth is the same as others.
            own = {"handoff_id": f"h-{at}"} if at % 3 else {}
            data = {"text": "same" if at % 9 == 0 else f"text {at}"}
            document = {"source_agent_id": "a", "target_agent_id": "b", "call_chain": ["a"], "handoff_type": "message"}
            file.write(json.dumps({"format": "payload", "document": document | own | {"data": data}}) + "\n")


def test_a_killed_import_is_finished_by_doing_it_again(folder, tmp_path):
    number = size(12_000)
    lines = tmp_path / "lines.jsonl"
    write_lines(lines, number)
    first = warm.start("handoffaudit", "import", str(lines), env=clean_environment(HANDOFFAUDIT_DATA=str(folder)))
    wait_for(lambda: handoffs(folder) > 0)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    before = handoffs(folder)
    assert 0 < before < number
    done = run("import", str(lines), "--json", folder=folder)
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["already_there"] == before
    assert report["taken"] == number - before
    assert handoffs(folder) == number


@pytest.mark.nightly
def test_what_was_imported_is_judged_once_each_while_the_worker_is_killed(start, folder, tmp_path):
    number = 3_000
    lines = tmp_path / "lines.jsonl"
    write_lines(lines, number)
    # The lease of a killed worker expires soon here, so that the test does not wait for it.
    up = start(HANDOFFAUDIT_CLAIM_SECONDS="3", HANDOFFAUDIT_SWEEP_SECONDS="1").wait_ready()
    importing = subprocess.Popen(
        [*PRODUCT, "import", str(lines)],
        env=clean_environment(HANDOFFAUDIT_DATA=str(folder)),
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: handoffs(folder) >= 500)
    time.sleep(0.3)
    os.kill(up.worker(), signal.SIGKILL)
    assert importing.wait(300) == 0
    query = "SELECT count(*) FROM handoffs_handoff WHERE state IN ('received', 'validating')"
    with closing(sqlite3.connect(folder / "handoffaudit.sqlite3")) as database:
        wait_for(lambda: database.execute(query).fetchone()[0] == 0)
        assert database.execute("SELECT count(*) FROM handoffs_verdict").fetchone()[0] == number
    assert run("recount", "--check", folder=folder).returncode == 0
