"""Run with an LLM: the plan with its cost, and every answered item judged by the LLM and by the local layers."""

import hashlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import FrameType

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import (
    STANDARD_INPUT,
    Documents,
    describe_progress,
    labelled_lines,
    no_labelled_data,
    reader_beside,
)
from handoffaudit.cli.eval_answers import AnswerFile, AnswerLine, Crew
from handoffaudit.cli.terminal import ProgressLine
from handoffaudit.evaluation.items import Item, Kinds, UnreadableError
from handoffaudit.evaluation.judge import Judge, Judged, Key, LLMJudge
from handoffaudit.evaluation.stats import Measured
from handoffaudit.llm.calls import Breaker, Call, Caller, is_outage
from handoffaudit.validation.prompts.question import MalformedAnswer, Question, Role
from handoffaudit.validation.text import pluralize


@dataclass(frozen=True, slots=True)
class PlannedItem:
    """An item, its place in its file, and the question to the LLM; `question` is None if the LLM is not asked."""

    place: int
    kind: str
    item: Item
    question: Question | None


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that can't be used."""

    number: int
    error: UnreadableError


@dataclass(slots=True)
class Plan:
    """The plan of a run.

    `kinds` are the kinds of data that are read. `chosen` maps each file to the places of its measured items. `to_ask`
    maps each unanswered question to its highest cost in USD. `known` counts the items that have an answer already.
    """

    kinds: Kinds
    chosen: dict[str, frozenset[int]] = field(default_factory=dict)
    to_ask: dict[Key, float] = field(default_factory=dict)
    known: int = 0

    @property
    def items(self) -> int:
        return sum(len(chosen) for chosen in self.chosen.values())

    @property
    def most_usd(self) -> float:
        return sum(self.to_ask.values())


@dataclass(frozen=True, slots=True)
class _PlannedQuestion:
    spread: str
    place: int
    key: Key
    usd: float


def planned_items(
    path: str, kinds: Kinds, judge: LLMJudge, progress: ProgressLine | None = None
) -> Iterator[PlannedItem | SkippedLine]:
    """Yield the items and the unusable lines of a file; each call starts at the beginning of the file."""
    source, read_beside, place = Documents(path), reader_beside(path), 0
    for number, text in labelled_lines(source):
        try:
            kind, items = kinds.read(text, read_beside)
            questions = [judge.question(item) for item in items]
        except UnreadableError as error:
            yield SkippedLine(number, error)
            continue
        for item, question in zip(items, questions, strict=True):
            yield PlannedItem(place, kind, item, question)
            place += 1
        if progress:
            progress.update(lambda: describe_progress(source, place))  # noqa: B023 -- called immediately


def make_plan(
    paths: Sequence[str], kinds: Kinds, judge: LLMJudge, caller: Caller, results: AnswerFile, limit: int | None
) -> Plan:
    """Plan the questions about `limit` items of each file, or about all items if `limit` is None.

    The items are chosen by the hash of the question. The choice is therefore spread over the file, and is the same in
    every run and for every model. A larger limit only adds items to the choice. Raises `Stop` for standard input, and
    for a file without usable data.
    """
    if STANDARD_INPUT in paths:
        raise Stop("--with-model reads a file twice, to tell the cost before it asks: give a file and not -.")
    planned = Plan(kinds)
    for path in paths:
        sampled = sorted(_list_questions(path, kinds, judge, caller), key=lambda one: (one.spread, one.place))[:limit]
        planned.chosen[path] = frozenset(one.place for one in sampled)
        for one in sampled:
            if results.find(one.key):
                planned.known += 1
            else:
                planned.to_ask[one.key] = one.usd
    return planned


def key_of(caller: Caller, question: Question) -> Key:
    return Key.of(caller.model_of(Role(question.role)), question)


