"""Commands inside the product's Django, in a separate process: `python -m benchmarks.rig COMMAND JSON`."""

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.places import ROOT, Place

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant

PERSON = "bench"


def ask(place: Place, command: str, **arguments: Any) -> Any:
    """Run a command against a place, and return its answer."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.rig", command, json.dumps(arguments)],
        env=place.environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def migrate(place: Place) -> None:
    subprocess.run(
        [sys.executable, "-m", "handoffaudit.cli.serve.setup", "--json"],
        env=place.environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def key() -> str:
    """Create an API key that may submit and read, and return its secret."""
    from handoffaudit.accounts import keys

    return keys.create(tenant=_tenant(), name="bench", scopes=["ingest", "read"], expires_at=None, actor="bench")[1]


def lenient_but(handoff_type: str) -> None:
    """Make one handoff type strict, and all other types lenient."""
    from handoffaudit.policy import kinds
    from handoffaudit.validation.config import ANY_OTHER_TYPE, Strictness, TypePolicy

    rows = [TypePolicy(handoff_type), TypePolicy(ANY_OTHER_TYPE, strictness=Strictness.LENIENT)]
    kinds.strictness.save(tenant=_tenant(), base_version=0, rows=rows, actor="bench")


def session() -> str:
    """Return the cookie of a signed-in administrator; the person may exist from an earlier run."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from handoffaudit.accounts.models import Membership, Person, Role

    person = Person.objects.filter(username=PERSON).first() or Person.objects.create_user(PERSON, password=None)
    Membership.objects.get_or_create(tenant=_tenant(), person=person, defaults={"role": Role.ADMIN})
    store = SessionStore()
    store[SESSION_KEY] = str(person.pk)
    store[BACKEND_SESSION_KEY] = "allauth.account.auth_backends.AuthenticationBackend"
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.save()
    return f"sessionid={store.session_key}"


def floor_table() -> None:
    from django.db import connection

    from benchmarks.floor.tables import statements

    with connection.cursor() as cursor:
        schema: list[tuple[str, str]] = []
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'handoffs_handoff' AND sql IS NOT NULL"
            )
            schema = cursor.fetchall()
        for statement in statements(connection.vendor, schema):
            cursor.execute(statement)


def fill(rows: int) -> dict[str, Any]:
    """Fill the tenant with rows; a filled tenant does not change."""
    from benchmarks.filling import fill as filled

    return filled(_tenant(), rows)


def recount() -> dict[str, int]:
    """Return how many of the filled counts differ from the true counts."""
    from handoffaudit.handoffs import recount

    difference = recount.recount(repair=False)
    return {"rows": difference.rows, "wrong": difference.wrong}


def fill_by_server(rows: int, **more: Any) -> Any:
    """Let PostgreSQL make rows, by default older than 60 days, and return the seconds that this took."""
    import time

    from benchmarks.server_rows import fill as filled

    began = time.perf_counter()
    filled(_tenant(), rows, **more)
    return {"seconds": time.perf_counter() - began}


def timed_recount() -> dict[str, Any]:
    """Return the seconds of a recount, how many counts were wrong, and the peak of memory in megabytes."""
    import resource
    import time

    from handoffaudit.handoffs import recount as recounting

    began = time.perf_counter()
    found = recounting.recount(repair=False)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "rows": found.rows, "wrong": found.wrong, "peak_mb": peak}


def remove_handoffs(seconds: float) -> dict[str, Any]:
    """Remove the handoffs that are older than 60 days, for at most this number of seconds, as a worker does."""
    import time
    from datetime import timedelta

    from django.utils import timezone

    from handoffaudit.diagnostics import retention_run
    from handoffaudit.diagnostics.models import RetentionRun
    from handoffaudit.policy.kinds import retention
    from handoffaudit.policy.models import PolicyVersion
    from handoffaudit.policy.retention import Data, Retention

    tenant, table = _tenant(), retention.current(_tenant())
    rows = [Retention(Data.HANDOFFS, 60) if row.name is Data.HANDOFFS else row for row in table.rows]
    retention.save(tenant=tenant, base_version=table.version, rows=rows, actor="bench")
    PolicyVersion.objects.filter(tenant=tenant).update(changed_at=timezone.now() - timedelta(days=1))
    # A run begins a day after the previous run, so the previous run is moved back.
    RetentionRun.objects.filter(tenant=tenant).update(started_at=timezone.now() - timedelta(days=2))
    before = _removed(tenant)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if retention_run.remove_due(1.0) and not RetentionRun.objects.filter(finished_at=None).exists():
            break
        # A worker looks for work once a second, unless a message comes sooner.
        if not retention_run.LEASE.is_free():
            time.sleep(0.1)
    return {"seconds": time.perf_counter() - began, "removed": _removed(tenant) - before}


def _removed(tenant: "Tenant") -> int:
    from handoffaudit.diagnostics.models import RetentionRun

    return sum(RetentionRun.objects.filter(tenant=tenant, kind="handoffs").values_list("removed", flat=True))


def import_log(path: str) -> dict[str, Any]:
    """Import a log as `handoffaudit import-log` does.

    Return the seconds, the number of counted lines, and the peak of memory in megabytes.
    """
    import resource
    import time
    from pathlib import Path

    from django.db.models import Sum

    from handoffaudit.cli.documents import Source
    from handoffaudit.cli.import_log import DatabaseLogReceiver
    from handoffaudit.diagnostics.models import LogCount

    began = time.perf_counter()
    DatabaseLogReceiver(_tenant()).send(Path(path).name, Source(path).chunks(), lambda _: None)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "counted": LogCount.objects.aggregate(n=Sum("number"))["n"], "peak_mb": peak}


def _tenant() -> "Tenant":
    from handoffaudit.accounts import tenants

    tenant = tenants.get_default()
    if tenant is None:
        raise LookupError("the database has no tenant: it is not prepared, or it is not of a benchmark")
    return tenant


COMMANDS = {
    one.__name__: one
    for one in (
        *(key, lenient_but, session, floor_table, fill, recount, import_log),
        *(fill_by_server, timed_recount, remove_handoffs),
    )
}


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "handoffaudit.settings"
    import django

    django.setup()
    name, arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(COMMANDS[name](**json.loads(arguments))))


if __name__ == "__main__":
    main()
