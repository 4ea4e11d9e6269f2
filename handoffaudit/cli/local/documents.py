"""The documents of a file that is judged: JSON, JSONL or a JSON array, packed or not."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, cast

import orjson

from handoffaudit.cli.importing import arrays
from handoffaudit.cli.importing.files import LONGEST, Piece, Source, is_json
from handoffaudit.cli.stop import Stop

_LINES = (".jsonl", ".ndjson")


class Documents(Source):
    """A file as a person means it: one that is not JSON is one broken document, unless its lines say otherwise."""

    def pieces(self) -> Iterator[Piece]:
        try:
            yield from self._pieces()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Stop(f"{self.name} is damaged ({error}).") from error
        except OSError as error:
            raise Stop(f"{self.name} can't be read ({error.strerror}).") from error

    def _pieces(self) -> Iterator[Piece]:
        if self._shape() == "lines":
            yield from self._lines()
            return
        whole = self._stream.read(LONGEST + 1)
        if len(whole) > LONGEST:
            yield Piece(1, None)
        elif whole.lstrip().startswith(b"[") and is_json(whole):
            stream: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(whole)))
            for number, text in arrays.items(stream, self.name, LONGEST):
                yield Piece(number, text)
        else:
            yield Piece(1, whole)

    def _shape(self) -> str:
        """`lines` where the name says so, or one of the first lines is an object on its own and not the only line."""
        if self.path.removesuffix(".gz").endswith(_LINES):
            return "lines"
        start = self._stream.peek(65536).lstrip()
        *lines, _ = start.split(b"\n")
        alone = start.startswith(b"{") and any(_is_object(line) for line in lines)
        return "lines" if alone else "document"


def _is_object(line: bytes) -> bool:
    """Only one that begins at the margin: what is indented is a part of something."""
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
