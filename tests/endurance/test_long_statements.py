"""Tests of a running web process whose statements take a minute, directly, with a replica, and behind PgBouncer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from handoffaudit.database_faults import Cause, fault_of
from tests.api import support  # noqa: F401 -- makes the folder that the application expects
from tests.endurance.servers import OwnPostgres, run_bouncer
from tests.endurance.test_many_machines import ADD_PERSON, sign_in
from tests.handoffs.support import payload
from tests.resilience.processes import Installation, eventually

from handoffaudit.wsgi import make_watched_connection  # isort: skip

pytestmark = [pytest.mark.nightly, pytest.mark.services]
# Each insert of a handoff from this agent takes a minute.
SLOW_INSERT = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
CREATE TRIGGER wait BEFORE INSERT ON handoffs_handoff FOR EACH ROW
    WHEN (NEW.source_agent_id = 'slow') EXECUTE FUNCTION wait()
"""
# Each read of a handoff takes a minute.
SLOW_READ = """
ALTER TABLE handoffs_handoff RENAME TO quick;
CREATE VIEW handoffs_handoff AS SELECT quick.* FROM quick, pg_sleep(60)
"""
QUICK_READ = "DROP VIEW handoffs_handoff; ALTER TABLE quick RENAME TO handoffs_handoff"
SPARE_KEY = """
from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
spare, _ = keys.create(tenant=Tenant.objects.get(), name='spare', scopes=['read'], expires_at=None, actor='tests')
print(spare.pk)
"""
SELF_HANDOFF = payload(source_agent_id="planner", target_agent_id="planner", call_chain=["planner"])
WAIT = {"Prefer": "wait=20"}
SLOW_ELSEWHERE = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute('SELECT pg_sleep(2.5)')
print('done')
"""


@pytest.fixture(params=["direct", "replica", "PgBouncer"])
def limited(request: pytest.FixtureRequest, tmp_path: Path, postgres: OwnPostgres) -> Iterator[Installation]:
    """Yield an installation whose requests may take a second for a statement, with a running web process."""
    environment = {"DATABASE_URL": postgres.url, "HANDOFFAUDIT_MAX_STATEMENT_SECONDS": "1"}
    replica = postgres.replicate() if request.param == "replica" else None
    if replica:
        environment["DATABASE_REPLICA_URL"] = replica.url
    installation = Installation(tmp_path / "data", environment)
    installation.run(ADD_PERSON)
    try:
        if request.param == "PgBouncer":
            with run_bouncer(postgres, pool=4) as url:
                installation.environment |= {"DATABASE_URL": url, "HANDOFFAUDIT_PGBOUNCER": "true"}
                installation.web()
                yield installation
        else:
            installation.web()
            yield installation
    finally:
        for process in installation.processes:
            process.kill()
            process.wait(60)
        if replica:
            replica.remove()


def test_no_statement_of_a_request_takes_long(limited: Installation, postgres: OwnPostgres) -> None:
    with (
        limited.client() as api,
        httpx.Client(base_url=limited.url, follow_redirects=True, timeout=90) as browser,
        psycopg.connect(postgres.url, autocommit=True) as server,
    ):
        sign_in(browser)
        server.execute(SLOW_INSERT)
        slow = payload(source_agent_id="slow", call_chain=["slow"])
        assert_slow(lambda: api.post("/handoffs", json=slow))
        assert_slow(lambda: api.post("/handoffs/batch", json=[payload(), slow]))
        # What was not acknowledged is not stored, and the process goes on.
        assert server.execute("SELECT count(*) FROM handoffs_handoff").fetchone() == (0,)
        assert api.post("/handoffs", json=payload()).status_code == 202
        assert limited.run(SLOW_ELSEWHERE) == "done"
        server.execute(SLOW_READ)
        assert_slow(lambda: api.get("/handoffs"))
        # The replica has the slow table a moment later.
        eventually(lambda: browser.get("/t/acme/handoffs/").status_code == 503, 30)
        page = assert_slow(lambda: browser.get("/t/acme/handoffs/"))
        assert "This page took too long" in page.text
        # Nothing goes on in the server.
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        eventually(lambda: server.execute(sleeping).fetchone() == (0,), 10)
        server.execute(QUICK_READ)
        assert len(api.get("/handoffs").json()["items"]) == 1


def test_a_commit_without_its_standby_is_not_acknowledged(postgres: OwnPostgres, settings) -> None:
    # Shorter than the wait after which the connection would look whether the server is away.
    settings.MAX_STATEMENT_SECONDS = 0.3
    with make_watched_connection().connect(postgres.url, autocommit=True) as opened:
        opened.execute("CREATE TABLE kept (number int)")
        name_standby(opened, "nobody")
        with pytest.raises(psycopg.OperationalError) as alone:
            opened.execute("INSERT INTO kept VALUES (1)")
        assert fault_of(alone.value).cause == Cause.AWAY
        with pytest.raises(psycopg.OperationalError, match="no standby"), opened.transaction():
            opened.execute("INSERT INTO kept VALUES (2)")
        # The connection can be used, and what needs no standby works.
        assert opened.execute("SELECT number FROM kept ORDER BY number").fetchall() == [(1,), (2,)]


def test_a_submission_without_its_standby_is_not_acknowledged(limited: Installation, postgres: OwnPostgres) -> None:
    sent = payload(handoff_id="once")
    with limited.client() as api, psycopg.connect(postgres.url, autocommit=True) as server:
        with without_standby(server):
            for answer in (api.post("/handoffs", json=sent), api.post("/handoffs", json=sent)):
                assert_away(answer)
            assert_away(api.post("/handoffs/batch", json=[sent, payload()]))
        assert api.post("/handoffs", json=sent).status_code == 200
        stored = "SELECT count(*) FROM handoffs_handoff WHERE handoff_id = 'once'"
        assert server.execute(stored).fetchone() == (1,)


@pytest.mark.parametrize("limited", ["direct"], indirect=True)
def test_nobody_learns_of_a_change_without_its_standby_by_repeating_it(
    limited: Installation, postgres: OwnPostgres
) -> None:
    spare = int(limited.run(SPARE_KEY))
    with (
        limited.client() as api,
        httpx.Client(base_url=limited.url, follow_redirects=True, timeout=90) as browser,
        psycopg.connect(postgres.url, autocommit=True) as server,
    ):
        sign_in(browser)
        path = f"/handoffs/{api.post('/handoffs', json=SELF_HANDOFF, headers=WAIT).json()['id']}"
        decision = {"decision": "decline", "seen_version": api.get(path).json()["version"]}
        form = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        with without_standby(server):
            for _ in range(2):
                assert_away(api.post(f"{path}/review", json=decision))
                assert browser.post(f"/t/acme/settings/keys/{spare}/revoke/", data=form).status_code == 503
            # A page that only reads does not wait, so the revocation itself does.
            assert browser.get("/t/acme/settings/keys/").status_code == 200
        assert api.post(f"{path}/review", json=decision).status_code == 409
        assert api.get(path).json()["state"] == "declined"
        assert "is revoked" in browser.post(f"/t/acme/settings/keys/{spare}/revoke/", data=form).text


@contextmanager
def without_standby(server: psycopg.Connection) -> Iterator[None]:
    """Let each commit wait for a standby that does not exist."""
    name_standby(server, "nobody")
    yield
    name_standby(server, "")


def name_standby(server: psycopg.Connection, name: str) -> None:
    server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    server.execute("SELECT pg_reload_conf()")
    eventually(lambda: server.execute("SHOW synchronous_standby_names").fetchone() == (name,))


def assert_away(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["cause"]) == (503, "away")


def assert_slow(ask) -> httpx.Response:
    """Check that a request is refused soon because of a slow statement, and return the answer."""
    started = time.monotonic()
    answer: httpx.Response = ask()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10"), answer.text
    # A page may need the slow table in two statements.
    assert 0.9 < time.monotonic() - started < 20
    if answer.headers["Content-Type"].startswith("application/problem+json"):
        assert answer.json()["cause"] == "slow"
    return answer
