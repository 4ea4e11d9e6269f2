"""Who judges in a process: several threads at once, or one that is alone.

What was left behind by a worker that died is judged alone: if it kills this process too, nothing else is blamed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WorkerLock:
    """A lock that several threads share, or that one has alone; who waits to be alone goes before who would share."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting_alone = 0
        self._is_alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone and not self._waiting_alone)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting_alone += 1
            self._changed.wait_for(lambda: not self._is_alone and not self._inside)
            self._waiting_alone -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()
