"""Statistics of a file of labelled data. Files are never pooled, because their base rates differ."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Any, Final, Protocol

from handoffaudit.evaluation.items import KINDS, Beside, Kinds, Span, UnreadableError
from handoffaudit.evaluation.judge import Judge, Judged

# Two-sided 95 % intervals.
_Z: Final = NormalDist().inv_cdf(0.975)


@dataclass(slots=True)
class Characters:
    """Counts of characters, summed over all labelled texts (micro average)."""

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
class Cluster:
    """Counts of the items of one trace, or of one item without a trace."""

    faulty: int = 0
    flagged_faulty: int = 0
    sound: int = 0
    flagged_sound: int = 0


@dataclass(slots=True)
class FlaggedShares:
    """The flagged shares of faulty and of sound items.

    Items of one trace are alike, so the interval of the ratio counts them as one cluster.
    """

    clusters: dict[object, Cluster] = field(default_factory=dict)

    def add(self, judged: Judged) -> None:
        label = judged.item.label
        if label.faulty is None:
            return
        # The key of an item without a trace is a number, because texts are names of traces.
        cluster = self.clusters.setdefault(judged.item.envelope.trace_id or len(self.clusters), Cluster())
        if label.faulty:
            cluster.faulty += 1
            cluster.flagged_faulty += judged.flagged
        else:
            cluster.sound += 1
            cluster.flagged_sound += judged.flagged

    def figures(self) -> dict[str, Any]:
        """Return both shares with Wilson intervals, and the ratio of the faulty share to the sound share."""
        every = list(self.clusters.values())
        faulty, flagged_faulty = sum(one.faulty for one in every), sum(one.flagged_faulty for one in every)
        sound, flagged_sound = sum(one.sound for one in every), sum(one.flagged_sound for one in every)
        return {
            "faulty": _share_figures(flagged_faulty, faulty),
            "sound": _share_figures(flagged_sound, sound),
            "ratio": _share(flagged_faulty * sound, flagged_sound * faulty),
            "ratio_interval": ratio_interval(every),
        }


def _share_figures(part: int, whole: int) -> dict[str, Any]:
    return {"items": whole, "flagged": part, "share": _share(part, whole), "interval": wilson_interval(part, whole)}


def wilson_interval(part: int, whole: int) -> tuple[float, float] | None:
    """Return the Wilson score interval (95 %) of a share, or None without items."""
    if not whole:
        return None
    share, weight = part / whole, _Z * _Z / whole
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * sqrt(share * (1 - share) / whole + weight / (4 * whole)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def ratio_interval(clusters: Iterable[Cluster]) -> tuple[float, float] | None:
    """Return the interval (95 %) of the ratio of the faulty share to the sound share.

    Log method: the logarithm of the ratio is treated as normal, and its variance is the linearised variance between
    clusters. With one item per cluster, this is the usual log method for two independent shares. Returns None if one
    of the shares is 0 or all items are in one cluster.
    """
    every = list(clusters)
    flagged_faulty, flagged_sound = sum(one.flagged_faulty for one in every), sum(one.flagged_sound for one in every)
    if len(every) < 2 or not flagged_faulty or not flagged_sound:
        return None
    faulty = flagged_faulty / sum(one.faulty for one in every)
    sound = flagged_sound / sum(one.sound for one in every)
    squares = sum(
        (
            (one.flagged_faulty - faulty * one.faulty) / flagged_faulty
            - (one.flagged_sound - sound * one.sound) / flagged_sound
        )
        ** 2
        for one in every
    )
    middle, half = log(faulty / sound), _Z * sqrt(squares * len(every) / (len(every) - 1))
    return exp(middle - half), exp(middle + half)


@dataclass(slots=True)
class Tally:
    """Counts of the items of a file.

    `shares` counts all items with a label, and `judged_shares` those of them that at least one layer did not skip.
    """

    items: int = 0
    flagged: int = 0
    faulty: int = 0
    sound: int = 0
    flagged_faulty: int = 0
    flagged_sound: int = 0
    judged: int = 0
    findings_sound: int = 0
    same_way: int = 0
    same_data: int = 0
    ms: float = 0.0
    characters: Characters = field(default_factory=Characters)
    codes: dict[str, Counter[str]] = field(default_factory=dict)
    shares: FlaggedShares = field(default_factory=FlaggedShares)
    judged_shares: FlaggedShares = field(default_factory=FlaggedShares)

    def add(self, judged: Judged) -> None:
        label = judged.item.label
        self.items += 1
        self.flagged += judged.flagged
        self.shares.add(judged)
        if judged.judged:
            self.judged += 1
            self.judged_shares.add(judged)
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
        """Return the statistics. A rate without items is None.

        `flagged_shares` holds the flagged shares of all items and of the judged items, with intervals of 95 %.
        `same_way` counts the handoffs on a route that their trace used before. `same_data` counts those with the same
        data as an earlier handoff on the route. `codes` counts the items with each rule code.
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
            "judged": self.judged,
            "flagged_shares": {"all": self.shares.figures(), "judged": self.judged_shares.figures()},
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


class FurtherTally(Protocol):
    """An additional tally, for example of whole traces, beside the tally of single handoffs."""

    def add(self, judged: Judged) -> None: ...

    def figures(self) -> Mapping[str, Any]: ...

    def lines(self, path: str) -> Iterator[str]:
        """Yield the figures of the file at `path` as text."""
        ...


FIRST = 5


@dataclass(slots=True)
class Measured:
    """The result for one file of labelled data.

    `unread_lines` counts the unusable lines, and `unread` holds the errors of the first few. `wrong` holds the first
    wrongly judged items: faulty items without a finding, and sound items with a finding. `further` holds additional
    tallies by name.
    """

    kind: str = ""
    tally: Tally = field(default_factory=Tally)
    unread: list[str] = field(default_factory=list)
    unread_lines: int = 0
    wrong: list[Judged] = field(default_factory=list)
    further: Mapping[str, FurtherTally] = field(default_factory=dict)

    def add(self, judged: Judged, show: int = 0) -> None:
        """Count an item. Add the item to `wrong` if it is one of the first `show` wrongly judged items."""
        self.tally.add(judged)
        for tally in self.further.values():
            tally.add(judged)
        if judged.item.label.faulty not in (None, judged.flagged) and len(self.wrong) < show:
            self.wrong.append(judged)

    def skip_line(self, number: int, error: UnreadableError) -> None:
        self.unread_lines += 1
        if len(self.unread) < FIRST:
            self.unread.append(f"line {number} {error}")

    def figures(self) -> dict[str, Any]:
        further = {name: tally.figures() for name, tally in self.further.items()}
        return {"kind": self.kind, "unread_lines": self.unread_lines, **self.tally.figures(), **further}


def measure(
    lines: Iterable[tuple[int, bytes]],
    judge: Judge,
    kinds: Kinds = KINDS,
    *,
    beside: Beside,
    show: int = 0,
    each: Callable[[int], None] = lambda _: None,
    further: Mapping[str, FurtherTally] | None = None,
) -> Measured:
    """Judge numbered lines and return the result.

    `each` is called after each line with the number of items so far. The tallies in `further` count the items, too.
    """
    measured = Measured(further=further or {})
    for number, text in lines:
        try:
            kind, items = kinds.read(text, beside)
            for item in items:
                measured.add(judge.judge(item), show)
        except UnreadableError as error:
            measured.skip_line(number, error)
        else:
            measured.kind = measured.kind or kind
        each(measured.tally.items)
    return measured
