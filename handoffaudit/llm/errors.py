"""Failures of the LLM service as `Unavailable`: a table by HTTP status, and each message says what to fix."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import Reason, Unavailable
from handoffaudit.validation.text import clean

# A longer pause than this many seconds is not believed.
LONGEST_RETRY_AFTER: Final = 3600.0
_LONGEST_SAID = 200


@dataclass(frozen=True, slots=True)
class _Row:
    reason: Reason
    detail: str


_BY_STATUS: Final[Mapping[int, _Row]] = {
    400: _Row(
        Reason.REFUSED,
        "The model's service refused the request (400): check the names in HANDOFFAUDIT_MODEL_FAST and "
        "HANDOFFAUDIT_MODEL_CAREFUL, and that the account has credit",
    ),
    401: _Row(
        Reason.REFUSED,
        "The model's service refused the key (401): set ANTHROPIC_API_KEY (or the credentials of AWS or Google Cloud) "
        "to a valid one",
    ),
    402: _Row(Reason.REFUSED, "The model's service asks for payment (402): add credit to the account"),
    403: _Row(
        Reason.REFUSED,
        "The key may not do this (403): allow its account to use the model, or set ANTHROPIC_API_KEY (or the "
        "credentials of AWS or Google Cloud) to another",
    ),
    404: _Row(
        Reason.REFUSED,
        "The model's service knows no such model or address (404): check HANDOFFAUDIT_MODEL_FAST, "
        "HANDOFFAUDIT_MODEL_CAREFUL and ANTHROPIC_BASE_URL",
    ),
    408: _Row(Reason.TIMEOUT, "The model's service waited too long for the request (408)"),
    413: _Row(Reason.REFUSED, "The request is too large for the model's service (413): shorten the prompt"),
    429: _Row(
        Reason.RATE_LIMIT,
        "The model's service takes no more requests for now (429): raise the account's limits or lower "
        "HANDOFFAUDIT_MODEL_CONCURRENCY",
    ),
    504: _Row(Reason.TIMEOUT, "The model's service did not finish in time (504)"),
    529: _Row(Reason.OVERLOADED, "The model's service is overloaded (529)"),
}
RETRIED: Final = frozenset(
    {Reason.TIMEOUT, Reason.RATE_LIMIT, Reason.OVERLOADED, Reason.SERVER_ERROR, Reason.CONNECTION}
)


def of_status(status: int, *, retry_after: str | None, said: str | None, now: datetime) -> Unavailable:
    """Return the error for an HTTP status other than success.

    `said` is the service's own message, shown only where the user can fix the cause.
    """
    row = _BY_STATUS.get(status) or _row_of_class(status)
    words = (
        clean(" ".join(str(mask_secrets(said)).split()), _LONGEST_SAID) if said and row.reason is Reason.REFUSED else ""
    )
    detail = f'{row.detail}; it says "{words}".' if words else f"{row.detail}."
    return Unavailable(row.reason, detail, retry_after=seconds_of(retry_after, now), status=status)


def _row_of_class(status: int) -> _Row:
    if status >= 500:
        return _Row(Reason.SERVER_ERROR, f"The model's service failed ({status})")
    if status >= 400:
        return _Row(Reason.REFUSED, f"The model's service refused the request ({status})")
    return _Row(Reason.REFUSED, f"The address answers {status}, not a message: check ANTHROPIC_BASE_URL")


def timed_out(seconds: float) -> Unavailable:
    return Unavailable(Reason.TIMEOUT, f"The model did not answer within {seconds:.3g} seconds.")


def not_connected() -> Unavailable:
    return Unavailable(
        Reason.CONNECTION,
        "The model's service could not be reached, or the connection broke: check the network and ANTHROPIC_BASE_URL.",
    )


def not_a_message() -> Unavailable:
    return Unavailable(
        Reason.SERVER_ERROR, "The model's service answered with something that is no message: check ANTHROPIC_BASE_URL."
    )


def too_long(most: int) -> Unavailable:
    return Unavailable(
        Reason.SERVER_ERROR,
        f"The model's service answered with more than {most // 1024**2} MiB, which is no message: check "
        "ANTHROPIC_BASE_URL.",
    )


def not_connected_within(seconds: float) -> Unavailable:
    return Unavailable(
        Reason.TIMEOUT,
        f"The model's service could not be connected to within {seconds:.3g} seconds: check the network and "
        "ANTHROPIC_BASE_URL.",
    )


def not_a_key() -> Unavailable:
    return Unavailable(Reason.REFUSED, "ANTHROPIC_API_KEY has characters that no key has: copy it again.")


def not_set_up(provider: str, error: Exception) -> Unavailable:
    """Return the error for a client that could not be created or has no credentials: nothing was sent."""
    return Unavailable(
        Reason.REFUSED,
        f"The client for {provider} is not set up ({type(error).__name__}): install handoffaudit[{provider}], and give "
        "it its region and credentials.",
    )


def unforeseen(error: Exception) -> Unavailable:
    """Return the error for an unknown failure of the SDK, without its text, which may hold the request."""
    return Unavailable(Reason.CONNECTION, f"The model's SDK failed ({type(error).__name__}).")


def stopped() -> Unavailable:
    return Unavailable(Reason.CONNECTION, "The call was given up because the process is ending.")


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """Return a `retry-after` header, which is a number or an HTTP date, in seconds and at most an hour.

    Returns None for an invalid value and for a time in the past.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _until(retry_after, now)
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_RETRY_AFTER)


def _until(date: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return -1.0
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
