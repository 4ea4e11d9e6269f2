"""Where reports go: to a server, into the local database, or nowhere, to be judged here."""

import json
import os
import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from handoffaudit.cli.hooking.flushing import with_other_keys
from handoffaudit.cli.hooking.sending import send_waiting
from handoffaudit.cli.hooking.server import Rejected, Server, Undelivered
from handoffaudit.cli.hooking.spool import Entry, Held, Spool, SpoolFull
from handoffaudit.cli.options import usual_data_folder
from handoffaudit.cli.reporting.documents import written
from handoffaudit.cli.stop import Stop

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant

ANSWER_SECONDS = 10.0
CATCH_UP_SECONDS = 5.0
SPOOL_BYTES = 64 * 1024 * 1024


class Kept(Exception):
    """The server is away. The report is kept, and goes out with the next one; the message says where."""


class Refused(Exception):
    """It will never be taken; the message says why."""


class Receiver(Protocol):
    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        """The answer, as the API gives it. Raises Kept, Refused."""
        ...

    def retry(self) -> int:
        """Sends what was kept; how many still wait."""
        ...

    def left(self) -> str:
        """A line on reports that this one does not send, since they were made with another key; empty without any."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Here:
    """Judges without a server."""

    strict: bool = False

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        from handoffaudit.validation.formats.file_report import judge_report
        from handoffaudit.validation.formats.handoff_file import report_flaws
        from handoffaudit.validation.logs.writer import describe_report, health_line, write_health
        from handoffaudit.validation.times import moment

        flaws = " ".join(issue.message for issue in report_flaws(document))
        at = moment(document["timestamp"])
        if flaws or at is None:
            raise Refused(flaws)
        finding = judge_report(document)
        line = write_health(health_line(document, finding, at.at))
        return {**describe_report(finding, strict=self.strict), "iteration": document.get("iteration"), "line": line}

    def retry(self) -> int:
        return 0

    def left(self) -> str:
        return ""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ReportServer(Server):
    path: ClassVar[str] = "/api/v1/handoff-files"
    what: ClassVar[str] = "address for handoff files"
    taken: ClassVar[tuple[int, ...]] = (200, 201)

    def _query(self, seconds: float) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class There:
    """Sends to a server. A report is on the disk before it is sent, and removed once it is answered."""

    server: ReportServer
    spool: Spool

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        entry = Entry(uuid.uuid4().hex, written(document))
        try:
            held = self.spool.add(entry)
        except (OSError, SpoolFull) as error:
            return self._unkept(entry, str(error))
        return self._held(held, entry)

    def _held(self, held: Held, entry: Entry) -> dict[str, Any]:
        try:
            send_waiting(self.spool, self.server, before=held.path, seconds=CATCH_UP_SECONDS)
            answer = self.server.post(entry.body, entry.id, ANSWER_SECONDS)
        except Undelivered as error:
            held.release()
            where = f"The report is kept in {held.path.parent}, and goes out with the next one made with this key"
            raise Kept(f"{error}. {where}; after another key was set, {self._flushing()} sends it.") from error
        except Rejected as error:
            held.remove()
            raise Refused(str(error)) from error
        except BaseException:
            held.release()
            raise
        held.remove()
        return answer

    def _unkept(self, entry: Entry, why: str) -> dict[str, Any]:
        try:
            return self.server.post(entry.body, entry.id, ANSWER_SECONDS)
        except Undelivered as error:
            raise Refused(f"{error}, and the report can't be kept ({why}): send it again.") from error
        except Rejected as error:
            raise Refused(str(error)) from error

    def retry(self) -> int:
        send_waiting(self.spool, self.server, seconds=CATCH_UP_SECONDS)
        return len(self.spool.waiting())

    def left(self) -> str:
        number = with_other_keys(self.server, self.spool.folder.parent)
        return f"{number} made with another key wait: {self._flushing()} sends them." if number else ""

    def _flushing(self) -> str:
        """The command that sends what waits, with what it would not find by itself. The key is told nowhere."""
        url, folder = self.server.url, self.spool.folder.parent
        named = [] if os.environ.get("HANDOFFAUDIT_URL", "").rstrip("/") == url else ["--url", url]
        if folder.absolute() != usual_data_folder() / "reports":
            named += ["--spool", str(folder.absolute())]
        return shlex.join(["handoffaudit", "report-file", "--flush", "--any-key", *named])

    def close(self) -> None: ...


class Database:
    """Straight into the local database."""

    def __init__(self, tenant: "Tenant", name: str) -> None:
        from handoffaudit.handoffs.models import ActorKind
        from handoffaudit.handoffs.transitions import Actor

        self._tenant = tenant
        self._sender = Actor(ActorKind.SYSTEM, name)

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        from handoffaudit.diagnostics import file_reports

        received = file_reports.receive_report(self._tenant, self._sender, json.dumps(document).encode())
        if received.report is None:
            receipt = received.receipt
            raise Refused(" ".join(issue.message for issue in receipt.issues) or receipt.detail)
        return file_reports.answer_of(received.report)

    def retry(self) -> int:
        return 0

    def left(self) -> str:
        return ""

    def close(self) -> None:
        """Wakes the workers, in case the process ends before a wake-up went out."""
        from handoffaudit.handoffs import notify

        notify.send()


def receiver(
    name: str, *, url: str | None, key: str | None, local: bool, strict: bool, tenant: str, spool: Path
) -> Receiver:
    """The one that the options ask for. Raises Stop."""
    if local:
        return Here(strict)
    if strict:
        raise Stop("--strict goes with --local: a server and its database have a policy of their own.")
    if url:
        server = server_at(url, key)
        return There(server, Spool(spool / server.name, SPOOL_BYTES))
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database

    start_with_database()
    return Database(find_tenant(tenant), name)


def server_at(url: str | None, key: str | None) -> ReportServer:
    from handoffaudit.cli.hooking.server import checked

    found = checked(url, key, 2)
    return ReportServer(found.url, found.key)
