"""`handoffaudit import-log`: stores log lines in the local database, or sends them to a server in parts."""

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import STANDARD_INPUT, Source
from handoffaudit.cli.import_receivers import Server, describe_refusal
from handoffaudit.cli.terminal import (
    ProgressBar,
    data_option,
    example,
    json_option,
    printable,
    require_key,
    send_key_option,
    send_url_option,
    tenant_option,
)

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.validation.logs.blocks import Block


# Parts are compressed while they are created, so speed matters more than size.
_LEVEL = 1

# The answer of the server has the final counts of lines only if the upload has at most 9 MiB and 250,000 lines. Above
# 8 MiB, the server limits the compression ratio, and a log of equal lines would exceed the limit. The last block of a
# part may exceed `PART_BYTES` or `PART_LINES`, but the part stays below the bounds of the server.
PART_BYTES = 7 * 1024 * 1024

PART_LINES = 200_000

BAD_SHOWN = 5

SENDER = "handoffaudit import-log"

LineCallback = Callable[[int], None]


@dataclass(slots=True)
class ImportedLog:
    """The result of a log's import; `kinds`, `bad` and `bad_lines` are None if a server reads the log later."""

    source: str
    imports: list[str] = field(default_factory=list)
    lines: int = 0
    known: int = 0
    kinds: dict[str, int] | None = None
    bad: int | None = None
    bad_lines: list[dict[str, Any]] | None = None

    @property
    def new(self) -> int:
        return self.lines - self.known


class DatabaseLogReceiver:
    """Receiver that writes a log into the local database, and reads its lines immediately."""

    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant

    @property
    def most_ratio(self) -> int:
        """Return the limit of the size of an unpacked log, as a multiple of its packed size."""
        from django.conf import settings

        return int(settings.MAX_LOG_RATIO)

    def send(self, source: str, stream: Iterable[bytes], on_progress: LineCallback) -> ImportedLog:
        from handoffaudit.diagnostics.logs import store

        made = store.store_log(
            self._tenant, source, SENDER, stream, read_here=True, on_progress=lambda row: on_progress(row.lines)
        )
        bad = store.list_bad_lines(made, limit=BAD_SHOWN).items if made.bad else []
        shown = [{"number": line.number, "why": line.why} for line in bad]
        return ImportedLog(made.source, [str(made.pk)], made.lines, made.known, made.kinds, made.bad, shown)

    def close(self) -> None:
        """Do nothing, because nothing is open."""


class ServerLogReceiver(Server):
    """Receiver that sends a log to a server by the API.

    The parts end where blocks end, so the same lines form the same blocks if they are sent again.
    """

    @property
    def most_ratio(self) -> int:
        """Return the limit for the local database, because the server can't check the ratio of the original file.

        The server receives parts that this class has packed itself.
        """
        from django.core.exceptions import ImproperlyConfigured
        from environs import EnvError

        from handoffaudit.env import most_log_ratio

        try:
            return most_log_ratio()
        except (ImproperlyConfigured, EnvError) as error:
            raise Stop(str(error)) from error

    def send(self, source: str, stream: Iterable[bytes], on_progress: LineCallback) -> ImportedLog:
        from handoffaudit.validation.logs.blocks import cut_blocks

        done = ImportedLog(source)
        for part in _join_blocks(cut_blocks(stream)):
            self._send_part(done, part)
            on_progress(done.lines)
        return done

    def _send_part(self, done: ImportedLog, part: "Sequence[Block]") -> None:
        """Send a part, in halves if it is too large for the server or for a proxy in front of the server."""
        query = urlencode({"source": done.source, "first_line": part[0].first_line}, quote_via=quote)
        body = gzip.compress(b"".join(block.text for block in part), _LEVEL)
        status, said = self.post(f"/logs?{query}", body, "text/plain", Content_Encoding="gzip")
        if status == 413 and len(part) > 1:
            half = len(part) // 2
            self._send_part(done, part[:half])
            self._send_part(done, part[half:])
            return
        if status != 202:
            raise Stop(f"{self._url} refused the log ({describe_refusal(status, said)}).", 1)
        done.imports.append(said["id"])
        done.lines += said["lines"]
        done.known += said["known"]


