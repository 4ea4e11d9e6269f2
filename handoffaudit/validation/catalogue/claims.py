"""Rule codes about what a document claims: evidence, grounding, and the two layers that ask an LLM."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

_EVIDENCE = "evidence"

EVIDENCE_CODES = (
    Code(
        code="evidence.uncited_claim",
        layer=_EVIDENCE,
        severity=Severity.WARNING,
        title="A claim without a source",
        what="A claim is neither cited, nor marked as an assumption, nor a number.",
        hint="Name its source in evidence_refs of the data, or its field in assumptions.",
    ),
    Code(
        code="evidence.uncited_threshold_exceeded",
        layer=_EVIDENCE,
        severity=Severity.ERROR,
        title="Too many claims without a source",
        what="The share of uncited claims is over the type's limit. Claims that cite only sources that were not "
        "supplied count as uncited, and so do claims that could not be read because there is too much data.",
        hint="Cite the sources of more claims in evidence_refs of the data.",
    ),
    Code(
        code="evidence.unknown_source",
        layer=_EVIDENCE,
        severity=Severity.WARNING,
        title="A source that was not supplied",
        what="A claim cites a source that is not among the evidence. Where none of its sources was supplied, the claim "
        "counts as uncited.",
        hint="Supply the source as evidence, or correct its name.",
    ),
    Code(
        code="evidence.unnamed_evidence",
        layer=_EVIDENCE,
        severity=Severity.WARNING,
        title="Evidence without a name",
        what="A piece of evidence is no object with a source, so that nothing can cite it; values are looked up in it.",
        hint='Send each piece as an object with its name: {"source": "offers", "content": "…"}.',
    ),
    Code(
        code="evidence.unused_evidence",
        layer=_EVIDENCE,
        severity=Severity.INFO,
        title="Evidence that nothing cites",
        what="A piece of evidence was supplied and no claim cites it.",
        hint="Cite it where a claim rests on it, or leave it out.",
    ),
)

_GROUNDING = "grounding"

_HINT = "Supply the source that it comes from as context or evidence, or take it out."


def _code(kind: str, title: str, what: str, hint: str = _HINT) -> Code:
    return Code(
        code=f"grounding.{kind}", layer=_GROUNDING, severity=Severity.WARNING, title=title, what=what, hint=hint
    )


GROUNDING_CODES = (
    _code(
        "number",
        "A number that is in no source",
        "A number in a claim stands nowhere in the context or the evidence, and does not follow from those there.",
    ),
    _code(
        "date",
        "A date that is in no source",
        "A date or time in a claim stands nowhere in the context or the evidence.",
    ),
    _code(
        "name", "A name that is in no source", "A proper name in a claim stands nowhere in the context or the evidence."
    ),
    _code(
        "quote",
        "A quotation that is in no source",
        "A quoted text in a claim stands nowhere in the context or the evidence.",
    ),
    _code(
        "identifier",
        "An identifier that is in no source",
        "An address, a link or an identifier in a claim stands nowhere in the context or the evidence.",
    ),
    _code(
        "wording",
        "Words that the source does not say",
        "A claim restates its source, but with words that the source does not hold or contradicts.",
        "Say it as the source does; or supply the source that it comes from as context or evidence, or take it out.",
    ),
)

_SEMANTIC = "semantic"


def _error(kind: str, title: str, what: str, hint: str) -> Code:
    return Code(code=f"semantic.{kind}", layer=_SEMANTIC, severity=Severity.ERROR, title=title, what=what, hint=hint)


SEMANTIC_CODES = (
    _error(
        "unsupported_claim",
        "A claim that the context does not support",
        "A language model finds no support for a claim in the context or the evidence.",
        "Take the claim out, or supply the source that it rests on.",
    ),
    _error(
        "fabricated",
        "A point that seems made up",
        "A language model takes a concrete number, date or name for made up.",
        "Take it from the context or the evidence, or take it out.",
    ),
    _error(
        "contradiction",
        "The data contradicts itself",
        "A language model finds two parts of the data that cannot both be true.",
        "Correct the part that is wrong.",
    ),
    _error(
        "objective_not_met",
        "The deliverable does not meet its objective",
        "A language model finds that what was handed back does not do what was asked for.",
        "Close the gaps that the message names and hand it back again.",
    ),
    Code(
        code="semantic.unavailable",
        layer=_SEMANTIC,
        severity=Severity.WARNING,
        title="Not checked by a model",
        what="The language model could not be asked, or gave no usable answer. The metadata says why.",
        hint="Nothing to do for the sender: it is checked again when the model answers.",
    ),
    Code(
        code="semantic.awaiting_check",
        layer=_SEMANTIC,
        severity=Severity.WARNING,
        title="Held until a model has checked it",
        what="The type is set to fail closed, and the language model could not be asked.",
        hint="It is checked again when the model answers; a person may decide before that.",
        holds=True,
    ),
)

_CRITIQUE = "critique"

CRITIQUE_CODES = (
    Code(
        code="critique.low_score",
        layer=_CRITIQUE,
        severity=Severity.ERROR,
        title="The critique's score is too low",
        what="A second model scores the output below the threshold of its type.",
        hint="Mend what the critique names and hand it over again.",
    ),
    Code(
        code="critique.remark",
        layer=_CRITIQUE,
        severity=Severity.WARNING,
        title="A remark of the critique",
        what="A second model names a weakness of the output. The metadata has its own name for it.",
        hint="Mend it where the remark is right.",
    ),
    Code(
        code="critique.call_failed",
        layer=_CRITIQUE,
        severity=Severity.WARNING,
        title="The critique could not be made",
        what="A critique was due, and the language model could not be asked or gave no usable answer.",
        hint="Nothing to do for the sender: validation went on without it.",
    ),
    Code(
        code="critique.skipped_budget",
        layer=_CRITIQUE,
        severity=Severity.WARNING,
        title="The critique was too dear",
        what="A critique was due and would have cost more than its limit, or the tenant's budget of the day is spent.",
        hint="Nothing to do for the sender. An administrator may raise the limit in the strictness table.",
    ),
)
