"""What `handoffaudit import-log` does with a log: into the local database, or to a server in parts."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from handoffaudit.cli.importing.remote import Server, why
from handoffaudit.cli.stop import Stop

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.diagnostics.logs.blocks import Block

# Compressed while it is made: fast matters more than small.
_LEVEL = 1
# Small enough that the server stores each before it answers. With one block more it is below what the server unpacks
# whatever its ratio: lines that are all alike shrink to less than a hundredth.
PART_BYTES = 7 * 1024 * 1024
PART_LINES = 200_000
BAD_SHOWN = 5
SENDER = "handoffaudit import-log"
Told = Callable[[int], None]


@dataclass(slots=True)
class Imported:
    """What became of a log. `kinds`, `bad` and `bad_lines` are None where a server reads it later."""

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


class Local:
    """Straight into the local database, and read here."""

    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant

    @property
    def most_ratio(self) -> int:
        """How many times its size a packed log may unpack to."""
        from django.conf import settings

        return int(settings.MAX_LOG_RATIO)

    def send(self, source: str, stream: Iterable[bytes], told: Told) -> Imported:
        from handoffaudit.diagnostics.logs import search, store

        made = store.store_log(self._tenant, source, SENDER, stream, read_here=True, told=lambda row: told(row.lines))
        bad = search.list_bad_lines(made, limit=BAD_SHOWN).items if made.bad else []
        shown = [{"number": line.number, "why": line.why} for line in bad]
        return Imported(made.source, [str(made.pk)], made.lines, made.known, made.kinds, made.bad, shown)

    def close(self) -> None:
        """Nothing is open."""


class ToServer(Server):
    """By its API, in parts that end where blocks do: sent again, the same lines make the same blocks."""

    @property
    def most_ratio(self) -> int:
        """As for the local database: the server sees only parts, which are packed anew and never too large."""
        from django.core.exceptions import ImproperlyConfigured
        from environs import EnvError

        from handoffaudit.env import most_log_ratio

        try:
            return most_log_ratio()
        except (ImproperlyConfigured, EnvError) as error:
            raise Stop(str(error)) from error

    def send(self, source: str, stream: Iterable[bytes], told: Told) -> Imported:
        from handoffaudit.diagnostics.logs.blocks import cut_blocks

        done = Imported(source)
        for first_line, part in _parts(cut_blocks(stream)):
            query = urlencode({"source": source, "first_line": first_line}, quote_via=quote)
            body = gzip.compress(part, _LEVEL)
            status, said = self.post(f"/logs?{query}", body, "text/plain", Content_Encoding="gzip")
            if status != 202:
                raise Stop(f"{self._url} does not take the log ({why(status, said)}).", 1)
            done.imports.append(said["id"])
            done.lines += said["lines"]
            done.known += said["known"]
            told(done.lines)
        return done


def _parts(found: Iterable["Block"]) -> Iterator[tuple[int, bytes]]:
    """Blocks put together, with the number of the first line."""
    part: list[bytes] = []
    first_line, size, lines = 1, 0, 0
    for block in found:
        first_line = first_line if part else block.first_line
        part.append(block.text)
        size += len(block.text)
        lines += block.lines
        if size >= PART_BYTES or lines >= PART_LINES:
            yield first_line, b"".join(part)
            part, size, lines = [], 0, 0
    if part:
        yield first_line, b"".join(part)
