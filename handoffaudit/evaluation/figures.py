"""Figures over one file's items. Files are never pooled: their base rates differ."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.evaluation.items import Span
from handoffaudit.evaluation.judging import Judged


@dataclass(slots=True)
class Characters:
    """Counts over the characters of all labelled texts together (micro)."""

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
    """Counts as they grow, item by item."""

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
            self.codes.setdefault(code, Counter())[_said(label.faulty)] += 1

    def figures(self) -> dict[str, Any]:
        """Null where there is nothing to divide by.

        `same_way` counts the handoffs whose source had handed over to their target before in their trace, `same_data`
        those of them with the same data as one before; `codes` counts the items that each code was found in.
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


def _said(faulty: bool | None) -> str:  # noqa: FBT001  (a label, not a switch)
    return {True: "faulty", False: "sound", None: "unknown"}[faulty]
