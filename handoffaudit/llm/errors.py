"""Failures of the LLM service as `Unavailable` errors. Each message says how to fix a cause that users can fix."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import Reason, Unavailable
from handoffaudit.validation.text import clean

# Longer pauses are shortened to this many seconds.
LONGEST_RETRY_AFTER: Final = 3600.0
_LONGEST_MESSAGE = 200


@dataclass(frozen=True, slots=True)
class _Row:
    reason: Reason
    detail: str


_BY_STATUS: Final[Mapping[int, _Row]] = {
    400: _Row(
        Reason.REFUSED,
        "The LLM service refused the request (400): check the names in HANDOFFAUDIT_MODEL_FAST and "
        "HANDOFFAUDIT_MODEL_CAREFUL, and that the account has credit",
    ),
    401: _Row(
        Reason.REFUSED,
        "The LLM service refused the key (401): set ANTHROPIC_API_KEY (or the credentials of AWS or Google Cloud) "
        "to a valid one",
    ),
    402: _Row(Reason.REFUSED, "The LLM service asks for payment (402): add credit to the account"),
    403: _Row(
        Reason.REFUSED,
        "The key has no access to the model (403): give its account access, or set ANTHROPIC_API_KEY (or the "
        "credentials of AWS or Google Cloud) to a key that has access",
    ),
    404: _Row(
        Reason.REFUSED,
        "The LLM service does not know the model or the address (404): check HANDOFFAUDIT_MODEL_FAST, "
        "HANDOFFAUDIT_MODEL_CAREFUL and ANTHROPIC_BASE_URL",
    ),
    408: _Row(Reason.TIMEOUT, "The LLM service did not get the request in time (408)"),
    413: _Row(Reason.REFUSED, "The request is too large for the LLM service (413): shorten the prompt"),
    429: _Row(
        Reason.RATE_LIMIT,
        "The LLM service accepts no more requests for now (429): raise the account's limits or lower "
        "HANDOFFAUDIT_MODEL_CONCURRENCY",
    ),
    504: _Row(Reason.TIMEOUT, "The LLM service did not finish in time (504)"),
    529: _Row(Reason.OVERLOADED, "The LLM service is overloaded (529)"),
}
RETRYABLE: Final = frozenset(
    {Reason.TIMEOUT, Reason.RATE_LIMIT, Reason.OVERLOADED, Reason.SERVER_ERROR, Reason.CONNECTION}
)


def error_of_status(status: int, *, retry_after: str | None, message: str | None, now: datetime) -> Unavailable:
    """Return the error for an HTTP status other than success.

    `message` is the service's own message, which the error quotes only if the service refused the request.
    """
    row = _BY_STATUS.get(status) or _row_of_class(status)
    words = (
        clean(" ".join(str(mask_secrets(message)).split()), _LONGEST_MESSAGE)
        if message and row.reason is Reason.REFUSED
        else ""
    )
    detail = f'{row.detail}; the service says "{words}".' if words else f"{row.detail}."
    return Unavailable(row.reason, detail, retry_after=parse_retry_after(retry_after, now), status=status)


def _row_of_class(status: int) -> _Row:
    if status >= 500:
        return _Row(Reason.SERVER_ERROR, f"The LLM service failed ({status})")
    if status >= 400:
        return _Row(Reason.REFUSED, f"The LLM service refused the request ({status})")
    return _Row(Reason.REFUSED, f"The address answers {status}, not a message: check ANTHROPIC_BASE_URL")


def timeout_error(seconds: float) -> Unavailable:
    return Unavailable(Reason.TIMEOUT, f"The LLM did not answer within {seconds:.3g} seconds.")


def connection_error() -> Unavailable:
    return Unavailable(
        Reason.CONNECTION,
        "The LLM service could not be reached, or the connection broke: check the network and ANTHROPIC_BASE_URL.",
    )


def invalid_message_error() -> Unavailable:
    return Unavailable(
        Reason.SERVER_ERROR, "The LLM service sent an answer that is not a message: check ANTHROPIC_BASE_URL."
    )


def too_long_error(most: int) -> Unavailable:
    return Unavailable(
        Reason.SERVER_ERROR,
        f"The LLM service sent more than {most // 1024**2} MiB, which cannot be a message: check ANTHROPIC_BASE_URL.",
    )


def connect_timeout_error(seconds: float) -> Unavailable:
    return Unavailable(
        Reason.TIMEOUT,
        f"The connection to the LLM service took longer than {seconds:.3g} seconds: check the network and "
        "ANTHROPIC_BASE_URL.",
    )


def invalid_key_error() -> Unavailable:
    return Unavailable(
        Reason.REFUSED, "ANTHROPIC_API_KEY contains characters that are not allowed in a key: copy the key again."
    )


def sdk_error(error: Exception, provider: str) -> Unavailable:
    """Return the error for an unexpected failure of the SDK. For Bedrock and Vertex, it says that the setup is wrong.

    Leave out the text of `error`, which may hold the request.
    """
    if provider == "anthropic":
        return Unavailable(Reason.CONNECTION, f"The SDK of the LLM failed ({type(error).__name__}).")
    return Unavailable(
        Reason.REFUSED,
        f"The client for {provider} is not set up ({type(error).__name__}): install handoffaudit[{provider}], and set "
        "its region and credentials.",
    )


class StoppedError(Exception):
    """The process is ending, so the call is cancelled."""


@contextmanager
def raise_unavailable(seconds: float) -> Iterator[None]:
    """Raise `Unavailable` for a call that took longer than `seconds`, and for a call while the process ends."""
    # `from None` hides the cause, which may hold the request and the key.
    try:
        yield
    except TimeoutError:
        raise timeout_error(seconds) from None
    except StoppedError:
        raise Unavailable(Reason.CONNECTION, "The call was cancelled because the process is ending.") from None


def parse_retry_after(retry_after: str | None, now: datetime) -> float | None:
    """Return the seconds of a `retry-after` header, at most an hour. The header is a number or an HTTP date.

    Return None if there is no header, for an invalid value, and for a time in the past.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        seconds = _seconds_until(retry_after, now)
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_RETRY_AFTER)


def _seconds_until(date: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return -1.0
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
