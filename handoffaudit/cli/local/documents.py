"""Reader for the documents or labelled lines of a judged file: JSON, JSONL or a JSON array, optionally gzipped."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import orjson

from handoffaudit.cli.errors import Stop
from handoffaudit.cli.imports import files
from handoffaudit.cli.imports.files import LONGEST, STANDARD_INPUT, Piece, Source, is_json

if TYPE_CHECKING:
    from handoffaudit.evaluation.stats import Measured


_LINES = (".jsonl", ".ndjson")


class Documents(Source):
    """A file of documents; a file that is not JSON is one broken document, unless it looks like JSONL."""

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
            for number, text in files.array_items(stream, self.name, LONGEST):
                yield Piece(number, text)
        else:
            yield Piece(1, whole)

    def _shape(self) -> str:
        """Return `lines` if the file name says so, or an early line of several is a JSON object by itself."""
        if self.path.removesuffix(".gz").endswith(_LINES):
            return "lines"
        start = self._stream.peek(65536).lstrip()
        *lines, _ = start.split(b"\n")
        alone = start.startswith(b"{") and any(_is_object(line) for line in lines)
        return "lines" if alone else "document"


def _is_object(line: bytes) -> bool:
    """Return whether the line is an object that starts in the first column; an indented object is a part of another."""
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def labelled_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    for piece in source.pieces():
        if piece.text is not None:
            yield piece.number, piece.text


def reader_beside(path: str) -> Callable[[str], str | None]:
    """Return a function that reads only files below the folder of `path`."""
    folder = (Path() if path == STANDARD_INPUT else Path(path).parent).resolve()

    def read(name: str) -> str | None:
        wanted = (folder / name).resolve()
        try:
            return wanted.read_text() if wanted.is_relative_to(folder) else None
        except (OSError, UnicodeDecodeError):
            return None

    return read


def no_labelled_data(name: str, why: str) -> Stop:
    return Stop(f"{name} holds no labelled data that is known here{': ' if why else ''}{why}.")


def report_left_out(name: str, measured: "Measured") -> None:
    """Report unusable lines on standard error. Raises `Stop` if no line was usable."""
    if not measured.kind:
        raise no_labelled_data(name, measured.unread[0] if measured.unread else "")
    if measured.unread_lines:
        from handoffaudit.validation.text import pluralize

        said = "; ".join(measured.unread)
        click.echo(f"{name}: {pluralize(measured.unread_lines, 'line')} left out: {said}.", err=True)


def describe_progress(source: Source, items: int) -> str:
    """Return how much of the file is read."""
    share = f" · {100 * source.read_bytes / source.size:.0f} %" if source.size else ""
    return f"{source.name}: {items:,} items{share}"
