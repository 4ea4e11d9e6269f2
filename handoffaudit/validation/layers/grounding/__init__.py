"""The grounding layer, which looks up the values and the wording of claims in the context and the evidence."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from handoffaudit.validation.agents import AgentRole, SourceRole
from handoffaudit.validation.claims import Claim, ClaimKind, Mark, Source
from handoffaudit.validation.config import GroundingPolicy, Strictness
from handoffaudit.validation.issues import Issue, Severity, limit_mixed_issues
from handoffaudit.validation.layers.base import NotCheckedError, Subject
from handoffaudit.validation.layers.evidence import claims_of, source_names
from handoffaudit.validation.layers.grounding.engine import ground
from handoffaudit.validation.layers.grounding.findings import BY_KIND, CODES, findings_of
from handoffaudit.validation.layers.grounding.mentions import SourceNames, describes_run, is_order, states_nothing
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.layers.grounding.reported import Reported, report
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.values import MAX_VALUES
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import pluralize

__all__ = ["BY_KIND", "CODES", "NO_SOURCES", "SourceIndex", "check", "ground", "name", "skip", "sources_of"]

name: Final = "grounding"
NOTHING_STATED: Final = "no claim states a fact"
NO_SOURCES: Final = "the handoff has neither context nor evidence"
MOST_SOURCES = 20_000
MOST_MARKS = 200
MOST_VALUES = 5_000
# The limit for the number of facts in the sources times the number of characters in the claims. The time to judge the
# wording grows with this product.
MOST_WEIGHED = 10_000_000
_PER_CLAIM = 200
_PRECEDENCE: Final = {"ungrounded": 0, "reported": 1, "derived": 2, "grounded": 2}
_DESCRIBES_ITSELF = frozenset({"summary", "problem_type"})
_ROLES: Final = {AgentRole.OBSERVER: "an observer", AgentRole.PERSON: "a person"}


def skip(subject: Subject) -> str | None:
    if subject.policy.strictness is Strictness.LENIENT:
        return "claims of lenient types are not checked"
    if subject.policy.grounding is GroundingPolicy.OFF:
        return "switched off for this type"
    role = subject.role
    if role.is_evidence:
        return f"the source is declared as {_ROLES[role.role]}: its values are evidence for the claims of the trace"
    if role.is_guess:
        return None
    if not subject.trace_evidence and not _has_sources(subject.record):
        return NO_SOURCES
    return "the handoff is an order without a prompt or evidence" if is_order(subject.record) else None


def _describe_guess(role: SourceRole) -> str:
    """Return why the values of a guessed observer or person were not judged, and what to do."""
    return (
        f"the source is taken for {_ROLES[role.role]} because {role.why}, so its values are reported and not judged: "
        "declare the role of the agent on its page"
    )


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
    if subject.role.is_guess:
        subject.findings.claims = _report(subject, claims, claims, _index_of(subject))
        raise NotCheckedError(_describe_guess(subject.role))
    is_declared = subject.role.is_declared
    is_call = bool(subject.record.data.get("tool_calls"))
    stating = [is_call or is_declared or not states_nothing(claim) for claim in claims]
    unjudged = [claim for claim, states in zip(claims, stating, strict=True) if not states]
    if not any(stating):
        if unjudged and subject.record.trace_id:
            claims = _report(subject, claims, unjudged, _index_of(subject))
        subject.findings.claims = claims
        raise NotCheckedError(NOTHING_STATED)
    index = _index_of(subject)
    if unjudged and subject.record.trace_id:
        claims = _report(subject, claims, unjudged, index)
    most, statements = _affordable(claims, index)
    # The tool results of the trace are material for the handoff. The handoff need not restate them.
    restates = not subject.trace_evidence
    reported = _reported_of(subject)
    marked = [
        (
            claim,
            reported.mark(
                _select_marks(
                    claim,
                    ground(claim.text, index, most, statements=statements, restates=restates, is_own=is_declared),
                )
            ),
        )
        for claim, states in zip(claims, stating, strict=True)
        if states
    ]
    by_id = {claim.claim_id: _with_marks(claim, marks) for claim, marks in marked}
    subject.findings.claims = tuple(by_id.get(claim.claim_id, claim) for claim in claims)
    if not statements:
        subject.findings.notes.setdefault(name, "the wording was not checked: the claims and the sources are too long")
    elif most < MAX_VALUES and any(len(marks) >= most for _, marks in marked):
        subject.findings.notes.setdefault(
            name, f"of each claim only the first {pluralize(most, 'value')} were looked up"
        )
    severity = Severity.ERROR if subject.policy.grounding is GroundingPolicy.REJECT else Severity.WARNING
    return limit_mixed_issues(findings_of(marked, index.sources, severity))


def _index_of(subject: Subject) -> SourceIndex:
    sources = list(islice(sources_of(subject.record, subject.trace_evidence), MOST_SOURCES + 1))
    if len(sources) > MOST_SOURCES:
        sources.pop()
        read = f"only the first {MOST_SOURCES:,} values of the context, the evidence and the trace were read"
        subject.findings.notes[name] = read
    return SourceIndex.of(sources, _names_of(subject.record))


def _report(
    subject: Subject, claims: tuple[Claim, ...], unjudged: Sequence[Claim], index: SourceIndex
) -> tuple[Claim, ...]:
    """Return all claims, with the values of the unjudged claims marked as grounded or reported."""
    chosen = [claim for claim in unjudged if not describes_run(claim)]
    if not chosen:
        return claims
    reported = _reported_of(subject)
    most = min(MAX_VALUES, max(1, MOST_VALUES // len(chosen)))
    by_id = {claim.claim_id: _with_marks(claim, reported.mark(report(claim.text, index, most))) for claim in chosen}
    return tuple(by_id.get(claim.claim_id, claim) for claim in claims)


def _reported_of(subject: Subject) -> Reported:
    return Reported(subject.reported, lambda: [*evidence_of(subject.record), *subject.trace_evidence])


def _select_marks(claim: Claim, marks: list[Mark]) -> list[Mark]:
    """Return the marks to keep for a claim: all marks, but no wording marks for an assumption.

    An assumption does not restate a source, but its values can still be looked up.
    """
    if claim.claim_type is not ClaimKind.ASSUMPTION:
        return marks
    return [mark for mark in marks if mark.kind != "wording"]


def _affordable(claims: Sequence[Claim], index: SourceIndex) -> tuple[int, bool]:
    """Return how many values to look up per claim, and whether to judge statements about structured data.

    Both limits apply to the whole handoff: the more claims, the fewer values of each claim are looked up.
    """
    most = min(MAX_VALUES, max(1, MOST_VALUES // len(claims)))
    facts = len(index.judge.records.facts) if index.judge else 0
    return most, facts * sum(len(claim.text) + _PER_CLAIM for claim in claims) <= MOST_WEIGHED


def sources_of(record: Record, trace_evidence: Sequence[Source] = ()) -> Iterator[Source]:
    """Yield every text and number of the context, then of the evidence, then of the trace, each named by its path.

    The names of the sources (the keys of the context, the `source` of evidence) are not included.
    """
    # The keys are sorted, so that the result does not depend on the key order of the document.
    for key in sorted(record.context, key=str):
        yield from leaves(record.context[key], f"context.{key}")
    yield from evidence_of(record)
    yield from trace_evidence


def evidence_of(record: Record) -> Iterator[Source]:
    """Yield every text and number of the evidence, each named by its path."""
    for index, item in enumerate(record.evidence):
        if isinstance(item, dict):
            yield from leaves(item.get("content"), f"evidence[{index}].content")
        else:
            yield from leaves(item, f"evidence[{index}]")


def _names_of(record: Record) -> SourceNames:
    return SourceNames((name, f"evidence[{index}].source") for name, index in source_names(record).items())


def _with_marks(claim: Claim, marks: list[Mark]) -> Claim:
    """Return the claim with at most `MOST_MARKS` marks. Ungrounded and reported marks take precedence over other marks.

    The `validator_confidence` of the claim becomes the share of its marks that are grounded or derived.
    """
    if not marks:
        return claim
    if len(marks) > MOST_MARKS:
        first = sorted(marks, key=lambda mark: _PRECEDENCE[mark.status])[:MOST_MARKS]
        kept = sorted(first, key=lambda mark: mark.start)
    else:
        kept = marks
    found = sum([mark.status in ("grounded", "derived") for mark in marks])
    return msgspec.structs.replace(claim, marks=tuple(kept), validator_confidence=round(found / len(marks), 2))
