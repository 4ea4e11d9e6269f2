"""Answers of an LLM: the caller with the user's own key, the threads that ask, and the file of paid answers."""

import fcntl
import os
import queue
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import orjson

from handoffaudit.cli import Stop
from handoffaudit.evaluation.judge import Key
from handoffaudit.llm.calls import SECONDS, TRIES, Call, Caller
from handoffaudit.llm.claude import CONNECT_SECONDS, PROVIDERS
from handoffaudit.llm.service import FAST, build_caller, build_client
from handoffaudit.validation.prompts.question import Answer, Question


def caller_from_environment(model: str | None, environment: Mapping[str, str] = os.environ) -> Caller:
    """Return the caller that the environment configures.

    Raises `Stop` if there is no key, or a setting is invalid.
    """
    provider = environment.get("HANDOFFAUDIT_MODEL_PROVIDER") or PROVIDERS[0]
    if provider not in PROVIDERS:
        raise Stop(f"HANDOFFAUDIT_MODEL_PROVIDER is {provider!r}: set it to one of {', '.join(PROVIDERS)}.")
    client = build_client(
        provider,
        environment.get("ANTHROPIC_API_KEY", ""),
        environment.get("ANTHROPIC_BASE_URL", ""),
        connect_seconds=_number("HANDOFFAUDIT_MODEL_CONNECT_SECONDS", CONNECT_SECONDS, environment),
    )
    if client is None:
        raise Stop("--with-model needs your key: set ANTHROPIC_API_KEY. Without --with-model, no LLM is asked.")
    name = model or environment.get("HANDOFFAUDIT_MODEL_FAST") or FAST
    try:
        return build_caller(
            client,
            fast=name,
            careful=name,
            seconds=_number("HANDOFFAUDIT_MODEL_SECONDS", SECONDS, environment),
            tries=_number("HANDOFFAUDIT_MODEL_TRIES", TRIES, environment),
        )
    except ValueError as error:
        raise Stop(str(error)) from error


def _number(name: str, default: float, environment: Mapping[str, str]) -> int:
    given = environment.get(name) or default
    try:
        value = int(given)
    except ValueError:
        value = 0
    if value < 1:
        raise Stop(f"{name} is {given!r}: set it to a whole number of 1 or more.")
    return value


DEFAULT_NAME = "handoffaudit-eval-answers.jsonl"

OK = "ok"


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One call, as a line of the file of answers.

    `outcome` is `ok`, or the reason why there is no answer; a question without an answer is asked again.
    """

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
    def of(cls, key: Key, call: Call) -> "AnswerLine":
        outcome = OK if call.answer else call.error.reason.value if call.error else ""
        # Half of a surrogate pair can't be encoded as UTF-8.
        text = call.answer.text.encode("utf-8", "replace").decode() if call.answer else ""
        used = (call.usage.tokens_in, call.usage.tokens_out, call.usage.tokens_cached)
        return cls(key.model, key.prompt, key.input, outcome, text, call.cost_usd, call.latency_ms, *used, call.tries)

    @property
    def key(self) -> Key:
        return Key(self.model, self.prompt, self.input)

    @property
    def answer(self) -> Answer:
        return Answer(None, self.text, self.model, self.cost_usd, self.latency_ms, cached=True)


class AnswerFile:
    """The file of answers, locked so that only this process writes to it; `add` is safe for many threads.

    Raises `Stop` if the file can't be written, is not a plain file, or is locked by another run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread_lines = 0
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise Stop(f"{path} can't be written ({error.strerror}): name another file with --results.") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Stop(f"{path} is not a plain file: name another one with --results.")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Stop(f"{path} is in use by another run: wait for it, or name another file with --results.") from error
        self._known = {line.key: line for line in self._lines() if line.outcome == OK}
        self._end_half_line()

    def __enter__(self) -> "AnswerFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def find(self, key: Key) -> AnswerLine | None:
        return self._known.get(key)

    def mean_cost(self, model: str) -> float | None:
        """Return the mean cost of this model's answers so far, in USD; None without answers."""
        costs = [line.cost_usd for line in self._known.values() if line.model == model]
        return sum(costs) / len(costs) if costs else None

    def add(self, line: AnswerLine) -> None:
        """Append a call, and write it to disk before returning. Raises `Stop` if the file can't be written."""
        written = orjson.dumps(asdict(line), option=orjson.OPT_APPEND_NEWLINE)
        with self._lock:
            try:
                while written:
                    written = written[os.write(self._file, written) :]
                os.fsync(self._file)
            except OSError as error:
                raise Stop(
                    f"{self.path} can't be written ({error.strerror}), and an answer that is not kept would be "
                    "paid for again: make room, or name another file with --results."
                ) from error
            if line.outcome == OK:
                self._known[line.key] = line

    def _lines(self) -> Iterator[AnswerLine]:
        """Yield the readable lines; a broken line, such as a line that a killed run left unfinished, is skipped."""
        with self.path.open("rb") as file:
            for text in file:
                try:
                    yield AnswerLine(**orjson.loads(text))
                except (orjson.JSONDecodeError, TypeError):
                    self.unread_lines += 1

    def _end_half_line(self) -> None:
        size = os.fstat(self._file).st_size
        try:
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")
        except OSError as error:
            raise Stop(
                f"{self.path} can't be written ({error.strerror}): make room, or name another file with --results."
            ) from error


class Crew:
    """Threads that ask at most `size` questions at the same time.

    The threads are daemons: they end with the process, even in the middle of a call.
    """

    def __init__(self, caller: Caller, results: AnswerFile, size: int) -> None:
        self._caller, self._results, self._size = caller, results, size
        self._to_ask: queue.SimpleQueue[tuple[Key, Question]] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[Key, Call | Exception]] = queue.SimpleQueue()
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

    def take_ended(self, seconds: float) -> Iterator[tuple[Key, Call]]:
        """Yield the calls that have ended, waiting up to `seconds` for the first of them.

        If a call ended with an exception, raise it here, such as `Stop` if the answer can't be written to the file.
        """
        try:
            key, call = self._outcomes.get(timeout=seconds)
            while True:
                self.under_way -= 1
                if isinstance(call, Exception):
                    raise call
                yield key, call
                key, call = self._outcomes.get_nowait()
        except queue.Empty:
            return

    def _work(self) -> None:
        while True:
            key, question = self._to_ask.get()
            outcome: Call | Exception
            try:
                outcome = self._caller.call(question)
                self._results.add(AnswerLine.of(key, outcome))
            except Exception as error:  # noqa: BLE001 -- raised again in the thread that waits
                outcome = error
            self._outcomes.put((key, outcome))
