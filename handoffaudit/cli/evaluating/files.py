"""Labelled files as the command reads them."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli.importing.files import STANDARD_INPUT, Source
from handoffaudit.cli.stop import Stop

if TYPE_CHECKING:
    from handoffaudit.evaluation.measuring import Measured

QUIET_SECONDS, LINE_SECONDS = 1.0, 2.0


def lines(source: Source) -> Iterator[tuple[int, bytes]]:
    for piece in source.pieces():
        if piece.text is not None:
            yield piece.number, piece.text


def beside(path: str) -> Callable[[str], str | None]:
    """Reads a file that lies under the folder of `path`, and no other."""
    folder = (Path() if path == STANDARD_INPUT else Path(path).parent).resolve()

    def read(name: str) -> str | None:
        wanted = (folder / name).resolve()
        try:
            return wanted.read_text() if wanted.is_relative_to(folder) else None
        except (OSError, UnicodeDecodeError):
            return None

    return read


def nothing_known(name: str, why: str) -> Stop:
    return Stop(f"{name} holds no labelled data that is known here{': ' if why else ''}{why}.")


def tell_left_out(name: str, measured: "Measured") -> None:
    """What could not be used, on standard error. Raises `Stop` where nothing could be."""
    if not measured.kind:
        raise nothing_known(name, measured.unread[0] if measured.unread else "")
    if measured.unread_lines:
        from handoffaudit.validation.text import counted

        said = "; ".join(measured.unread)
        click.echo(f"{name}: {counted(measured.unread_lines, 'line')} left out: {said}.", err=True)


class Progress:
    """A line now and then on standard error, once it takes longer than a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._drawn = False
        self._terminal = sys.stderr.isatty()

    def tell(self, said: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_SECONDS)
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{said()}" if self._terminal else f"{said()}\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._drawn and self._terminal:
            sys.stderr.write("\r\x1b[K")


def share_of(source: Source, items: int) -> str:
    """How far a file is read."""
    share = f" · {100 * source.read_bytes / source.size:.0f} %" if source.size else ""
    return f"{source.name}: {items:,} items{share}"
