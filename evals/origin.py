"""Measurement of the distance from the suspected handoffs of failed traces to the decisive mistake."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from pathlib import Path
from statistics import mean
from typing import Any, Final

from evals.kinds import TraceLabel
from handoffaudit.evaluation.judge import Judged, record_of
from handoffaudit.evaluation.stats import wilson_interval
from handoffaudit.validation.origins import Sign, notes_values, suspects
from handoffaudit.validation.provenance import Attributed, Flaw, Step, attribute, flaws_of, step_of
from handoffaudit.validation.text import pluralize

NEAR: Final = 3

FIRST_FEW: Final = (1, 2, 3)

FOLDS: Final = 5

LOOP: Final = "chain.circular"

_SETS_OF_SIGNS: Final = tuple(
    signs for number in range(1, len(Sign) + 1) for signs in combinations(tuple(Sign), number)
)


@dataclass(slots=True)
class Chat:
    """One trace: its handoffs as steps with findings, and their labels with the distance from the mistake."""

    steps: list[Step] = field(default_factory=list)
    labels: list[TraceLabel] = field(default_factory=list)
    attributed: list[Attributed] = field(default_factory=list)

    def rank_suspects(self, signs: Iterable[Sign] = tuple(Sign)) -> list[int]:
        return [one.step for one in suspects(self.steps, self.attributed, signs)]

    def find_flagged(self, wanted: Callable[[Flaw], bool]) -> list[int]:
        """Return the positions of the handoffs with a wanted finding, in order."""
        return [at for at, step in enumerate(self.steps) if any(wanted(flaw) for flaw in step.flaws)]


class OriginTally:
    """A tally of the judged handoffs of traces. Handoffs must be added in their order."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}

    def add(self, judged: Judged) -> None:
        """Add a judged handoff.

        The ranking depends only on the document and its findings. The label only measures the ranking.
        """
        label, trace_id = judged.item.label, judged.item.envelope.trace_id
        if not isinstance(label, TraceLabel) or not trace_id:
            return
        chat = self._chats.setdefault(trace_id, Chat())
        flaws = flaws_of(issue.to_dict() for issue in judged.found)
        is_noted = notes_values(issue.to_dict() for issue in judged.noted)
        chat.steps.append(step_of(judged.item.name, record_of(judged.item), flaws, is_noted=is_noted))
        chat.labels.append(label)

    def figures(self) -> dict[str, Any]:
        """Return the statistics of all traces, and of each group if there are several groups."""
        chats = list(self._chats.values())
        for chat in chats:
            chat.attributed = attribute(chat.steps)
        groups: dict[str, list[Chat]] = {}
        for chat in chats:
            groups.setdefault(chat.labels[0].group, []).append(chat)
        found = {"all": _figures(chats)} if chats else {}
        return found | ({name: _figures(some) for name, some in groups.items()} if len(groups) > 1 else {})

    def lines(self, path: str) -> Iterator[str]:
        """Yield a table for each group of traces. Each row is a method to locate mistakes; the last four guess."""
        groups = self.figures()
        if not groups:
            yield f"\n{Path(path).name}: contains no traces with a known mistake"
        for name, group in groups.items():
            group_name = "" if name == "all" else f", {name}"
            yield (
                f"\n{Path(path).name}{group_name}: {pluralize(group['chats'], 'failed trace')}, "
                f"{pluralize(group['handoffs'], 'handoff')}; "
                f"{group['mistake_in_a_handoff']:,} with the mistake in a handoff"
            )
            first = max(map(len, group["methods"]))
            headings = (*_COLUMNS, "flags", "near either", "exact either")
            yield "  ".join([f"  {'the first flag is':<{first}}", *headings])
            for method, one in group["methods"].items():
                padded = [f"{cell:>{len(heading)}}" for cell, heading in zip(_cells(one), headings, strict=True)]
                yield "  ".join([f"  {method:<{first}}", *padded])


_COLUMNS: Final = ("near", "exact", "agent", "exact in 2", "exact in 3", "near in 2")


def _cells(one: dict[str, Any]) -> list[str]:
    shares = [one["near"], one["exact"], one["agent"], one["exact_within"][2], one["exact_within"][3]]
    interval = one.get("exact_either_interval")
    between = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
    return [
        *(f"{share:.3f}" for share in [*shares, one["near_within"][2]]),
        f"{one['flags_per_chat']:.1f}",
        f"{one['near_either']:.3f}",
        f"{one['exact_either']:.3f}{between}",
    ]


