"""The grounding layer, which looks up the values and the wording of claims in the context and the evidence."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from handoffaudit.validation.claims import Claim, ClaimKind, Mark, Source
from handoffaudit.validation.config import GroundingPolicy, Strictness
from handoffaudit.validation.issues import Code, Issue, Severity, limit_issues, make
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.layers.evidence import claims_of, source_names
from handoffaudit.validation.layers.grounding.engine import ground
from handoffaudit.validation.layers.grounding.mentions import SourceNames, brings_facts, states_nothing
from handoffaudit.validation.layers.grounding.sources import SourceIndex, leaves
from handoffaudit.validation.layers.grounding.values import MAX_VALUES
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean, either, pluralize, quote_text, show

__all__ = ["BY_KIND", "CODES", "SourceIndex", "check", "ground", "name", "skip", "sources_of"]

name: Final = "grounding"
MOST_SOURCES = 20_000
MOST_MARKS = 200
MOST_VALUES = 5_000
# The cost of judging grows with the facts of the data and with the characters of all claims. This is the limit of their
# product.
MOST_WEIGHED = 10_000_000
_PER_CLAIM = 200
_SHOWN_SOURCES = 3
_SHOWN_TEXTS = 3
_DESCRIBES_ITSELF = frozenset({"summary", "problem_type"})
_HINT: Final = "Supply its source as context or evidence, or remove it."
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
        why="People set deadlines and orders by dates. An ungrounded date was invented or confused with another.",
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
        why="A message to an invented address reaches nobody, or a stranger.",
        hint=_HINT,
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
    "wording": "the wording",
}


def skip(subject: Subject) -> str | None:
    if subject.policy.strictness is Strictness.LENIENT:
        return "claims of lenient types are not checked"
    if subject.policy.grounding is GroundingPolicy.OFF:
        return "switched off for this type"
    if not _has_sources(subject.record):
        return "the handoff has neither context nor evidence"
    return brings_facts(subject.record)


def _has_sources(record: Record) -> bool:
    """Return whether the handoff has evidence, or context that claims can rest on.

    The summary and the problem type of a `universal` handoff describe the handoff itself, so they do not count as
    context.
    """
    if record.evidence:
        return True
    given = record.context.keys() - _DESCRIBES_ITSELF if record.format == "universal" else record.context.keys()
    return any(record.context[key] not in (None, "", [], {}) for key in given)


def check(subject: Subject) -> Iterable[Issue]:
    claims = subject.findings.claims or claims_of(subject, name).claims
    if not claims:
        return []
    is_call = bool(subject.record.data.get("tool_calls"))
    stating = [is_call or not states_nothing(claim) for claim in claims]
    if not any(stating):
        subject.findings.claims = claims
        return []
    sources = list(islice(sources_of(subject.record), MOST_SOURCES + 1))
    if len(sources) > MOST_SOURCES:
        sources.pop()
        subject.findings.notes[name] = f"only the first {MOST_SOURCES:,} values of the context and evidence were read"
    index = SourceIndex.of(sources, _names_of(subject.record))
    most, statements = _affordable(claims, index)
    marked = [
        (claim, _select_marks(claim, ground(claim.text, index, most, statements=statements)) if states else [])
        for claim, states in zip(claims, stating, strict=True)
    ]
    subject.findings.claims = tuple(_with_marks(claim, marks) for claim, marks in marked)
    if not statements:
        subject.findings.notes.setdefault(name, "the wording was not checked: the claims and the sources are too long")
    elif most < MAX_VALUES and any(len(marks) >= most for _, marks in marked):
        subject.findings.notes.setdefault(
            name, f"of each claim only the first {pluralize(most, 'value')} were looked up"
        )
    severity = Severity.ERROR if subject.policy.grounding is GroundingPolicy.REJECT else Severity.WARNING
    return limit_issues(_issues(marked, sources, severity))


def _select_marks(claim: Claim, marks: list[Mark]) -> list[Mark]:
    """Return the marks to keep for a claim: all marks, but no wording marks for an assumption.

    An assumption does not restate a source, but its values can still be looked up.
    """
    if claim.claim_type is not ClaimKind.ASSUMPTION:
        return marks
    return [mark for mark in marks if mark.kind != "wording"]


def _affordable(claims: Sequence[Claim], index: SourceIndex) -> tuple[int, bool]:
    """Return how many values to look up per claim, and whether to judge statements about structured data.

    Both are limited for the whole handoff, however many claims it has.
    """
    most = min(MAX_VALUES, max(1, MOST_VALUES // len(claims)))
    facts = len(index.judge.records.facts) if index.judge else 0
    return most, facts * sum(len(claim.text) + _PER_CLAIM for claim in claims) <= MOST_WEIGHED


def sources_of(record: Record) -> Iterator[Source]:
    """Yield every text and number of the context, then of the evidence, each named by its path.

    The names of the sources (the keys of the context, the `source` of evidence) are not included.
    """
    # The keys are sorted, so that the result does not depend on the key order of the document.
    for key in sorted(record.context, key=str):
        yield from leaves(record.context[key], f"context.{key}")
    for index, item in enumerate(record.evidence):
        if isinstance(item, dict):
            yield from leaves(item.get("content"), f"evidence[{index}].content")
        else:
            yield from leaves(item, f"evidence[{index}]")


def _names_of(record: Record) -> SourceNames:
    return SourceNames((name, f"evidence[{index}].source") for name, index in source_names(record).items())


def _with_marks(claim: Claim, marks: list[Mark]) -> Claim:
    """Return the claim with at most 200 marks. Ungrounded marks take precedence over other marks."""
    if not marks:
        return claim
    if len(marks) > MOST_MARKS:
        first = sorted(marks, key=lambda mark: mark.status != "ungrounded")[:MOST_MARKS]
        kept = sorted(first, key=lambda mark: mark.start)
    else:
        kept = marks
    found = sum(mark.status != "ungrounded" for mark in marks)
    return replace(claim, marks=tuple(kept), validator_confidence=round(found / len(marks), 2))


def _issues(
    marked: Iterable[tuple[Claim, list[Mark]]], sources: Sequence[Source], severity: Severity
) -> Iterator[Issue]:
    looked_in = ""
    # Only the first findings are reported, so their order must not depend on the key order of the data.
    for claim, marks in sorted(marked, key=lambda one: dotted_path(one[0].location)):
        alike: dict[tuple[str, str], list[Mark]] = {}
        for mark in _select_ungrounded(marks):
            # One judgement of the claim yields all its wording marks, so they share one finding. Only a mark with a
            # counterpart in the source has a hint of its own.
            is_bare = mark.kind == "wording" and not mark.closest
            alike.setdefault((mark.kind, "" if is_bare else mark.text), []).append(mark)
        if alike:
            looked_in = looked_in or _describe_sources(sources)
            claimed = clean(dotted_path(claim.location))
            yield from (_issue(claim, claimed, same, looked_in, severity) for same in alike.values())


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


def _issue(claim: Claim, claimed: str, same: list[Mark], looked_in: str, severity: Severity) -> Issue:
    mark, times = same[0], len(same)
    texts = list(dict.fromkeys(show(one.text) for one in same))
    statement = f"{claimed} gives {_KINDS[mark.kind]} {_list_texts(texts)}"
    often = f" {times:,} times" if times > 1 and len(texts) == 1 else ""
    reason = f", worded differently in {looked_in}" if mark.kind == "wording" else f", which is not in {looked_in}"
    return make(
        BY_KIND[mark.kind],
        location=claim.place,
        message=f"{statement}{often}{reason}.",
        hint=_hint(mark),
        severity=severity,
        actual=mark.text,
        kind=mark.kind,
        start=mark.start,
        end=mark.end,
        text=mark.text,
        closest=mark.closest,
        count=times,
        claim_id=claim.claim_id,
    )


def _hint(mark: Mark) -> str | None:
    """Return a hint that names the nearest text of the sources, or None if there is none.

    The hint is a question, because only the sender knows whether the near value was meant.
    """
    near = quote_text(mark.closest) if mark.closest else ""
    if not near:
        return None
    supply = f"supply the source of {quote_text(mark.text) or show(mark.text)}, or remove it"
    if mark.kind == "wording":
        return f"The source says {near}: use these words, {supply}."
    return f"Did you mean {near}, which is in the sources? If not, {supply}."


def _list_texts(texts: Sequence[str]) -> str:
    """Return the texts as one phrase: `"a", "b" and 3 more`."""
    shown_texts = ", ".join(texts[:_SHOWN_TEXTS])
    return f"{shown_texts} and {len(texts) - _SHOWN_TEXTS:,} more" if len(texts) > _SHOWN_TEXTS else shown_texts


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
