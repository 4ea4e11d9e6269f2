"""Tests of starts, stops, and processes that die at a bad moment."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.running.conftest import PRODUCT, Up, alive, clean_environment, descendants, free_port, run, wait_for
from tests.running.test_serving import PAYLOAD
from tests.scale import cases


def test_a_first_start_says_how_long_it_took_and_keeps_its_folder_for_the_owner(start, tmp_path):
    """The time itself is measured in `benchmarks/`, because other programs use the processors during tests."""
    began = time.monotonic()
    folder = tmp_path / "new"
    up = start(folder=folder, program=PRODUCT).wait_ready()
    assert 0 < up.ready_in < time.monotonic() - began + 0.1
    kept = [folder, folder / "handoffaudit.sqlite3", folder / "secret-key", folder / "queue"]
    assert [path.stat().st_mode & 0o077 for path in kept] == [0, 0, 0, 0]
    assert_forks_share_memory(up.process.pid)


@pytest.mark.parametrize("number", cases([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_it_stops_with_all_its_processes(start, number):
    up = start().wait_ready()
    below = descendants(up.process.pid)
    assert len(below) >= 3
    assert up.stop(number) == 0
    assert not [pid for pid in below if alive(pid)]
    assert "Stopped." in up.out


@pytest.fixture
def preparing(start, folder) -> Iterator[tuple[Up, int]]:
    """Yield a start whose preparation waits until the test ends, and the process of the preparation."""
    with (folder / "migrate.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        up = start()
        wait_for(lambda: descendants(up.process.pid))
        yield up, *descendants(up.process.pid)


def test_a_start_stops_while_it_prepares(preparing):
    up, setup = preparing
    assert up.stop() == 0
    assert up.out == "  Preparing the database and the static files …\n  Stopped.\n"
    assert not up.err
    assert not alive(setup)


def test_the_preparation_ends_soon_after_a_killed_start(preparing):
    up, setup = preparing
    up.process.kill()
    wait_for(lambda: not alive(setup))


def test_a_start_says_that_its_preparation_was_killed(preparing):
    up, setup = preparing
    os.kill(setup, signal.SIGKILL)
    assert up.process.wait(120) == 1
    assert up.err == "Error: The preparation of the data folder was ended by SIGKILL.\n"


@pytest.mark.nightly
def test_it_runs_where_processes_are_not_forked(start):
    """Only the children of the supervisor are spawned here."""
    code = "from handoffaudit.cli.serve import processes; processes.START_METHOD = 'spawn'"
    code += "; from handoffaudit.cli.main import main; main()"
    up = start(program=[sys.executable, "-c", code]).wait_ready()
    below = descendants(up.process.pid)
    trackers = [pid for pid in below if b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert up.stop() == 0
    assert "Stopped." in up.out
    assert not [pid for pid in below if pid not in trackers and alive(pid)]
    # These processes of Python end themselves when they notice that the process that they serve has ended.
    wait_for(lambda: not [pid for pid in trackers if alive(pid)])


def test_a_second_start_keeps_everything_and_prints_the_link_until_somebody_can_sign_in(start, folder):
    key = run("key", "create", "tests", folder=folder).stdout.strip()
    up = start().wait_ready()
    assert up.link
    headers = {"Authorization": f"Bearer {key}"}
    stored = httpx.post(f"{up.address}/api/v1/handoffs", json=PAYLOAD, headers=headers, timeout=60).json()
    up.stop()
    made = "from handoffaudit.accounts.models import Person; p = Person.objects.get(); p.set_password('x'); p.save()"
    assert run("manage", "shell", "-v0", "-c", made, folder=folder).returncode == 0
    again = start().wait_ready()
    assert again.link is None
    shown = httpx.get(f"{again.address}/api/v1/handoffs/{PAYLOAD['handoff_id']}", headers=headers, timeout=60)
    assert shown.json()["id"] == stored["id"]


@pytest.mark.nightly
def test_the_files_in_a_folder_that_others_may_read_are_for_the_owner_only(start, tmp_path):
    given = tmp_path / "given"
    given.mkdir(mode=0o755)
    start(folder=given).wait_ready()
    kept = [given / "handoffaudit.sqlite3", given / "secret-key", given / "queue"]
    assert [path.stat().st_mode & 0o077 for path in kept] == [0, 0, 0]


def test_a_killed_worker_is_replaced_and_the_next_one_judges(start, folder):
    key = run("key", "create", "tests", folder=folder).stdout.strip()
    up = start().wait_ready()
    first = up.worker()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: f"The worker process {first} was ended by SIGKILL; another starts in" in up.err)
    headers = {"Authorization": f"Bearer {key}", "Prefer": "wait=60"}
    answer = httpx.post(f"{up.address}/api/v1/handoffs", json=PAYLOAD, headers=headers, timeout=120)
    assert answer.json()["state"] == "accepted"
    assert up.worker() != first


def test_a_killed_web_server_is_replaced_on_the_same_port(start):
    up = start().wait_ready()
    before = [pid for pid in descendants(up.process.pid) if pid != up.worker()]
    os.kill(min(before), signal.SIGKILL)
    wait_for(lambda: "The web process" in up.err)
    wait_for(lambda: not [pid for pid in before if alive(pid)])
    wait_for(lambda: answers(up.address))


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def assert_forks_share_memory(supervisor):
    """Check that the supervisor has forked from its only thread, after it had loaded the modules."""
    assert len(list(Path(f"/proc/{supervisor}/task").iterdir())) == 1
    # What a child adds to the memory that it shares is far less than the modules take.
    own = sum(_private_kb(pid) for pid in (supervisor, *descendants(supervisor)))
    assert own < 170_000


def _private_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


def test_nothing_outlives_a_killed_supervisor(start):
    up = start().wait_ready()
    below = descendants(up.process.pid)
    up.process.kill()
    up.process.wait()
    wait_for(lambda: not [pid for pid in below if alive(pid)])
    # Its lock is free and so is the port.
    start(port=up.port).wait_ready()


@pytest.mark.nightly
def test_the_sample_is_loaded_once(start):
    for taken, there in ((309, 0), (0, 310)):
        up = start("--sample").wait_ready()
        wait_for(lambda up=up: "refused" in up.out)
        assert up.out.split("taken")[1].split()[0] == str(taken)
        assert up.out.split("already there")[1].split()[0] == str(there)
        up.stop()


def refused(folder: Path, *arguments: str, **env: str) -> str:
    """Start the product, check that the start fails, and return the one line of the error."""
    done = run("up", "--port", str(free_port()), *arguments, folder=folder, **env)
    assert done.returncode == 2
    # Nothing but what it was doing when it stopped.
    assert done.stdout in ("", "  Preparing the database and the static files …\n")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    line = refused(tmp_path / "file" / "data")
    assert f"{tmp_path / 'file' / 'data'}" in line
    assert "--data" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused(tmp_path)


def test_a_newer_database_is_refused_and_left_alone(folder):
    with sqlite3.connect(folder / "handoffaudit.sqlite3") as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('handoffs', '9999_later', '2030-01-01')"
        )
    line = refused(folder)
    assert "newer version of handoffaudit (migration handoffs.9999_later" in line
    assert "upgrade handoffaudit" in line
    assert "newer version" in run("key", "list", folder=folder).stderr


@pytest.mark.nightly
def test_a_database_that_an_unreleased_version_left_half_way_is_refused(folder):
    with sqlite3.connect(folder / "handoffaudit.sqlite3") as database:
        database.execute("DELETE FROM django_migrations WHERE app = 'handoffs' AND name = '0011_deciders'")
        database.execute("DELETE FROM django_migrations WHERE app = 'handoffs' AND name LIKE '0001_squashed%'")
    line = refused(folder)
    assert "made before version 0.1.0 (migration handoffs.0011_deciders was never applied)" in line
    assert "import them into a new folder (--data)" in line


def test_a_damaged_database_is_refused(tmp_path):
    (tmp_path / "handoffaudit.sqlite3").write_bytes(b"not a database" * 100)
    assert "file is not a database" in refused(tmp_path)


@pytest.mark.nightly
def test_a_database_with_damaged_pages_is_refused_with_the_remedy(folder):
    path = folder / "handoffaudit.sqlite3"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 5 * 4096)
    line = refused(folder)
    assert f"The database {path} is damaged (" in line
    assert "restore a backup" in line


def test_a_database_that_was_emptied_is_refused_with_the_remedies(folder):
    path = folder / "handoffaudit.sqlite3"
    os.truncate(path, 0)
    line = refused(folder)
    assert f"The database {path} has 0 bytes, but the data folder was in use before: restore a backup" in line
    assert "To start with an empty database instead, remove that file and the files that end in -wal and -shm" in line
    assert "has 0 bytes" in run("key", "list", folder=folder).stderr
    assert path.stat().st_size == 0
    shutil.rmtree(folder / "static")
    Path(f"{path}-wal").write_bytes(b"x" * 4096)
    assert "has 0 bytes" in refused(folder)


@pytest.mark.nightly
def test_an_emptied_database_is_refused_where_the_static_files_are_elsewhere(tmp_path):
    data = tmp_path / "data"
    prepare = [sys.executable, "-m", "handoffaudit.cli.serve.setup"]
    env = clean_environment(HANDOFFAUDIT_DATA=str(data), HANDOFFAUDIT_STATIC=str(tmp_path / "static"))
    assert subprocess.run(prepare, env=env, capture_output=True, check=False).returncode == 0
    database = data / "handoffaudit.sqlite3"
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    os.truncate(database, 0)
    done = subprocess.run(prepare, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, database.stat().st_size) == (2, 0)
    assert "has 0 bytes, but the data folder was in use before: restore a backup" in done.stderr
    database.unlink()
    assert subprocess.run(prepare, env=env, capture_output=True, check=False).returncode == 0


@pytest.mark.nightly
def test_a_first_start_that_was_killed_starts_again(tmp_path):
    # What there is before the tables are.
    (tmp_path / "queue" / "messages").mkdir(parents=True)
    for name in ("handoffaudit.sqlite3", "migrate.lock", "secret-key"):
        (tmp_path / name).write_text("a key of a killed start, which is long enough" if name == "secret-key" else "")
    prepare = [sys.executable, "-m", "handoffaudit.cli.serve.setup"]
    env = clean_environment(HANDOFFAUDIT_DATA=str(tmp_path))
    done = subprocess.run(prepare, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "one-time link" in done.stdout) == (0, True), done.stderr


def test_an_address_that_is_not_this_machines_is_refused(tmp_path):
    assert "give an address of this machine with --host" in refused(tmp_path, "--host", "192.0.2.1")


def test_a_wrong_setting_is_refused(tmp_path):
    assert "HANDOFFAUDIT_CLAIM_SIZE is 0" in refused(tmp_path, HANDOFFAUDIT_CLAIM_SIZE="0")
    assert "HANDOFFAUDIT_CLAIM_SIZE" in refused(tmp_path, HANDOFFAUDIT_CLAIM_SIZE="many")
    assert "handoffaudit.E002" in refused(tmp_path, HANDOFFAUDIT_SECRET_KEY="short")


def test_a_product_that_cannot_be_loaded_says_why(tmp_path):
    """A new process, because the processes that tests fork have loaded the product."""
    (tmp_path / "psycopg.py").write_text("raise ImportError('no libpq')")
    environment = clean_environment(DATABASE_URL="postgresql://nobody@127.0.0.1/nothing")
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [*PRODUCT, "up", "--data", str(tmp_path / "data"), "--port", str(free_port())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: Error loading psycopg2 or psycopg module\n")


def test_services_that_do_not_answer_are_refused(tmp_path):
    assert "DATABASE_URL" in refused(tmp_path, DATABASE_URL=f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    assert "REDIS_URL" in refused(tmp_path, REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")


def test_a_process_that_only_loads_the_pages_wakes_workers(folder):
    send = "import handoffaudit.urls; from handoffaudit.handoffs import notify; print(notify.send())"
    assert run("manage", "shell", "-v0", "-c", send, folder=folder).stdout == "True\n"
    assert len(list((folder / "queue" / "messages").glob("*.structural.msg"))) == 1
