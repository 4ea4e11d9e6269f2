"""Tests of PgBouncer in transaction mode, and of pages that read from a replica."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.endurance.load import Load, assert_nothing_is_lost
from tests.endurance.servers import OwnPostgres, run_bouncer
from tests.resilience.processes import Installation, OwnRedis, eventually

pytestmark = [pytest.mark.nightly, pytest.mark.services]
ADD_PERSON = (
    "from handoffaudit.accounts.models import Membership, Person, Role, Tenant\n"
    "person = Person.objects.create_user('ada', password='a long password of tests')\n"
    "Membership.objects.create(tenant=Tenant.objects.get(), person=person, role=Role.ADMIN)"
)


@pytest.fixture
def bouncer(postgres: OwnPostgres) -> Iterator[str]:
    """Run PgBouncer in transaction mode with two connections to the server, and yield its URL."""
    with run_bouncer(postgres, pool=2) as url:
        yield url


def test_everything_works_behind_a_pooler_of_transactions(
    tmp_path: Path, postgres: OwnPostgres, redis_server: OwnRedis, bouncer: str
) -> None:
    """Two connections of the server serve web, workers and commands, so that each transaction meets another one."""
    environment = {
        "DATABASE_URL": bouncer,
        "REDIS_URL": f"redis://127.0.0.1:{redis_server.port}/0",
        "HANDOFFAUDIT_PGBOUNCER": "true",
    }
    installation = Installation(tmp_path / "data", environment)
    try:
        installation.web()
        workers = [installation.worker(), installation.worker()]
        with Load(installation, pause=0.02) as load:
            time.sleep(8)
        assert [worker.poll() for worker in workers] == [None, None]
        assert_nothing_is_lost(installation, load)
        said = installation.run(
            "from handoffaudit.accounts import audit\n"
            "from handoffaudit.accounts.models import Tenant\n"
            "from handoffaudit.diagnostics import erasure, retention_run\n"
            "from handoffaudit.handoffs import export, legal_holds, recount\n"
            "from handoffaudit.handoffs.filters import Filters\n"
            "tenant = Tenant.objects.get()\n"
            "legal_holds.place(tenant=tenant, scope='tenant', key='', reason='a case', actor='ada')\n"
            "erasure.request(tenant=tenant, value='ada@example.com', reason='asked', actor='ada')\n"
            "while erasure.anything_due(): erasure.run(60)\n"
            "retention_run.remove_due(5)\n"
            "lines = list(export.lines(tenant, Filters()))\n"
            "print(recount.recount(repair=False).wrong, audit.verify(tenant), len(lines) > 0)"
        )
        assert said == "0 None True"
        # This client prepares nothing itself, as it counts what the product prepared.
        with psycopg.connect(bouncer, autocommit=True, prepare_threshold=None) as server:
            # A setting that a web process left on a connection would stop a worker that waits for a lock.
            for _ in range(20):
                assert server.execute("SHOW lock_timeout").fetchone() == ("0",)
                assert server.execute("SHOW statement_timeout").fetchone() == ("0",)
                assert server.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    finally:
        installation.clear()


def test_pages_read_from_a_replica_and_ones_own_writes_are_read_back(
    tmp_path: Path, postgres: OwnPostgres, redis_server: OwnRedis
) -> None:
    replica = postgres.replicate()
    environment = {
        "DATABASE_URL": postgres.url,
        "DATABASE_REPLICA_URL": replica.url,
        "REDIS_URL": f"redis://127.0.0.1:{redis_server.port}/0",
    }
    installation = Installation(tmp_path / "data", environment)
    try:
        installation.run(ADD_PERSON)
        installation.web()
        with httpx.Client(base_url=installation.url, follow_redirects=True, timeout=30) as browser:
            sign_in(browser)
            assert "handoffaudit_written" in browser.cookies
            eventually(lambda: _reads(replica, browser) > 0)
            # The replica stops replaying, so that only the primary knows what is written from now on.
            with psycopg.connect(replica.url, autocommit=True) as server:
                server.execute("SELECT pg_wal_replay_pause()")
            token = browser.cookies["csrftoken"]
            for name in ("first", "second"):
                sent = {"csrfmiddlewaretoken": token, "scope": "tenant", "reason": f"case {name}"}
                page = browser.post("/t/acme/settings/retention/holds/place/", data=sent)
                assert page.status_code == 200, page.text[:2000]
                assert "case first" in page.text
            before = _reads(replica, browser)
            assert "case first" in browser.get("/t/acme/settings/retention/holds/").text
            # Another browser sees the older state, from the replica.
            with psycopg.connect(replica.url, autocommit=True) as server:
                server.execute("SELECT pg_wal_replay_resume()")
            eventually(lambda: _reads(replica, browser) > before)
            assert "case first" in browser.get("/t/acme/settings/retention/holds/").text
            replica.stop()
            time.sleep(1)
            assert "case first" in browser.get("/t/acme/settings/retention/holds/").text
    finally:
        installation.clear()
        replica.remove()


def sign_in(browser: httpx.Client) -> None:
    browser.get("/sign-in/")
    sent = {
        "csrfmiddlewaretoken": browser.cookies["csrftoken"],
        "login": "ada",
        "password": "a long password of tests",
    }
    page = browser.post("/sign-in/", data=sent)
    assert "/t/acme/" in str(page.url), page.text[:2000]


def _reads(replica: OwnPostgres, browser: httpx.Client) -> int:
    """Load a page, and return how many rows of tenants the replica has read since its start."""
    browser.get("/t/acme/")
    time.sleep(1.2)
    with psycopg.connect(replica.url) as server:
        row = server.execute(
            "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_user_tables"
        ).fetchone()
    return int(row[0]) if row else 0
