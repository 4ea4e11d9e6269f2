"""Wakes the workers. A message carries nothing and may be lost: each worker looks for work by itself, too."""

import threading
import time

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import KombuError

from handoffaudit.redis_client import PAUSE_SECONDS, Breaker

log = structlog.get_logger(__name__)

TASK = "handoffaudit.handoffs.tasks.judge_waiting"
TRIALS = "handoffaudit.handoffs.tasks.try_drafts"
PROMPT_TRIALS = "handoffaudit.handoffs.tasks.try_prompts"
CHECKS = "handoffaudit.handoffs.tasks.check_waiting"
CHECKS_QUEUE = "semantic"
TELLING = "handoffaudit.handoffs.tasks.tell_subscribers"
# Submissions within this time share one message: a message wakes a worker for all that waits.
GATHER_SECONDS = 0.002
# Where so many come in that time, workers are busy anyway, and messages would only cost submissions their processor.
BUSY_ASKS = 3
BUSY_SECONDS = 0.05
_broker = Breaker()


class _Waker:
    """Sends from a thread of its own, so that no submission waits for the broker, or for one that is away."""

    def __init__(self, task: str = TASK) -> None:
        self._task = task
        self._asked = threading.Event()
        self._asks = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        self._asks += 1
        self._asked.set()
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="waker", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            busy = self._asks > BUSY_ASKS
            self._asks = 0
            time.sleep((BUSY_SECONDS if busy else GATHER_SECONDS) if send(self._task) else PAUSE_SECONDS)


def send(task: str = TASK) -> bool:
    """Send one wake-up to the broker. Return False where the broker cannot be reached, or could not a moment ago."""
    if _broker.is_open:
        return False
    try:
        current_app.send_task(task, ignore_result=True, retry=False)
    except (KombuError, OSError) as error:
        if _broker.fail():
            log.warning("the broker cannot be reached; workers look for work by themselves", error=str(error))
        return False
    _broker.succeed()
    return True


def wake_trials(*, with_model: bool = False) -> None:
    """A wake-up for trials, once what is to be tried is committed."""
    transaction.on_commit(lambda: send(PROMPT_TRIALS if with_model else TRIALS))


def wake_checks(number: int) -> None:
    """Wake-ups for so many checks by the model: each makes one at a time until none waits."""
    for _ in range(min(number, settings.MODEL_CONCURRENCY)):
        if not send(CHECKS):
            return


_waker = _Waker()
_teller = _Waker(TELLING)


def wake() -> None:
    """Asks for a wake-up soon. Returns at once."""
    _waker.ask()


def wake_teller() -> None:
    """The same for those who tell subscribers."""
    _teller.ask()
