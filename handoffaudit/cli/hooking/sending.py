"""What waits in the spool goes to the server, the oldest first."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from handoffaudit.cli.hooking.server import Rejected, Server, Undelivered
from handoffaudit.cli.hooking.spool import Spool

# the server stores and judges an event whether or not somebody waits for it
NO_WAIT_SECONDS = 0.0
UNREADABLE = "The file can't be read as an event."


@dataclass(slots=True)
class Sent:
    """`aside` are the files of what was set aside. `stopped` says why the rest was left, empty where nothing was."""

    sent: int = 0
    aside: list[Path] = field(default_factory=list)
    stopped: str = ""


def send_waiting(
    spool: Spool, server: Server, *, before: Path | None = None, seconds: float | None = None, wait: bool = False
) -> Sent:
    """Sends what was kept before the entry `before`, or all; in no more than about `seconds`. Nobody reads the
    decisions, so each is asked for without waiting for it. Entries that other processes work on are left to them;
    `wait`: wait for one that is sending, too."""
    report = Sent()
    until = time.monotonic() + seconds if seconds is not None else None
    with spool.sending(wait=wait) as mine:
        for path in spool.waiting() if mine else ():
            if (before and path.name >= before.name) or (until and time.monotonic() >= until):
                break
            _send(spool, server, path, report)
            if report.stopped:
                break
    return report


def _send(spool: Spool, server: Server, path: Path, report: Sent) -> None:
    held = spool.take(path)
    if held is None:
        return
    if held.entry is None:
        report.aside.append(held.set_aside(UNREADABLE))
        return
    try:
        server.post(held.entry.body, held.entry.id, NO_WAIT_SECONDS)
    except Undelivered as error:
        report.stopped = str(error)
        held.release()
    except Rejected as error:
        report.aside.append(held.set_aside(str(error)))
    else:
        report.sent += 1
        held.remove()
