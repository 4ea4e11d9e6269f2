"""Rule codes of the evidence layer."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

_LAYER = "evidence"

CODES = (
    Code(
        code="evidence.uncited_claim",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="A claim without a source",
        what="A claim is neither cited, nor marked as an assumption, nor a number.",
        hint="Name its source in evidence_refs of the data, or its field in assumptions.",
    ),
    Code(
        code="evidence.uncited_threshold_exceeded",
        layer=_LAYER,
        severity=Severity.ERROR,
        title="Too many claims without a source",
        what="The share of uncited claims is over the type's limit. Claims that cite only sources that were not "
        "supplied count as uncited, and so do claims that could not be read because there is too much data.",
        hint="Cite the sources of more claims in evidence_refs of the data.",
    ),
    Code(
        code="evidence.unknown_source",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="A source that was not supplied",
        what="A claim cites a source that is not among the evidence. Where none of its sources was supplied, the claim "
        "counts as uncited.",
        hint="Supply the source as evidence, or correct its name.",
    ),
    Code(
        code="evidence.unnamed_evidence",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="Evidence without a name",
        what="A piece of evidence is no object with a source, so that nothing can cite it; values are looked up in it.",
        hint='Send each piece as an object with its name: {"source": "offers", "content": "…"}.',
    ),
    Code(
        code="evidence.unused_evidence",
        layer=_LAYER,
        severity=Severity.INFO,
        title="Evidence that nothing cites",
        what="A piece of evidence was supplied and no claim cites it.",
        hint="Cite it where a claim rests on it, or leave it out.",
    ),
)
