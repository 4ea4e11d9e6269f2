"""The Celery tasks of diagnostics: wake-ups without content, as those of handoffs."""

import threading

from celery import shared_task

from handoffaudit.diagnostics import alerting, attributing, workers
from handoffaudit.diagnostics.logs import queue, reading
from handoffaudit.diagnostics.retention import running as retention
from handoffaudit.diagnostics.samples import filling, removing
from handoffaudit.handoffs import notify, periodic_jobs

_one_attribution = threading.Lock()
_one_reading = threading.Lock()
_one_sample = threading.Lock()
_one_removal = threading.Lock()
STORING_SECONDS = 1.0
READING_SECONDS = 1.0
REMOVING_SECONDS = 1.0


@shared_task(name=attributing.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def attribute_judged() -> None:
    """Works out who is behind the findings of what was judged since."""
    if _one_attribution.acquire(blocking=False):
        try:
            attributing.run()
        finally:
            _one_attribution.release()


@shared_task(name=reading.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def read_logs() -> None:
    """Store parts of logs, and read what was stored, each for a moment, and then behind what came meanwhile: judging
    must not wait for a large log."""
    if _one_reading.acquire(blocking=False):
        try:
            stored = queue.drain(STORING_SECONDS)
            done = reading.drain(READING_SECONDS) and stored
        finally:
            _one_reading.release()
        if not done:
            notify.send(reading.TASK)


@shared_task(name=filling.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def tend_samples() -> None:
    """Fills sample tenants that were made, and clears those that were removed."""
    if _one_sample.acquire(blocking=False):
        try:
            for tenant in removing.removed():
                removing.clear(tenant)
            for tenant in filling.unfilled():
                filling.fill(tenant)
        finally:
            _one_sample.release()


@shared_task(name=retention.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def remove_old() -> None:
    """Removes what was kept for long enough, for a moment, and then behind what came meanwhile."""
    if _one_removal.acquire(blocking=False):
        try:
            done = retention.run(REMOVING_SECONDS)
        finally:
            _one_removal.release()
        if not done:
            notify.send(retention.TASK)


def _look_for_thresholds() -> None:
    # Here and now, in whichever worker: as a message it would wait behind what it should warn of.
    if alerting.anything_due():
        alerting.run()


def _look_for_logs() -> None:
    if reading.anything_waits() or queue.anything_waits():
        notify.start_or_send(reading.TASK)


def _look_for_judged() -> None:
    if attributing.anything_due():
        notify.start_or_send(attributing.TASK)


def _look_for_samples() -> None:
    if filling.unfilled().exists() or removing.anything_to_clear():
        notify.start_or_send(filling.TASK)


def _look_for_old() -> None:
    if retention.anything_due():
        notify.start_or_send(retention.TASK)


periodic_jobs.add_job(workers.beat)
periodic_jobs.add_job(_look_for_judged)
periodic_jobs.add_job(_look_for_logs)
periodic_jobs.add_job(_look_for_thresholds)
periodic_jobs.add_job(_look_for_samples)
periodic_jobs.add_job(_look_for_old)
