"""The report on a handoff file, and its receivers: a server, the local database, or local judging."""

import json
import os
import shlex
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from handoffaudit.cli import Stop
from handoffaudit.cli.file_lookup import LookedUpFile
from handoffaudit.cli.hook_server import Rejected, Server, Undelivered
from handoffaudit.cli.hook_spool import Entry, Held, Spool, SpoolFull, count_other_keys, send_waiting
from handoffaudit.cli.terminal import usual_data_folder
from handoffaudit.validation.formats.file_report import MARK

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant


LONGEST_BODY = 900_000

# A longer response is cut to this many characters, because only its last `MARK` block counts.
LONGEST_RESPONSE = 40_000

_BEFORE_MARK = 2_000


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """The run, agent and phase that a handoff file belongs to, and the path at which the file is expected."""

    run_id: str
    agent: str
    phase: str
    path: str
    runtime: str = ""
    iteration: int | None = None


def make_report(
    about: ReportSubject,
    looked: LookedUpFile,
    at: datetime,
    *,
    response: str | None = None,
    elsewhere: list[str] | None = None,
) -> dict[str, Any]:
    """Return the document for `POST /handoff-files`, within the size limit of the endpoint.

    `at` is the time of the report. `report-file` passes the time of its look-up. `watch` passes the time of the
    last change of the file, or of the nearest folder above a missing file.
    """
    file = looked.file
    made: dict[str, Any] = {"run_id": _text(about.run_id), "agent": _text(about.agent), "phase": _text(about.phase)}
    made |= {"runtime": _text(about.runtime)} if about.runtime else {}
    made |= {} if about.iteration is None else {"iteration": about.iteration}
    made |= {"expected_path": _text(about.path), "file": file, "timestamp": _format_time(at)}
    made |= {"elsewhere": [_text(path) for path in elsewhere]} if elsewhere else {}
    made |= {} if response is None else {"response_text": cut_response(response)}
    if "content" in file and len(dump_report(made)) > LONGEST_BODY:
        made["file"] = {"exists": True, "error": f"the report with the file is longer than {LONGEST_BODY:,} bytes"}
    return made


def _text(name: str) -> str:
    """Replace bytes in a file name that are not valid text, because JSON can't contain them."""
    return name.encode("utf-8", "replace").decode()


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def dump_report(made: dict[str, Any]) -> str:
    return json.dumps(made)


def cut_response(response: str) -> str:
    """Return a response of at most `LONGEST_RESPONSE` characters.

    Of a longer response, return the part around its last `MARK` block, or the end if there is no such block.
    """
    if len(response) <= LONGEST_RESPONSE:
        return response
    mark = response.rfind(MARK)
    start = max(0, mark - _BEFORE_MARK) if mark >= 0 else len(response) - LONGEST_RESPONSE
    return response[start : start + LONGEST_RESPONSE]


