"""What was sent, cut into submissions, as the settings allow."""

import re
from functools import lru_cache
from itertools import islice, takewhile

import msgspec
from django.conf import settings

from handoffaudit.validation import submission
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.submission import Submission

__all__ = ["Submission", "read_submission", "split_batch"]

_LINE = re.compile(rb"\S[^\n]*")


def read_submission(sent: bytes, declared_format: str | None = None, handoff_id: str | None = None) -> Submission:
    """One submission or bare document; see `handoffaudit.validation.submission`."""
    return submission.read_submission(sent, declared_format, handoff_id, max_nesting=settings.MAX_NESTING)


def split_batch(sent: bytes, *, lines: bool, most: int) -> list[bytes]:
    """The items of a batch, each as its own bytes; of more than `most` only one more, since millions of them would take
    a hundred times the memory of what was sent. Raises `ValueError` where a JSON array can't be read: it says at
    which line and column."""
    if lines:
        return [
            sent[sent.rfind(b"\n", 0, found.start()) + 1 : found.end()]
            for found in islice(_LINE.finditer(sent), most + 1)
        ]
    try:
        items = msgspec.structs.astuple(_items(most + 1).decode(sent))
    except submission.UNREADABLE as error:
        _, issues = parse_json(sent, max_depth=settings.MAX_NESTING + 2)
        told = [f"{issue.message} {issue.hint}" for issue in issues]
        raise ValueError(told[0] if told else f"It is not a JSON array: {error}.") from error
    return [bytes(item) for item in takewhile(len, items)]


@lru_cache(maxsize=4)
def _items(number: int) -> "msgspec.json.Decoder[msgspec.Struct]":
    """An array's first items; msgspec reads what follows and keeps none of it."""
    fields = [(f"item_{position}", msgspec.Raw, msgspec.Raw()) for position in range(number)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True))
