"""`handoffaudit import-log`: lines of logs into the product."""

import json
import time
from pathlib import Path
from typing import Any, Protocol

import click

from handoffaudit.cli.importing.files import STANDARD_INPUT, Source
from handoffaudit.cli.importing.logs import Imported, Local, Told, ToServer
from handoffaudit.cli.importing.progress import Progress
from handoffaudit.cli.options import data_option, example, json_option, tenant_option
from handoffaudit.cli.stop import Stop


class Receiver(Protocol):
    @property
    def most_ratio(self) -> int: ...
    def send(self, source: str, stream: Any, told: Told) -> Imported: ...
    def close(self) -> None: ...


@click.command(
    name="import-log",
    epilog=example("handoffaudit import-log runs/nightly.log", "collect | handoffaudit import-log --source nightly -"),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--source", metavar="NAME", help="The name of the log. Default: the file's full path.")
@tenant_option
@data_option
@click.option("--url", metavar="URL", help="Send them to this server, e.g. https://audit.example.com.")
@click.option("--key", metavar="KEY", envvar="HANDOFFAUDIT_KEY", help="API key for --url. Better in HANDOFFAUDIT_KEY.")
@json_option
def command(
    files: tuple[str, ...], source: str | None, tenant: str, url: str | None, key: str | None, *, as_json: bool
) -> None:
    """Bring lines of logs in, and report what they are.

    A FILE has health lines, gate lines and trace lines, mixed as they come; gzip is recognised, and - is standard
    input. A bad line is kept and counted. Under one name each line is counted once: a log that grew, was rotated, or
    whose import was interrupted, is imported again as a whole.
    """
    if STANDARD_INPUT in files and not source:
        raise Stop("Standard input has no name: give the log one with --source.")
    opened = [Source(path) for path in files]
    receiver = _receiver(tenant, url, key)
    progress = Progress(sum(one.size for one in opened) if all(one.size for one in opened) else 0, noun="lines")
    began = time.monotonic()
    done: list[Imported] = []
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


def _receiver(tenant: str, url: str | None, key: str | None) -> Receiver:
    if url:
        if not key:
            raise Stop("--url needs an API key with the scope ingest: give it with --key or HANDOFFAUDIT_KEY.")
        return ToServer(url, key)
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database

    start_with_database()
    return Local(find_tenant(tenant))


def _import(
    opened: list[Source], source: str | None, receiver: Receiver, progress: Progress, done: list[Imported]
) -> None:
    lines = size = 0
    for one in opened:

        def told(number: int, one: Source = one, lines: int = lines, size: int = size) -> None:
            progress.update(lines + number, size + one.read_bytes)

        name = source or str(Path(one.path).resolve())
        done.append(receiver.send(name, one.chunks(receiver.most_ratio), told))
        lines += done[-1].lines
        size += one.read_bytes


def _as_json(done: list[Imported], seconds: float) -> dict[str, Any]:
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


def _as_text(done: list[Imported], seconds: float) -> list[str]:
    lines = sum(one.lines for one in done)
    noun = "line" if lines == 1 else "lines"
    said = [f"{lines:,} {noun} in {seconds:,.1f} s ({lines / max(seconds, 0.001):,.0f} a second)"]
    for one in done:
        if len(done) > 1:
            said.append(_printable(one.source))
        said += [f"  known before{one.known:>12,}", f"  new         {one.new:>12,}"]
        if one.kinds is None:
            said.append("  The server reads them now; what is bad stands on its page Diagnostics, Logs.")
            continue
        said += [f"    {kind:<10}{number:>12,}" for kind, number in one.kinds.items()]
        if one.bad:
            said.append(f"    {'bad':<10}{one.bad:>12,}")
            said += [f"      line {bad['number']:,}: {_printable(bad['why'])}" for bad in one.bad_lines or ()]
            said += ["      …"] if one.bad > len(one.bad_lines or ()) else []
    return said


def _printable(text: str) -> str:
    """What stands in a log must not steer the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)
