"""Spool of events that wait for their server: one file per event, in the order in which the events were read.

An event is written before it is sent and removed after it is answered, so a process that is killed in between loses
nothing. The event keeps one id, by which the server recognises an event that it already has. The process that works on
an event holds a lock on the file; the system releases the lock, no matter how the process ends.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.hook_server import Rejected, Server, Undelivered

ASIDE = "aside"

# A small file occupies at least one block of this size on the disk.
_LEAST_BYTES = 4096

POSTPONED_SECONDS = 600.0

_ENTRY, _DRAFT = ".json", ".draft"


class SpoolFull(Exception):
    """The event was not kept, because the spool has reached its size limit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in the spool: `body` is the request body, `id` the idempotency key."""

    id: str
    body: str


class Held:
    """A spool entry that is locked by this process until `release` or `remove`."""

    def __init__(self, path: Path, lock: int, entry: Entry | None) -> None:
        self.path = path
        self._lock = lock
        # `entry` is None if the file can't be read.
        self.entry = entry

    def rewrite(self, entry: Entry) -> None:
        """Replace the entry with a new entry at the same place in the order. Raises `OSError`."""
        lock = _write_draft(self.path.with_suffix(_DRAFT), asdict(entry))
        self.path.with_suffix(_DRAFT).rename(self.path)
        _sync_folder(self.path.parent)
        os.close(self._lock)
        self._lock, self.entry = lock, entry

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the lock, so that any process may send the entry."""
        os.close(self._lock)

    def set_aside(self, reason: str) -> Path:
        """Move the entry to the folder of entries set aside, with the reason; return its new path."""
        folder = self.path.parent / ASIDE
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = asdict(self.entry) if self.entry else {"raw": self.path.read_bytes().decode("utf-8", "replace")}
        target = folder / self.path.name
        os.close(_write_draft(target.with_suffix(_DRAFT), {"reason": reason, **kept}))
        target.with_suffix(_DRAFT).rename(target)
        _sync_folder(folder)
        self.remove()
        return target


class Spool:
    """The events for one server, in a folder that only its user can read.

    The methods raise `OSError` if the folder can't be used. `add` also raises `OSError` if the folder is not private.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    def add(self, entry: Entry) -> Held:
        """Write a new last entry to disk, and return it, locked by this process. Raises `SpoolFull` and `OSError`."""
        self._prepare()
        draft = self.folder / f"{os.getpid()}-{os.urandom(6).hex()}{_DRAFT}"
        lock = _write_draft(draft, asdict(entry))
        try:
            with self._lock_order():
                path = self._next_path()
                draft.rename(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            os.close(lock)
            raise
        _sync_folder(self.folder)
        return Held(path, lock, entry)

    def list_waiting(self) -> list[Path]:
        """Return the paths of the entries, the oldest first, including entries that other processes work on."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if path.suffix == _ENTRY)
        return []

    def aside(self) -> int:
        """Return the number of entries that were set aside."""
        with contextlib.suppress(FileNotFoundError):
            return sum(path.suffix == _ENTRY for path in (self.folder / ASIDE).iterdir())
        return 0

    def take(self, path: Path) -> Held | None:
        """Lock an entry for this process; return None if another process has the lock, or if the entry is gone."""
        try:
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        if not _lock_now(lock) or not _is_still(path, lock):
            os.close(lock)
            return None
        return Held(path, lock, _read_entry(path))

    def postpone(self, paths: Iterable[Path]) -> None:
        """Postpone the entries: for `POSTPONED_SECONDS`, calls of `send_waiting` with `seconds` skip them.

        The modification times of the files are set to the end of that time.
        """
        until = time.time() + POSTPONED_SECONDS
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (until, until), follow_symlinks=False)

    @contextlib.contextmanager
    def lock_sending(self, *, wait: bool) -> Iterator[bool]:
        """Yield whether this process may send. Only one process sends at a time, so that the order is kept.

        With `wait`, wait until no other process sends.
        """
        if not self.folder.is_dir():
            yield True
            return
        with _open_lock(self.folder / "sending") as lock:
            if wait:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield wait or _lock_now(lock)

    @contextlib.contextmanager
    def _lock_order(self) -> Iterator[None]:
        with _open_lock(self.folder / "ordering") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{self.folder} is not private to you: use chmod 700")

    def _next_path(self) -> Path:
        size, last = self._survey()
        if size > self._most_bytes:
            raise SpoolFull(f"{self.folder} holds more than {self._most_bytes / 1024**2:g} MiB")
        # The number decides the order, so it must grow even if the clock was set back.
        return self.folder / f"{max(last + 1, time.time_ns()):020d}{_ENTRY}"

    def _survey(self) -> tuple[int, int]:
        """Return the size of all files on the disk in bytes, and the number of the last entry.

        A small file counts as `_LEAST_BYTES`. Remove the drafts that a dead process did not finish.
        """
        size, last = 0, 0
        for folder in (self.folder, self.folder / ASIDE):
            if not folder.is_dir():
                continue
            with os.scandir(folder) as found:
                for one in found:
                    if one.name.endswith(_DRAFT):
                        _remove_if_abandoned(Path(one.path))
                    with contextlib.suppress(FileNotFoundError):
                        size += max(one.stat(follow_symlinks=False).st_size, _LEAST_BYTES)
                    number = one.name.removesuffix(_ENTRY)
                    if folder is self.folder and number.isdecimal():
                        last = max(last, int(number))
        return size, last


