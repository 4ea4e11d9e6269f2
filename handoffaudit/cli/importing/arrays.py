"""The items of a JSON array, read one at a time; each with the very bytes it has in the file."""

import codecs
import json
from collections.abc import Iterator
from io import BufferedReader

from handoffaudit.cli.stop import Stop

CHUNK = 1024 * 1024
_decode_one = json.JSONDecoder().raw_decode
_WHITE = " \t\r\n"


def items(stream: BufferedReader, name: str, longest: int) -> Iterator[tuple[int, bytes]]:
    """Numbered from 1. Where the array is broken off or wrong there is no way to find the next item: it stops."""
    text = _Text(stream)
    text.skip("[")
    number = 0
    while True:
        number += 1
        if text.skip("]"):
            return
        found = text.next_value(longest)
        if found is None:
            raise Stop(
                f"Item {number} of the array in {name} is not valid JSON: what came before is stored; mend it and"
                " import the file again, or write one document a line."
            )
        yield number, found.encode()
        text.skip(",")


class _Text:
    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self._ended = False

    def skip(self, mark: str) -> bool:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _WHITE:
                self._at += 1
            if self._at < len(self._text):
                break
            if not self._more():
                return False
        if self._text[self._at] != mark:
            return False
        self._at += 1
        return True

    def next_value(self, longest: int) -> str | None:
        while True:
            try:
                _, end = _decode_one(self._text, self._at)
            except (ValueError, RecursionError):
                end = None
            # A number at the very end may go on in the next chunk.
            if end is not None and (end < len(self._text) or self._ended):
                value, self._at = self._text[self._at : end], end
                return value
            if len(self._text) - self._at > longest or not self._more():
                return None

    def _more(self) -> bool:
        """Doubles what is at hand, so that a long value is not scanned again and again."""
        if self._ended:
            return False
        rest = self._text[self._at :]
        read = self._stream.read(max(CHUNK, len(rest)))
        self._ended = not read
        self._text, self._at = rest + self._decoder.decode(read, final=self._ended), 0
        return True
