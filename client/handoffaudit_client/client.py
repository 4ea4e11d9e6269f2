"""Client: sends handoffs and tool results in the background, and asks for verdicts."""

from __future__ import annotations

import atexit
import os
import time

from handoffaudit_client.identity import new_id, to_name
from handoffaudit_client.notices import Notices
from handoffaudit_client.traces import Parents, TraceScope, current_trace
from handoffaudit_client.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Any, Literal

    from handoffaudit_client.sender import AnySpool, Sender
    from handoffaudit_client.submission import BeforeSend
    from handoffaudit_client.tool_calls import ToolCall
    from handoffaudit_client.transport import Server

# A program waits at most this long at its end until everything is sent.
EXIT_SECONDS = 2.0

_SETTLE_SECONDS = 2.0

# The server answers a batch before it judges the handoffs, so the answer takes a few seconds at most.
_SEND_SECONDS = 30.0

# Marks a parameter that was not given, because None is a possible value.
_NOTHING = type("Nothing", (), {"__repr__": lambda _: "…"})()


class Client:
    """Client of one server. Threads may share a client; create one client for the whole program.

    Without an address or a key, the client is off: it sends nothing, warns once, and its gates answer as if the server
    were away.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        spool: str | Path | None = None,
        before_send: BeforeSend | None = None,
        mask_secrets: bool = True,
        on_unreachable: Literal["pass", "stop"] = "pass",
        debug: bool = False,
    ) -> None:
        """Create a client; this reads no file and makes no connection.

        `url` and `key` are HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY by default. A gate waits at most `timeout` seconds for
        the verdict. `spool` is the folder for unsent items: by default HANDOFFAUDIT_SPOOL, else a folder in the user's
        data folder. `before_send` gets each submission as a dict and returns it, changed or not, or None to drop it; if
        it raises, the submission is dropped. With `mask_secrets`, secrets are masked before the client stores or sends
        anything. With `on_unreachable="stop"`, a gate is false while the server is away. `debug` writes a line for each
        request to standard error. Raises `ValueError` if the address, the key or `on_unreachable` is wrong.
        """
        if on_unreachable not in ("pass", "stop"):
            raise ValueError(f'on_unreachable is {on_unreachable!r}: give "pass" or "stop"')
        self.timeout = timeout
        self.on_unreachable = on_unreachable
        self._notices = Notices(debug=debug)
        self._parents = Parents()
        self._failed = 0
        self._is_closed = False
        self._server: Server | None = None
        from handoffaudit_client.submission import Submissions

        self._submissions = Submissions(mask_secrets=mask_secrets, before_send=before_send)
        self._spools: list[AnySpool] = []
        self._sender: Sender | None = None
        url = url or os.environ.get("HANDOFFAUDIT_URL", "")
        key = key or os.environ.get("HANDOFFAUDIT_KEY", "")
        if url and key:
            self._open(url, key, spool)
        else:
            missing = "HANDOFFAUDIT_KEY" if url else "HANDOFFAUDIT_URL"
            self._notices.warn("off", f"nothing is sent: {missing} is not set")
        _clients.add(self)

    def _open(self, url: str, key: str, folder: str | Path | None) -> None:
        # Load all modules before the first thread starts. If a process forks while a thread imports a module, the child
        # would wait forever for the module's lock.
        from pathlib import Path

        import handoffaudit_client.gate
        import handoffaudit_client.masking
        import handoffaudit_client.tool_calls  # noqa: F401
        from handoffaudit_client.sender import Sender
        from handoffaudit_client.spool import MemorySpool, Spool
        from handoffaudit_client.spool_files import usual_folder
        from handoffaudit_client.transport import Server

        self._server = Server(url, key)
        base = Path(folder).expanduser().absolute() if folder else usual_folder()
        self._spools = [Spool(base / self._server.name), MemorySpool()]
        self._sender = Sender(self._server, self._spools, self._notices, timeout=max(self.timeout, _SEND_SECONDS))

    def send(
        self,
        source: str,
        target: str,
        data: Any,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        trace: str | None = None,
        parent: str | None = None,
        context: Any = None,
        evidence: Any = None,
        reason: str | None = None,
        call_chain: Sequence[str] | None = None,
        handoff_id: str | None = None,
        sent_at: datetime | str | None = None,
    ) -> str:
        """Send a handoff in the background, and return its id.

        Never raises and never waits for the network. When the call returns, the handoff is in a file of the spool, or
        only in memory if the folder of the spool cannot be used. If the server is away, the client sends the handoff
        later. `data` and `context` may be models, dataclasses, messages or any other value. `evidence` is a list of
        pieces `{"source": …, "content": …}`, or a dict of contents by source. Without `trace`, the trace is that of
        `with client.trace()` or of OpenTelemetry. Without `parent`, the parent is the last handoff of the trace that
        went to `source`.
        """
        handoff_id = _id_of(handoff_id)
        try:
            fields = {
                "context": context,
                "evidence": evidence,
                "call_chain": call_chain,
                "sent_at": sent_at,
                "type": type,
            }
            target, trace, line = self._line(source, target, data, trace, parent, handoff_id, reason, **fields)
            if line is not None:
                self._append(line)
                self._parents.add(trace, target, handoff_id)
        except Exception as error:  # noqa: BLE001 (the audit must not stop an agent)
            self._fail("a handoff was not sent", error)
        return handoff_id

    def gate(
        self,
        source: str,
        target: str,
        data: Any,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        trace: str | None = None,
        parent: str | None = None,
        context: Any = None,
        evidence: Any = None,
        reason: str | None = None,
        call_chain: Sequence[str] | None = None,
        handoff_id: str | None = None,
        sent_at: datetime | str | None = None,
        timeout: float | None = None,
        wait: float = 0.0,
    ) -> Verdict:
        """Submit a handoff, and return the verdict, which is true if the target may start.

        Waits at most `timeout` seconds for the verdict, and of these at most 2 until earlier handoffs and tool results
        are sent, because the verdict depends on them. If the verdict is still open, for example because the handoff is
        held, waits at most `wait` seconds more for the decision.

        Never raises because of the server. Without a usable answer, the verdict is true and `unverified`, and the
        handoff is sent later. With `on_unreachable="stop"`, the verdict is false and `unreachable`, and the handoff is
        not sent later. The verdict is the same if `before_send` drops the handoff or an error on this side prevents the
        call; such a handoff is never sent.
        """
        handoff_id = _id_of(handoff_id)
        timeout = self.timeout if timeout is None else timeout
        try:
            fields = {
                "context": context,
                "evidence": evidence,
                "call_chain": call_chain,
                "sent_at": sent_at,
                "type": type,
            }
            target, trace, line = self._line(source, target, data, trace, parent, handoff_id, reason, **fields)
        except Exception as error:  # noqa: BLE001 (the audit must not stop an agent)
            return self._without_verdict(self._fail("a handoff was not sent", error), handoff_id)
        if line is None:
            return self._without_verdict("before_send dropped the handoff", handoff_id)
        verdict = self._ask(line, handoff_id, target, trace, timeout, wait)
        if verdict:
            self._parents.add(trace, target, handoff_id)
        return verdict

    def _ask(self, line: bytes, handoff_id: str, target: str, trace: str, timeout: float, wait: float) -> Verdict:
        from handoffaudit_client.gate import Gate
        from handoffaudit_client.transport import Unreachable

        if self._server is None or self._sender is None:
            return self._without_verdict("the client has no address or no key", handoff_id)
        until = time.monotonic() + timeout
        self._sender.flush(min(_SETTLE_SECONDS, timeout / 2), once=True)
        # The decision may come in a later `Verdict.wait`.
        passed = lambda: self._parents.add(trace, target, handoff_id)  # noqa: E731
        gate = Gate(self._server, self._notices, line[1:], handoff_id, target, passed)
        try:
            verdict = gate.ask(until - time.monotonic())
        except Unreachable as error:
            self._notices.warn("away", f"{error}.")
            if self.on_unreachable == "pass":
                self._append(line)
            return self._without_verdict(str(error), handoff_id)
        return verdict.wait(wait) if wait > 0 else verdict

    def _without_verdict(self, why: str, handoff_id: str) -> Verdict:
        if self.on_unreachable == "pass":
            text = f"There is no verdict ({why}). The handoff goes on unverified."
            return Verdict("unverified", text, handoff_id=handoff_id)
        text = f"There is no verdict ({why}), and without one the handoff must not go on. Try again later."
        return Verdict("unreachable", text, handoff_id=handoff_id)

    def tool_result(
        self,
        tool: str,
        result: Any = _NOTHING,
        *,
        call_id: str | None = None,
        agent: str | None = None,
        arguments: Any = None,
        at: datetime | str | None = None,
        trace: str | None = None,
    ) -> ToolCall:
        """Record in the background what a tool returned. Never raises and never waits.

        A `result` is recorded at once. Without one, use the returned `ToolCall` as a decorator of the tool's function,
        or as a context manager whose `result` the block sets. Give `arguments`, because values that the agent passed to
        the tool are not evidence.
        """
        from handoffaudit_client.tool_calls import ToolCall

        call = ToolCall(self._record, tool, call_id=call_id, agent=agent, arguments=arguments, at=at, trace=trace)
        if result is not _NOTHING:
            call.result = result
            call.__exit__(None)
        return call

    def _record(self, tool: str, result: Any, *, trace: str | None, **known: Any) -> None:
        try:
            trace = to_name(trace or current_trace())
            if not trace:
                self._fail("a tool result was not sent", "use `with client.trace():`, or give `trace`")
                return
            line = self._submissions.of_result(trace, tool, result, **known)
            if line is not None:
                self._append(line)
        except Exception as error:  # noqa: BLE001 (the audit must not stop a tool)
            self._fail("a tool result was not sent", error)

    def trace(self, id: str | None = None) -> TraceScope:  # noqa: A002 (the word of the API)
        """Return a context manager that gives all handoffs and tool results of its block the same trace.

        `with client.trace() as trace_id` also gives the id. Without `id`, the trace is the surrounding one, else the
        current OpenTelemetry trace, else a new one.
        """
        return TraceScope(to_name(id) if id else "")

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all items of this process are sent, refused or dropped; return False after `timeout` seconds."""
        return self._sender is None or self._sender.flush(timeout)

    def stats(self) -> dict[str, int]:
        """Return the numbers of handoffs and tool results of this process.

        `sent`: accepted by the server. `waiting`: not sent yet, including items of ended processes. `adopted`: taken
        over from ended processes. `dropped`: lost, such as from a full spool. `refused`: refused by the server for
        good. `failed`: not sent because of an error on this side, such as in `before_send`.
        """
        sender = self._sender
        return {
            "sent": sender.sent if sender else 0,
            "waiting": sum(spool.waiting() for spool in self._spools),
            "dropped": sum(spool.dropped for spool in self._spools),
            "refused": sender.refused if sender else 0,
            "failed": self._failed,
            "adopted": sender.adopted if sender else 0,
        }

    def close(self, timeout: float = EXIT_SECONDS) -> None:
        """Send the remaining items for at most `timeout` seconds, and close the client.

        Items that are not sent by then, or come later, wait in the spool for the next process. Items that are only in
        memory are lost.
        """
        _clients.discard(self)
        if self._sender is None or self._server is None or self._is_closed:
            return
        self._is_closed = True
        self._sender.flush(timeout)
        self._sender.close(0.5)
        for spool in self._spools:
            spool.close()
        self._server.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(
        self,
        source: str,
        target: str,
        data: Any,
        trace: str | None,
        parent: str | None,
        handoff_id: str,
        reason: str | None,
        **more: Any,
    ) -> tuple[str, str, bytes | None]:
        """Return the target, the trace and the line of a handoff; the line is None if `before_send` dropped it."""
        source, target = to_name(source), to_name(target)
        trace = to_name(trace or current_trace())
        parent = to_name(parent or self._parents.parent_of(trace, source))
        beside = {"trace_id": trace, "parent_handoff_id": parent, "handoff_id": handoff_id}
        if reason:
            beside["reason"] = str(reason)[:2000]
        return target, trace, self._submissions.of_handoff(source, target, data, beside=beside, **more)

    def _append(self, line: bytes) -> None:
        if self._sender is None:
            return
        disk, memory = self._spools
        try:
            disk.append(line)
        except OSError as error:
            self._notices.warn("spool", f"no spool, so unsent items are lost when the process ends: {error}")
            memory.append(line)
        self._sender.nudge()

    def _fail(self, what: str, error: Exception | str) -> str:
        from handoffaudit_client.plain_json import describe

        self._failed += 1
        message = f"{what}: {error if isinstance(error, str) else describe(error)}"
        self._notices.warn("failed", message)
        return message

    def _start_in_child(self) -> None:
        self._failed = 0
        for part in (self._notices, self._parents, *self._spools, self._server, self._sender):
            if part is not None:
                part.start_in_child()


def _id_of(given: str | None) -> str:
    try:
        return to_name(given) if given else new_id()
    except Exception:  # noqa: BLE001 (the id may be any object)
        return new_id()


# Open clients: a client without references may still have something to send.
_clients: set[Client] = set()


def _flush_at_exit() -> None:
    from time import monotonic

    until = monotonic() + EXIT_SECONDS
    for client in list(_clients):
        client.close(max(until - monotonic(), 0.0))


def _start_in_child() -> None:
    for client in list(_clients):
        client._start_in_child()  # noqa: SLF001 (of this module)


atexit.register(_flush_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
