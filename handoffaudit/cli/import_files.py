"""`handoffaudit import`: brings the documents of files into the product."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import click

from handoffaudit.cli.documents import Piece, Source
from handoffaudit.cli.errors import Stop
from handoffaudit.cli.import_items import Answer, ImportReport, Item, Occurrences, make_item
from handoffaudit.cli.options import data_option, example, json_option, tenant_option
from handoffaudit.cli.progress import ProgressBar

BATCH_ITEMS = 500

BATCH_BYTES = 8 * 1024 * 1024

TOO_LONG = Answer(413, why="413 Document too large", remedy="No line of more than 64 MiB is read.")


class Receiver(Protocol):
    def send(self, items: list[Item]) -> list[Answer]: ...
    def close(self) -> None: ...


@click.command(
    name="import", epilog=example("handoffaudit import handoffs.jsonl.gz", "make-handoffs | handoffaudit import -")
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@tenant_option
@data_option
@click.option("--url", metavar="URL", help="Send the data to this server, e.g. https://audit.example.com.")
@click.option(
    "--key", metavar="KEY", envvar="HANDOFFAUDIT_KEY", help="API key for --url; prefer the variable HANDOFFAUDIT_KEY."
)
@json_option
def command(files: tuple[str, ...], tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Import handoffs from files, and report what was accepted and what was refused.

    A FILE holds one submission or bare document per line (JSONL), one JSON document, or a JSON array of documents; gzip
    is recognised, and - is standard input. Broken documents are stored as rejected. To finish an interrupted import,
    run it again: stored handoffs are not stored twice.

    Exits with 0 if everything is stored, with 1 if something was refused.
    """
    sources = [Source(path) for path in files]
    receiver = _choose_receiver(tenant, url, key)
    report = ImportReport()
    progress = ProgressBar(sum(source.size for source in sources) if all(source.size for source in sources) else 0)
    began = time.monotonic()
    stopped: Stop | None = None
    try:
        _import(sources, receiver, report, progress)
    except Stop as error:
        stopped = error
    receiver.close()
    report.seconds = time.monotonic() - began
    progress.finish(report.total)
    if report.total or not stopped:
        click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    if stopped:
        raise stopped
    if report.counts["refused"]:
        sys.exit(1)


def _choose_receiver(tenant: str, url: str | None, key: str | None) -> Receiver:
    if url:
        from handoffaudit.cli.import_receivers import ServerReceiver

        if not key:
            raise Stop("--url needs an API key with the scope ingest: give it with --key or HANDOFFAUDIT_KEY.")
        return ServerReceiver(url, key)
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database
    from handoffaudit.cli.import_receivers import DatabaseReceiver

    start_with_database()
    return DatabaseReceiver(find_tenant(tenant))


def _import(sources: list[Source], receiver: Receiver, report: ImportReport, progress: ProgressBar) -> None:
    before = 0
    for source in sources:
        mark = f"{Path(source.name).name}:" if len(sources) > 1 else ""
        occurrences = Occurrences()
        for batch in _batch_items(_make_items(source.pieces(), occurrences, report, mark)):
            for item, answer in zip(batch, receiver.send(batch), strict=True):
                report.add(f"{mark}{item.number}", answer)
            progress.update(report.total, before + source.read_bytes)
        before += source.read_bytes


def _make_items(pieces: Iterable[Piece], occurrences: Occurrences, report: ImportReport, mark: str) -> Iterator[Item]:
    for piece in pieces:
        if piece.text is None:
            report.add(f"{mark}{piece.number}", TOO_LONG)
        else:
            yield make_item(piece.number, piece.text, occurrences)


def _batch_items(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield the items in batches; if a file is damaged, first yield the items that were read before."""
    batch: list[Item] = []
    size = 0
    stopped: Stop | None = None
    while True:
        try:
            item = next(items, None)
        except Stop as error:
            item, stopped = None, error
        if item is not None:
            batch.append(item)
            size += len(item.sent)
        if batch and (item is None or len(batch) >= BATCH_ITEMS or size >= BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if item is None:
            break
    if stopped:
        raise stopped
