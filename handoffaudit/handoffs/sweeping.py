"""The sweep of each worker: wakes it for what was left behind, and parks what can't be judged."""

import threading
from collections.abc import Callable
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from handoffaudit.handoffs import (
    asking,
    checks,
    claims,
    model_answers,
    outages,
    rechecking,
    semantics,
    trials,
    waking,
)
from handoffaudit.memory import calm
from handoffaudit.validation.counting import default_counter

log = structlog.get_logger(__name__)

_stop = threading.Event()
_more: list[Callable[[], None]] = []
_queues: list[str] = []


def also(one_pass: Callable[[], None]) -> None:
    """Has the sweep of each worker make this pass too: apps above this one say here what waits for them."""
    if one_pass not in _more:
        _more.append(one_pass)


def queues() -> tuple[str, ...]:
    """Those that this process takes messages from; none where it is no worker."""
    return tuple(_queues)


def sweep() -> None:
    """One pass."""
    parked = claims.park_exhausted()
    if parked:
        log.error("handoffs are parked: judging them failed again and again", number=parked)
    if claims.anything_waits():
        waking.send()
    if not asking.configured():
        _end_checks()
    if trials.anything_waits():
        waking.send(waking.TRIALS)
    if trials.anything_waits(with_model=True):
        waking.send(waking.PROMPT_TRIALS)


def _end_checks() -> None:
    """Ends checks that were begun with a key that is gone now: nobody may be there whose work they are."""
    _park_checks()
    if checks.waiting(1):
        semantics.drain()


def sweep_checks() -> None:
    """One pass over what waits for the model."""
    _park_checks()
    outages.watch()
    rechecking.queue_waiting()
    model_answers.forget_old_answers()
    most = settings.MODEL_CONCURRENCY
    # Who is busy goes on until nothing waits: a message for each pass would only pile up.
    waking.wake_checks(min(checks.waiting(most), most - checks.busy()))


def _park_checks() -> None:
    parked = checks.park_exhausted()
    if parked:
        log.error("handoffs are parked: having the model check them failed again and again", number=parked)


def _run(*passes: Callable[[], None]) -> None:
    while True:
        for one in passes:
            _make(one)
        close_old_connections()
        if _stop.wait(settings.SWEEP_SECONDS):
            return


def _make(one_pass: Callable[[], None]) -> None:
    """Whatever one pass meets, the others are made, and the sweep goes on: nobody would start it again."""
    try:
        one_pass()
    except DatabaseError as error:
        log.warning("the sweep could not use the database", error=str(error))
        close_old_connections()
    except Exception:
        log.exception("a pass of the sweep failed")


@worker_ready.connect  # type: ignore[untyped-decorator]
def start(sender: Any = None, **_: Any) -> None:
    # Loaded now, the tokenizer costs the first handoff nothing.
    default_counter()
    calm()
    _stop.clear()
    semantics.ending.clear()
    _queues[:] = sender.app.amqp.queues.consume_from if sender is not None else ()
    # Where nobody takes them, messages of that queue would pile up.
    passes = (sweep, *_more, sweep_checks) if waking.CHECKS_QUEUE in _queues else (sweep, *_more)
    threading.Thread(target=_run, args=passes, name="sweep", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop(**_: Any) -> None:
    _stop.set()
    semantics.ending.set()
