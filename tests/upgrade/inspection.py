"""Open the database of the environment with the present code, use it as an administrator, and print what came of it.

The tests run this module in a process of its own, as it needs another database than theirs.
"""

import json
import sys
from typing import Any

from handoffaudit.cli.main import command
from handoffaudit.cli.serve.setup import prepare

if prepared := prepare().error:
    sys.exit(prepared)

from django.db.models import Count, Model
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Key, Person, SavedView, Tenant
from handoffaudit.diagnostics.models import FileReport, FindingGroup, LogImport
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import (
    Alert,
    Delivery,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    Subscriber,
    ToolResult,
    Trial,
    Verdict,
)
from handoffaudit.policy.models import PolicyVersion
from tests.access.page_rows import SIGNED_IN, TABLE
from tests.access.test_pages import Asking, ask
from tests.api.support import client, make_key
from tests.handoffs.support import payload
from tests.upgrade.digests import COLUMNS, digest

# The tables of that time, whatever they are called now.
STORED: dict[type[Model], str] = {HandoffBody: "handoffs_handoffbody", Verdict: "handoffs_verdict"}
TENANT = Tenant.objects.get(slug="default")


class Things:
    """What addresses are about: of each kind the newest one in the tenant."""

    def __init__(self) -> None:
        found = {
            "handoff": Handoff.objects.exclude(trace_id="").filter(state="held"),
            "group": FindingGroup.objects,
            "person": Person.objects.filter(membership__tenant=TENANT),
            "key": Key.objects,
            "trial": Trial.objects,
            "alert": Alert.objects,
            "file_report": FileReport.objects,
            "log_import": LogImport.objects,
            "subscriber": Subscriber.objects.filter(kind="webhook"),
            "delivery": Delivery.objects,
            "view": SavedView.objects,
        }
        for name, rows in found.items():
            mine = rows.all() if name == "person" else rows.filter(tenant=TENANT)
            setattr(self, name, mine.latest("pk"))
        # The fixture was made before there were tool results.
        self.tool_result = ToolResult.objects.create(
            tenant=TENANT, trace_id="t", call_id="c", tool="t", at=timezone.now(), grade="said", content="1", size=1
        )


def count() -> dict[str, Any]:
    """Return the numbers that an upgrade must not change, as `tests/upgrade/test_upgrade.py` reads them before it."""
    by_state = Handoff.objects.values_list("state").annotate(Count("pk"))
    by_kind = PolicyVersion.objects.values_list("kind").annotate(Count("pk"))
    models = (Verdict, Finding, Event, AuditEntry, Key, Person, SavedView, FileReport, LogImport, Delivery)
    rows = {model.__name__: model.objects.count() for model in models}
    return {"states": dict(by_state), "policies": dict(by_kind), "rows": rows}


def digests(known: dict[type[Model], set[Any]]) -> dict[str, str]:
    """Return the digests of what was stored before, as `tests/upgrade/test_upgrade.py` reads them before it."""
    return {
        f"{table}.{column}": digest(
            row for row in model.objects.values_list("pk", column).iterator() if row[0] in known[model]
        )
        for model, table in STORED.items()
        for column in COLUMNS[table][1]
    }


def visit() -> dict[str, tuple[int, int]]:
    """Return the status of every page that an administrator reads, and the status that its row demands."""
    browser = Asking()
    browser.force_login(Person.objects.get(username="ada"))
    things: Any = Things()
    pages = [name for name, row in TABLE.items() if row.method == "GET" and row.least not in ("public", SIGNED_IN)]
    return {name: (ask(browser, name, TENANT, things).status_code, TABLE[name].status) for name in pages}


def submit() -> dict[str, str]:
    """Return the states of two new handoffs: one that is accepted, and one like those that were held before."""
    long_chain = ["a", "b", "c", "d", "e", "researcher"]
    with client(make_key(TENANT, "ingest", "read")) as api:
        sent = [payload(tenant_id="default"), payload(tenant_id="default", call_chain=long_chain)]
        answers = [api.post("/handoffs", json=document).json()["id"] for document in sent]
        judge.drain()
        return {name: api.get(f"/handoffs/{pk}").json()["state"] for name, pk in zip("ab", answers, strict=True)}


def main() -> None:
    # Both end this process where something is wrong.
    command(["recount", "--check"], standalone_mode=False)
    command(["verify-log"], standalone_mode=False)
    known = {model: set(model.objects.values_list("pk", flat=True)) for model in STORED}
    found: dict[str, Any] = {"numbers": count(), "pages": visit(), "states": submit()}
    # Last, so that using the product is part of it.
    found["digests"] = digests(known)
    command(["recount", "--check"], standalone_mode=False)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
