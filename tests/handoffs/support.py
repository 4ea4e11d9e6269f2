"""Documents to submit, and helpers around the product's own functions."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Event
from time import sleep
from typing import Any, NoReturn

import orjson
import psycopg
from django.db import InternalError, OperationalError, connection, connections
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, judge_leases, queries, recount
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import Receipt, read_submission
from handoffaudit.handoffs.llm import jobs, run
from handoffaudit.handoffs.models import Handoff, JudgeLease, ModelCheck
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation.config import TypePolicy
from tests.messages_api.scripted import Scripted, says

SENDER = Actor.key("sender")
# A strict handoff gets this warning if the LLM fails although a key is set.
NOT_ASKED = "semantic.unavailable"
NOT_JSON = b'{"source_agent_id": "planner", '


def payload(**changes: Any) -> dict[str, Any]:
    """Return a document that is accepted as it is."""
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
    """Return a document that is rejected and that a person may approve."""
    return payload(target_agent_id="planner", **changes)


def held(**changes: Any) -> dict[str, Any]:
    """Return a document that is held, because its chain is longer than the policy accepts without approval."""
    return payload(call_chain=["a", "b", "c", "d", "e", "researcher"], **changes)


def to_itself(**changes: Any) -> dict[str, Any]:
    """Return a document that is rejected and that nobody may approve."""
    return payload(target_agent_id="researcher", **changes)


def submit(tenant: Tenant, document: dict[str, Any] | bytes, **envelope: Any) -> Receipt:
    sent = document if isinstance(document, bytes) else orjson.dumps(document)
    if envelope:
        sent = orjson.dumps({"document": orjson.Fragment(sent), **envelope})
    return store.accept(tenant, SENDER, read_submission(sent))


def judged(tenant: Tenant, document: dict[str, Any] | bytes, **envelope: Any) -> Handoff:
    """Submit and judge a document, and return the handoff."""
    receipt = submit(tenant, document, **envelope)
    assert receipt.id, receipt
    judge.drain()
    return queries.get(tenant, receipt.id)


def assert_counts_are_right() -> None:
    assert recount.recount(repair=False).wrong == 0


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run all calls at the same time, each in a thread with a database connection of its own.

    Return the results in the order of the calls; a call that raises gives its exception.
    """
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(60)
            return call()
        except Exception as error:  # noqa: BLE001 -- a result like any other
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def interrupted(run: Callable[[], Any], change: Callable[[], Any], after: str) -> list[Any]:
    """Run both; the change begins just after the first statement of `run` with this text."""
    reached = Event()

    def pause(execute: Any, sql: str, *given: Any) -> Any:
        result = execute(sql, *given)
        if not reached.is_set() and after in sql:
            reached.set()
            sleep(0.3)
        return result

    def run_slowly() -> Any:
        with connection.execute_wrapper(pause):
            return run()

    def wait_and_change() -> Any:
        assert reached.wait(10)
        return change()

    return at_once(run_slowly, wait_and_change)


def set_policy(tenant: Tenant, handoff_type: str, **changes: Any) -> None:
    """Save a new version of the strictness table with these columns of one row changed."""
    table = strictness.current(tenant)
    row = replace(table.row(handoff_type) or TypePolicy(handoff_type), **changes)
    others = [one for one in table.rows if one.handoff_type != handoff_type]
    strictness.save(tenant=tenant, base_version=table.version, rows=[*others, row], actor="ada")


def switch_off(tenant: Tenant, layer: str) -> None:
    """Switch off the layer for every handoff type."""
    table = strictness.current(tenant)
    rows = [replace(row, layers_off=row.layers_off | {layer}) for row in table.rows]
    strictness.save(tenant=tenant, base_version=table.version, rows=rows, actor="ada")


def take(limit: int) -> judge_leases.Lease | None:
    """Take the lease on the handoffs that a worker would judge next."""
    return judge_leases.take_fresh(limit) or judge_leases.take_left_behind()


def let_leases_expire() -> None:
    """Let the leases on all handoffs expire."""
    past = timezone.now() - timedelta(seconds=1)
    JudgeLease.objects.update(expires_at=past)
    Handoff.objects.exclude(claim_expires_at=None).update(claim_expires_at=past)


def doubts(quote: str = "within a week") -> Scripted:
    """Return the LLM's answer to a grounding question: one fabricated quote."""
    issue = {"field": "summary", "kind": "fabricated", "quote": quote, "reason": "Nothing speaks of it."}
    return says({"valid": False, "issues": [issue]})


def checked(tenant: Tenant, document: dict[str, Any] | bytes, **envelope: Any) -> Handoff:
    """Submit and judge a document, let the LLM check it, and return the handoff."""
    handoff = judged(tenant, document, **envelope)
    run.drain()
    return queries.get(tenant, str(handoff.pk))


def due(handoff: Handoff) -> jobs.Job:
    """Take the LLM check of the handoff as a worker does; the check must be the next one."""
    taken = jobs.take() or jobs.take_left_behind()
    assert taken is not None
    assert taken.handoff.pk == handoff.pk
    return taken


def checks_run_out() -> None:
    """Let the leases on all LLM checks expire."""
    ModelCheck.objects.exclude(claim_expires_at=None).update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def find_disk_full(*_: object, **__: object) -> NoReturn:
    """Raise the error of a statement for which the database has no room on its disk."""
    raise OperationalError("no room") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def find_read_only(*_: object, **__: object) -> NoReturn:
    """Raise the error of a statement that PostgreSQL refuses because the database is read-only."""
    raise InternalError("read-only") from psycopg.errors.ReadOnlySqlTransaction("read-only")
