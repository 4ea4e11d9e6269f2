"""Worker threads for webhooks, separate from the threads that judge, so that slow receivers never delay verdicts."""

import threading

import structlog
from celery.signals import celeryd_after_setup, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections

from handoffaudit.handoffs import notify
from handoffaudit.handoffs.webhooks import delivery
from handoffaudit.handoffs.webhooks.events import dispatch
from handoffaudit.handoffs.webhooks.subscriptions import has_active, list_active

log = structlog.get_logger(__name__)

SENDERS = 8

# Sender threads that never serve a webhook with failed deliveries.
RESERVED = 2


class _Worker:
    """A thread that dispatches events, and as many sender threads as needed.

    All threads end with the process. The lease of a thread that died expires.
    """

    def __init__(self) -> None:
        self._wake_event = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._senders: list[threading.Thread | None] = [None] * SENDERS

    @property
    def runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        self._wake_event.set()
        with self._lock:
            if not self.runs:
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake_event.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._dispatch_and_send()
            except DatabaseError as error:
                log.warning("subscribers wait: the database can't be reached", error=str(error))
            except Exception:
                # An exception here is a bug of this product. It must not end the thread, because nothing would restart
                # the thread, and the next pass may succeed.
                log.exception("a pass over what happened failed")
            finally:
                close_old_connections()
            self._wake_event.wait(settings.SWEEP_SECONDS)
            self._wake_event.clear()

    def _dispatch_and_send(self) -> None:
        if not list_active():
            return
        dispatch()
        self._send(range(RESERVED, SENDERS), reliable=False)
        self._send(range(RESERVED), reliable=True)

    def _send(self, places: range, *, reliable: bool) -> None:
        """Start a sender thread for each webhook with due deliveries, as long as one of `places` is free."""
        needed = len(delivery.list_ready(reliable=reliable))
        for place in places:
            sender = self._senders[place]
            if needed and not self._stop.is_set() and (sender is None or not sender.is_alive()):
                needed -= 1
                started = threading.Thread(target=_send, args=[reliable], name="sender", daemon=True)
                self._senders[place] = started
                started.start()


def _send(reliable: bool) -> None:  # noqa: FBT001 -- a thread passes positional arguments
    try:
        delivery.drain(reliable=reliable)
    except DatabaseError as error:
        log.warning("a delivery waits: the database can't be reached", error=str(error))
    except Exception:
        log.exception("deliveries could not be sent")
    finally:
        connections.close_all()


_worker = _Worker()


def wake() -> None:
    """Dispatch events and send due deliveries in background threads of this process; return at once."""
    _worker.wake()


def notify_webhook_workers() -> None:
    """Notify the workers that an event was stored. Call after the commit.

    If no webhook is active, do nothing. A notification may be lost, because each worker also polls.
    """
    try:
        if not has_active():
            return
    except DatabaseError:
        return
    if _worker.runs:
        wake()
    else:
        notify.notify_senders()


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def start(**_: object) -> None:
    wake()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop(**_: object) -> None:
    _worker.stop()