def explain_answer(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the explanation that follows the log line, free of terminal control characters."""
    yield _strip_controls(str(answer["why"]))
    for issue in answer["issues"]:
        yield _strip_controls(f"  {issue['code']}: {issue['message']}")
        if issue["hint"]:
            yield _strip_controls(f"    {issue['hint']}")


def _strip_controls(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


ANSWER_SECONDS = 10.0

CATCH_UP_SECONDS = 5.0

SPOOL_BYTES = 64 * 1024 * 1024


class Kept(Exception):
    """The report could not be delivered now, and is kept for a later try; the message says where."""


class Refused(Exception):
    """The report was neither accepted nor kept; the message says why."""


class Receiver(Protocol):
    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        """Deliver a report, and return the answer in the form of the API. Raises `Kept` and `Refused`."""
        ...

    def retry(self) -> int:
        """Send the kept reports, and return how many still wait. Raises `OSError` if the spool can't be used."""
        ...

    def describe_left(self) -> str:
        """Return a line about waiting reports made with another key, which `retry` does not send; empty if none."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalReceiver:
    """Receiver that judges reports without a server, and stores nothing."""

    strict: bool = False

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        from handoffaudit.validation.formats.file_report import judge_report
        from handoffaudit.validation.formats.handoff_file import describe_report, report_flaws
        from handoffaudit.validation.logs.lines import health_line, write_health
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

    def describe_left(self) -> str:
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
class ServerReceiver:
    """Receiver that sends reports to a server.

    The receiver writes each report to the spool before it sends the report, and removes the report after the answer. A
    report that the spool cannot store is only sent.
    """

    server: ReportServer
    spool: Spool

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        entry = Entry(uuid.uuid4().hex, dump_report(document))
        try:
            held = self.spool.add(entry)
        except (OSError, SpoolFull) as error:
            return self._send_unkept(entry, str(error))
        return self._send_held(held, entry)

    def _send_held(self, held: Held, entry: Entry) -> dict[str, Any]:
        try:
            send_waiting(self.spool, self.server, before=held.path, seconds=CATCH_UP_SECONDS)
            answer = self.server.post(entry.body, entry.id, ANSWER_SECONDS)
        except Undelivered as error:
            held.release()
            where = f"The report is kept in {held.path.parent}, and is sent with the next report made with this key"
            raise Kept(
                f"{error}. {where}; after another key was set, {self._format_flush_command()} sends it."
            ) from error
        except Rejected as error:
            held.remove()
            raise Refused(str(error)) from error
        except BaseException:
            held.release()
            raise
        held.remove()
        return answer

    def _send_unkept(self, entry: Entry, why: str) -> dict[str, Any]:
        try:
            return self.server.post(entry.body, entry.id, ANSWER_SECONDS)
        except Undelivered as error:
            raise Refused(f"{error}, and the report can't be kept ({why}): send it again.") from error
        except Rejected as error:
            raise Refused(str(error)) from error

    def retry(self) -> int:
        send_waiting(self.spool, self.server, seconds=CATCH_UP_SECONDS)
        return len(self.spool.list_waiting())

    def describe_left(self) -> str:
        number = count_other_keys(self.server, self.spool.folder.parent)
        return (
            f"Waiting reports made with another key: {number}; {self._format_flush_command()} sends them."
            if number
            else ""
        )

    def _format_flush_command(self) -> str:
        """Return the command that sends the waiting reports, with the options that it needs but without the key."""
        url, folder = self.server.url, self.spool.folder.parent
        named = [] if os.environ.get("HANDOFFAUDIT_URL", "").rstrip("/") == url else ["--url", url]
        if folder.absolute() != usual_data_folder() / "reports":
            named += ["--spool", str(folder.absolute())]
        return shlex.join(["handoffaudit", "report-file", "--flush", "--any-key", *named])

    def close(self) -> None: ...


class DatabaseReceiver:
    """Receiver that writes reports into the local database."""

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

    def describe_left(self) -> str:
        return ""

    def close(self) -> None:
        """Wake the workers, in case the process ends before the wake-up of the last report was sent."""
        from handoffaudit.handoffs import notify

        notify.send()


def choose_receiver(
    name: str, *, url: str | None, key: str | None, local: bool, strict: bool, tenant: str, spool: Path
) -> Receiver:
    """Return the receiver that the options select.

    Raises `Stop` for `strict` without `local`, a wrong address or key, an unknown tenant, or a database that can't be
    used.
    """
    if local:
        return LocalReceiver(strict)
    if strict:
        raise Stop("--strict needs --local: a server and its database have a policy of their own.")
    if url is not None:
        server = report_server(url, key)
        return ServerReceiver(server, Spool(spool / server.name, SPOOL_BYTES))
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database

    start_with_database()
    return DatabaseReceiver(find_tenant(tenant), name)


def report_server(url: str | None, key: str | None) -> ReportServer:
    from handoffaudit.cli.hook_server import check_server

    found = check_server(url, key, 2)
    return ReportServer(found.url, found.key)
