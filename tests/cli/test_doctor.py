"""Tests that `doctor` finds each kind of fault, with faults that are real: files, servers and variables."""

import base64
import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import SystemRandom
from typing import Any

import psycopg
import pytest
import redis

from handoffaudit.cli.doctor import Installation
from handoffaudit.cli.doctor_checks import check_checkpoints, check_libraries, describe_unmet
from handoffaudit.cli.doctor_servers import compare_clocks
from tests.messages_api.server import MessagesServer
from tests.running.conftest import PRODUCT, clean_environment, free_port, prepared, run
from tests.scale import cases

DATABASE = "handoffaudit.sqlite3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepared(tmp_path / "data")


def examine(folder: Path, *options: str, **env: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """Return the exit code and the results by the name of their check."""
    done = run("doctor", "--json", *options, folder=folder, **env)
    assert done.stderr == ""
    found: dict[str, list[dict[str, str]]] = {}
    for result in json.loads(done.stdout)["checks"]:
        found.setdefault(result["name"], []).append(result)
    return done.returncode, found


def levels(found: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {name: results[0]["level"] for name, results in found.items()}


def only(found: dict[str, list[dict[str, str]]], name: str, level: str) -> dict[str, str]:
    (result,) = found[name]
    assert result["level"] == level
    return result


def change(folder: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute(sql, values)


def test_a_sound_installation_without_a_worker_has_one_warning(folder: Path) -> None:
    code, found = examine(folder)
    assert code == 0
    bad = {name: level for name, level in levels(found).items() if level != "ok"}
    assert bad == {"workers": "warning"}
    assert run("doctor", "--strict", folder=folder).returncode == 1


def test_each_line_says_what_to_do(folder: Path) -> None:
    done = run("doctor", folder=folder, HANDOFFAUDIT_CLAIM_SIZE="0")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("error    settings      HANDOFFAUDIT_CLAIM_SIZE is 0: set it to")
    assert lines[1].strip() == "Fix: Correct HANDOFFAUDIT_CLAIM_SIZE, or unset it."
    assert lines[-1] == "1 error, 1 warning."
    assert done.returncode == 2


def test_all_wrong_settings_are_found_at_once(folder: Path) -> None:
    wrong = {"HANDOFFAUDIT_DEBUG": "maybe", "HANDOFFAUDIT_MAX_NESTING": "deep", "HANDOFFAUDIT_CLAIM_SIZE": "-3"}
    unsafe = {"HANDOFFAUDIT_SECRET_KEY": "short", "HANDOFFAUDIT_CLAIM_SIZ": "3"}
    unsafe["HANDOFFAUDIT_ALLOWED_HOSTS"] = "*, audit.example.com, https://audit.example.com"
    code, found = examine(folder, **wrong, **unsafe)
    assert code == 2
    messages = [result["message"] for result in found["settings"]]
    assert len(messages) == 7
    assert "HANDOFFAUDIT_ALLOWED_HOSTS has 'https://audit.example.com'" in "".join(messages)
    for name in (*wrong, "HANDOFFAUDIT_SECRET_KEY", "HANDOFFAUDIT_ALLOWED_HOSTS", "HANDOFFAUDIT_CLAIM_SIZ"):
        assert any(name in message for message in messages), name
    assert "The value is 'deep'." in "".join(messages)
    assert levels(found)["database"] == "ok"


def test_every_wrong_value_of_a_setting_is_named(folder: Path) -> None:
    several = {
        "HANDOFFAUDIT_REFERENCE_ROOTS": "/absent/one,/absent/two,/",
        "HANDOFFAUDIT_CHECKPOINTS": "one.jsonl,two.jsonl",
        "HANDOFFAUDIT_WEBHOOK_PRIVATE": "a b,10.1.1.1/8",
        "HANDOFFAUDIT_OIDC_ROLES": '{"a": "boss", "b": "chief"}',
    }
    # Each setting of the second kind is behind a wrong one of the first kind.
    first = {"DATABASE_URL": "oracle://x/y", "HANDOFFAUDIT_OIDC_ISSUER": "login.example.com"}
    second = {
        "DATABASE_REPLICA_URL": "http://x/z",
        "HANDOFFAUDIT_DATABASE_POOL": "many",
        "HANDOFFAUDIT_SQLITE_SYNCHRONOUS": "SOMETIMES",
        "HANDOFFAUDIT_OIDC_DEFAULT_ROLE": "king",
        "HANDOFFAUDIT_PASSWORD_SIGN_IN": "false",
    }
    found = examine(folder, **several, **first, **second)[1]["settings"]
    messages = "\n".join(one["message"] for one in found)
    values = ("/absent/one", "/absent/two", "'/'", "one.jsonl", "two.jsonl", "a b", "10.1.1.1/8", "boss", "chief")
    for text in (*values, *first, "DATABASE_REPLICA_URL", "many", "SOMETIMES", "king"):
        assert text in messages, text
    # These would be false, because both settings are there.
    assert "nobody could sign in" not in messages
    assert "needs PostgreSQL" not in messages


def test_a_url_of_a_database_that_does_not_parse_leaves_the_other_checks(folder: Path) -> None:
    code, found = examine(folder, DATABASE_URL="oracle://x:hunter2@y/z")
    assert code == 2
    assert only(found, "database", "skipped")["message"] == "Not checked, because DATABASE_URL is wrong."
    assert "hunter2" not in json.dumps(found)
    assert levels(found)["disk"] == "ok"


def test_a_product_that_cannot_be_loaded_is_an_error(folder: Path, tmp_path: Path) -> None:
    """A new process, because the processes that tests fork have loaded the product."""
    (tmp_path / "psycopg.py").write_text("raise ImportError('no libpq')")
    environment = clean_environment(DATABASE_URL="postgresql://nobody@127.0.0.1/nothing", HANDOFFAUDIT_CLAIM_SIZE="0")
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [*PRODUCT, "doctor", "--json", "--data", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    wrong, unloaded = json.loads(done.stdout)["checks"]
    assert wrong["fix"] == "Correct HANDOFFAUDIT_CLAIM_SIZE, or unset it."
    assert "psycopg module. Nothing else was checked." in unloaded["message"]


def test_an_absent_folder_is_an_error_and_stays_absent(tmp_path: Path) -> None:
    code, found = examine(tmp_path / "typo")
    assert code == 2
    assert str(tmp_path / "typo") in only(found, "permissions", "error")["message"]
    assert [only(found, name, "skipped") for name in ("database", "broker", "static files")]
    assert not (tmp_path / "typo").exists()


def test_a_damaged_file_is_found(folder: Path) -> None:
    with (folder / DATABASE).open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(200_000))
    _, found = examine(folder)
    result = only(found, "database", "error")
    assert "damaged" in result["message"]
    assert result["fix"].startswith("Restore a backup:")


def test_damage_behind_the_first_pages_is_found(folder: Path) -> None:
    """SQLite opens and writes such a file, and only a search for damage finds the fault."""
    with (folder / DATABASE).open("r+b") as file:
        file.seek(100 * 4096)
        file.write(os.urandom(100_000))
    result = only(examine(folder)[1], "database", "error")
    assert "is damaged (" in result["message"]
    assert result["fix"].startswith("Restore a backup:")


def test_an_emptied_file_is_found_and_stays_empty(folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"")
    for _ in range(2):
        result = only(examine(folder)[1], "database", "error")
        assert result["message"].endswith("has 0 bytes, but the data folder was in use before.")
        assert "Restore a backup:" in result["fix"]
    assert (folder / DATABASE).stat().st_size == 0


def test_a_locked_file_is_found(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        _, found = examine(folder)
    assert "locked by another transaction" in only(found, "database", "error")["message"]


def test_a_missing_migration_and_a_newer_database_are_found(folder: Path) -> None:
    change(
        folder,
        "DELETE FROM django_migrations WHERE id = (SELECT MAX(id) FROM django_migrations WHERE app = ?)",
        "handoffs",
    )
    _, found = examine(folder)
    assert "migrate" in only(found, "migrations", "error")["fix"]
    assert only(found, "workers", "skipped")
    change(folder, "INSERT INTO django_migrations (app, name, applied) VALUES ('handoffs', '9999_later', '2026-01-01')")
    _, found = examine(folder)
    result = only(found, "migrations", "error")
    assert "9999_later" in result["message"]
    assert result["fix"].startswith("Upgrade handoffaudit")


def test_waiting_handoffs_without_a_worker_are_an_error(folder: Path) -> None:
    assert run("import", "-", folder=folder, text='{"a": 1}').returncode == 0
    waiting = "UPDATE handoffs_handoff SET state = 'received', tries = 0, received_at = ?"
    change(folder, waiting, (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%d %H:%M:%S"))
    code, found = examine(folder)
    assert code == 2
    assert only(found, "workers", "error")["message"] == "worker: none seen yet."
    assert only(found, "queue", "warning")["message"] == "1 handoff waits, the oldest for 5 min."
    change(folder, "INSERT INTO diagnostics_watermark (name, at) VALUES ('worker', ?)", f"{datetime.now(UTC):%F %T}")
    assert only(examine(folder)[1], "workers", "ok")


def test_files_that_others_can_read_are_found(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "secret-key").chmod(0o644)
    (folder / DATABASE).chmod(0o640)
    code, found = examine(folder)
    assert code == 2
    assert {one["level"]: one["fix"] for one in found["permissions"]} == {
        "error": f"chmod 600 {folder / 'secret-key'}",
        "warning": f"chmod 600 {folder / DATABASE}",
    }
    folder.chmod(0o700)
    assert only(examine(folder)[1], "permissions", "ok")


def run_without_rights(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Run the command as a user whom the modes of files stop. Root gives up the rights that ignore them."""
    command = [*PRODUCT, "doctor", "--json", "--data", str(folder)]
    if os.getuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    found: dict[str, list[dict[str, str]]] = {}
    for result in json.loads(done.stdout)["checks"]:
        found.setdefault(result["name"], []).append(result)
    return found


UNUSABLE = [(0o500, ""), (0o000, ""), (0o400, DATABASE), (0o500, "queue")]


@pytest.mark.parametrize("case", cases(UNUSABLE, [(0o500, ""), (0o400, DATABASE)]))
def test_a_folder_that_this_user_cannot_use_is_one_error(folder: Path, case: tuple[int, str]) -> None:
    mode, name = case
    path = folder / name
    path.chmod(mode)
    try:
        found = run_without_rights(folder)
    finally:
        path.chmod(0o700)
    result = only(found, "permissions", "error")
    assert f"cannot write to {path}, which belongs to" in result["message"]
    assert "chown -R" in result["fix"]
    assert {level for name, level in levels(found).items() if name != "permissions"} == {"ok", "skipped"}


def test_a_folder_that_cannot_be_made_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        result = only(run_without_rights(tmp_path / "data"), "permissions", "error")
    finally:
        tmp_path.chmod(0o700)
    assert f"cannot create it in {tmp_path}" in result["message"]
    assert "install -d" in result["fix"]


def test_a_folder_on_a_read_only_disk_is_found(folder: Path) -> None:
    mount = ["mount", "--bind", "-o", "ro", str(folder), str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a folder")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        result = only(examine(folder)[1], "permissions", "error")
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert "mounted read-only" in result["message"]
    assert "Mount it for writing" in result["fix"]


def seal(folder: Path) -> str:
    """Judge a handoff, seal its rows, and return the id of the key."""
    assert run("import", "-", folder=folder, text='{"a": 1}').returncode == 0
    sealed = "from handoffaudit.trust import seals; seals.seal_due()"
    assert run("manage", "shell", "-c", sealed, folder=folder).returncode == 0
    return str(json.loads(run("seal-key", "show", "--json", folder=folder).stdout)["key_id"])


def test_another_seal_key_than_that_of_the_seals_is_found(folder: Path) -> None:
    key_id = seal(folder)
    assert key_id in only(examine(folder)[1], "seal key", "ok")["message"]
    other = base64.b64encode(os.urandom(32)).decode()
    result = only(examine(folder, HANDOFFAUDIT_SEAL_KEY=other)[1], "seal key", "error")
    assert f"the seals of default are signed with {key_id}" in result["message"]
    assert f"Put the key {key_id} into HANDOFFAUDIT_SEAL_KEY." in result["fix"]
    assert other not in json.dumps(result)
    (folder / "seal-key").rename(folder / "elsewhere")
    result = only(examine(folder)[1], "seal key", "error")
    assert "is missing" in result["message"]
    assert str(folder / "seal-key") in result["fix"]
    (folder / "seal-key").write_text("damaged")
    (folder / "seal-key").chmod(0o600)
    assert "Restore the file" in only(examine(folder)[1], "seal key", "error")["fix"]
    assert run("seal-key", "rotate", "--lost", folder=folder).returncode == 0
    assert only(examine(folder)[1], "seal key", "ok")


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("-", ""),
        ("https://ada:secret@safe.example.com/secret", ""),
        ("https://", "the address has no host"),
        ("https://[", "the address cannot be read"),
        ("made/file.jsonl", ""),
        ("made", "it is a folder"),
        ("absent/file.jsonl", "its folder is absent"),
    ],
)
def test_a_place_that_takes_no_checkpoints_is_found(tmp_path: Path, settings: Any, place: str, fault: str) -> None:
    (tmp_path / "made").mkdir()
    settings.CHECKPOINTS = [str(tmp_path / place) if place[0].isalpha() and "://" not in place else place]
    [result] = check_checkpoints(Installation())
    assert (result.level, fault in result.message) == ("error" if fault else "ok", True)
    assert "secret" not in result.message
    settings.CHECKPOINTS = []
    assert [one.level for one in check_checkpoints(Installation())] == ["ok"]


def test_missing_and_old_static_files_are_found(folder: Path) -> None:
    (folder / "static" / ".made-from").write_text("another version")
    assert only(examine(folder)[1], "static files", "warning")
    (folder / "static" / "staticfiles.json").unlink()
    assert "collectstatic" in only(examine(folder)[1], "static files", "error")["fix"]


def test_a_full_disk_is_found(folder: Path) -> None:
    """Take the free space below 2 % of a small disk, if this machine lets us make one."""
    small = folder.parent / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a disk")
    try:
        here = Path(shutil.copytree(folder, small / "data", ignore=shutil.ignore_patterns("static")))
        with suppress(OSError):
            (small / "filler").write_bytes(bytes(16 * 1024 * 1024))
        assert "make room" in examine(here)[1]["disk"][0]["fix"].lower()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_libraries_that_do_not_fit_are_found(tmp_path: Path, settings: Any) -> None:
    settings.WEB = tmp_path
    (tmp_path / "requirements.lock").write_text("django==1.0 \\\n    --hash=sha256:00\nnever-installed==1.0\n")
    (result,) = check_libraries(Installation())
    assert (result.level, result.fix) == ("ok", "")
    assert "All requirements are met." in result.message
    assert "django 5" in result.message
    assert "(1.0)" in result.message
    assert "django is 5" in describe_unmet("django<1")
    assert describe_unmet("never-installed>=1") == "never-installed is not installed."
    assert describe_unmet("never-installed>=1; python_version < '3'") == ""


def test_the_llm_is_asked_only_if_told(folder: Path, messages_api: MessagesServer) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-of-the-tests", "ANTHROPIC_BASE_URL": messages_api.url}
    messages_api.reset()
    assert "was not asked" in only(examine(folder, **env)[1], "llm", "ok")["message"]
    assert messages_api.requests == []
    assert "answers" in only(examine(folder, "--online", **env)[1], "llm", "ok")["message"]
    messages_api.outage = 401
    result = only(examine(folder, "--online", **env)[1], "llm", "error")
    assert "ANTHROPIC_API_KEY" in result["fix"]
    assert "sk-of-the-tests" not in json.dumps(result)
    messages_api.reset()


@pytest.mark.parametrize(
    ("seconds", "level"), [(0.4, "ok"), (-0.4, "ok"), (5, "warning"), (-5, "warning"), (31, "error"), (-3600, "error")]
)
def test_a_clock_that_differs_is_found(seconds: float, level: str) -> None:
    server = datetime(2026, 1, 1, tzinfo=UTC)
    result = compare_clocks(server + timedelta(seconds=seconds), server)
    assert result.level == level
    assert ("ahead of" in result.message) == (seconds > 2)


def test_servers_that_are_away_are_found_soon(folder: Path) -> None:
    urls = {
        "DATABASE_URL": f"postgresql://nobody:hunter2@127.0.0.1:{free_port()}/nothing",
        "REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
    }
    begun = time.monotonic()
    code, found = examine(folder, **urls)
    assert time.monotonic() - begun < 20
    assert code == 2
    assert "refused" in only(found, "database", "error")["message"]
    assert "refused" in only(found, "broker", "error")["message"]
    assert only(found, "migrations", "skipped")
    assert "hunter2" not in json.dumps(found)


@pytest.fixture
def server(postgres_url: str) -> Iterator[tuple[psycopg.Connection[Any], str, str]]:
    """Yield a connection to an empty database, its URL for a role without other rights, and the name of both."""
    name = f"doctor_{SystemRandom().randrange(10**9)}"
    where = psycopg.conninfo.conninfo_to_dict(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
        admin.execute(f"CREATE DATABASE {name} OWNER {name}")
        try:
            yield (
                admin,
                f"postgresql://{name}:x@{where.get('host', '127.0.0.1')}:{where.get('port', 5432)}/{name}",
                name,
            )
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            admin.execute(f"DROP ROLE {name}")


@pytest.mark.services
def test_faults_of_postgresql_are_found(folder: Path, server: tuple[psycopg.Connection[Any], str, str]) -> None:
    admin, url, name = server

    def look() -> dict[str, list[dict[str, str]]]:
        return examine(folder, DATABASE_URL=url)[1]

    found = look()
    assert "PostgreSQL" in only(found, "database", "ok")["message"]
    assert only(found, "clock", "ok")
    assert "migrate" in only(found, "migrations", "error")["fix"]
    away = f"postgresql://{name}:x@127.0.0.1:{free_port()}/{name}"
    assert (
        "primary"
        in only(examine(folder, DATABASE_URL=url, DATABASE_REPLICA_URL=url)[1], "replica", "warning")["message"]
    )
    replica = only(examine(folder, DATABASE_URL=url, DATABASE_REPLICA_URL=away)[1], "replica", "warning")
    assert "refused" in replica["message"]
    code, found = examine(folder, DATABASE_REPLICA_URL=url)
    assert (code, only(found, "settings", "error")["fix"]) == (2, "Correct DATABASE_REPLICA_URL, or unset it.")
    admin.execute(f"ALTER ROLE {name} CONNECTION LIMIT 5")
    assert only(look(), "connections", "warning")["message"].startswith("4 connections are free, but one process opens")
    admin.execute(f"ALTER ROLE {name} CONNECTION LIMIT 0")
    assert "too many connections for role" in only(look(), "database", "error")["message"]
    admin.execute(f"ALTER ROLE {name} CONNECTION LIMIT -1")
    admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "read-only" in only(look(), "database", "error")["message"]
    admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    with psycopg.connect(url) as own:
        own.execute("CREATE TABLE handoffs_handoff (id int)")
        own.execute(f"REVOKE ALL ON handoffs_handoff FROM {name}")
    result = only(look(), "database", "error")
    assert "may not write" in result["message"]
    assert "Grant" in result["fix"]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            with redis.Redis(port=port) as client:
                until = time.monotonic() + 20
                while time.monotonic() < until:
                    with suppress(redis.ConnectionError):
                        client.ping()
                        break
                    time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


@pytest.mark.services
def test_a_redis_that_removes_messages_is_found(folder: Path, own_redis: str) -> None:
    assert only(examine(folder, REDIS_URL=own_redis)[1], "broker", "ok")
    with redis.Redis.from_url(own_redis) as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
    result = only(examine(folder, REDIS_URL=own_redis)[1], "broker", "warning")
    assert "allkeys-lru" in result["message"]
