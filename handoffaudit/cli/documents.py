"""Files that a command reads, optionally gzipped: one document or line after the other, in bounded memory."""

import codecs
import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast
from weakref import finalize

import click
import orjson

from handoffaudit.cli import Stop

if TYPE_CHECKING:
    from handoffaudit.evaluation.stats import Measured


ARRAY_CHUNK = 1024 * 1024

_decode_one = json.JSONDecoder().raw_decode

_WHITE = " \t\r\n"


def array_items(stream: BufferedReader, name: str, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield the items of a JSON array with their numbers, from 1.

    Raises `Stop` at a broken item and at an item that is longer than `longest` characters. In both cases, the start of
    the next item cannot be found.
    """
    text = _ArrayText(stream)
    text.skip("[")
    number = 0
    while True:
        number += 1
        if text.skip("]"):
            return
        found = text.next_value(longest)
        if found is None:
            raise Stop(
                f"Item {number} of the array in {name} is not valid JSON, or is too long: the items before are stored;"
                " fix the item and import the file again, or write one document per line."
            )
        yield number, found.encode("utf-8", "surrogateescape")
        text.skip(",")


class _ArrayText:
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
            if not self._read_more():
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
            # A number at the end of the text may continue in the next chunk.
            if end is not None and (end < len(self._text) or self._ended):
                value, self._at = self._text[self._at : end], end
                return value
            if len(self._text) - self._at > longest or not self._read_more():
                return None

    def _read_more(self) -> bool:
        """Read more text. The read grows with the text left over, so that a long value is scanned only a few times."""
        if self._ended:
            return False
        rest = self._text[self._at :]
        read = self._stream.read1(max(ARRAY_CHUNK, len(rest)))
        self._ended = not read
        self._text, self._at = rest + self._decoder.decode(read, final=self._ended), 0
        return True


# A longer line is refused without being read as a whole, because no server accepts a document of this size.
LONGEST = 64 * 1024 * 1024

STANDARD_INPUT = "-"

GZIP_MAGIC = b"\x1f\x8b"

CHUNK = 1024 * 1024

# The shape of a file is detected from what `peek` returns, which is at most one buffer.
BUFFER_BYTES = 64 * 1024

# Below this size the ratio of unpacked to packed size does not matter.
FREE_BYTES = 8 * 1024 * 1024

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Piece:
    """A document: its line number, or its position in a JSON array, and its bytes.

    `text` is None if the document is too long.
    """

    number: int
    text: bytes | None


class Source:
    """A file or standard input; gzip is recognised by the content, not by the name.

    Raises `Stop` if the file can't be opened or read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == STANDARD_INPUT else path
        self.size = 0
        try:
            if path == STANDARD_INPUT:
                bottom = cast("BinaryIO", sys.stdin.buffer)
            else:
                bottom = Path(path).open("rb")  # noqa: SIM115 -- closed with this object
                finalize(self, bottom.close)
                self.size = Path(path).stat().st_size
            self._counted = _Counted(bottom)
            plain = io.BufferedReader(self._counted, BUFFER_BYTES)
            self._packed = packed = plain.peek(2)[:2] == GZIP_MAGIC
        except OSError as error:
            raise Stop(f"{self.name} can't be read ({error.strerror}).") from error
        unpacked = _Unpacked(gzip.GzipFile(fileobj=plain)) if packed else self._counted
        self._stream: io.BufferedReader[Any] = io.BufferedReader(unpacked, BUFFER_BYTES) if packed else plain
        # Windows programs begin a file with a byte order mark. A damaged file raises its error again when it is read.
        with suppress(EOFError, OSError, zlib.error):
            if self._stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
                self._stream.read(len(codecs.BOM_UTF8))

    @property
    def read_bytes(self) -> int:
        """Return how many bytes of the file were read, before unpacking, for comparison with `size`."""
        return self._counted.count

    def pieces(self) -> Iterator[Piece]:
        yield from self._convert_errors(self._read_pieces())

    def chunks(self, most_ratio: int | None = None) -> Iterator[bytes]:
        """Yield the unpacked content in chunks.

        Raises `Stop` if the file is damaged or can't be read. Also raises `Stop` if a gzip file unpacks to more than
        8 MiB and to more than `most_ratio` times the packed bytes read so far.
        """
        size = 0
        for chunk in self._convert_errors(iter(partial(self._stream.read1, CHUNK), b"")):
            size += len(chunk)
            if most_ratio and self._packed and size > max(FREE_BYTES, most_ratio * self.read_bytes):
                raise Stop(
                    f"{self.name} unpacks to more than {most_ratio} times its size, the maximum"
                    " (HANDOFFAUDIT_MAX_LOG_RATIO). The content before this point is stored. If the file is the right"
                    " one, unpack it first."
                )
            yield chunk

    def _convert_errors(self, read: Iterator[Read]) -> Iterator[Read]:
        """Convert errors during reading to `Stop`."""
        try:
            yield from read
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Stop(f"{self.name} is damaged ({error}): the content before the damage is stored.") from error
        except OSError as error:
            raise Stop(
                f"{self.name} can't be read ({error.strerror}): the content before this point is stored."
            ) from error

    def _read_pieces(self) -> Iterator[Piece]:
        shape = self._detect_shape()
        if shape == "array":
            for number, text in array_items(self._stream, self.name, LONGEST):
                yield Piece(number, text)
        elif shape == "document":
            yield Piece(1, _strip_unless_too_long(self._stream.read(LONGEST + 1)))
        else:
            yield from self._read_lines()

    def _read_lines(self, number: int = 0) -> Iterator[Piece]:
        while line := self._stream.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                self._skip_line(line)
                yield Piece(number, None)
            elif text := line.strip(b" \t\r\n"):
                yield Piece(number, text)

    def _skip_line(self, part: bytes) -> None:
        while part and not part.endswith(b"\n"):
            part = self._stream.readline(LONGEST)

    def _detect_shape(self) -> str:
        """Return `array` or `document` if the file begins with a JSON array or a document over several lines.

        Otherwise, or if the file name says so, return `lines`.
        """
        if self.path.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            return "lines"
        start = self._stream.peek(BUFFER_BYTES).lstrip()
        first, end, _ = start.partition(b"\n")
        first = first.strip()
        if is_json(first):
            return "array" if first.startswith(b"[") else "lines"
        if start.startswith(b"["):
            return "array"
        # Without a line end, the last character of `first` may be in the middle of its line.
        return "document" if end and first.endswith((b"{", b"[", b",")) and start.startswith(b"{") else "lines"


def is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _strip_unless_too_long(text: bytes) -> bytes | None:
    return text.strip() if len(text) <= LONGEST else None


class _Counted(io.RawIOBase):
    def __init__(self, bottom: BinaryIO) -> None:
        self._bottom = bottom
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        read = self._bottom.read(len(buffer))
        buffer[: len(read)] = read
        self.count += len(read)
        return len(read)

    def close(self) -> None:
        self._bottom.close()
        super().close()


class _Unpacked(io.RawIOBase):
    """The content of a gzip file. An error is raised only after all content before it was read."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        size = 0
        try:
            while self._error is None and size < len(buffer) and (read := self._packed.read1(len(buffer) - size)):
                buffer[size : size + len(read)] = read
                size += len(read)
        except (EOFError, OSError, zlib.error) as error:
            self._error = error
        if self._error and not size:
            raise self._error
        return size


_LINES = (".jsonl", ".ndjson")


class Documents(Source):
    """A file of documents; a file that is not JSON is one broken document, unless it looks like JSONL."""

    def pieces(self) -> Iterator[Piece]:
        try:
            yield from self._read_pieces()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Stop(f"{self.name} is damaged ({error}).") from error
        except OSError as error:
            raise Stop(f"{self.name} can't be read ({error.strerror}).") from error

    def _read_pieces(self) -> Iterator[Piece]:
        if self._detect_shape() == "lines":
            yield from self._read_lines()
            return
        # The first line may be longer than the buffer in which `_detect_shape` looks for complete lines.
        first = self._stream.readline(LONGEST + 1)
        if first.endswith(b"\n") and _is_object(first):
            yield Piece(1, first.strip())
            yield from self._read_lines(1)
            return
        whole = first + self._stream.read(LONGEST + 1 - len(first))
        if len(whole) > LONGEST:
            yield Piece(1, None)
        elif whole.lstrip().startswith(b"[") and is_json(whole):
            stream: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(whole)))
            for number, text in array_items(stream, self.name, LONGEST):
                yield Piece(number, text)
        else:
            yield Piece(1, whole)

    def _detect_shape(self) -> str:
        """Return `lines` or `document`.

        The shape is `lines` if the file name says so. It is also `lines` if the file begins with `{` and one of its
        first complete lines is a JSON object.
        """
        if self.path.removesuffix(".gz").endswith(_LINES):
            return "lines"
        start = self._stream.peek(BUFFER_BYTES).lstrip()
        *lines, _ = start.split(b"\n")
        alone = start.startswith(b"{") and any(_is_object(line) for line in lines)
        return "lines" if alone else "document"


def _is_object(line: bytes) -> bool:
    """Return whether the line is an object that starts in the first column. An indented object is part of another."""
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def labelled_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    for piece in source.pieces():
        if piece.text is not None and piece.text.strip():
            yield piece.number, piece.text


def reader_beside(path: str) -> Callable[[str], str | None]:
    """Return a function that reads text files below the folder of `path`.

    The function returns None for any other path, and for a file that cannot be read as UTF-8.
    """
    folder = (Path() if path == STANDARD_INPUT else Path(path).parent).resolve()

    def read(name: str) -> str | None:
        wanted = (folder / name).resolve()
        try:
            return wanted.read_text() if wanted.is_relative_to(folder) else None
        except (OSError, UnicodeDecodeError):
            return None

    return read


def no_labelled_data(name: str, why: str, hint: str) -> Stop:
    message = f"{name} holds no labelled data of a known kind{': ' if why else ''}{why}."
    return Stop(f"{message} {hint}" if hint else message)


def report_left_out(name: str, measured: "Measured", hint: str) -> None:
    """Report unusable lines on standard error. Raises `Stop` with the hint if no line was usable."""
    if not measured.kind:
        raise no_labelled_data(name, measured.unread[0] if measured.unread else "", hint)
    if measured.unread_lines:
        from handoffaudit.validation.text import pluralize

        reasons = "; ".join(measured.unread)
        click.echo(f"{name}: {pluralize(measured.unread_lines, 'line')} left out: {reasons}.", err=True)


def describe_progress(source: Source, items: int) -> str:
    """Return a line with the number of items so far, and the share of the file that was read."""
    share = f" · {100 * source.read_bytes / source.size:.0f} %" if source.size else ""
    return f"{source.name}: {items:,} items{share}"
