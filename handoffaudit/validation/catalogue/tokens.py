"""Rule codes of the tokens layer."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

CODES = (
    Code(
        "tokens.over_budget",
        "tokens",
        Severity.ERROR,
        "Over the token budget",
        "The compact JSON of the document is more tokens than its type may have.",
        "Shorten the largest sections, or refer to files in place of carrying them along.",
    ),
    Code(
        "tokens.count_drift",
        "tokens",
        Severity.WARNING,
        "Declared token count is off",
        "The declared count differs by more than 30 % from the estimate (characters / 4), both of the document as "
        "sent and of its compact JSON.",
        "Recount after the document's last change: characters of its compact JSON, divided by 4.",
    ),
    Code(
        "tokens.estimated",
        "tokens",
        Severity.INFO,
        "Tokens estimated",
        "No tokenizer was available, so tokens were estimated as characters / 4.",
        "Nothing to change in the handoff: an operator installs the tokenizer (splintr-rs).",
    ),
)
