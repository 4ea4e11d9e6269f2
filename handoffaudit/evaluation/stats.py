"""Statistics of a file of labelled data. Files are never pooled: their base rates differ."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from statistics import mean
from typing import Any, Final

import orjson

from handoffaudit.evaluation.items import Beside, Item, Mistake, Span, UnreadableError
from handoffaudit.evaluation.judge import Judge, Judged, record_of
from handoffaudit.evaluation.kinds import recognise
from handoffaudit.validation.provenance import Attributed, Flaw, Sign, Step, attribute, flaws_of, step_of, suspects

NEAR: Final = 3

FIRST_FEW: Final = (1, 2, 3)

FOLDS: Final = 5

LOOP: Final = "chain.circular"

_SETS_OF_SIGNS: Final = tuple(
    signs for number in range(1, len(Sign) + 1) for signs in combinations(tuple(Sign), number)
)


@dataclass(slots=True)
class Chat:
    """One trace: its handoffs as steps with findings, and separately the distance of each from the mistake."""

    steps: list[Step] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    attributed: list[Attributed] = field(default_factory=list)

    def ranked(self, signs: Iterable[Sign] = tuple(Sign)) -> list[int]:
        return [one.step for one in suspects(self.steps, self.attributed, signs)]

    def flagged(self, wanted: Callable[[Flaw], bool]) -> list[int]:
        """Return the positions of the handoffs with a wanted finding, in order."""
        return [at for at, step in enumerate(self.steps) if any(wanted(flaw) for flaw in step.flaws)]


class OriginTally:
    """A tally of the judged handoffs of traces, added in their order."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}

    def add(self, judged: Judged) -> None:
        """Add a judged handoff.

        Only the document and its findings determine the ranking. The label only measures the ranking.
        """
        mistake, trace_id = judged.item.label.mistake, judged.item.envelope.trace_id
        if mistake is None or not trace_id:
            return
        chat = self._chats.setdefault(trace_id, Chat())
        flaws = flaws_of(issue.to_dict() for issue in judged.found)
        chat.steps.append(step_of(judged.item.name, record_of(judged.item), flaws))
        chat.mistakes.append(mistake)

    def figures(self) -> dict[str, Any]:
        """Return the statistics of all traces, and of each group where there are several."""
        chats = list(self._chats.values())
        for chat in chats:
            chat.attributed = attribute(chat.steps)
        groups: dict[str, list[Chat]] = {}
        for chat in chats:
            groups.setdefault(chat.mistakes[0].group, []).append(chat)
        found = {"all": _figures(chats)} if chats else {}
        return found | ({name: _figures(some) for name, some in groups.items()} if len(groups) > 1 else {})


