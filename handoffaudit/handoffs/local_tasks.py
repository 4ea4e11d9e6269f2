"""Tasks that a worker process runs in threads of its own, so that verdicts do not depend on the broker."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

import structlog
from celery import current_app
from django.conf import settings
from django.db import DatabaseError, connections

from handoffaudit.handoffs import waking

log = structlog.get_logger(__name__)

_queues: list[str] = []
_threads: dict[str, list[threading.Thread]] = defaultdict(list)


class Slots:
    """Places for threads that run the same task in this process, whoever started them."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.taken = 0

    def acquire(self) -> bool:
        """Take a place. Return False where all are taken."""
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
    """Tell which queues this worker process consumes."""
    _queues[:] = names


def queues() -> tuple[str, ...]:
    """Return the queues that this process consumes; none where it is no worker."""
    return tuple(_queues)


def consumes(task: str) -> bool:
    route = settings.CELERY_TASK_ROUTES.get(task, {})
    return route.get("queue", settings.CELERY_TASK_DEFAULT_QUEUE) in _queues


def start(task: str, number: int = 1, *, at_once: int = 1) -> None:
    """Run a task in `number` threads of this process, of which `at_once` may run together.

    Not daemons: a process that is told to end ends what it has begun.
    """
    running = _threads[task] = [thread for thread in _threads[task] if thread.is_alive()]
    for _ in range(min(number, at_once - len(running))):
        thread = threading.Thread(target=_run, args=[task], name=task.rpartition(".")[2])
        running.append(thread)
        thread.start()


def start_or_send(task: str) -> None:
    """Run a task here where this process consumes its queue; otherwise wake a worker that does."""
    if consumes(task):
        start(task)
    else:
        waking.send(task)


def _run(task: str) -> None:
    try:
        current_app.tasks[task]()
    except DatabaseError as error:
        log.warning("a task could not use the database", task=task, error=str(error))
    except Exception:
        log.exception("a task failed", task=task)
    finally:
        connections.close_all()
