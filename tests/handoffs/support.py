"""Documents to submit, and short ways through the product's own functions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import orjson
from django.db import connections

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import claims, counts, ingest, judging, queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.ingest import Receipt
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.submission import read_submission

SENDER = Actor.key("sender")
NOT_JSON = b'{"source_agent_id": "planner", '


def payload(**changes: Any) -> dict[str, Any]:
    """A document that is accepted as it stands."""
    return {
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "tenant_id": "acme",
        "call_chain": ["planner", "researcher"],
        "handoff_type": "research_result",
        "data": {"summary": "Three suppliers deliver within a week.", "suppliers": 3},
        "timestamp": "2026-02-15T00:15:00Z",
        **changes,
    }


def circular(**changes: Any) -> dict[str, Any]:
    """Rejected, and approvable by a person."""
    return payload(target_agent_id="planner", **changes)


def held(**changes: Any) -> dict[str, Any]:
    """Held: the chain is longer than passes without approval."""
    return payload(call_chain=["a", "b", "c", "d", "e", "researcher"], **changes)


def to_itself(**changes: Any) -> dict[str, Any]:
    """Rejected, and not approvable by anybody."""
    return payload(target_agent_id="researcher", **changes)


def submit(tenant: Tenant, document: dict[str, Any] | bytes, **envelope: Any) -> Receipt:
    sent = document if isinstance(document, bytes) else orjson.dumps(document)
    if envelope:
        sent = orjson.dumps({"document": orjson.Fragment(sent), **envelope})
    return ingest.accept(tenant, SENDER, read_submission(sent))


def judged(tenant: Tenant, document: dict[str, Any] | bytes, **envelope: Any) -> Handoff:
    """Submitted and judged."""
    receipt = submit(tenant, document, **envelope)
    assert receipt.id, receipt
    judging.drain()
    return queries.get(tenant, receipt.id)


def assert_counts_are_right() -> None:
    assert counts.recount(repair=False).wrong == 0


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Runs each in a thread with a database connection of its own, all starting together; results or exceptions."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return call()
        except Exception as error:  # noqa: BLE001 -- a result like any other
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def take(limit: int) -> claims.Claim | None:
    """What a worker would judge next."""
    return claims.fresh(limit) or claims.left_behind()
