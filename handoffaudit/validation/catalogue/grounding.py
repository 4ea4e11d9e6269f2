"""Rule codes of the grounding layer; the policy of the type decides whether they are warnings or errors."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

_LAYER = "grounding"
_HINT = "Supply the source that it comes from as context or evidence, or take it out."


def _code(kind: str, title: str, what: str, hint: str = _HINT) -> Code:
    return Code(code=f"grounding.{kind}", layer=_LAYER, severity=Severity.WARNING, title=title, what=what, hint=hint)


CODES = (
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
