"""Figures of labelled data as text and JSON."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from handoffaudit.evaluation.judge import Judged
from handoffaudit.validation.paths import at
from handoffaudit.validation.text import pluralize

# Each column has a heading, the name of a figure, and the format of the figure.
COLUMNS = (
    ("items", "items", "{:,}"),
    ("faulty", "faulty", "{:,}"),
    ("sound", "sound", "{:,}"),
    ("flagged", "flagged", "{:,}"),
    ("precision", "precision", "{:.3f}"),
    ("recall", "recall", "{:.3f}"),
    ("balanced", "balanced_accuracy", "{:.3f}"),
    ("span prec.", "span_precision", "{:.3f}"),
    ("span rec.", "span_recall", "{:.3f}"),
    ("span F1", "span_f1", "{:.3f}"),
    ("per 100 sound", "findings_per_100_sound", "{:.1f}"),
    ("ms", "ms_per_item", "{:.3f}"),
)

LONGEST = 600

WIDTH = 110


def table(files: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row of figures for each file, followed by its codes; `-` stands for a figure without a value."""
    names = [Path(path).name for path in files]
    first = max(map(len, ["file", *names]))
    yield "  ".join([f"{'file':<{first}}", *(heading for heading, _, _ in COLUMNS)])
    for name, figures in zip(names, files.values(), strict=True):
        cells = [f"{_format(figures[key], form):>{len(heading)}}" for heading, key, form in COLUMNS]
        yield "  ".join([f"{name:<{first}}", *cells])
        if figures["same_way"]:
            yield f"  the same way as before: {figures['same_way']:,}, with the same data: {figures['same_data']:,}"
        for code, seen in figures["codes"].items():
            yield f"  {code}: " + ", ".join(f"{seen[label]:,} {label}" for label in sorted(seen))


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def origin_lines(path: str, groups: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table for each group of traces, with the methods that locate a mistake; the last four are guesses."""
    if not groups:
        yield f"\n{Path(path).name}: holds no traces whose mistake is known"
    for name, group in groups.items():
        told = "" if name == "all" else f", {name}"
        yield (
            f"\n{Path(path).name}{told}: {pluralize(group['chats'], 'failed trace')}, "
            f"{pluralize(group['handoffs'], 'handoff')}; "
            f"in {group['mistake_in_a_handoff']:,} the mistake is in a handoff"
        )
        first = max(map(len, group["methods"]))
        headings = ("near", "exact", "agent", "exact in 2", "exact in 3", "near in 2", "flags")
        yield "  ".join([f"  {'the first flag is':<{first}}", *headings])
        for method, one in group["methods"].items():
            shares = [one["near"], one["exact"], one["agent"], one["exact_within"][2], one["exact_within"][3]]
            cells = [*(f"{share:.3f}" for share in [*shares, one["near_within"][2]]), f"{one['flags_per_chat']:.1f}"]
            padded = [f"{cell:>{len(heading)}}" for cell, heading in zip(cells, headings, strict=True)]
            yield "  ".join([f"  {method:<{first}}", *padded])


def wrong_lines(path: str, judged: Iterable[Judged]) -> Iterator[str]:
    """Yield the wrongly judged items, for reading."""
    for one in judged:
        said = "missed" if one.item.label.faulty else "false alarm"
        yield f"\n{said}: {one.item.name} ({Path(path).name})"
        yield from textwrap.wrap(_text(one), WIDTH, initial_indent="  ", subsequent_indent="  ")
        for start, end in one.item.label.spans or ():
            yield f"  labelled: {_text(one)[start:end]!r}"
        for issue in one.found:
            yield f"  {issue.code}: {issue.message}"


def wrong_as_json(judged: Judged) -> dict[str, Any]:
    """Return a wrongly judged item as JSON values."""
    return {
        "item": judged.item.name,
        "faulty": judged.item.label.faulty,
        "text": _text(judged),
        "labelled_spans": judged.item.label.spans,
        "marked_spans": judged.spans,
        "issues": [issue.to_dict() for issue in judged.found],
    }


def _text(judged: Judged) -> str:
    data = judged.item.document.get("data")
    place = judged.item.label.place or ("text",)
    text = at(data, place)
    text = text if isinstance(text, str) else str(data)
    return text if judged.item.label.spans is not None or len(text) <= LONGEST else f"{text[:LONGEST]}…"
