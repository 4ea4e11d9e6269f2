"""The Celery tasks and the periodic jobs of a worker.

The tasks have no arguments, because the work is in the database. Only `judge_one` takes the id of a handoff: the web
process calls this task as a function.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import structlog
from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.utils.module_loading import import_string

from handoffaudit.handoffs import alerts, db, dry_runs, judge, judge_leases, late_results, notify
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.llm import client, jobs, run
from handoffaudit.handoffs.notify import Slots
from handoffaudit.handoffs.webhooks import delivery
from handoffaudit.process import freeze_startup_objects
from handoffaudit.validation.tokenizers import default_counter

# At most two threads of a process judge all waiting handoffs (a drain). More threads would only wait for each other.
drains = Slots(lambda: 2)

# Slots for threads that wait for the LLM.
checkers = Slots(lambda: int(settings.MODEL_CONCURRENCY))

_wake_event = threading.Event()

_one_trial = threading.Lock()

_one_prompt_trial = threading.Lock()


@shared_task(name="handoffaudit.handoffs.tasks.judge_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def judge_waiting() -> None:
    """Judge all waiting handoffs, and judge again the handoffs whose tool results arrived late.

    If enough drains already run, one of them looks for this work instead.
    """
    _wake_event.set()
    while _wake_event.is_set() and drains.acquire():
        try:
            _wake_event.clear()
            judge.drain()
            late_results.drain()
        finally:
            drains.release()


# A web process judges one handoff at a time, and its other threads answer requests. On SQLite, a few threads may wait
# for their turn, because a worker would take longer to answer. On PostgreSQL, no thread waits, because workers judge at
# the same time.
_places = Slots(lambda: 1 if db.is_postgresql() else 6)
_judging = threading.Lock()
_LONGEST_TURN_WAIT_SECONDS = 0.1


@contextmanager
def reserve_judging() -> Iterator[bool]:
    """Reserve a place among the threads that may call `judge_one` in this process; yield whether a place was free."""
    reserved = _places.acquire()
    try:
        yield reserved
    finally:
        if reserved:
            _places.release()


@shared_task(name="handoffaudit.handoffs.tasks.judge_one")  # type: ignore[untyped-decorator]
def judge_one(pk: str) -> bool:
    """Judge a handoff that was just stored; return False if the handoff still waits for a worker.

    Where a sender waits for the verdict, the web process calls this function, because a message to a worker takes
    longer than the judging (`docs/decisions/0063-judged-where-submitted.md`).
    """
    if not _judging.acquire(timeout=_LONGEST_TURN_WAIT_SECONDS):
        return False
    try:
        with write_turn():
            judge_leases.give_back_lost()
            lease = judge_leases.take_one(UUID(pk))
            return lease is not None and judge.judge(lease) > 0
    except (DatabaseError, InterfaceError) as error:
        log.warning("a worker judges a handoff, because the web process could not", handoff=pk, error=str(error))
        return False
    finally:
        _judging.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_drafts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_drafts() -> None:
    """Run the waiting dry runs one after another, to leave room for judging."""
    if _one_trial.acquire(blocking=False):
        try:
            dry_runs.run_waiting()
        finally:
            _one_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_prompts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_prompts() -> None:
    """Run the waiting dry runs that ask the LLM, one after another, to leave room for checks."""
    if _one_prompt_trial.acquire(blocking=False):
        try:
            dry_runs.run_waiting(with_model=True)
        finally:
            _one_prompt_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.check_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def check_waiting() -> None:
    """Run waiting LLM checks one after another, unless `MODEL_CONCURRENCY` threads of this process already do so."""
    if checkers.acquire():
        try:
            run.drain()
        finally:
            checkers.release()


@shared_task(name="handoffaudit.handoffs.tasks.tell_subscribers", ignore_result=True)  # type: ignore[untyped-decorator]
def tell_subscribers() -> None:
    """Wake the threads of this process that deliver webhooks."""
    delivery.wake_senders()


log = structlog.get_logger(__name__)

# The pause after which an idle worker looks for work. Each pause varies by a fifth, so that the workers do not all look
# at the same time.
LOOK_SECONDS = 1.0

_stop = threading.Event()


def periodic_jobs() -> list[Callable[[], None]]:
    """Return the jobs that `settings.PERIODIC_JOBS` declares, in that order."""
    return [import_string(name) for name in settings.PERIODIC_JOBS]


def sweep() -> None:
    """Park exhausted handoffs, end the work for the LLM if no LLM is configured, and start waiting dry runs."""
    parked = judge.park_exhausted()
    if parked:
        log.error("handoffs are parked: judging them failed again and again", number=parked)
    if not client.is_configured():
        _end_checks()
        # Without a key there may be no worker for these dry runs, and each message would stay in the queue.
        dry_runs.end_waiting_for_llm(client.NO_KEY)
    elif dry_runs.is_anything_waiting(with_model=True):
        notify.start_or_send(notify.PROMPT_TRIALS)
    if dry_runs.is_anything_waiting():
        notify.start_or_send(notify.TRIALS)


def look() -> None:
    """Start the waiting work that no message announced.

    The search takes a few cheap queries, or none while the process is busy. Verdicts must not depend on the broker, so
    the work runs in threads of this process, and no message is sent. First, give back the leases whose verdicts could
    not be stored because the database failed.
    """
    judge_leases.give_back_lost()
    jobs.release_lost()
    is_idle = notify.consumes(notify.TASK) and not drains.taken
    if is_idle and (judge_leases.is_anything_waiting() or late_results.is_anything_waiting()):
        notify.start_threads(notify.TASK)
    if notify.consumes(notify.CHECKS) and (free := checkers.free):
        notify.start_threads(notify.CHECKS, jobs.count_waiting(free), at_once=settings.MODEL_CONCURRENCY)


def _end_checks() -> None:
    """Finish the LLM checks from before the LLM key was removed, and resolve the outage alerts.

    Without a key, there may be no worker for LLM checks.
    """
    _park_checks()
    alerts.watch_outages()
    if jobs.count_waiting(1):
        run.drain()


def sweep_checks() -> None:
    """Park exhausted LLM checks, watch for outages, queue unverified handoffs and delete old answers."""
    _park_checks()
    alerts.watch_outages()
    run.enqueue_unverified()
    client.delete_old_answers()


def _park_checks() -> None:
    parked = jobs.park_exhausted()
    if parked:
        log.error("handoffs are parked: their LLM checks failed again and again", number=parked)


def _run(seconds: Callable[[], float], *passes: Callable[[], None]) -> None:
    while True:
        for one in passes:
            _make(one)
        close_old_connections()
        if _stop.wait(seconds()):
            return


def _make(one_pass: Callable[[], None]) -> None:
    """Run one job, and log its errors. An error must not end the thread, because nothing would restart the thread."""
    try:
        one_pass()
    except DatabaseError as error:
        log.warning("the sweep could not use the database", error=str(error))
        close_old_connections()
    except Exception:
        log.exception("a pass of the sweep failed")


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def start(instance: Any = None, **_: Any) -> None:
    """Start the periodic work. Celery calls this function before the connection to the broker, which may fail."""
    # Load the tokenizer now, so that the first handoff does not wait for it.
    default_counter()
    freeze_startup_objects()
    _stop.clear()
    run.ending.clear()
    notify.set_queues(instance.app.amqp.queues.consume_from if instance is not None else ())
    asks = notify.CHECKS_QUEUE in notify.consumed_queues()
    if asks:
        # A thread prepares the client, because a worker with several queues can already judge meanwhile.
        threading.Thread(target=client.prepare_client, name="llm-client", daemon=True).start()
    passes = (*periodic_jobs(), sweep_checks) if asks else periodic_jobs()
    _repeat("sweep", lambda: float(settings.SWEEP_SECONDS), *passes)
    _repeat("look", lambda: LOOK_SECONDS * random.uniform(0.8, 1.2), look)  # noqa: S311 -- no secret


def _repeat(name: str, seconds: Callable[[], float], *passes: Callable[[], None]) -> None:
    threading.Thread(target=_run, args=(seconds, *passes), name=name, daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop(**_: Any) -> None:
    _stop.set()
    run.ending.set()