def _write_draft(path: Path, content: dict[str, str]) -> int:
    """Write a new file that only its owner can read, and sync it; return its locked descriptor."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(os.dup(descriptor), "w", encoding="ascii") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _read_entry(path: Path) -> Entry | None:
    try:
        plain = json.loads(path.read_bytes())
        entry = Entry(plain["id"], plain["body"])
    except (ValueError, KeyError, TypeError):
        return None
    return entry if isinstance(entry.id, str) and isinstance(entry.body, str) else None


def _remove_if_abandoned(path: Path) -> None:
    with contextlib.suppress(OSError):
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        if _lock_now(lock) and time.time() - os.fstat(lock).st_mtime > 60:
            path.unlink(missing_ok=True)
        os.close(lock)


@contextlib.contextmanager
def _open_lock(path: Path) -> Iterator[int]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield lock
    finally:
        os.close(lock)


def _lock_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether the path still names the locked file, and not a file that replaced it."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _is_postponed(path: Path) -> bool:
    # After the clock was set back, the time of an entry may be more than `POSTPONED_SECONDS` in the future. Such a time
    # postpones nothing.
    with contextlib.suppress(FileNotFoundError):
        return 0 < path.stat().st_mtime - time.time() <= POSTPONED_SECONDS
    return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The server stores and judges an event even if no client waits for the verdict.
NO_WAIT_SECONDS = 0.0

# After this number of failures in a row, the cause is the server and not an entry.
MOST_FAILURES = 3

UNREADABLE = "The file can't be read as an event."


@dataclass(slots=True)
class SendReport:
    """The result of sending: `aside` lists the files set aside, `problem` is the last reason why an entry still waits.

    `failed` lists the entries at which the server failed since it last accepted an entry. `is_away` means that the
    server can't be reached or used, so that nothing can be sent.
    """

    sent: int = 0
    aside: list[Path] = field(default_factory=list)
    failed: list[Path] = field(default_factory=list)
    problem: str = ""
    is_away: bool = False

    @property
    def ended_early(self) -> bool:
        return self.is_away or len(self.failed) >= MOST_FAILURES


def send_waiting(
    spool: Spool, server: Server, *, before: Path | None = None, seconds: float | None = None, wait: bool = False
) -> SendReport:
    """Send the entries before the entry `before`, or all entries. After `seconds`, begin no further entry.

    If another process sends, return immediately with an empty report; with `wait`, wait until that process has
    finished. Nobody reads the decisions, so the server is asked not to wait for the verdict. Entries that other
    processes work on are skipped. An entry at which the server fails does not keep back the others: that entry is
    postponed once the server has accepted another entry. Calls with `seconds` skip postponed entries. Sending ends
    early if the server is away, or after `MOST_FAILURES` failures in a row. Raises `OSError` if the folder can't be
    used.
    """
    report = SendReport()
    until = time.monotonic() + seconds if seconds is not None else None
    with spool.lock_sending(wait=wait) as mine:
        for path in spool.list_waiting() if mine else ():
            if (before and path.name >= before.name) or (until and time.monotonic() >= until):
                break
            if until and _is_postponed(path):
                continue
            _send(spool, server, path, report)
            if report.ended_early:
                break
    return report


def _send(spool: Spool, server: Server, path: Path, report: SendReport) -> None:
    held = spool.take(path)
    if held is None:
        return
    if held.entry is None:
        report.aside.append(held.set_aside(UNREADABLE))
        return
    try:
        server.post(held.entry.body, held.entry.id, NO_WAIT_SECONDS)
    except Undelivered as error:
        report.problem, report.is_away = str(error), error.is_away
        report.failed.append(path)
        held.release()
    except Rejected as error:
        report.aside.append(held.set_aside(str(error)))
    else:
        report.sent += 1
        held.remove()
        spool.postpone(report.failed)
        report.failed.clear()


def flush_spool(server: Server, folder: Path, *, any_key: bool) -> int:
    """Send all entries for this server, and return the exit code.

    With `any_key`, also send the entries that wait for the same address and were made with another key. The exit code
    is 1 if entries still wait or were set aside now. Raises `Stop` if a folder can't be used.
    """
    sent = aside = waiting = 0
    problem, ended_early = "", False
    for path in _folders_of_server(server, folder, any_key=any_key):
        spool = Spool(path, 0)
        try:
            if not ended_early:
                report = send_waiting(spool, server, wait=True)
                sent, aside = sent + report.sent, aside + len(report.aside)
                problem, ended_early = report.problem or problem, report.ended_early
            waiting += len(spool.list_waiting())
        except OSError as error:
            raise Stop(f"{path} can't be used ({error}).", 1) from error
        if before := spool.aside():
            click.echo(f"{before} set aside in {path / 'aside'}: each file says why.", err=True)
    click.echo(f"{sent} sent, {aside} set aside, {waiting} waiting.")
    if problem:
        click.echo(f"Warning: {problem}.", err=True)
    others = [path for path in _spool_folders(folder) if not path.name.startswith(server.name_of_address)]
    left = _count_waiting(others) + (0 if any_key else count_other_keys(server, folder))
    if left:
        hint = "--any-key also sends the entries for this address that were kept with another key."
        reason = "another address." if any_key else f"another address or key. {hint}"
        click.echo(f"{left} more in {folder} wait for {reason}", err=True)
    return 1 if waiting or aside else 0


def count_other_keys(server: Server, folder: Path) -> int:
    """Return how many entries wait for the same address, but were made with another key."""
    return _count_waiting(path for path in _spool_folders(folder, server.name_of_address) if path.name != server.name)


def _count_waiting(folders: Iterable[Path]) -> int:
    return sum(len(Spool(path, 0).list_waiting()) for path in folders)


def _folders_of_server(server: Server, folder: Path, *, any_key: bool) -> Iterator[Path]:
    yield folder / server.name
    if any_key:
        yield from (path for path in _spool_folders(folder, server.name_of_address) if path.name != server.name)


def _spool_folders(folder: Path, beginning: str = "") -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.startswith(beginning))
