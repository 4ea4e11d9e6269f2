"""The findings of the grounding layer: one finding for all values of the same kind in a claim."""

from collections.abc import Iterator, Sequence
from typing import Final

from handoffaudit.validation.claims import Claim, Mark, Source
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.text import clean, either, pluralize, quote_text, show

_SHOWN_SOURCES = 3
_SHOWN_TEXTS = 5
_MOST_VALUES_LISTED = 20
_HINT: Final = "Supply the source as context or evidence, or remove the value."
# The rule codes by the kind of the value in a claim.
BY_KIND: Final = {
    "number": Code(
        "grounding.number",
        Severity.WARNING,
        "Ungrounded number",
        what="A number in a claim does not occur in the context or the evidence, and cannot be "
        "calculated from numbers there.",
        why="An invented number is the most expensive kind of mistake: it looks exact, so people believe it.",
        hint=_HINT,
    ),
    "date": Code(
        "grounding.date",
        Severity.WARNING,
        "Ungrounded date",
        what="A date or time in a claim does not occur in the context or the evidence.",
        why="Deadlines and orders depend on dates. An ungrounded date is often invented, or confused with another.",
        hint=_HINT,
    ),
    "name": Code(
        "grounding.name",
        Severity.WARNING,
        "Ungrounded name",
        what="A proper name in a claim does not occur in the context or the evidence.",
        why="An invented name involves a person or company that has no part in the matter.",
        hint=_HINT,
    ),
    "quote": Code(
        "grounding.quote",
        Severity.WARNING,
        "Ungrounded quote",
        what="A quoted text in a claim does not occur in the context or the evidence.",
        why="Readers believe that the quoted person said these words.",
        hint=_HINT,
    ),
    "identifier": Code(
        "grounding.identifier",
        Severity.WARNING,
        "Ungrounded identifier",
        what="An address, a link or an identifier in a claim does not occur in the context or the evidence.",
        why="A message to an invented address reaches nobody or the wrong person.",
        hint=_HINT,
    ),
    "calculation": Code(
        "grounding.calculation",
        Severity.WARNING,
        "Wrong calculation",
        what="A calculation in a claim does not come to the stated result.",
        why="Later steps build on the wrong result, and every further number that follows from it is wrong, too.",
        hint="Calculate again, and correct what follows from the result.",
    ),
    "wording": Code(
        "grounding.wording",
        Severity.WARNING,
        "Unsupported wording",
        what="A claim restates its source, but with words that the source does not contain or that contradict it.",
        why="One or two words can reverse the meaning of a source, while the rest of the sentence is correct.",
        hint="Use the words of the source, supply the source of the new words as context or evidence, or remove them.",
    ),
}
CODES: Final = tuple(BY_KIND.values())
_KINDS: Final = {
    "number": "the number",
    "date": "the date",
    "name": "the name",
    "quote": "the quotation",
    "identifier": "the identifier",
    "calculation": "the result",
    "wording": "the wording",
}
_PLURALS: Final = {
    "number": "numbers",
    "date": "dates",
    "name": "names",
    "quote": "quotations",
    "identifier": "identifiers",
    "calculation": "wrong results",
    "wording": "wordings",
}


def findings_of(
    marked: Sequence[tuple[Claim, list[Mark]]], sources: Sequence[Source], severity: Severity
) -> Iterator[Issue]:
    """Yield the findings about the ungrounded marks of claims, for claims in the order of their paths.

    A finding about marks that count (`Mark.counts`) has the given severity or, for wording, the severity `warning`. A
    finding about other marks has the severity `info`.
    """
    looked_in = ""
    # Only the first findings are reported, so their order must not depend on the key order of the data.
    for claim, marks in sorted(marked, key=lambda one: dotted_path(one[0].location)) if len(marked) > 1 else marked:
        alike: dict[tuple[str, bool], list[Mark]] = {}
        for mark in _select_ungrounded(marks):
            alike.setdefault((mark.kind, mark.counts), []).append(mark)
        if alike:
            looked_in = looked_in or _describe_sources(sources)
            yield from (_issue(claim, same, looked_in, severity) for same in alike.values())


def _select_ungrounded(marks: list[Mark]) -> list[Mark]:
    """Return the ungrounded marks to report, without the wording marks that overlap an ungrounded value.

    The finding about the value already covers that wording.
    """
    missing = [mark for mark in marks if mark.status == "ungrounded"]
    values = [mark for mark in missing if mark.kind != "wording"]
    if len(values) == len(missing):
        return missing
    covered = {place for value in values for place in range(value.start, value.end)}
    return [mark for mark in missing if mark.kind != "wording" or covered.isdisjoint(range(mark.start, mark.end))]


