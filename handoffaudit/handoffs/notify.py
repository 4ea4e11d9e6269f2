"""Notification of workers, by threads of this process or by messages. A message carries no work, and may be lost."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import structlog
from django.conf import settings
from django.db import DatabaseError, connections, transaction
from kombu.exceptions import KombuError

from handoffaudit.celery import REQUEST_IDS, app
from handoffaudit.observability import MOST_OF_A_TASK, current_id
from handoffaudit.redis_client import PAUSE_SECONDS, ServerBreaker

log = structlog.get_logger(__name__)

TASK = "handoffaudit.handoffs.tasks.judge_waiting"

TRIALS = "handoffaudit.handoffs.tasks.try_drafts"

PROMPT_TRIALS = "handoffaudit.handoffs.tasks.try_prompts"

CHECKS = "handoffaudit.handoffs.tasks.check_waiting"

CHECKS_QUEUE = "semantic"

TELLING = "handoffaudit.handoffs.tasks.tell_subscribers"

# Submissions within this time share one message, because one message makes a worker judge all waiting handoffs. The
# first message after a pause goes out immediately. A message costs a millisecond of CPU time, as much as a submission.
GATHER_SECONDS = 0.02

# After more submissions than this in one pause, the workers are busy anyway, so the next pause is `BUSY_SECONDS`.
BUSY_ASKS = 3

BUSY_SECONDS = 0.05

_broker = ServerBreaker()


class _Waker:
    """A sender of wake-ups in its own thread, so that no submission waits for a slow or unavailable broker."""

    def __init__(self, task: str = TASK) -> None:
        self._task = task
        # The requests since the last message. A log line of the worker names them.
        self._ids: deque[str] = deque(maxlen=MOST_OF_A_TASK)
        self._wake_event = threading.Event()
        self._asks = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        self._asks += 1
        if request_id := current_id():
            self._ids.append(request_id)
        if not self._wake_event.is_set():
            self._wake_event.set()
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="waker", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake_event.wait()
            self._wake_event.clear()
            busy = self._asks > BUSY_ASKS
            self._asks = 0
            sent = send(self._task, self._take_ids())
            time.sleep((BUSY_SECONDS if busy else GATHER_SECONDS) if sent else PAUSE_SECONDS)

    def _take_ids(self) -> list[str]:
        return [self._ids.popleft() for _ in range(len(self._ids))]


def send(task: str = TASK, request_ids: Sequence[str] = ()) -> bool:
    """Send one wake-up to the broker. Return False if the broker is or recently was unreachable.

    The message names the requests that caused it: `request_ids`, or the request that this thread answers.
    """
    if _broker.is_open:
        return False
    try:
        ids = list(request_ids) or [one for one in [current_id()] if one]
        app.send_task(task, ignore_result=True, retry=False, headers={REQUEST_IDS: ids} if ids else None)
    except (KombuError, OSError) as error:
        if _broker.fail():
            log.warning("the broker cannot be reached; workers look for work by themselves", error=str(error))
        return False
    _broker.succeed()
    return True


def notify_dry_runs(*, with_model: bool = False) -> None:
    """Send a wake-up for dry runs after the current transaction commits."""
    transaction.on_commit(lambda: send(PROMPT_TRIALS if with_model else TRIALS))


def notify_llm_workers(number: int) -> None:
    """Send a wake-up for each of `number` LLM checks, at most `MODEL_CONCURRENCY`.

    Each wake-up makes one worker check handoffs until none waits.
    """
    for _ in range(min(number, settings.MODEL_CONCURRENCY)):
        if not send(CHECKS):
            return


_waker = _Waker()

_sender_waker = _Waker(TELLING)


def notify_workers() -> None:
    """Request a wake-up of a worker, and return before the wake-up is sent."""
    _waker.ask()


def notify_senders() -> None:
    """Request a wake-up of a webhook worker, and return before the wake-up is sent."""
    _sender_waker.ask()


_queues: list[str] = []

_threads: dict[str, list[threading.Thread]] = defaultdict(list)


class Slots:
    """Slots for threads that run the same task in this process."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.taken = 0

    def acquire(self) -> bool:
        """Take a slot. Return False if all slots are taken."""
        with self._lock:
            if self.taken >= self._limit():
                return False
            self.taken += 1
            return True

    def release(self) -> None:
        with self._lock:
            self.taken -= 1

    @property
    def free(self) -> int:
        return max(0, self._limit() - self.taken)


def set_queues(names: Sequence[str]) -> None:
    """Set the queues that this worker process consumes."""
    _queues[:] = names


def consumed_queues() -> tuple[str, ...]:
    """Return the queues that this process consumes. A process that is not a worker consumes none."""
    return tuple(_queues)


def consumes(task: str) -> bool:
    route = settings.CELERY_TASK_ROUTES.get(task, {})
    return route.get("queue", settings.CELERY_TASK_DEFAULT_QUEUE) in _queues


def start_threads(task: str, number: int = 1, *, at_once: int = 1) -> None:
    """Start up to `number` threads that run a task; at most `at_once` threads run the task in this process at a time.

    The threads are not daemons, so a process that is told to stop ends only after they have finished.
    """
    running = _threads[task] = [thread for thread in _threads[task] if thread.is_alive()]
    for _ in range(min(number, at_once - len(running))):
        thread = threading.Thread(target=_run, args=[task], name=task.rpartition(".")[2])
        running.append(thread)
        thread.start()


def start_or_send(task: str) -> None:
    """Run a task in this process if it consumes the task's queue; otherwise wake a worker that does."""
    if consumes(task):
        start_threads(task)
    else:
        send(task)


def _run(task: str) -> None:
    try:
        app.tasks[task]()
    except DatabaseError as error:
        log.warning("a task could not use the database", task=task, error=str(error))
    except Exception:
        log.exception("a task failed", task=task)
    finally:
        connections.close_all()
