"""Events that wait for their server: one file each, in the order in which they were read.

An event is written before it is sent and removed once it is answered, so that whatever ends the process in between
loses nothing; its id, made once, lets the server recognise what it has. While its own process works on an event it
holds a lock on the file, which the system lets go of however the process ends.
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

from handoffaudit.cli.errors import Stop
from handoffaudit.cli.hooks.server import Rejected, Server, Undelivered

ASIDE = "aside"

# what a small file takes on the disk
_LEAST_BYTES = 4096

_ENTRY, _DRAFT = ".json", ".draft"


class SpoolFull(Exception):
    """The event was not kept: the spool has as much as it may have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`body` is what is posted, and `id` its idempotency key."""

    id: str
    body: str


class Held:
    """An entry of the spool that this process alone works on, until `release` or `remove`."""

    def __init__(self, path: Path, lock: int, entry: Entry | None) -> None:
        self.path = path
        self._lock = lock
        # None: the file can't be read
        self.entry = entry

    def rewrite(self, entry: Entry) -> None:
        """Puts another body in the same place of the order."""
        lock = _write_draft(self.path.with_suffix(_DRAFT), asdict(entry))
        self.path.with_suffix(_DRAFT).rename(self.path)
        _sync_folder(self.path.parent)
        os.close(self._lock)
        self._lock, self.entry = lock, entry

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """From now on any process may send it."""
        os.close(self._lock)

    def set_aside(self, reason: str) -> Path:
        """Moves it out of the way, with the reason. Gives where it lies now."""
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
    """The events for one server, in a folder that only its user can read. Raises OSError where that can't be had."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    def add(self, entry: Entry) -> Held:
        """Keeps an entry, as the last one. It is on the disk when this returns. Raises SpoolFull, OSError."""
        self._prepare()
        draft = self.folder / f"{os.getpid()}-{os.urandom(6).hex()}{_DRAFT}"
        lock = _write_draft(draft, asdict(entry))
        try:
            with self._ordering():
                path = self._next_path()
                draft.rename(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            os.close(lock)
            raise
        _sync_folder(self.folder)
        return Held(path, lock, entry)

    def waiting(self) -> list[Path]:
        """The entries, the oldest first; those that other processes work on, too."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if path.suffix == _ENTRY)
        return []

    def aside(self) -> int:
        """How many were set aside."""
        with contextlib.suppress(FileNotFoundError):
            return sum(path.suffix == _ENTRY for path in (self.folder / ASIDE).iterdir())
        return 0

    def take(self, path: Path) -> Held | None:
        """One of the entries that wait, for this process alone. None: another one works on it, or it is gone."""
        try:
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        if not _lock_now(lock) or not _is_still(path, lock):
            os.close(lock)
            return None
        return Held(path, lock, _read_entry(path))

    @contextlib.contextmanager
    def sending(self, *, wait: bool) -> Iterator[bool]:
        """Whether this process may send what waits: one does at a time, since the order counts."""
        if not self.folder.is_dir():
            yield True
            return
        with _open_lock(self.folder / "sending") as lock:
            if wait:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield wait or _lock_now(lock)

    @contextlib.contextmanager
    def _ordering(self) -> Iterator[None]:
        with _open_lock(self.folder / "ordering") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _prepare(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{self.folder} is not yours alone: make it so with chmod 700")

    def _next_path(self) -> Path:
        size, last = self._survey()
        if size > self._most_bytes:
            raise SpoolFull(f"{self.folder} has more than {self._most_bytes / 1024**2:g} MiB in it")
        # a clock that was put back must not change the order
        return self.folder / f"{max(last + 1, time.time_ns()):020d}{_ENTRY}"

    def _survey(self) -> tuple[int, int]:
        """The bytes of all that is kept, and the number of the last entry. What a dead process did not finish writing
        is removed."""
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
    """A new file on the disk that only its owner can read. Gives its descriptor, with the lock on it."""
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
    """Whether the file was not removed or replaced before its lock was had."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# the server stores and judges an event whether or not somebody waits for it
NO_WAIT_SECONDS = 0.0

UNREADABLE = "The file can't be read as an event."


@dataclass(slots=True)
class SendReport:
    """`aside` are the files of what was set aside. `stopped` says why the rest was left, empty where nothing was."""

    sent: int = 0
    aside: list[Path] = field(default_factory=list)
    stopped: str = ""


def send_waiting(
    spool: Spool, server: Server, *, before: Path | None = None, seconds: float | None = None, wait: bool = False
) -> SendReport:
    """Sends what was kept before the entry `before`, or all; in no more than about `seconds`. Nobody reads the
    decisions, so each is asked for without waiting for it. Entries that other processes work on are left to them;
    `wait`: wait for one that is sending, too."""
    report = SendReport()
    until = time.monotonic() + seconds if seconds is not None else None
    with spool.sending(wait=wait) as mine:
        for path in spool.waiting() if mine else ():
            if (before and path.name >= before.name) or (until and time.monotonic() >= until):
                break
            _send(spool, server, path, report)
            if report.stopped:
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
        report.stopped = str(error)
        held.release()
    except Rejected as error:
        report.aside.append(held.set_aside(str(error)))
    else:
        report.sent += 1
        held.remove()


def flush_spool(server: Server, folder: Path, *, any_key: bool) -> int:
    """Sends all that waits for this server; `any_key`: also what was read with another key of it. Gives the exit code:
    1 where something still waits or was set aside now."""
    sent = aside = waiting = 0
    stopped = ""
    for path in _folders_of_server(server, folder, any_key=any_key):
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
    others = [path for path in _spool_folders(folder) if not path.name.startswith(server.name_of_address)]
    left = _count_waiting(others) + (0 if any_key else count_other_keys(server, folder))
    if left:
        remedy = "--any-key sends those of this address."
        click.echo(f"{left} more in {folder} wait for another address or key: {remedy}", err=True)
    return 1 if waiting or aside else 0


def count_other_keys(server: Server, folder: Path) -> int:
    """How many wait for the same address that were made with another key."""
    return _count_waiting(path for path in _spool_folders(folder, server.name_of_address) if path.name != server.name)


def _count_waiting(folders: Iterable[Path]) -> int:
    return sum(len(Spool(path, 0).waiting()) for path in folders)


def _folders_of_server(server: Server, folder: Path, *, any_key: bool) -> Iterator[Path]:
    yield folder / server.name
    if any_key:
        yield from (path for path in _spool_folders(folder, server.name_of_address) if path.name != server.name)


def _spool_folders(folder: Path, beginning: str = "") -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.startswith(beginning))