def _issue(claim: Claim, same: list[Mark], looked_in: str, severity: Severity) -> Issue:
    """Return the finding about all values of one kind in one claim."""
    first, counts = same[0], same[0].counts
    if first.kind == "wording":
        # Different words may have the same meaning, so wording alone never rejects a handoff.
        severity = Severity.WARNING
    texts = list(dict.fromkeys(show(one.text) for one in same))
    return make(
        BY_KIND[first.kind],
        location=claim.place,
        message=f"{_state(claim, same, texts)}{_reason(same, texts, looked_in)}.",
        hint=_hint(same),
        severity=severity if counts else Severity.INFO,
        actual=first.text,
        kind=first.kind,
        values=[_value(one) for one in same[:_MOST_VALUES_LISTED]],
        count=len(same),
        claim_id=claim.claim_id,
    )


def _value(mark: Mark) -> dict[str, str | int]:
    return {"text": mark.text, "start": mark.start, "end": mark.end, "closest": mark.closest}


def _state(claim: Claim, same: list[Mark], texts: Sequence[str]) -> str:
    """Return a description of the values of the claim: `data.text gives 18 numbers: "2000", "35 %", …`."""
    claimed, kind = clean(claim.path), same[0].kind
    if kind == "calculation":
        stated = [f"{show(one.where[0])} = {clean(one.text)}" for one in same[:_SHOWN_TEXTS]]
        return f"{claimed} calculates {_list_texts(stated, len(same))}"
    if len(texts) == 1 or kind == "wording":
        often = f" {len(same):,} times" if len(same) > 1 and len(texts) == 1 else ""
        return f"{claimed} gives {_KINDS[kind]} {_list_texts(texts, len(texts))}{often}"
    return f"{claimed} gives {len(texts):,} {_PLURALS[kind]}: {_list_texts(texts, len(texts))}"


def _reason(same: list[Mark], texts: Sequence[str], looked_in: str) -> str:
    kind = same[0].kind
    if kind == "wording":
        return f", worded differently in {looked_in}"
    if kind == "calculation":
        return f", which comes to {same[0].closest}" if len(same) == 1 else "; the right results are in the hint"
    return f", which {'is' if len(texts) == 1 else 'are'} not in {looked_in}"


def _hint(same: list[Mark]) -> str | None:
    """Return a hint that names the nearest texts of the sources, or None if there are none.

    Except for calculations and wording, the hint is a question, because only the sender knows whether the near value
    was meant.
    """
    kind = same[0].kind
    near = {one.text: one.closest for one in same if one.closest}
    if not near:
        return None
    if kind == "calculation":
        results = [f"{show(one.where[0])} = {one.closest}" for one in same[:_SHOWN_TEXTS]]
        return f"Correct the result: {_list_texts(results, len(same))}."
    if len(near) == 1:
        [(text, closest)] = near.items()
        return _hint_for(kind, text, closest)
    pairs = [f"{quote_text(closest)} for {quote_text(text)}" for text, closest in list(near.items())[:_SHOWN_TEXTS]]
    if kind == "wording":
        return f"The source says {_list_texts(pairs, len(near))}: use these words, or supply the source of the others."
    return f"Did you mean {_list_texts(pairs, len(near))}? If not, supply the sources of the values, or remove them."


def _hint_for(kind: str, text: str, closest: str) -> str | None:
    near = quote_text(closest)
    if not near:
        return None
    supply = f"supply the source of {quote_text(text) or show(text)}, or remove it"
    if kind == "wording":
        return f"The source says {near}: use these words, {supply}."
    return f"Did you mean {near}, which is in the sources? If not, {supply}."


def _list_texts(texts: Sequence[str], count: int) -> str:
    """Return the first texts as one phrase: `"a", "b" and 3 more`, for `count` texts in all."""
    shown_texts = ", ".join(texts[:_SHOWN_TEXTS])
    return f"{shown_texts} and {count - _SHOWN_TEXTS:,} more" if count > _SHOWN_TEXTS else shown_texts


def _describe_sources(sources: Sequence[Source]) -> str:
    """Return the searched parts of the sources as one phrase.

    For example: `context.question, context.earlier or 2 other parts of the sources`.
    """
    if not sources:
        return "the context or the evidence, which contain no text"
    parts = list(dict.fromkeys(_name_part(source.name) for source in sources))
    if len(parts) > _SHOWN_SOURCES:
        rest = len(parts) - _SHOWN_SOURCES + 1
        return f"{', '.join(parts[: _SHOWN_SOURCES - 1])} or {pluralize(rest, 'other part')} of the sources"
    return either(parts)


def _name_part(name: str) -> str:
    """Return the part of the sources that a source belongs to.

    `context.earlier[0].text` belongs to `context.earlier`, `evidence[2].content` to `evidence[2]`.
    """
    return (
        clean(".".join(name.split("[", 1)[0].split(".")[:2]), 80)
        if name.startswith("context")
        else name.split(".", maxsplit=1)[0]
    )
