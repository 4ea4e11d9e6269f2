"""Tests of statements of requests that take too long, on real connections to PostgreSQL."""

import time

import psycopg
import pytest
from django.db import connection, transaction

from handoffaudit.dashboard.search import time_limit
from handoffaudit.database_faults import FAULTS, Cause, fault_of, page
from tests.api import support  # noqa: F401 -- makes the folder that the application expects

from handoffaudit.wsgi import make_watched_connection  # isort: skip

# PostgreSQL has no time limit of its own for the rows that such a cursor reads before the statement is over.
EARLY = "DECLARE early CURSOR WITH HOLD FOR SELECT pg_sleep(0.05) FROM generate_series(1, 400)"


@pytest.mark.services
@pytest.mark.parametrize(("with_pgbouncer", "to_primary"), [(False, True), (True, True), (True, False)])
def test_a_request_ends_each_statement_that_takes_too_long(
    postgres_url: str, settings, *, with_pgbouncer: bool, to_primary: bool
) -> None:
    settings.MAX_STATEMENT_SECONDS, settings.PGBOUNCER = 0.1, with_pgbouncer
    with make_watched_connection(to_primary=to_primary).connect(postgres_url, autocommit=True) as opened:
        for statement in ("SELECT pg_sleep(20)", EARLY):
            started = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled) as error:
                opened.execute(statement)
            assert time.monotonic() - started < 10
            assert fault_of(error.value).cause == Cause.SLOW
        # The limit is for each statement, so that an export may take longer.
        with opened.transaction():
            opened.execute("DECLARE each_row CURSOR FOR SELECT pg_sleep(0.02) FROM generate_series(1, 8)")
            assert len([opened.execute("FETCH 1 FROM each_row").fetchone() for _ in range(8)]) == 8


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no setting for the time of a statement")
@pytest.mark.django_db
def test_a_shorter_limit_ends_with_its_block() -> None:
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SET LOCAL statement_timeout = 12345")
        with time_limit(2):
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("2s",)
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("12345ms",)


def test_a_person_learns_what_to_do_about_a_slow_page() -> None:
    answer = page(FAULTS[Cause.SLOW])
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    said = " ".join(answer.content.decode().split())
    assert "This page took too long" in said
    assert "Choose a shorter period or more filters" in said
    assert b"took too long" not in page(FAULTS[Cause.LOCKED]).content
