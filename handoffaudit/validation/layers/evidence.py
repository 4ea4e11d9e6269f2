"""The evidence layer: the sources that the claims of a handoff cite."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from handoffaudit.validation.claims import WITHOUT_SOURCE, Claim, ClaimKind, Extraction, extract, plain_key
from handoffaudit.validation.config import EvidencePolicy, Strictness
from handoffaudit.validation.issues import MAX_ISSUES, Code, Issue, Severity, limit_issues, make
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.paths import Location, at, dotted_path
from handoffaudit.validation.record import Record, placer
from handoffaudit.validation.text import clean, closest, pluralize, quote_text, show, type_name

name: Final = "evidence"

UNCITED_CLAIM: Final = Code(
    "evidence.uncited_claim",
    Severity.WARNING,
    "Claim without a source",
    what="A claim names no source, is not marked as an assumption, and is not a number.",
    why="Nobody can check a claim without a source, and the next agent repeats it as a fact.",
    hint="Name its source in evidence_refs of the data, or its field in assumptions.",
)
UNCITED_THRESHOLD_EXCEEDED: Final = Code(
    "evidence.uncited_threshold_exceeded",
    Severity.ERROR,
    "Too many claims without a source",
    what="The share of uncited claims is over the limit of the type. Claims that cite only sources "
    "that were not supplied count as uncited, and so do claims that were not read because "
    "there is too much data.",
    why="The text may sound convincing, although many of its claims have no support.",
    hint="Cite the sources of more claims in evidence_refs of the data.",
)
UNKNOWN_SOURCE: Final = Code(
    "evidence.unknown_source",
    Severity.WARNING,
    "Unknown source",
    what="A claim cites a source that is neither among the evidence nor in context_refs. If none of "
    "the claim's sources was supplied, the claim counts as uncited.",
    why="The cited source was not sent with the handoff, and may not exist.",
    hint="Supply the source as evidence, or correct its name.",
)
UNNAMED_EVIDENCE: Final = Code(
    "evidence.unnamed_evidence",
    Severity.WARNING,
    "Evidence without a name",
    what="A piece of evidence is not an object with a source, so claims cannot cite it. Grounding "
    "still looks up values in it.",
    why="Claims cannot cite evidence without a name, so nobody sees which claim it supports.",
    hint='Send each piece as an object with its name: {"source": "offers", "content": "…"}.',
)
UNUSED_EVIDENCE: Final = Code(
    "evidence.unused_evidence",
    Severity.INFO,
    "Uncited evidence",
    what="A piece of evidence was supplied, but no claim cites it.",
    why="The evidence costs tokens for nothing, or a claim that rests on it does not cite it.",
    hint="Cite the evidence in the claims that it supports, or leave it out.",
)
CODES: Final = (UNCITED_CLAIM, UNCITED_THRESHOLD_EXCEEDED, UNKNOWN_SOURCE, UNNAMED_EVIDENCE, UNUSED_EVIDENCE)

OUTPUT_FORMAT: Final = "output"
_MOST_COMPARED = 50
_MOST_NAMED = 5
_MOST_HINTS = 20
# Length limits within one hint, in characters.
_LONGEST_PATH = 100
_LONGEST_LIST = 200
_LEFT_OPEN = '"…"'


def skip(subject: Subject) -> str | None:
    if subject.policy.strictness is Strictness.LENIENT:
        return "lenient types need no sources"
    if subject.policy.evidence is EvidencePolicy.REQUIRED or _has_sources(subject):
        return None
    return "the handoff has no citations and no evidence, and its type does not require them"


def _has_sources(subject: Subject) -> bool:
    """Return whether the handoff could cite sources.

    This holds if it has evidence, `evidence_refs` or `assumptions`, if its format is `output`, or if its type has claim
    fields.
    """
    record = subject.record
    if record.format == OUTPUT_FORMAT or record.evidence or subject.demands.claim_fields is not None:
        return True
    stating = record.data.get("working") if record.format == "universal" else record.data
    return isinstance(stating, dict) and ("evidence_refs" in stating or "assumptions" in stating)


def check(subject: Subject) -> Iterable[Issue]:
    found = claims_of(subject)
    supplied = source_names(subject.record)
    within = stating_place(subject.record)
    root = placer(subject.record)((*within, "evidence_refs"))
    is_text = subject.record.data_place is not None
    known = citable(subject.record)
    citing = _Citing(
        root=(*root, "evidence_refs") if is_text else root,
        within=within,
        supplied=list(islice(known, _MOST_NAMED)),
        is_beside=_cites_beside(subject.record),
        is_text=is_text,
    )
    yield from limit_issues(_report_uncited(found, citing))
    yield from _report_threshold(found, subject.policy.max_uncited_ratio, citing)
    yield from limit_issues(_report_unknown_sources(found, known, root))
    yield from limit_issues(_report_unnamed_evidence(subject.record))
    yield from limit_issues(_report_unused_evidence(found, supplied))


@dataclass(frozen=True, slots=True)
class _Citing:
    """The place where a handoff cites its sources, and the sources that it can cite.

    `is_beside` is True if the handoff has `evidence_refs` only in another location. `is_text` is True if the data is a
    text, which cannot cite.
    """

    root: Location
    within: Location
    supplied: Sequence[str]
    is_beside: bool
    is_text: bool = False

    def path(self, claim: Claim) -> str:
        """Return the name of a claim in `evidence_refs`: its key, or its path if the claim is deeper in the data."""
        return plain_key(claim.location, self.within) or dotted_path(claim.location)

    def example(self, path: str) -> str:
        """Return an example that cites a source for the claim at `path`: `data.evidence_refs: {"summary": "offers"}`.

        Only the sender knows which of several sources the claim rests on, so several sources are listed after the
        example.
        """
        source = quote_text(self.supplied[0]) if len(self.supplied) == 1 else ""
        listed = _list_names(self.supplied) if len(self.supplied) > 1 else ""
        named = f" (supplied: {listed})" if listed else ""
        cited = f"{{{_quote_path(path)}: {source or _LEFT_OPEN}}}"
        if self.is_text:
            return f'{dotted_path(self.root[:-1])}: {{"text": "…", "evidence_refs": {cited}}}{named}'
        return f"{dotted_path(self.root)}: {cited}{named}"

    @property
    def assumptions(self) -> str:
        return dotted_path((*self.root[:-1], "assumptions"))

    @property
    def preface(self) -> str:
        return f"Move evidence_refs to {dotted_path(self.root)}: it is not read elsewhere. " if self.is_beside else ""

    @property
    def supplying(self) -> str:
        """Return the request to supply a source, or an empty text if there is a source to cite."""
        return "" if self.supplied else ' Send the source as evidence: [{"source": "…", "content": "…"}].'


def _quote_path(path: str) -> str:
    return quote_text(path, _LONGEST_PATH) or _LEFT_OPEN


def _list_names(names: Iterable[str]) -> str:
    """Return the first names as a list, without the names that would make the list too long."""
    listed = ""
    for name in islice(names, _MOST_NAMED):
        copied = quote_text(name)
        longer = f"{listed}, {copied}" if listed else copied
        if copied and len(longer) <= _LONGEST_LIST:
            listed = longer
    return listed


def _cites_beside(record: Record) -> bool:
    """Return whether `evidence_refs` is only in a place of the document or its data where it is not read."""
    stating = at(record.data, stating_place(record))
    if isinstance(stating, dict) and "evidence_refs" in stating:
        return False
    return "evidence_refs" in record.document or "evidence_refs" in record.data


def claims_of(subject: Subject, layer: str = name) -> Extraction:
    """Extract the claims of a handoff, store them in its findings, and return the extraction.

    Add a note for `layer` if some claim fields are not read or some claims are not listed.
    """
    record = subject.record
    found = extract(
        record.data,
        subject.demands.claim_fields,
        supplied=citable(record),
        within=stating_place(record),
        place_of=placer(record),
        is_text=record.data_place is not None,
    )
    subject.findings.claims = found.claims
    notes = []
    if found.unread:
        notes.append(f"{_describe_unread_fields(found)} not read: there is too much data at the claim fields")
    if found.total > len(found.claims):
        kept = pluralize(len(found.claims), "claim")
        notes.append(f"of {pluralize(found.total, 'claim')} only {kept} are listed; all are counted")
    if notes:
        subject.findings.notes[layer] = "; ".join(notes)
    return found


def _describe_unread_fields(found: Extraction) -> str:
    """Return the names of the claim fields that were not read: `layers.*.text and 3 other claim fields were`."""
    first, others = clean(found.unread[0], _LONGEST_PATH), len(found.unread) - 1
    return f"{first} and {pluralize(others, 'other claim field')} were" if others else f"{first} was"


def stating_place(record: Record) -> Location:
    """Return the location of the statements in the data if no claim fields are set: `working` for `universal`."""
    return ("working",) if record.format == "universal" else ()


def citable(record: Record) -> dict[str, None]:
    """Return the names of all supplied sources: those of the evidence, then the `context_refs`."""
    return dict.fromkeys((*source_names(record), *record.context_refs))


def source_names(record: Record) -> dict[str, int]:
    """Return the sources of the evidence, each with the position of its first item."""
    names: dict[str, int] = {}
    for index, item in enumerate(record.evidence):
        source = item.get("source") if isinstance(item, dict) else None
        if isinstance(source, str) and source:
            names.setdefault(source, index)
    return names


def _report_uncited(found: Extraction, citing: _Citing) -> Iterator[Issue]:
    uncited = [claim for claim in found.claims if claim.claim_type is ClaimKind.UNCITED]
    # Only some claims are reported, so their choice must not depend on the key order of the data.
    if len(uncited) > MAX_ISSUES:
        uncited.sort(key=lambda claim: dotted_path(claim.location))
    for claim in uncited[: MAX_ISSUES + 1]:
        path = citing.path(claim)
        yield make(
            UNCITED_CLAIM,
            location=claim.place,
            message=f"{_name_claim(claim)} states {show(claim.text)} and names no source.",
            hint=f"{citing.preface}Name its source, as in {citing.example(path)}, or list "
            f"{_quote_path(path)} in {citing.assumptions}.{citing.supplying}",
            actual=claim.text,
            claim_id=claim.claim_id,
        )


def _name_claim(claim: Claim) -> str:
    return clean(claim.path)


def _report_threshold(found: Extraction, limit: float, citing: _Citing) -> Iterator[Issue]:
    if found.unread:
        yield _report_unchecked(found, limit)
        return
    if not found.total or found.uncited / found.total <= limit:
        return
    ratio = found.uncited / found.total
    # `limit * total` can be inexact: 0.29 * 100 is below 29. So the next lower and higher numbers are tried, too.
    about = found.uncited - int(limit * found.total)
    more = next(one for one in range(max(about - 1, 1), about + 2) if (found.uncited - one) / found.total <= limit)
    kinds = {claim.claim_type for claim in found.claims}
    paths = (citing.path(claim) for claim in found.claims if claim.claim_type in WITHOUT_SOURCE)
    example = citing.example(min(paths, default="…"))
    if ClaimKind.UNCITED in kinds:
        request = f"Name the sources of at least {more} of them, as in {example}"
    else:
        request = "Supply the sources that they cite" + (
            f" or cite supplied ones, as in {example}" if citing.supplied else ""
        )
    yield make(
        UNCITED_THRESHOLD_EXCEEDED,
        message=f"{found.uncited:,} of {pluralize(found.total, 'claim')} ({100 * ratio:.4g} %) name no "
        f"{'supplied source' if ClaimKind.CITES_UNKNOWN in kinds else 'source'}, "
        f"over the limit of {100 * limit:.4g} %.",
        hint=f"{citing.preface}{request}, or list their fields in {citing.assumptions}.{citing.supplying}",
        expected=limit,
        actual=round(ratio, 4),
        uncited=found.uncited,
        claims=found.total,
    )


def _report_unchecked(found: Extraction, limit: float) -> Issue:
    """Return the finding about claim fields that were not read; claims that were not read count as uncited."""
    return make(
        UNCITED_THRESHOLD_EXCEEDED,
        message=f"{_describe_unread_fields(found)} not read, "
        "because there is too much data at the claim fields of the type. "
        "Claims that were not read count as claims that name no source.",
        hint="Send less data in one handoff. If the type is always this large, set claim fields with fewer `*`.",
        expected=limit,
        uncited=found.uncited,
        claims=found.total,
        unread=list(found.unread),
    )


def _report_unknown_sources(found: Extraction, known: dict[str, Any], root: Location) -> Iterator[Issue]:
    cited = {(path, one) for path, ids in found.citations.sources.items() for one in ids if one not in known}
    listed = _list_names(known)
    supplied = "; no source was supplied" if not known else f"; supplied: {listed}" if listed else ""
    for number, (path, source) in enumerate(sorted(cited)[: MAX_ISSUES + 1]):
        near = closest(source, islice(known, _MOST_COMPARED)) if number < _MOST_HINTS else None
        suggestion = quote_text(near) if near else ""
        supply = f"Supply it as evidence{supplied}."
        yield make(
            UNKNOWN_SOURCE,
            location=(*root, path),
            message=f"{clean(path)} cites the source {show(source)}, which was not supplied.",
            hint=f"Did you mean {suggestion}? If not, supply {quote_text(source) or 'it'} as evidence."
            if suggestion
            else supply,
            expected=list(islice(known, _MOST_COMPARED)),
            actual=source,
        )


def _report_unnamed_evidence(record: Record) -> Iterator[Issue]:
    for index, item in enumerate(record.evidence):
        source = item.get("source") if isinstance(item, dict) else None
        if isinstance(source, str) and source:
            continue
        what = "has no source" if isinstance(item, dict) else f"is {type_name(item)}, not an object with a source"
        yield make(
            UNNAMED_EVIDENCE,
            message=f"evidence[{index}] {what}, so no claim can cite it.",
            actual=item,
            evidence=index,
        )


def _report_unused_evidence(found: Extraction, supplied: dict[str, int]) -> Iterator[Issue]:
    cited = {one for ids in found.citations.sources.values() for one in ids}
    for source, index in supplied.items():
        if source not in cited:
            yield make(
                UNUSED_EVIDENCE,
                message=f"The evidence {show(source)} was supplied, but no claim cites it.",
                actual=source,
                evidence=index,
            )