def _list_questions(path: str, kinds: Kinds, judge: LLMJudge, caller: Caller) -> Iterator[_PlannedQuestion]:
    """Yield the questions about a file. Raises `Stop` if nothing in the file can be used.

    All files are planned before the first question is asked, so an unusable file costs no money.
    """
    kind, skip_line = "", ""
    progress = ProgressLine()
    for found in planned_items(path, kinds, judge, progress):
        if isinstance(found, SkippedLine):
            skip_line = skip_line or f"line {found.number} {found.error}"
            continue
        kind = found.kind
        if found.question is not None:
            question = found.question
            spread = hashlib.sha256(question.content.encode("utf-8", "replace")).hexdigest()
            yield _PlannedQuestion(spread, found.place, key_of(caller, question), _highest_cost(caller, question))
    progress.finish()
    if not kind:
        raise no_labelled_data(path, skip_line, kinds.hint)


WAIT_SECONDS = 0.2

# A question whose answer can't be read is asked once more, and both answers are paid.
ANSWERS_PAID = 2


def _highest_cost(caller: Caller, question: Question) -> float:
    """Return the highest cost of a question in USD."""
    return ANSWERS_PAID * caller.estimate(question)


# Failures of every kind count: an account without credit refuses each question as if the question were wrong.
MOST_FAILURES_IN_A_ROW = 20

# These statuses mean a failure that no other question can avoid: the key, the account or the address is wrong.
_AT_ONCE = frozenset({401, 402, 403, 404})


@dataclass(slots=True)
class FileRun:
    """The results of a file.

    `local` and `by_model` cover the same items, which are the items that the LLM answered. `known` counts the items
    that were answered before the run, and `unanswered` the chosen items without an answer. Costs and latencies include
    earlier answers.
    """

    path: str
    local: Measured = field(default_factory=Measured)
    by_model: Measured = field(default_factory=Measured)
    known: int = 0
    unanswered: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    answers_usd: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Waiting:
    """An item that waits for the answer to its question."""

    file: FileRun
    item: Item
    local: Judged


