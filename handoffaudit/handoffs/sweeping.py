"""The sweep of each worker: wakes it for what was left behind, and parks what can't be judged."""

import threading
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from handoffaudit.handoffs import claims, trials, waking
from handoffaudit.memory import calm
from handoffaudit.validation.counting import default_counter

log = structlog.get_logger(__name__)

_stop = threading.Event()


def sweep() -> None:
    """One pass."""
    parked = claims.park_exhausted()
    if parked:
        log.error("handoffs are parked: judging them failed again and again", number=parked)
    if claims.anything_waits():
        waking.send()
    if trials.anything_waits():
        waking.send(waking.TRIALS)


def _run() -> None:
    while True:
        try:
            sweep()
        except DatabaseError as error:
            log.warning("the sweep can't reach the database", error=str(error))
        finally:
            close_old_connections()
        if _stop.wait(settings.SWEEP_SECONDS):
            return


@worker_ready.connect  # type: ignore[untyped-decorator]
def start(**_: Any) -> None:
    # Loaded now, the tokenizer costs the first handoff nothing.
    default_counter()
    calm()
    _stop.clear()
    threading.Thread(target=_run, name="sweep", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop(**_: Any) -> None:
    _stop.set()