def _figures(chats: Sequence[Chat]) -> dict[str, Any]:
    return {
        "chats": len(chats),
        "handoffs": sum(len(chat.steps) for chat in chats),
        "mistake_in_a_handoff": sum(any(one.distance == 0 for one in chat.mistakes) for chat in chats),
        "methods": {
            "suspects, ranked": _method_figures(chats, [chat.ranked() for chat in chats]),
            "suspects, signs chosen in 5 folds": _method_figures(chats, _cross_validated(chats)),
            "grounding, first": _method_figures(chats, [chat.flagged(_is_grounding) for chat in chats]),
            "any finding, first": _method_figures(chats, [chat.flagged(lambda _: True) for chat in chats]),
            f"any finding but {LOOP}, first": _method_figures(chats, [chat.flagged(_is_no_loop) for chat in chats]),
            "first handoff": _method_figures(chats, [[0] for _ in chats]),
            "median handoff": _method_figures(chats, [[(len(chat.steps) - 1) // 2] for chat in chats]),
            "last handoff": _method_figures(chats, [[len(chat.steps) - 1] for chat in chats]),
            "random handoff, expected": _expected(chats),
        },
    }


def _is_grounding(flaw: Flaw) -> bool:
    return flaw.code.startswith("grounding.")


def _is_no_loop(flaw: Flaw) -> bool:
    return flaw.code != LOOP


def _method_figures(chats: Sequence[Chat], flags: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return shares of all chats, including chats without any flag."""
    pairs = list(zip(chats, flags, strict=True))
    tops = [chat.mistakes[some[0]] if some else None for chat, some in pairs]
    return {
        "flagged_chats": sum(top is not None for top in tops),
        "flags_per_chat": mean(len(some) for some in flags),
        "near": mean(top is not None and top.distance <= NEAR for top in tops),
        "exact": mean(top is not None and top.distance == 0 for top in tops),
        "agent": mean(top is not None and top.by_culprit for top in tops),
        "exact_within": {
            number: mean(any(chat.mistakes[at].distance == 0 for at in some[:number]) for chat, some in pairs)
            for number in FIRST_FEW
        },
        "near_within": {
            number: mean(any(chat.mistakes[at].distance <= NEAR for at in some[:number]) for chat, some in pairs)
            for number in FIRST_FEW
        },
    }


def _expected(chats: Sequence[Chat]) -> dict[str, Any]:
    """Return the exact expected shares for a person who reads random handoffs without repetition."""

    def share(is_right: Callable[[Mistake], bool], number: int = 1) -> float:
        return mean(_chance(len(chat.mistakes), sum(map(is_right, chat.mistakes)), number) for chat in chats)

    def is_near(one: Mistake) -> bool:
        return one.distance <= NEAR

    def is_exact(one: Mistake) -> bool:
        return one.distance == 0

    return {
        "flagged_chats": len(chats),
        "flags_per_chat": 1,
        "near": share(is_near),
        "exact": share(is_exact),
        "agent": share(lambda one: one.by_culprit),
        "exact_within": {number: share(is_exact, number) for number in FIRST_FEW},
        "near_within": {number: share(is_near, number) for number in FIRST_FEW},
    }


def _chance(size: int, right: int, number: int) -> float:
    """Return the chance that `number` draws of `size` without replacement include at least one of the `right`."""
    number = min(number, size)
    return 1 - comb(size - right, number) / comb(size, number)


def _cross_validated(chats: Sequence[Chat]) -> list[list[int]]:
    """Return the ranking of each chat by the signs that do best on the chats of the other folds.

    The worth of signs is the sum of exact and near hits. Of equal sets of signs, the smaller set counts.
    """
    ranked = {signs: [chat.ranked(signs) for chat in chats] for signs in _SETS_OF_SIGNS}
    worth = {
        signs: [_worth(chat, some) for chat, some in zip(chats, rows, strict=True)] for signs, rows in ranked.items()
    }
    flags: list[list[int]] = []
    for at in range(len(chats)):
        others = [other for other in range(len(chats)) if other % FOLDS != at % FOLDS]
        best = max(_SETS_OF_SIGNS, key=lambda signs: sum(worth[signs][other] for other in others))
        flags.append(ranked[best][at])
    return flags


def _worth(chat: Chat, flags: Sequence[int]) -> int:
    if not flags:
        return 0
    distance = chat.mistakes[flags[0]].distance
    return (distance <= NEAR) + (distance == 0)


@dataclass(slots=True)
class Characters:
    """Counts over the characters of all labelled texts together (micro average)."""

    texts: int = 0
    both: int = 0
    marked: int = 0
    labelled: int = 0

    def add(self, marked: Iterable[Span], labelled: Iterable[Span]) -> None:
        ours, theirs = _places(marked), _places(labelled)
        self.texts += 1
        self.both += len(ours & theirs)
        self.marked += len(ours)
        self.labelled += len(theirs)


@dataclass(slots=True)
class Tally:
    """Counts that grow item by item."""

    items: int = 0
    flagged: int = 0
    faulty: int = 0
    sound: int = 0
    flagged_faulty: int = 0
    flagged_sound: int = 0
    findings_sound: int = 0
    same_way: int = 0
    same_data: int = 0
    ms: float = 0.0
    characters: Characters = field(default_factory=Characters)
    codes: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, judged: Judged) -> None:
        label = judged.item.label
        self.items += 1
        self.flagged += judged.flagged
        self.same_way += judged.before.same_way > 0
        self.same_data += judged.before.same_data > 0
        self.ms += judged.ms
        if label.faulty is True:
            self.faulty += 1
            self.flagged_faulty += judged.flagged
        elif label.faulty is False:
            self.sound += 1
            self.flagged_sound += judged.flagged
            self.findings_sound += len(judged.found)
        if label.spans is not None:
            self.characters.add(judged.spans, label.spans)
        for code in {issue.code for issue in judged.found}:
            self.codes.setdefault(code, Counter())[_label_name(label.faulty)] += 1

    def figures(self) -> dict[str, Any]:
        """Return the statistics, with None where there is nothing to divide by.

        `same_way` counts the handoffs on a route that their trace used before, and `same_data` those of them with the
        same data as an earlier one. `codes` counts the items with each rule code.
        """
        recall = _share(self.flagged_faulty, self.faulty)
        passed = _share(self.sound - self.flagged_sound, self.sound)
        return {
            "items": self.items,
            "faulty": self.faulty,
            "sound": self.sound,
            "flagged": self.flagged,
            "flagged_faulty": self.flagged_faulty,
            "flagged_sound": self.flagged_sound,
            "same_way": self.same_way,
            "same_data": self.same_data,
            "precision": _share(self.flagged_faulty, self.flagged_faulty + self.flagged_sound),
            "recall": recall,
            "balanced_accuracy": None if recall is None or passed is None else (recall + passed) / 2,
            **self._span_figures(),
            "findings_per_100_sound": _share(100 * self.findings_sound, self.sound),
            "ms_per_item": _share(self.ms, self.items),
            "codes": {code: dict(self.codes[code]) for code in sorted(self.codes)},
        }

    def _span_figures(self) -> dict[str, float | None]:
        counted = self.characters
        return {
            "span_precision": _share(counted.both, counted.marked),
            "span_recall": _share(counted.both, counted.labelled),
            "span_f1": _share(2 * counted.both, counted.marked + counted.labelled),
        }


def _places(spans: Iterable[Span]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _label_name(faulty: bool | None) -> str:  # noqa: FBT001  (a label, not a switch)
    return {True: "faulty", False: "sound", None: "unknown"}[faulty]


FIRST = 5

_BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(slots=True)
class Measured:
    """The result for one file of labelled data.

    `unread` says why the first few of `unread_lines` lines could not be used. `wrong` holds the first faulty items
    without a finding and sound items with one. `locating` is the optional tally of the origin of mistakes in whole
    traces.
    """

    kind: str = ""
    tally: Tally = field(default_factory=Tally)
    unread: list[str] = field(default_factory=list)
    unread_lines: int = 0
    wrong: list[Judged] = field(default_factory=list)
    locating: OriginTally | None = None

    def add(self, judged: Judged, show: int = 0) -> None:
        """Count an item, and keep it where it is one of the first `show` wrongly judged items."""
        self.tally.add(judged)
        if self.locating:
            self.locating.add(judged)
        if judged.item.label.faulty not in (None, judged.flagged) and len(self.wrong) < show:
            self.wrong.append(judged)

    def left_out(self, number: int, error: UnreadableError) -> None:
        self.unread_lines += 1
        if len(self.unread) < FIRST:
            self.unread.append(f"line {number} {error}")

    def figures(self) -> dict[str, Any]:
        found = {"kind": self.kind, "unread_lines": self.unread_lines, **self.tally.figures()}
        return found | {"origin": self.locating.figures()} if self.locating else found


def measure(
    lines: Iterable[tuple[int, bytes]],
    judge: Judge,
    *,
    beside: Beside,
    show: int = 0,
    each: Callable[[int], None] = lambda _: None,
    origin: bool = False,
) -> Measured:
    """Judge numbered lines and return the result.

    `each` is called with the number of items so far. `origin` measures the origin of mistakes in whole traces as well.
    """
    measured = Measured(locating=OriginTally() if origin else None)
    for number, text in lines:
        try:
            kind, items = read_line(text, beside)
            for item in items:
                measured.add(judge.judge(item), show)
        except UnreadableError as error:
            measured.left_out(number, error)
        else:
            measured.kind = measured.kind or kind
        each(measured.tally.items)
    return measured


def read_line(text: bytes, beside: Beside) -> tuple[str, list[Item]]:
    """Return the kind of a line and its items, all of them or none. Raises `UnreadableError`."""
    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON: {error.msg}") from error
    kind = recognise(line) if isinstance(line, dict) else None
    if kind is None:
        raise UnreadableError("is no labelled data that is known here")
    try:
        return kind.name, list(kind.items(line, beside))
    except _BROKEN as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UnreadableError(f"can't be used: {why}") from error
