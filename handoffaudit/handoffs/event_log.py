"""Events of the product, written to the events file and the logs with secrets masked.

Events of stored changes are written after the commit.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.handoffs.ingest.prepare import PreparedHandoff
from handoffaudit.handoffs.models import Handoff, ModelCall
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.issues import is_counted
from handoffaudit.validation.logs.lines import GateLine, HealthLine, TraceLine, write_gate, write_health, write_trace
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.text import clean
from handoffaudit.validation.verdict import Outcome, Verdict

file_log = structlog.get_logger(__name__)

# Without O_NONBLOCK, a pipe that nobody reads would block the writer.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class AppendedFile:
    """A file opened on the first write, and opened again after it was moved or removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._opened: tuple[int, int] | None = None
        self._begins_a_line = True
        self._failing = False
        self._lock = threading.Lock()

    def write(self, lines: Iterable[str]) -> None:
        """Append each line with one system call.

        Lines that cannot be written are lost. The first failure is logged. Further failures are logged only after a
        successful write.
        """
        with self._lock:
            try:
                descriptor = self._open()
                for line in lines:
                    self._append(descriptor, line)
            except OSError as error:
                if not self._failing:
                    file_log.warning("the events file can't be written", path=str(self._path), error=str(error))
                self._failing = True
                self._close()
            else:
                self._failing = False

    def _append(self, descriptor: int, line: str) -> None:
        raw = f"{line}\n".encode("utf-8", "replace")
        # If the previous write cut a line off, end that line first.
        raw = raw if self._begins_a_line else b"\n" + raw
        written = os.write(descriptor, raw)
        self._begins_a_line = written in (0, len(raw)) and (self._begins_a_line or written > 0)
        if written < len(raw):
            raise OSError(28, "the disk took only a part of a line")

    def _open(self) -> int:
        if self._descriptor is not None and self._opened == self._identify_file():
            return self._descriptor
        self._close()
        self._descriptor = os.open(self._path, _FLAGS, 0o640)
        found = os.fstat(self._descriptor)
        self._opened = found.st_dev, found.st_ino
        return self._descriptor

    def _identify_file(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = self._opened = None


COMPONENT: Final = "hook-gate"

LLM: Final = "llm"

_EVENT_TYPES: Final = {"PASSED": "VALIDATION", "FAILED": "VALIDATION", "NOT_APPLICABLE": "SKIP", "UNKNOWN": "ERROR"}

_MOST_CODES = 50

_LONGEST_REASON = 1000

_HEALTH_TEXTS = ("agent", "phase", "runtime", "iteration", "run_id")


def arrival_facts(handoff: PreparedHandoff, sender: Actor) -> dict[str, Any]:
    return _list_facts(handoff) | {"state": str(handoff.state), "sender": sender.name, "size_bytes": handoff.size_bytes}


def verdict_facts(handoff: Handoff | PreparedHandoff, verdict: Verdict) -> dict[str, Any]:
    codes = sorted({issue.code for issue in verdict.issues if is_counted(issue.severity)})[:_MOST_CODES]
    outcome = {"outcome": verdict.outcome.value, "codes": codes, "quality_score": verdict.quality_score}
    return _list_facts(handoff) | outcome | {"unverified": verdict.unverified}


def decision_facts(handoff: Handoff, actor: Actor, note: str) -> dict[str, Any]:
    who = {"kind": str(actor.kind), "name": actor.name}
    return _list_facts(handoff) | {"outcome": str(handoff.state), "actor": who, "note": clean(note, _LONGEST_REASON)}


def _list_facts(handoff: Handoff | PreparedHandoff) -> dict[str, Any]:
    return {
        "id": str(handoff.id),
        "handoff_id": handoff.handoff_id,
        "tenant": handoff.tenant_id,
        "source": handoff.source_agent_id,
        "target": handoff.target_agent_id,
        "type": handoff.handoff_type,
    }


def trace_line(
    event_type: str, handoff: Handoff | PreparedHandoff, at: datetime, details: dict[str, Any], **more: Any
) -> str:
    """Return a trace line. The `handoff_id` replaces a missing trace id."""
    # Only the ids and the values of the details come from senders, so only they can contain secrets.
    named = mask_secrets(
        {"trace": handoff.trace_id or handoff.handoff_id, "parent": handoff.parent_handoff_id, **details}
    )
    trace_id, parent = named.pop("trace"), named.pop("parent")
    line = TraceLine(at, event_type, trace_id, "handoffaudit", details=named, span_id=str(handoff.id), **more)
    return write_trace(replace(line, parent_span_id=parent))


def invocation_line(at: datetime, event: str, invocation: Mapping[str, Any]) -> str:
    """Return the gate line of a hook call, with the delegation and the lengths of the texts to judge."""
    objective, result = invocation["objective_characters"], invocation["result_characters"]
    lengths = f"objective {objective:,} characters, result {result:,} characters"
    details = mask_secrets(f"{event}: {invocation['tool']} to {invocation['target']}, {lengths}")
    return write_gate(GateLine(at, "TRIGGER", COMPONENT, details))


def llm_call_facts(call: ModelCall) -> dict[str, Any]:
    """Return the facts of a question to the LLM and of its outcome, without the texts of question and answer."""
    return {
        "use": call.use,
        "model": call.model,
        "prompt": call.prompt,
        "outcome": call.outcome,
        "cached": call.cached,
        "tries": call.tries,
        "latency_ms": round(call.latency_ms),
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "tokens_cached": call.tokens_cached,
        "cost_usd": call.cost_usd,
        "id": str(call.handoff) if call.handoff else None,
        "tenant": call.tenant_id,
    }


def llm_call_line(call: ModelCall) -> str:
    """Return the gate line of an LLM call."""
    if call.cached:
        how = "answered from the cache"
    elif call.tries:
        how = (
            f"{round(call.latency_ms):,} ms, {call.tokens_in + call.tokens_cached:,} tokens in, "
            f"{call.tokens_out:,} tokens out, {call.cost_usd:.4f} USD"
        )
    else:
        how = "not asked"
    why = f": {mask_secrets(call.detail)}" if call.detail else ""
    about = f", handoff {call.handoff}" if call.handoff else ""
    event_type = "INFO" if call.outcome == "ok" else "ERROR"
    details = f"{call.use} by {call.model}: {call.outcome}, {how}{about}{why}"
    return write_gate(GateLine(call.at, event_type, LLM, details))


def hook_answer_line(at: datetime, event: str, answer: Mapping[str, Any]) -> str:
    """Return the gate line of the answer to a hook event.

    `event` is the name of the hook event, empty if no event could be read.
    """
    status = str(answer["status"])
    asks = (answer.get("hookSpecificOutput") or {}).get("permissionDecision") == "ask"
    decision = "block" if answer["blocked"] else "ask" if asks else "allow"
    reason = mask_secrets(clean(str(answer["reason"]), _LONGEST_REASON))
    details = f"{event or 'no event'}: {status}, {decision}{f': {reason}' if reason else ''}"
    return write_gate(GateLine(at, _EVENT_TYPES[status], COMPONENT, details))


def health_line(line: HealthLine) -> str:
    return write_health(replace(line, **{name: mask_secrets(getattr(line, name)) for name in _HEALTH_TEXTS}))


LOGGER: Final = "handoffaudit.events"

log = structlog.get_logger(LOGGER)
_logger = logging.getLogger(LOGGER)


def log_received(handoffs: Sequence[PreparedHandoff], sender: Actor) -> None:
    """Log that handoffs were received.

    The lines are written after the commit of the current transaction, or immediately if no transaction is open.
    """
    if handoffs and _is_wanted(logging.DEBUG):
        transaction.on_commit(partial(_write_received, handoffs, sender))


def log_verdicts(verdicts: Sequence[tuple[Handoff, Verdict]]) -> None:
    if verdicts and (_is_wanted(logging.DEBUG) or (_is_wanted(logging.INFO) and any(map(_is_rejected, verdicts)))):
        transaction.on_commit(partial(_write_judged, verdicts))


def log_decision(handoff: Handoff, actor: Actor, note: str) -> None:
    """Log that a handoff was decided or reopened.

    Call inside the transaction that stores the change, after the state changed.
    """
    if _is_wanted(logging.INFO):
        transaction.on_commit(partial(_write_decided, handoff, actor, note))


def log_invocation(event: str, invocation: Mapping[str, Any]) -> None:
    """Log that a hook event asks about a delegation; call before the delegation is judged."""
    if _is_wanted(logging.DEBUG):
        _write(lambda: [invocation_line(timezone.now(), event, invocation)])
        log.debug("the gate was called", hook_event=event, **mask_secrets(dict(invocation)))


def log_llm_call(call: ModelCall) -> None:
    """Log that the LLM was asked, that the answer came from the cache, or that the LLM could not be asked."""
    if _is_wanted(logging.DEBUG):
        _write(lambda: [llm_call_line(call)])
        log.debug("the LLM was asked", **llm_call_facts(call))


def log_hook_answer(event: str, answer: Mapping[str, Any]) -> None:
    """Log the answer to a hook event of this name."""
    if _is_wanted(logging.DEBUG):
        _write(lambda: [hook_answer_line(timezone.now(), event, answer)])
        log.debug("the gate answered", hook_event=event, status=answer["status"], blocked=answer["blocked"])


def log_file_report(line: HealthLine, tenant_id: int, report: str, *, failed: bool) -> None:
    """Log that a handoff file was reported; `report` is the id of the report."""
    if _is_wanted(logging.INFO):
        transaction.on_commit(partial(_write_reported, line, tenant_id, report, failed=failed))


def _is_wanted(level: int) -> bool:
    return _logger.isEnabledFor(level) or settings.EVENTS_FILE is not None


def _write_received(handoffs: Sequence[PreparedHandoff], sender: Actor) -> None:
    facts = [(one, arrival_facts(one, sender)) for one in handoffs]
    _write(lambda: [trace_line("handoff_received", one, one.received_at, details) for one, details in facts])
    for _, details in facts:
        log.debug("a handoff was received", **details)


def _write_judged(verdicts: Sequence[tuple[Handoff, Verdict]]) -> None:
    facts = [(one, verdict, verdict_facts(one, verdict)) for one, verdict in verdicts]
    _write(
        lambda: [
            trace_line(
                "handoff_validated", one, verdict.validated_at, details, duration_ms=round(verdict.duration_ms, 3)
            )
            for one, verdict, details in facts
        ]
    )
    for one, verdict, details in facts:
        write_log = log.info if _is_rejected((one, verdict)) else log.debug
        write_log("a handoff was judged", **details)


def _write_decided(handoff: Handoff, actor: Actor, note: str) -> None:
    details = decision_facts(handoff, actor, note)
    _write(lambda: [trace_line("handoff_processed", handoff, timezone.now(), details)])
    log.info("a handoff was decided", **details)


def _write_reported(line: HealthLine, tenant_id: int, report: str, *, failed: bool) -> None:
    _write(lambda: [health_line(line)])
    reason, fallback = line.reason and str(line.reason), line.fallback and str(line.fallback)
    facts = {"agent": line.agent, "phase": line.phase, "run_id": line.run_id, "source": str(line.source)}
    more = {"reason": reason, "fallback": fallback, "failed": failed, "tenant": tenant_id}
    log.info("a handoff file was reported", report=report, **facts, **more)


def _is_rejected(judged: tuple[Handoff, Verdict]) -> bool:
    return judged[1].outcome is Outcome.REJECTED


def _write(make: Callable[[], Iterable[str]]) -> None:
    if settings.EVENTS_FILE is not None:
        _file(settings.EVENTS_FILE).write(make())


@lru_cache(maxsize=4)
def _file(path: Path) -> AppendedFile:
    return AppendedFile(path)
