"""Rule codes of the consistency layer."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

CODES = (
    Code(
        "consistency.expires_before_timestamp",
        "consistency",
        Severity.WARNING,
        "Expires before it was made",
        "expires_at is earlier than timestamp.",
        "Set expires_at to a time after timestamp.",
    ),
    Code(
        "consistency.expired",
        "consistency",
        Severity.WARNING,
        "Expired",
        "expires_at had passed when the handoff arrived.",
        "Send it again with a later expires_at, if it still holds.",
    ),
    Code(
        "consistency.timestamp_not_utc",
        "consistency",
        Severity.WARNING,
        "Time not in UTC",
        "A time is not written in UTC with Z.",
        "Write times in UTC with Z at the end.",
    ),
    Code(
        "consistency.trace_id_not_v4",
        "consistency",
        Severity.WARNING,
        "Trace id is not a UUID of version 4",
        "The trace id is a UUID, but not of version 4.",
        "Make trace ids with a UUID version 4 generator.",
    ),
    Code(
        "consistency.clock_skew",
        "consistency",
        Severity.WARNING,
        "Sender's clock is ahead",
        "The sender's time is more than 5 minutes ahead of the server's.",
        "Set the sender's clock (NTP), and write times in UTC.",
    ),
    Code(
        "integrity.payload_hash_mismatch",
        "consistency",
        Severity.ERROR,
        "Payload hash does not match",
        "The payload is not the one that the hash was made of.",
        "Compute the SHA-256 over the payload as sent: compact JSON, keys in document order, non-ASCII as it is.",
    ),
    Code(
        "integrity.size_mismatch",
        "consistency",
        Severity.WARNING,
        "Payload size does not match",
        "payload_size_bytes is not the size of the payload's compact JSON.",
        "Count the bytes of the payload's compact JSON in UTF-8.",
    ),
    Code(
        "confidence.low",
        "consistency",
        Severity.WARNING,
        "Low confidence",
        "The sender's confidence is below the floor of the type.",
        "Check the work again before handing it over, or say in the data what is uncertain.",
    ),
)
