"""The text of a block as it is stored."""

import zlib
from collections.abc import Iterator
from uuid import UUID

from handoffaudit.diagnostics.models import LogText

# A higher one takes twice as long and saves a tenth.
LEVEL = 1


def packed(text: bytes) -> bytes:
    return zlib.compress(text, LEVEL)


def text_of(block: UUID) -> bytes:
    """Raises `LogText.DoesNotExist`."""
    return zlib.decompress(LogText.objects.values_list("packed", flat=True).get(block=block))


def lines_of(text: bytes) -> Iterator[bytes]:
    """The lines of a block's text, without their ends."""
    return iter(text.removesuffix(b"\n").split(b"\n")) if text else iter(())
