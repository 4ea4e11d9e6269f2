"""What a run would ask, before anything is asked: how many questions, and what they cost at most."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from handoffaudit.cli.evaluating.files import beside, lines, nothing_known, share_of
from handoffaudit.cli.evaluating.results import Results
from handoffaudit.cli.importing.files import STANDARD_INPUT
from handoffaudit.cli.local.documents import Documents
from handoffaudit.cli.progress import Progress
from handoffaudit.cli.stop import Stop
from handoffaudit.evaluation.asking import Key, LLMJudge
from handoffaudit.evaluation.items import Item, UnreadableError
from handoffaudit.evaluation.measuring import read_line
from handoffaudit.llm.calls import Caller
from handoffaudit.validation.prompts.question import Question, Role


@dataclass(frozen=True, slots=True)
class Found:
    """An item, which one of its file it is, and what the model is asked about it: None where it is not."""

    place: int
    kind: str
    item: Item
    question: Question | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that can't be used."""

    number: int
    error: UnreadableError


@dataclass(slots=True)
class Plan:
    """`chosen` by file: the places of the items that are measured. `to_ask`: what each question that has no answer yet
    costs at most. `known`: how many items have their answer."""

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
class _Asked:
    spread: str
    place: int
    key: Key
    usd: float


def found_in(path: str, judge: LLMJudge, progress: Progress | None = None) -> Iterator[Found | LeftOut]:
    """The items of a file from its beginning, each time it is called."""
    source, read_beside, place = Documents(path), beside(path), 0
    for number, text in lines(source):
        try:
            kind, items = read_line(text, read_beside)
            questions = [judge.question(item) for item in items]
        except UnreadableError as error:
            yield LeftOut(number, error)
            continue
        for item, question in zip(items, questions, strict=True):
            yield Found(place, kind, item, question)
            place += 1
        if progress:
            progress.tell(lambda: share_of(source, place))  # noqa: B023 -- told at once


def plan(paths: Sequence[str], judge: LLMJudge, caller: Caller, results: Results, limit: int | None) -> Plan:
    """`limit` items of each file, None for all: spread over the file by the hash of what is asked, so that they are the
    same in every run and for every model, and all among those of a larger limit."""
    if STANDARD_INPUT in paths:
        raise Stop("--with-model reads a file twice, to tell the cost before it asks: give a file and not -.")
    planned = Plan()
    for path in paths:
        asked = sorted(_asked(path, judge, caller), key=lambda one: (one.spread, one.place))[:limit]
        planned.chosen[path] = frozenset(one.place for one in asked)
        for one in asked:
            if results.known(one.key):
                planned.known += 1
            else:
                planned.to_ask[one.key] = one.usd
    return planned


def key_of(caller: Caller, question: Question) -> Key:
    return Key.of(caller.model_of(Role(question.role)), question)


def _asked(path: str, judge: LLMJudge, caller: Caller) -> Iterator[_Asked]:
    """Raises `Stop` where nothing in the file can be used, so that no other file costs something before that is
    told."""
    kind, left_out = "", ""
    progress = Progress()
    for found in found_in(path, judge, progress):
        if isinstance(found, LeftOut):
            left_out = left_out or f"line {found.number} {found.error}"
            continue
        kind = found.kind
        if found.question is not None:
            question = found.question
            spread = hashlib.sha256(question.content.encode("utf-8", "replace")).hexdigest()
            yield _Asked(spread, found.place, key_of(caller, question), caller.estimate(question))
    progress.finish()
    if not kind:
        raise nothing_known(path, left_out)
