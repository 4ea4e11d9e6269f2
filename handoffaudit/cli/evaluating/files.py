"""Labelled files as the command reads them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli.importing.files import STANDARD_INPUT, Source
from handoffaudit.cli.stop import Stop

if TYPE_CHECKING:
    from handoffaudit.evaluation.measuring import Measured


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
        from handoffaudit.validation.text import pluralize

        said = "; ".join(measured.unread)
        click.echo(f"{name}: {pluralize(measured.unread_lines, 'line')} left out: {said}.", err=True)


def share_of(source: Source, items: int) -> str:
    """How far a file is read."""
    share = f" · {100 * source.read_bytes / source.size:.0f} %" if source.size else ""
    return f"{source.name}: {items:,} items{share}"
