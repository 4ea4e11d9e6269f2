"""What to do about each cause for which the model was not asked, or did not answer: one line each."""

from handoffaudit.validation.asking.question import Reason

_BY_STATUS = {
    400: "Check the names in HANDOFFAUDIT_MODEL_FAST and HANDOFFAUDIT_MODEL_CAREFUL, and that the account has credit.",
    401: "Set ANTHROPIC_API_KEY to a valid key and restart.",
    402: "Add credit to the account.",
    403: "Allow the key's account to use this model, or set ANTHROPIC_API_KEY to another key.",
    404: "Correct the model's name in HANDOFFAUDIT_MODEL_FAST or HANDOFFAUDIT_MODEL_CAREFUL, or ANTHROPIC_BASE_URL.",
    413: "Shorten your own prompt for this use: the request is too large.",
}
# Refused here, before anything was sent: a key that can be none, a provider without its package, region or credentials.
_NOT_SET_UP = "Nothing was sent: correct the key, or the provider's package, region or credentials, as is said below."
_BY_REASON = {
    Reason.NO_KEY: "Set ANTHROPIC_API_KEY and restart.",
    Reason.REFUSED: "Read what the service said, and correct the key, the model's name or the address.",
    Reason.RATE_LIMIT: "Lower HANDOFFAUDIT_MODEL_CONCURRENCY, or have the account's limits raised.",
    Reason.OVERLOADED: "Nothing: the service is overloaded; what was not checked is checked later.",
    Reason.SERVER_ERROR: "Look at the service's status page; where it is well, check ANTHROPIC_BASE_URL.",
    Reason.TIMEOUT: "Where it happens often, raise HANDOFFAUDIT_MODEL_SECONDS or choose a faster model.",
    Reason.CONNECTION: "Check the network, a proxy in between and ANTHROPIC_BASE_URL.",
    Reason.MALFORMED_ANSWER: "Choose a more capable model; with a prompt of your own, put the shipped one back.",
    Reason.BREAKER_OPEN: "Cure the failures before it: the model is asked again by itself, first with one call.",
    Reason.BUDGET: "Raise HANDOFFAUDIT_MODEL_DAILY_USD and restart; else it begins anew at 00:00 UTC.",
    Reason.TOO_DEAR: "Raise the limit of a critique's cost in the type's strictness, or choose a cheaper model.",
}


def cure(reason: str, status: int | None = None) -> str:
    """The line for a reason and, where the service answered with one, its HTTP status."""
    if reason == Reason.REFUSED.value and status in _BY_STATUS:
        return _BY_STATUS[status]
    if reason == Reason.REFUSED.value and status is None:
        return _NOT_SET_UP
    return _BY_REASON[Reason(reason)]
