"""Rule codes of the critique layer, the opinion of a second LLM about an output."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

_LAYER = "critique"


CODES = (
    Code(
        code="critique.low_score",
        layer=_LAYER,
        severity=Severity.ERROR,
        title="The critique's score is too low",
        what="A second model scores the output below the threshold of its type.",
        hint="Mend what the critique names and hand it over again.",
    ),
    Code(
        code="critique.remark",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="A remark of the critique",
        what="A second model names a weakness of the output. The metadata has its own name for it.",
        hint="Mend it where the remark is right.",
    ),
    Code(
        code="critique.call_failed",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="The critique could not be made",
        what="A critique was due, and the language model could not be asked or gave no usable answer.",
        hint="Nothing to do for the sender: validation went on without it.",
    ),
    Code(
        code="critique.skipped_budget",
        layer=_LAYER,
        severity=Severity.WARNING,
        title="The critique was too dear",
        what="A critique was due and would have cost more than its limit, or the tenant's budget of the day is spent.",
        hint="Nothing to do for the sender. An administrator may raise the limit in the strictness table.",
    ),
)
