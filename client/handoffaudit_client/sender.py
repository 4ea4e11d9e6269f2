"""Sender: the background thread that empties the spool."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from urllib.parse import quote

from handoffaudit_client.identity import LONGEST_NAME
from handoffaudit_client.submission import HANDOFF, RESULT
from handoffaudit_client.transport import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from handoffaudit_client.notices import Notices
    from handoffaudit_client.spool import Batch, MemorySpool, Spool
    from handoffaudit_client.transport import Answer, Server

    AnySpool = Spool | MemorySpool

_BATCH = "/handoffs/batch"

MOST_LINES = 250

_MOST_BYTES = 2 * 1024 * 1024

_MOST_RESULTS = 100

_LONGEST_TRACE = 4 * LONGEST_NAME

# After the first handoff, wait this long for further handoffs: fewer requests disturb the user's threads less often.
_GATHER_SECONDS = 0.2

_SHORTEST_PAUSE = 0.5

_LONGEST_PAUSE = 60.0

# Look for files of ended processes this often.
ADOPT_SECONDS = 30.0

# After this many failures in a row, look for the line at which the server breaks. Give up a line if the server broke at
# the line more often than this, and took other lines in between.
_PATIENCE = 3

_MOST_SUSPECTS = 50

# Answers after which the same request may succeed later.
_LATER = {408, 425, 429}

# The key or the address is wrong: nothing can be sent until somebody corrects it.
_OF_THE_KEY = {401, 403}

_OF_THE_ADDRESS = {404, 405, 410}


class Later(Exception):
    """The error for a batch that stays in the spool. The message says why.

    `retry_after` is the pause in seconds that the server asked for; 0.0 if it asked for none. `is_broken` means that
    the server answered with status 500; a line of the batch may be the cause.
    """

    def __init__(self, message: str, retry_after: float = 0.0, *, is_broken: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_broken = is_broken


class WakeUp:
    """A wake-up for one waiting thread.

    Unlike `threading.Event.set`, this `set` waits for no lock, so the handler of a signal may call it at any moment.
    """

    def __init__(self) -> None:
        # The lock is held until the wake-up is set.
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        if self._lock.locked():
            # Another thread, or the handler of a signal, may have been faster.
            with contextlib.suppress(RuntimeError):
                self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, seconds: float) -> None:
        """Wait until the wake-up is set, and clear it; wait at most `seconds`."""
        self._lock.acquire(timeout=seconds)


class Sender:
    """Send the lines of the spools in batches, with pauses while the server is away.

    `timeout` is the limit of one request in seconds. `clock` returns seconds that only grow; tests give their own.
    """

    def __init__(
        self,
        server: Server,
        spools: list[AnySpool],
        notices: Notices,
        *,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._spools = spools
        self._notices = notices
        self._timeout = timeout
        self._clock = clock
        self.sent = self.refused = self.adopted = 0
        self._start()

    def _start(self) -> None:
        # Each new line sets `_wake`. Callers that cannot wait for the end of a pause set `_hurry`.
        self._wake = WakeUp()
        self._hurry = WakeUp()
        self._progress = threading.Condition()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._is_closed = False
        self._failures = 0
        self._not_before = 0.0
        self._is_told_to_wait = False
        self._adopt_at = 0.0
        self._most_lines = MOST_LINES
        # The lines of the current batch. They count once the whole batch is delivered.
        self._batch_sent = self._batch_refused = 0
        # For each line at which the server broke: the number of breaks, and the value of `sent` at the last break. A
        # repeated break counts only if other lines were sent in between.
        self._suspects: dict[bytes, tuple[int, int]] = {}

    def start_in_child(self) -> None:
        """Start anew after a fork, which copies no thread."""
        self.sent = self.refused = self.adopted = 0
        self._start()

    def nudge(self) -> None:
        """Start the thread if there is none, and wake it."""
        self._wake.set()
        # If the lock is taken, its holder starts the thread. The handler of a signal could not wait for the lock.
        if self._thread is None and self._start_lock.acquire(blocking=False):
            try:
                if self._thread is None and not self._is_closed:
                    thread = threading.Thread(target=self._run, name="handoffaudit-sender", daemon=True)
                    # At the end of the interpreter, or with too many threads, the line waits in the spool.
                    with contextlib.suppress(RuntimeError):
                        thread.start()
                        self._thread = thread
            finally:
                self._start_lock.release()

    @property
    def is_away(self) -> bool:
        """Return whether the last try to send failed."""
        return self._failures > 0

    def flush(self, timeout: float, *, once: bool = False) -> bool:
        """Wait until all lines that this process has appended so far are sent, refused or dropped.

        Return False if this takes longer than `timeout` seconds, if the sender is closed before, or, with `once`, if a
        try fails or the server asked for a pause.
        """
        until = time.monotonic() + timeout
        failures = self._failures
        marks = [(spool, spool.appended) for spool in self._spools]
        if not self._is_told_to_wait:
            self._not_before = 0.0
        while not all(spool.has_settled(number) for spool, number in marks):
            left = until - time.monotonic()
            if left <= 0 or self._is_closed or (once and (self._is_told_to_wait or self._failures > failures)):
                return False
            # While the server is away, this starts only one early try, after which the thread waits out its pause.
            self._hurry.set()
            self.nudge()
            with self._progress:
                self._progress.wait(min(left, 0.2))
        return True

    def close(self, timeout: float) -> None:
        """End the thread; wait for it at most `timeout` seconds."""
        self._is_closed = True
        self._wake.set()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.clear()
            self._hurry.clear()
            try:
                pause = self.step()
            except Exception as error:  # noqa: BLE001 (a bug of ours must not end the thread)
                self._notices.warn("bug", f"nothing was sent because of {error!r}: please report this")
                pause = _LONGEST_PAUSE
            with self._progress:
                self._progress.notify_all()
            if self._is_closed or pause <= 0:
                continue
            if not self.is_away:
                # Wait for a first line, and then for further lines.
                self._wake.wait(pause)
                pause = _GATHER_SECONDS
            self._hurry.wait(pause)

    def step(self) -> float:
        """Send one batch, and return the seconds until the next step; 0.0 if there is more to send."""
        now = self._clock()
        if now >= self._adopt_at:
            self._adopt_at = now + ADOPT_SECONDS
            self.adopted += sum(spool.adopt() for spool in self._spools)
        if now < self._not_before:
            return self._not_before - now
        try:
            found = self._next_batch()
        except OSError as error:
            return self._wait_after(Later(f"the spool can't be read: {error}"))
        if found is None:
            return max(self._adopt_at - now, 0.01)
        spool, batch = found
        try:
            self._deliver(batch.lines)
        except Later as later:
            if later.is_broken and (self._failures >= _PATIENCE or self._most_lines < MOST_LINES):
                self._isolate(spool, batch)
            return self._wait_after(later)
        self.sent += self._batch_sent
        self.refused += self._batch_refused
        spool.finish(batch)
        is_full = len(batch.lines) == self._most_lines
        self._most_lines = min(self._most_lines + max(self._most_lines // 8, 1), MOST_LINES)
        self._failures = 0
        self._is_told_to_wait = False
        self._notices.end("away")
        # Full batches follow each other immediately. After a short batch, further lines can gather.
        return 0.0 if is_full else _GATHER_SECONDS

    def _next_batch(self) -> tuple[AnySpool, Batch] | None:
        for spool in self._spools:
            batch = spool.next_batch(self._most_lines, _MOST_BYTES)
            if batch:
                return spool, batch
        return None

    def _isolate(self, spool: AnySpool, batch: Batch) -> None:
        """Look for the line at which the server breaks, because one line would keep back all others.

        If the batch has several lines, halve the size of the next batch. Move a single line to the end of the spool. If
        the server broke at this line again and again, and took others in between, give up the line.
        """
        line = batch.lines[0]
        if len(batch.lines) > 1:
            self._most_lines = len(batch.lines) // 2
            return
        rounds, sent = self._suspects.pop(line, (0, -1))
        rounds += self.sent > sent
        if rounds > _PATIENCE:
            self.refused += 1
            self._refuse(f"the server breaks at {line[1:200].decode('utf-8', 'replace')}…")
        else:
            self._suspects[line] = (rounds, self.sent)
            try:
                spool.append(line)
            except OSError:
                # On a full disk, the line stays where it is.
                return
            while len(self._suspects) > _MOST_SUSPECTS:
                del self._suspects[next(iter(self._suspects))]
        spool.finish(batch)

    def _wait_after(self, later: Later) -> float:
        self._failures += 1
        pause = min(_SHORTEST_PAUSE * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        # Many processes must not all come back at the same moment.
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 (no secret)
        self._is_told_to_wait = later.retry_after > 0
        pause = max(pause, later.retry_after)
        self._not_before = self._clock() + pause
        self._notices.debug(lambda: f"{later}; next try in {pause:.1f} s")
        self._notices.warn("away", f"{later}. Handoffs are kept and sent later.")
        return pause

    def _deliver(self, lines: list[bytes]) -> None:
        """Send lines: tool results first, because they are evidence for the handoffs. Raises `Later`."""
        self._batch_sent = self._batch_refused = 0
        results: dict[bytes, list[bytes]] = {}
        handoffs: list[bytes] = []
        for line in lines:
            kind, content = line[:1], line[1:]
            if kind == HANDOFF:
                handoffs.append(content)
                continue
            trace, _, result = content.partition(b"\t")
            if kind == RESULT and result and len(trace) <= _LONGEST_TRACE:
                results.setdefault(trace, []).append(result)
            else:
                self._batch_refused += 1
                self._refuse("a line of the spool that this client did not write")
        for trace, found in results.items():
            for start in range(0, len(found), _MOST_RESULTS):
                self._send_results(trace, found[start : start + _MOST_RESULTS])
        if handoffs:
            self._send_handoffs(handoffs)

    def _send_handoffs(self, lines: list[bytes]) -> None:
        headers = {"Content-Type": "application/x-ndjson"}
        answer = self._post(_BATCH, b"\n".join(lines), headers, f"{len(lines)} handoffs")
        if answer is None:
            if len(lines) == 1:
                self._batch_refused += 1
                return
            # One line may be the cause, or a proxy takes no body of this size.
            half = len(lines) // 2
            self._send_handoffs(lines[:half])
            self._send_handoffs(lines[half:])
            return
        items = answer.json.get("items")
        if not isinstance(items, list) or len(items) != len(lines):
            raise Later(f"{self._server.url} answered something else than handoffaudit does: check the address")
        for item in items:
            self._count(item if isinstance(item, dict) else {})

    def _count(self, item: dict[str, object]) -> None:
        status = item.get("status")
        if status in (200, 202):
            self._batch_sent += 1
            return
        self._batch_refused += 1
        why = " ".join(str(item[name]) for name in ("title", "detail") if item.get(name))
        issues = item.get("issues")
        if isinstance(issues, list):
            why = " ".join([why, *(str(one.get("message")) for one in issues if isinstance(one, dict))]).strip()
        self._refuse(f"handoff {item.get('handoff_id')} → {status}: {why}")

    def _send_results(self, trace: bytes, results: list[bytes]) -> None:
        path = f"/traces/{quote(trace, safe='')}/tool-results"
        headers = {"Content-Type": "application/json"}
        answer = self._post(path, b"[%s]" % b",".join(results), headers, f"{len(results)} tool results")
        if answer is not None:
            self._batch_sent += len(results)
        elif len(results) == 1:
            self._batch_refused += 1
        else:
            half = len(results) // 2
            self._send_results(trace, results[:half])
            self._send_results(trace, results[half:])

    def _post(self, path: str, body: bytes, headers: dict[str, str], what: str) -> Answer | None:
        """Return the answer if the server took the request; None if the server refuses the content. Raises `Later`."""
        began = time.monotonic()
        try:
            answer = self._server.call("POST", path, body, timeout=self._timeout, headers=headers)
        except Unreachable as error:
            raise Later(str(error)) from error
        took = (time.monotonic() - began) * 1000
        self._notices.debug(lambda: f"{what}, {len(body):,} bytes → {answer.explain()} in {took:.0f} ms")
        if answer.status in (200, 202):
            return answer
        if answer.refuses_document:
            self._refuse(f"{what} → {answer.explain()}")
            return None
        # The address of tool results contains a trace, which the server may refuse with these statuses, too. The
        # server's refusal is a problem document, and that of a proxy is not.
        is_elsewhere = answer.status in _OF_THE_ADDRESS and (path == _BATCH or not answer.is_problem)
        if answer.status in _OF_THE_KEY or answer.status < 400 or is_elsewhere:
            raise Later(
                f"{self._server.url} does not take handoffs ({answer.explain()}): check the address and the key"
            )
        if answer.status >= 500 or answer.status in _LATER:
            message = f"{self._server.url} is busy or broken ({answer.explain()})"
            raise Later(message, answer.retry_after, is_broken=answer.status == 500)
        self._refuse(f"{what} → {answer.explain()}")
        return None

    def _refuse(self, message: str) -> None:
        self._notices.debug(lambda: f"refused: {message}")
        self._notices.warn("refused", f"some handoffs or tool results cannot be sent, for example {message}")
