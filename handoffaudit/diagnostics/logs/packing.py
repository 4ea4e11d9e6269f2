"""The text of a block as it is stored."""

import io
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


def unpacked(data: bytes | memoryview) -> bytes:
    return zlib.decompress(data)


def lines_of(text: bytes) -> Iterator[bytes]:
    """Give the lines of a block's text one by one, without their ends: all at once, short ones take twenty times the
    memory of the text."""
    return (line.removesuffix(b"\n") for line in io.BytesIO(text))
