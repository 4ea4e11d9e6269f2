"""Does each claim say what it rests on?"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from handoffaudit.validation.bounding import MAX_ISSUES, bounded
from handoffaudit.validation.claims import Claim, ClaimType, Extraction, extract
from handoffaudit.validation.codes import make
from handoffaudit.validation.config import EvidencePolicy, Strictness
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.paths import Location, dotted
from handoffaudit.validation.placing import placer
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean, closest, counted, shown

name: Final = "evidence"
OUTPUT_FORMAT: Final = "output"
_MOST_COMPARED = 50
_MOST_HINTS = 20


def skip(subject: Subject) -> str | None:
    if subject.policy.strictness is Strictness.LENIENT:
        return "lenient types are not asked for sources"
    if subject.policy.evidence is EvidencePolicy.REQUIRED or _cites(subject):
        return None
    return "the handoff cites nothing and brings no evidence, and its type does not ask for it"


def _cites(subject: Subject) -> bool:
    record = subject.record
    if record.format == OUTPUT_FORMAT or record.evidence or subject.demands.claim_fields is not None:
        return True
    stating = record.data.get("working") if record.format == "universal" else record.data
    return isinstance(stating, dict) and ("evidence_refs" in stating or "assumptions" in stating)


def check(subject: Subject) -> Iterable[Issue]:
    found = claims_of(subject)
    supplied = source_names(subject.record)
    root = placer(subject.record)((*stating_place(subject.record), "evidence_refs"))
    yield from bounded(_uncited(found))
    yield from _threshold(found, subject.policy.max_uncited_ratio)
    known = dict.fromkeys((*supplied, *subject.record.context_refs))
    yield from bounded(_unknown(found, known, root))
    yield from bounded(_unused(found, supplied))


def claims_of(subject: Subject) -> Extraction:
    """The claims of a handoff, kept in its findings; says there when there are more than are kept."""
    record = subject.record
    found = extract(record.data, subject.demands.claim_fields, within=stating_place(record), place_of=placer(record))
    subject.findings.claims = found.claims
    if found.total > len(found.claims):
        kept = counted(len(found.claims), "claim")
        subject.findings.notes[name] = f"of {counted(found.total, 'claim')} only {kept} are listed; all are counted"
    return found


def stating_place(record: Record) -> Location:
    """Where in the data its statements stand when no claim fields are set: of `universal` that is `working`."""
    return ("working",) if record.format == "universal" else ()


def source_names(record: Record) -> dict[str, int]:
    """The sources of the evidence, each with the position of its first item."""
    names: dict[str, int] = {}
    for index, item in enumerate(record.evidence):
        source = item.get("source") if isinstance(item, dict) else None
        if isinstance(source, str) and source:
            names.setdefault(source, index)
    return names


def _uncited(found: Extraction) -> Iterator[Issue]:
    uncited = [claim for claim in found.claims if claim.claim_type is ClaimType.UNCITED]
    if len(uncited) > MAX_ISSUES:  # not all are told: the same ones, whatever the order of the data's keys
        uncited.sort(key=lambda claim: dotted(claim.location))
    for claim in uncited[: MAX_ISSUES + 1]:
        path = dotted(claim.location)
        yield make(
            "evidence.uncited_claim",
            location=claim.place,
            message=f"{_named(claim)} states {shown(claim.text)} and names no source.",
            hint=f'Name its source in evidence_refs, as "{path}": "…", or list "{path}" in assumptions.',
            actual=claim.text,
            claim_id=claim.claim_id,
        )


def _named(claim: Claim) -> str:
    return clean(dotted(claim.location))


def _threshold(found: Extraction, limit: float) -> Iterator[Issue]:
    if not found.total or found.uncited / found.total <= limit:
        return
    ratio = found.uncited / found.total
    allowed = int(limit * found.total)
    yield make(
        "evidence.uncited_threshold_exceeded",
        message=f"{found.uncited:,} of {counted(found.total, 'claim')} ({100 * ratio:.0f} %) name no source, "
        f"over the limit of {100 * limit:.0f} %.",
        hint=f"Name the sources of at least {found.uncited - allowed:,} more in evidence_refs, or list their fields in "
        "assumptions.",
        expected=limit,
        actual=round(ratio, 4),
        uncited=found.uncited,
        claims=found.total,
    )


def _unknown(found: Extraction, known: dict[str, Any], root: Location) -> Iterator[Issue]:
    cited = {(path, one) for path, ids in found.citations.sources.items() for one in ids if one not in known}
    supplied = ", ".join(shown(one) for one in islice(known, 5))
    for number, (path, source) in enumerate(sorted(cited)[: MAX_ISSUES + 1]):
        near = closest(source, islice(known, _MOST_COMPARED)) if number < _MOST_HINTS else None
        supply = f"Supply it as evidence; {f'supplied: {supplied}' if known else 'none was supplied'}."
        yield make(
            "evidence.unknown_source",
            location=(*root, path),
            message=f"{clean(path)} cites the source {shown(source)}, which was not supplied.",
            hint=f"Cite {shown(near)}, or supply {shown(source)} as evidence." if near else supply,
            expected=list(islice(known, _MOST_COMPARED)),
            actual=source,
        )


def _unused(found: Extraction, supplied: dict[str, int]) -> Iterator[Issue]:
    cited = {one for ids in found.citations.sources.values() for one in ids}
    for source, index in supplied.items():
        if source not in cited:
            yield make(
                "evidence.unused_evidence",
                message=f"The evidence {shown(source)} was supplied, and no claim cites it.",
                actual=source,
                evidence=index,
            )
