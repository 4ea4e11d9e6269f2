"""Tests that the current code opens the data of the commit before the restructuring (see fixtures/README.md)."""

import json
import lzma
import sqlite3
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.running.conftest import clean_environment, prepared
from tests.upgrade.digests import COLUMNS, digest, expected

ROOT = Path(__file__).parents[2]
FIXTURES = Path(__file__).parent / "fixtures"
TABLES = {
    "Verdict": "handoffs_verdict",
    "Finding": "handoffs_finding",
    "Event": "handoffs_event",
    "AuditEntry": "accounts_auditentry",
    "Key": "accounts_key",
    "Person": "accounts_person",
    "SavedView": "accounts_savedview",
    "FileReport": "diagnostics_filereport",
    "LogImport": "diagnostics_logimport",
    "Delivery": "handoffs_delivery",
}
Query = Callable[[str], list[tuple[Any, ...]]]


def numbers(query: Query) -> dict[str, Any]:
    """Count what an upgrade must not change, by the tables of that time."""
    return {
        "states": dict(query("SELECT state, count(*) FROM handoffs_handoff GROUP BY state")),
        "policies": dict(query("SELECT kind, count(*) FROM policy_policyversion GROUP BY kind")),
        "rows": {name: query(f"SELECT count(*) FROM {table}")[0][0] for name, table in TABLES.items()},  # noqa: S608
    }


def digests(query: Query) -> dict[str, str]:
    """Return the digests of what is stored, by the tables of that time."""
    return {
        f"{table}.{column}": digest(query(f"SELECT {key}, {column} FROM {table}"))  # noqa: S608
        for table, (key, columns) in COLUMNS.items()
        for column in columns
    }


def inspect(folder: Path, **environment: str) -> dict[str, Any]:
    """Open the data in a process of its own, and return the output of `inspection.py`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.upgrade.inspection"],
        cwd=ROOT,
        env=clean_environment(HANDOFFAUDIT_DATA=str(folder), HANDOFFAUDIT_ALLOWED_HOSTS="testserver", **environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def assert_all_there(found: dict[str, Any], before: dict[str, Any], stored: dict[str, str]) -> None:
    assert before["rows"]["Verdict"] > 400
    assert found["numbers"] == before
    # The list of handoffs goes to the default view that was chosen for everybody.
    differing = {name: got for name, (got, expected) in found["pages"].items() if got != expected}
    assert differing == {"dashboard:handoffs": 302}
    assert len(found["pages"]) > 60
    assert found["states"] == {"a": "accepted", "b": "held"}
    assert found["digests"] == stored


def test_a_data_folder_opens(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "sqlite.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    file = sqlite3.connect(tmp_path / "handoffaudit.sqlite3")
    before = numbers(lambda sql: file.execute(sql).fetchall())
    assert digests(lambda sql: file.execute(sql).fetchall()) == expected("sqlite")
    file.close()
    assert_all_there(inspect(tmp_path), before, expected("sqlite"))


def schema(query: Query) -> dict[str, Any]:
    """Return the parts of each table and index definition; the order of columns differs and does not matter."""
    rows = query("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
    return {name: sorted(split_definition(sql)) for name, sql in rows}


def split_definition(sql: str) -> list[str]:
    """Split a definition at the commas of its outer parentheses."""
    parts, depth = [""], 0
    for sign in sql:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += sign
    head, _, first = parts[0].partition("(")
    return [
        head,
        first.strip(),
        *(part.strip().removesuffix(")") if part is parts[-1] else part.strip() for part in parts[1:]),
    ]


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="a first start makes the tables of SQLite only")
def test_a_first_start_makes_the_tables_and_rows_of_the_migrations(tmp_path: Path) -> None:
    file = sqlite3.connect(prepared(tmp_path / "data") / "handoffaudit.sqlite3")

    def migrated(sql: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            return list(cursor.execute(sql).fetchall())

    def started(sql: str) -> list[tuple[Any, ...]]:
        return file.execute(sql).fetchall()

    assert schema(started) == schema(migrated)
    for sql in (
        "SELECT app, name FROM django_migrations ORDER BY app, name",
        "SELECT app_label, model FROM django_content_type ORDER BY app_label, model",
        "SELECT codename FROM auth_permission ORDER BY codename",
        "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY tbl, idx",
    ):
        assert started(sql) == migrated(sql)
    rows = {name: migrated(f'SELECT count(*) FROM "{name}"')[0][0] for name in connection.introspection.table_names()}  # noqa: S608
    assert {name for name, count in rows.items() if count} == {
        "django_migrations",
        "django_content_type",
        "auth_permission",
        "sqlite_stat1",
        # An empty index of FTS5 has rows about itself.
        "diagnostics_blockedtext_words_config",
        "diagnostics_blockedtext_words_data",
    }
    file.close()


@pytest.mark.services
def test_a_postgresql_dump_opens(tmp_path: Path, postgres_url: str) -> None:
    name = f"handoffaudit_upgrade_{uuid.uuid4().hex[:12]}"
    url = f"{postgres_url.rpartition('/')[0]}/{name}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            restore(url)
            with psycopg.connect(url) as database:
                before = numbers(lambda sql: database.execute(sql).fetchall())
                assert digests(lambda sql: database.execute(sql).fetchall()) == expected("postgres")
            assert_all_there(inspect(tmp_path, DATABASE_URL=url), before, expected("postgres"))
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def restore(url: str) -> None:
    """Run the dump as psql would: a COPY is followed by its rows and ends with a line of its own."""
    with psycopg.connect(url) as database, database.cursor() as cursor:
        statement: list[str] = []
        lines = iter(lzma.decompress((FIXTURES / "postgres.sql.xz").read_bytes()).splitlines(keepends=True))
        for line in lines:
            if line.startswith(b"COPY "):
                with cursor.copy(line) as copy:
                    for row in iter(lines.__next__, b"\\.\n"):
                        copy.write(row)
            elif line.strip() and not line.startswith((b"--", b"\\")):
                statement.append(line.decode())
                if line.endswith(b";\n"):
                    cursor.execute("".join(statement).encode())
                    statement.clear()
