"""The Celery tasks of diagnostics, which have no arguments, and its periodic jobs."""

import threading
from contextlib import ExitStack

from celery import shared_task

from handoffaudit.diagnostics import (
    alert_rules,
    attribution,
    compliance_schedule,
    erasure,
    group_store,
    retention_run,
    sample_tenants,
    text_index,
)
from handoffaudit.diagnostics.logs import index, upload
from handoffaudit.handoffs import notify

_one_attribution = threading.Lock()
_one_reading = threading.Lock()
_one_sample = threading.Lock()
_one_removal = threading.Lock()
_one_index = threading.Lock()
_one_erasure = threading.Lock()
STORING_SECONDS = 1.0
READING_SECONDS = 1.0
REMOVING_SECONDS = 1.0


@shared_task(name=attribution.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def attribute_judged() -> None:
    """Attribute the findings of handoffs that were judged since the last run."""
    if _one_attribution.acquire(blocking=False):
        try:
            attribution.run()
        finally:
            _one_attribution.release()


@shared_task(name=index.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def read_logs() -> None:
    """Store parts of logs and index stored blocks, for about a second each.

    A new message continues the remaining work, so that judging does not wait for a large log.
    """
    if _one_reading.acquire(blocking=False):
        try:
            stored = upload.drain(STORING_SECONDS)
            done = index.drain(READING_SECONDS) and stored
        finally:
            _one_reading.release()
        if not done:
            notify.send(index.TASK)


@shared_task(name=sample_tenants.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def tend_samples() -> None:
    """Fill new sample tenants, and delete the rows of removed sample tenants."""
    if _one_sample.acquire(blocking=False):
        try:
            # The stack makes all calls, the last one first, and only then raises an error of one of them.
            with ExitStack() as calls:
                for tenant in sample_tenants.list_unfilled():
                    calls.callback(sample_tenants.fill_sample, tenant)
                for tenant in sample_tenants.list_removed():
                    calls.callback(sample_tenants.clear_sample, tenant)
        finally:
            _one_sample.release()


@shared_task(name=retention_run.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def remove_old() -> None:
    """Remove old data for about a second; a new message continues the remaining work."""
    if _one_removal.acquire(blocking=False):
        try:
            done = retention_run.remove_due(REMOVING_SECONDS)
        finally:
            _one_removal.release()
        if not done:
            notify.send(retention_run.TASK)


@shared_task(name=erasure.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def erase_values() -> None:
    """Count or erase values for about a second; a new message continues the remaining work."""
    if _one_erasure.acquire(blocking=False):
        try:
            done = erasure.run(REMOVING_SECONDS)
        finally:
            _one_erasure.release()
        if not done:
            notify.send(erasure.TASK)


@shared_task(name=text_index.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def index_blocked() -> None:
    """Index the words of handoffs that were blocked since the last run."""
    if _one_index.acquire(blocking=False):
        try:
            text_index.run()
        finally:
            _one_index.release()


@shared_task(name=compliance_schedule.TASK, ignore_result=True)  # type: ignore[untyped-decorator]
def send_reports() -> None:
    """Send the weekly compliance report of each tenant that asked for it."""
    compliance_schedule.send_due()


def look_for_thresholds() -> None:
    # The worker evaluates the rules directly. A message would wait behind the very backlog that the rules warn of.
    if alert_rules.anything_due():
        alert_rules.evaluate_all()


def look_for_logs() -> None:
    if index.anything_waits() or upload.anything_waits():
        notify.start_or_send(index.TASK)


def look_for_judged() -> None:
    if attribution.anything_due():
        notify.start_or_send(attribution.TASK)


def look_for_samples() -> None:
    if sample_tenants.list_unfilled().exists() or sample_tenants.anything_to_clear():
        notify.start_or_send(sample_tenants.TASK)


def look_for_old() -> None:
    if retention_run.anything_due():
        notify.start_or_send(retention_run.TASK)


def look_for_erasures() -> None:
    if erasure.anything_due():
        notify.start_or_send(erasure.TASK)


def look_for_ended_mutes() -> None:
    group_store.end_code_mutes()


def look_for_blocked() -> None:
    if text_index.anything_due():
        notify.start_or_send(text_index.TASK)


def look_for_reports() -> None:
    if compliance_schedule.anything_due():
        notify.start_or_send(compliance_schedule.TASK)
