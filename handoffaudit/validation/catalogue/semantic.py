"""Rule codes of the semantic layer, which asks an LLM."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

_LAYER = "semantic"


def _error(kind: str, title: str, what: str, hint: str) -> Code:
    return Code(code=f"semantic.{kind}", layer=_LAYER, severity=Severity.ERROR, title=title, what=what, hint=hint)


CODES = (
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
        layer=_LAYER,
        severity=Severity.WARNING,
        title="Not checked by a model",
        what="The language model could not be asked, or gave no usable answer. The metadata says why.",
        hint="Nothing to do for the sender: it is checked again when the model answers.",
    ),
    Code(
        code="semantic.awaiting_check",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="Held until a model has checked it",
        what="The type is set to fail closed, and the language model could not be asked.",
        hint="It is checked again when the model answers; a person may decide before that.",
        holds=True,
    ),
)