def _figures(chats: Sequence[Chat]) -> dict[str, Any]:
    return {
        "chats": len(chats),
        "handoffs": sum(len(chat.steps) for chat in chats),
        "mistake_in_a_handoff": sum(any(one.distance == 0 for one in chat.labels) for chat in chats),
        "mistake_of_either_in_a_handoff": sum(any(one.either_distance == 0 for one in chat.labels) for chat in chats),
        "methods": {
            "suspects, ranked": _method_figures(chats, [chat.rank_suspects() for chat in chats]),
            "suspects, signs chosen in 5 folds": _method_figures(chats, _cross_validate(chats)),
            "grounding, first": _method_figures(chats, [chat.find_flagged(_is_grounding) for chat in chats]),
            "any finding, first": _method_figures(chats, [chat.find_flagged(lambda _: True) for chat in chats]),
            f"any finding but {LOOP}, first": _method_figures(
                chats, [chat.find_flagged(_is_no_loop) for chat in chats]
            ),
            "first handoff": _method_figures(chats, [[0] for _ in chats]),
            "median handoff": _method_figures(chats, [[(len(chat.steps) - 1) // 2] for chat in chats]),
            "last handoff": _method_figures(chats, [[len(chat.steps) - 1] for chat in chats]),
            "random handoff, expected": _expected_figures(chats),
        },
    }


def _is_grounding(flaw: Flaw) -> bool:
    return flaw.code.startswith("grounding.")


def _is_no_loop(flaw: Flaw) -> bool:
    return flaw.code != LOOP


def _method_figures(chats: Sequence[Chat], flags: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the shares of a method with their 95 % intervals. Chats without a flag count, too.

    For a chat that two teams annotated, `near_either` and `exact_either` accept the mistake of either team.
    """
    pairs = list(zip(chats, flags, strict=True))
    tops = [chat.labels[some[0]] if some else None for chat, some in pairs]
    found = [top for top in tops if top is not None]
    hits = {
        "near": sum(top.distance <= NEAR for top in found),
        "exact": sum(top.distance == 0 for top in found),
        "agent": sum(top.by_culprit for top in found),
        "near_either": sum(top.either_distance <= NEAR for top in found),
        "exact_either": sum(top.either_distance == 0 for top in found),
    }
    return {
        "flagged_chats": len(found),
        "flags_per_chat": mean(len(some) for some in flags),
        **{name: number / len(tops) for name, number in hits.items()},
        **{f"{name}_interval": wilson_interval(number, len(tops)) for name, number in hits.items()},
        "exact_within": {
            number: mean(any(chat.labels[at].distance == 0 for at in some[:number]) for chat, some in pairs)
            for number in FIRST_FEW
        },
        "near_within": {
            number: mean(any(chat.labels[at].distance <= NEAR for at in some[:number]) for chat, some in pairs)
            for number in FIRST_FEW
        },
    }


def _expected_figures(chats: Sequence[Chat]) -> dict[str, Any]:
    """Return the expected shares of a random choice of handoffs without replacement, computed without sampling."""

    def share(is_right: Callable[[TraceLabel], bool], number: int = 1) -> float:
        return mean(_chance(len(chat.labels), sum(map(is_right, chat.labels)), number) for chat in chats)

    def is_near(one: TraceLabel) -> bool:
        return one.distance <= NEAR

    def is_exact(one: TraceLabel) -> bool:
        return one.distance == 0

    return {
        "flagged_chats": len(chats),
        "flags_per_chat": 1,
        "near": share(is_near),
        "exact": share(is_exact),
        "agent": share(lambda one: one.by_culprit),
        "near_either": share(lambda one: one.either_distance <= NEAR),
        "exact_either": share(lambda one: one.either_distance == 0),
        "exact_within": {number: share(is_exact, number) for number in FIRST_FEW},
        "near_within": {number: share(is_near, number) for number in FIRST_FEW},
    }


def _chance(size: int, right: int, number: int) -> float:
    """Return the chance that `number` draws of `size` without replacement include at least one of the `right`."""
    number = min(number, size)
    return 1 - comb(size - right, number) / comb(size, number)


def _cross_validate(chats: Sequence[Chat]) -> list[list[int]]:
    """Return the ranking of each chat by the signs that rank the chats of the other folds best.

    The worth of a set of signs is its number of exact hits plus its number of near hits. If two sets have the same
    worth, the smaller set wins.
    """
    ranked = {signs: [chat.rank_suspects(signs) for chat in chats] for signs in _SETS_OF_SIGNS}
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
    distance = chat.labels[flags[0]].distance
    return (distance <= NEAR) + (distance == 0)
