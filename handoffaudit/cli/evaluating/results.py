"""The file of answers that were paid for: one a line, written the moment it comes, so that nothing is paid twice."""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import orjson

from handoffaudit.cli.stop import Stop
from handoffaudit.evaluation.asking import Key
from handoffaudit.llm.calls import Call
from handoffaudit.validation.prompts.question import Answer

DEFAULT_NAME = "handoffaudit-eval-answers.jsonl"
OK = "ok"


@dataclass(frozen=True, slots=True)
class Line:
    """One call. `outcome` is `ok`, or the reason why there is no answer: such a question is asked again."""

    model: str
    prompt: str
    input: str
    outcome: str
    text: str
    cost_usd: float
    latency_ms: float
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tries: int

    @classmethod
    def of(cls, key: Key, call: Call) -> "Line":
        outcome = OK if call.answer else call.error.reason.value if call.error else ""
        # half of a surrogate pair has no bytes
        text = call.answer.text.encode("utf-8", "replace").decode() if call.answer else ""
        used = (call.usage.tokens_in, call.usage.tokens_out, call.usage.tokens_cached)
        return cls(key.model, key.prompt, key.input, outcome, text, call.cost_usd, call.latency_ms, *used, call.tries)

    @property
    def key(self) -> Key:
        return Key(self.model, self.prompt, self.input)

    @property
    def answer(self) -> Answer:
        return Answer(None, self.text, self.model, self.cost_usd, self.latency_ms, cached=True)


class Results:
    """The answers in a file, and the only process that adds to it. Safe to add to from many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread_lines = 0
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise Stop(f"{path} can't be written ({error.strerror}): name another file with --results.") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Stop(f"{path} is no plain file: name another one with --results.")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Stop(f"{path} is in use by another run: wait for it, or name another file with --results.") from error
        self._known = {line.key: line for line in self._lines() if line.outcome == OK}
        self._end_half_line()

    def __enter__(self) -> "Results":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def known(self, key: Key) -> Line | None:
        return self._known.get(key)

    def mean_cost(self, model: str) -> float | None:
        """USD, of this model's answers so far."""
        costs = [line.cost_usd for line in self._known.values() if line.model == model]
        return sum(costs) / len(costs) if costs else None

    def add(self, line: Line) -> None:
        """On the disk when this returns. Raises `Stop` where it can't be written."""
        written = orjson.dumps(asdict(line), option=orjson.OPT_APPEND_NEWLINE)
        with self._lock:
            try:
                while written:
                    written = written[os.write(self._file, written) :]
                os.fsync(self._file)
            except OSError as error:
                raise Stop(
                    f"{self.path} can't be written ({error.strerror}), and an answer that is not kept would be paid "
                    "again: make room, or name another file with --results."
                ) from error
            if line.outcome == OK:
                self._known[line.key] = line

    def _lines(self) -> Iterator[Line]:
        """A line that is none, such as one that a killed run left half-written, is as good as not there."""
        with self.path.open("rb") as file:
            for text in file:
                try:
                    yield Line(**orjson.loads(text))
                except (orjson.JSONDecodeError, TypeError):
                    self.unread_lines += 1

    def _end_half_line(self) -> None:
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
