"""Threads that ask, and write down what they are told before anybody else hears of it."""

import queue
import threading
from collections.abc import Iterator

from handoffaudit.cli.evaluating.results import Line, Results
from handoffaudit.evaluation.asking import Key
from handoffaudit.llm.calls import Call, Caller
from handoffaudit.validation.prompts.question import Question


class Crew:
    """At most `size` questions are under way. The threads end with the process, whatever they wait for."""

    def __init__(self, caller: Caller, results: Results, size: int) -> None:
        self._caller, self._results, self._size = caller, results, size
        self._to_ask: queue.SimpleQueue[tuple[Key, Question]] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[tuple[Key, Call | Exception]] = queue.SimpleQueue()
        self._threads = 0
        self.under_way = 0

    @property
    def is_full(self) -> bool:
        return self.under_way >= self._size

    def ask(self, key: Key, question: Question) -> None:
        self.under_way += 1
        self._to_ask.put((key, question))
        if self._threads < min(self.under_way, self._size):
            self._threads += 1
            threading.Thread(target=self._work, name=f"asker-{self._threads}", daemon=True).start()

    def ended(self, seconds: float) -> Iterator[tuple[Key, Call]]:
        """The calls that ended, or end within so many seconds. Raises what no call may raise."""
        try:
            key, call = self._told.get(timeout=seconds)
            while True:
                self.under_way -= 1
                if isinstance(call, Exception):
                    raise call
                yield key, call
                key, call = self._told.get_nowait()
        except queue.Empty:
            return

    def _work(self) -> None:
        while True:
            key, question = self._to_ask.get()
            told: Call | Exception
            try:
                told = self._caller.call(question)
                self._results.add(Line.of(key, told))
            except Exception as error:  # noqa: BLE001 -- raised again in the thread that waits
                told = error
            self._told.put((key, told))