def _join_blocks(found: Iterable["Block"]) -> Iterator[list["Block"]]:
    """Yield blocks in parts. If reading fails, yield the blocks before the failure, and then raise the error."""
    part: list[Block] = []
    size = lines = 0
    try:
        for block in found:
            part.append(block)
            size += len(block.text)
            lines += block.lines
            if size >= PART_BYTES or lines >= PART_LINES:
                yield part
                part, size, lines = [], 0, 0
    except Exception:
        if part:
            yield part
        raise
    if part:
        yield part


class Receiver(Protocol):
    @property
    def most_ratio(self) -> int: ...
    def send(self, source: str, stream: Any, on_progress: LineCallback) -> ImportedLog: ...
    def close(self) -> None: ...


@click.command(
    name="import-log",
    epilog=example("handoffaudit import-log runs/nightly.log", "collect | handoffaudit import-log --source nightly -"),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--source", metavar="NAME", help="Name of the log. Default: the file's full path.")
@tenant_option
@data_option
@send_url_option
@send_key_option
@json_option
def command(
    files: tuple[str, ...], source: str | None, tenant: str, url: str | None, key: str | None, *, as_json: bool
) -> None:
    """Import log lines, and report their kinds.

    A FILE has health lines, gate lines and trace lines in any order; gzip is recognised, and - is standard input. Bad
    lines are stored and counted. Each line is counted once per log name: import the whole log again after the log grew
    or was rotated, or after an interrupted import.
    """
    if STANDARD_INPUT in files and not source:
        raise Stop("Standard input has no name: give the log one with --source.")
    opened = [Source(path) for path in files]
    receiver = _choose_receiver(tenant, url, key)
    progress = ProgressBar(sum(one.size for one in opened) if all(one.size for one in opened) else 0, noun="lines")
    began = time.monotonic()
    done: list[ImportedLog] = []
    stopped: Stop | None = None
    try:
        _import(opened, source, receiver, progress, done)
    except Stop as error:
        stopped = error
    receiver.close()
    progress.finish(sum(one.lines for one in done))
    seconds = time.monotonic() - began
    if done or not stopped:
        click.echo(json.dumps(_as_json(done, seconds)) if as_json else "\n".join(_as_text(done, seconds)))
    if stopped:
        raise stopped


def _choose_receiver(tenant: str, url: str | None, key: str | None) -> Receiver:
    if url is not None:
        return ServerLogReceiver(url, require_key(key))
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database

    start_with_database()
    return DatabaseLogReceiver(find_tenant(tenant))


def _import(
    opened: list[Source], source: str | None, receiver: Receiver, progress: ProgressBar, done: list[ImportedLog]
) -> None:
    lines = size = 0
    for one in opened:

        def show_progress(number: int, one: Source = one, lines: int = lines, size: int = size) -> None:
            progress.update(lines + number, size + one.read_bytes)

        name = source or str(Path(one.path).resolve())
        done.append(receiver.send(name, one.chunks(receiver.most_ratio), show_progress))
        lines += done[-1].lines
        size += one.read_bytes


def _as_json(done: list[ImportedLog], seconds: float) -> dict[str, Any]:
    lines = sum(one.lines for one in done)
    return {
        "lines": lines,
        "known": sum(one.known for one in done),
        "logs": [
            {
                "source": one.source,
                "imports": one.imports,
                "lines": one.lines,
                "known": one.known,
                "kinds": one.kinds,
                "bad": one.bad,
                "bad_lines": one.bad_lines,
            }
            for one in done
        ],
        "seconds": round(seconds, 3),
        "per_second": round(lines / seconds, 1) if seconds else 0.0,
    }


def _as_text(done: list[ImportedLog], seconds: float) -> list[str]:
    lines = sum(one.lines for one in done)
    noun = "line" if lines == 1 else "lines"
    texts = [f"{lines:,} {noun} in {seconds:,.1f} s ({lines / max(seconds, 0.001):,.0f} a second)"]
    for one in done:
        if len(done) > 1:
            texts.append(printable(one.source))
        texts += [f"  known before{one.known:>12,}", f"  new         {one.new:>12,}"]
        if one.kinds is None:
            texts.append("  The server reads the lines now; its page Logs will list bad lines.")
            continue
        texts += [f"    {kind:<10}{number:>12,}" for kind, number in one.kinds.items()]
        if one.bad:
            texts.append(f"    {'bad':<10}{one.bad:>12,}")
            texts += [f"      line {bad['number']:,}: {printable(bad['why'])}" for bad in one.bad_lines or ()]
            texts += ["      …"] if one.bad > len(one.bad_lines or ()) else []
    return texts
