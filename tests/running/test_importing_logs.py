"""Tests of a log import that is killed and repeated: every line counts once."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests import warm
from tests.diagnostics.logs.support import gate_lines
from tests.running.conftest import clean_environment, run, wait_for

NUMBER = 300_000


def counted(folder: Path) -> int:
    try:
        with closing(sqlite3.connect(folder / "handoffaudit.sqlite3")) as database:
            return int(database.execute("SELECT coalesce(sum(number), 0) FROM diagnostics_logcount").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_a_killed_import_is_finished_by_doing_it_again(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(gate_lines(1, NUMBER))
    first = warm.start("handoffaudit", "import-log", str(log), env=clean_environment(HANDOFFAUDIT_DATA=str(folder)))
    wait_for(lambda: counted(folder) > 0)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    before = counted(folder)
    assert 0 < before < NUMBER
    done = run("import-log", str(log), "--json", folder=folder)
    told = json.loads(done.stdout)
    assert (done.returncode, told["lines"], told["known"]) == (0, NUMBER, before)
    assert counted(folder) == NUMBER
