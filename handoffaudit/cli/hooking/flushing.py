"""`handoffaudit hook --flush`: what waits is sent, and what can't be is told."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from handoffaudit.cli.hooking.sending import send_waiting
from handoffaudit.cli.hooking.server import Server
from handoffaudit.cli.hooking.spool import Spool
from handoffaudit.cli.stop import Stop


def flush_spool(server: Server, folder: Path, *, any_key: bool) -> int:
    """Sends all that waits for this server; `any_key`: also what was read with another key of it. Gives the exit code:
    1 where something still waits or was set aside now."""
    sent = aside = waiting = 0
    stopped = ""
    for path in _folders(server, folder, any_key=any_key):
        spool = Spool(path, 0)
        try:
            if not stopped:
                report = send_waiting(spool, server, wait=True)
                sent, aside, stopped = sent + report.sent, aside + len(report.aside), report.stopped
            waiting += len(spool.waiting())
        except OSError as error:
            raise Stop(f"{path} can't be used ({error}).", 1) from error
        if before := spool.aside():
            click.echo(f"{before} set aside in {path / 'aside'}: each file says why.", err=True)
    click.echo(f"{sent} sent, {aside} set aside, {waiting} waiting.")
    if stopped:
        click.echo(f"Warning: {stopped}.", err=True)
    others = [path for path in _all(folder) if not path.name.startswith(server.name_of_address)]
    left = _number(others) + (0 if any_key else with_other_keys(server, folder))
    if left:
        remedy = "--any-key sends those of this address."
        click.echo(f"{left} more in {folder} wait for another address or key: {remedy}", err=True)
    return 1 if waiting or aside else 0


def with_other_keys(server: Server, folder: Path) -> int:
    """How many wait for the same address that were made with another key."""
    return _number(path for path in _all(folder, server.name_of_address) if path.name != server.name)


def _number(folders: Iterable[Path]) -> int:
    return sum(len(Spool(path, 0).waiting()) for path in folders)


def _folders(server: Server, folder: Path, *, any_key: bool) -> Iterator[Path]:
    yield folder / server.name
    if any_key:
        yield from (path for path in _all(folder, server.name_of_address) if path.name != server.name)


def _all(folder: Path, beginning: str = "") -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.startswith(beginning))