@dataclass(slots=True)
class Run:
    """A run over all files.

    `stopped` is the reason to ask no more questions, empty if all questions were asked. `spent_usd`, `calls` and
    `tries` count only this run.
    """

    caller: Caller
    crew: Crew
    results: AnswerFile
    judge_of_file: Callable[[], Judge]
    model_judge: LLMJudge
    plan: Plan
    max_usd: float | None = None
    show: int = 0
    files: list[FileRun] = field(default_factory=list)
    stopped: str = ""
    abandoned: bool = False
    spent_usd: float = 0.0
    calls: int = 0
    tries: int = 0
    _reserved: dict[Key, float] = field(default_factory=dict)
    _waiting: dict[Key, list[_Waiting]] = field(default_factory=dict)
    _failures_in_a_row: int = 0
    _began: float = field(default_factory=time.monotonic)
    _breaker: Breaker = field(default_factory=Breaker)
    _progress: ProgressLine = field(default_factory=ProgressLine)

    def measure(self) -> None:
        """Measure all files. Once `stopped` is set, ask no more questions; stored answers and calls under way count."""
        with self._stop_on_interrupt():
            for path, chosen in self.plan.chosen.items():
                self._measure_file(FileRun(path), chosen)
            while self.crew.under_way and not self.abandoned:
                self._receive_calls()
        if self.crew.under_way:
            left = pluralize(self.crew.under_way, "call")
            self.stopped += f"; {left} under way, which may cost something, had no answer yet"
        for file in self.files:
            file.unanswered += sum(one.file is file for waiting in self._waiting.values() for one in waiting)
        self._progress.finish()

    def _measure_file(self, file: FileRun, chosen: frozenset[int]) -> None:
        self.files.append(file)
        judge = self.judge_of_file()
        for found in planned_items(file.path, self.plan.kinds, self.model_judge):
            if isinstance(found, SkippedLine):
                file.local.skip_line(found.number, found.error)
                continue
            file.local.kind = file.by_model.kind = file.local.kind or found.kind
            # The local layers must see the items in the order of the file, because earlier handoffs count.
            local = judge.judge(found.item)
            if found.place in chosen and found.question is not None:
                self._take(file, found, found.question, local)

    def _take(self, file: FileRun, found: PlannedItem, question: Question, local: Judged) -> None:
        key = key_of(self.caller, question)
        waiting = _Waiting(file, found.item, local)
        line = self.results.find(key)
        if line and self._score(waiting, line):
            file.known += key not in self._reserved
        elif key in self._waiting:
            self._waiting[key].append(waiting)
        elif self._may_ask(key, question):
            self._waiting[key] = [waiting]
            self.crew.ask(key, question)
        else:
            file.unanswered += 1

    def _may_ask(self, key: Key, question: Question) -> bool:
        while self.crew.is_full and not self.stopped:
            self._receive_calls()
        usd = _highest_cost(self.caller, question)
        under_way = sum(self._reserved[one] for one in self._waiting)
        if not self.stopped and self.max_usd is not None and self.spent_usd + under_way + usd > self.max_usd:
            self.stopped = f"the next question may raise the cost above --max-usd {self.max_usd:g}"
        self._reserved[key] = usd
        return not self.stopped

    def _receive_calls(self) -> None:
        for key, call in self.crew.take_ended(WAIT_SECONDS):
            self.calls += 1
            self.tries += call.tries
            self.spent_usd += call.cost_usd
            waiting = self._waiting.pop(key)
            self._check_outage(call)
            for one in waiting:
                if call.answer is None or not self._score(one, AnswerLine.of(key, call)):
                    one.file.unanswered += 1
            if call.error:
                waiting[0].file.failures[call.error.reason.value] += 1
        self._progress.update(self._describe_progress)

    def _check_outage(self, call: Call) -> None:
        """Stop asking if this call shows that further calls would fail. Each of these calls would take several tries.

        The run stops if the breaker opens, after `MOST_FAILURES_IN_A_ROW` failures of any kind in a row, or after a
        single failure with a status in `_AT_ONCE`.
        """
        error = call.error
        self._failures_in_a_row = self._failures_in_a_row + 1 if error else 0
        if error is None or not is_outage(error):
            self._breaker = self._breaker.record_success()
        else:
            self._breaker = self._breaker.record_failure(datetime.now(UTC), error.reason.value)
        is_down = self._breaker.open_until or self._failures_in_a_row >= MOST_FAILURES_IN_A_ROW
        if error and not self.stopped and (is_down or error.status in _AT_ONCE):
            self.stopped = f"the LLM can't be asked: {error.detail.rstrip('.')}"

    def _score(self, waiting: _Waiting, line: AnswerLine) -> bool:
        """Score an item; return False if the answer can't be read, for example an answer of another version."""
        try:
            judged = self.model_judge.judge(waiting.item, line.answer)
        except MalformedAnswer:
            return False
        file = waiting.file
        file.by_model.add(judged, self.show)
        file.local.add(waiting.local)
        file.answers_usd += line.cost_usd
        file.latencies_ms.append(line.latency_ms)
        return True

    def _describe_progress(self) -> str:
        failed = sum(sum(file.failures.values()) for file in self.files)
        # If a stored answer can't be read, its question is asked again. The plan does not count these questions.
        to_ask = max(len(self.plan.to_ask), self.calls + self.crew.under_way)
        text = f"asked {self.calls:,} of {to_ask:,} · {self.spent_usd:.4f} USD"
        if failed:
            text += f" · {failed:,} failed"
        if self.calls and not self.stopped:
            seconds = (time.monotonic() - self._began) / self.calls * (to_ask - self.calls)
            text += f" · about {seconds / 60:.1f} min left"
        return text

    @contextmanager
    def _stop_on_interrupt(self) -> Iterator[None]:
        """Stop asking on Ctrl-C, but wait for the calls under way, which are paid.

        Ctrl-C ends the wait if the run has stopped asking already, such as after an earlier Ctrl-C.
        """

        def stop(_: int, __: FrameType | None) -> None:
            self.abandoned = bool(self.stopped)
            self.stopped = self.stopped or "interrupted"

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
