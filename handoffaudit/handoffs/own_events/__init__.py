"""The product's own events, told once they are committed: as lines of a file where one is set, and as logs.

Nothing here raises for what a disk does, and where nobody wants to know nothing is made.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import NewHandoff
from handoffaudit.handoffs.models import Handoff, ModelCall
from handoffaudit.handoffs.own_events import lines
from handoffaudit.handoffs.own_events.appending import Appending
from handoffaudit.validation.asking.masking import masked
from handoffaudit.validation.loglines import HealthLine
from handoffaudit.validation.verdict import Outcome, Verdict

LOGGER: Final = "handoffaudit.events"
log = structlog.get_logger(LOGGER)


def received(handoffs: Sequence[NewHandoff], sender: Actor) -> None:
    """Handoffs are stored. Call inside the transaction that stores them, as all of these."""
    if handoffs and _wanted(logging.DEBUG):
        transaction.on_commit(partial(_tell_received, handoffs, sender))


def judged(verdicts: Sequence[tuple[Handoff, Verdict]]) -> None:
    if verdicts and (_wanted(logging.DEBUG) or (_wanted(logging.INFO) and any(map(_rejects, verdicts)))):
        transaction.on_commit(partial(_tell_judged, verdicts))


def decided(handoff: Handoff, actor: Actor, note: str) -> None:
    """A person decided; the handoff has its new state."""
    if _wanted(logging.INFO):
        transaction.on_commit(partial(_tell_decided, handoff, actor, note))


def invoked(event: str, invocation: Mapping[str, Any]) -> None:
    """Tell that the gate for hooks was called about a delegation, before anything is judged."""
    if _wanted(logging.DEBUG):
        _write(lambda: [lines.invocation(timezone.now(), event, invocation)])
        log.debug("the gate was called", hook_event=event, **masked(dict(invocation)))


def llm_called(call: ModelCall) -> None:
    """Tell that the LLM was asked, answered from the cache, or could not be asked."""
    if _wanted(logging.DEBUG):
        _write(lambda: [lines.llm_call(call)])
        log.debug("the LLM was asked", **lines.of_llm_call(call))


def gated(event: str, answer: Mapping[str, Any]) -> None:
    """The gate for hooks answered to an event of that name."""
    if _wanted(logging.DEBUG):
        _write(lambda: [lines.gate(timezone.now(), event, answer)])
        log.debug("the gate answered", hook_event=event, status=answer["status"], blocked=answer["blocked"])


def reported(line: HealthLine, tenant_id: int, report: str, *, failed: bool) -> None:
    """A handoff file was reported; `report` is the id of the report."""
    if _wanted(logging.INFO):
        transaction.on_commit(partial(_tell_reported, line, tenant_id, report, failed=failed))


def _wanted(level: int) -> bool:
    return settings.EVENTS_FILE is not None or logging.getLogger(LOGGER).isEnabledFor(level)


def _tell_received(handoffs: Sequence[NewHandoff], sender: Actor) -> None:
    facts = [(one, lines.of_arrival(one, sender)) for one in handoffs]
    _write(lambda: [lines.trace("handoff_received", one, one.received_at, told) for one, told in facts])
    for _, told in facts:
        log.debug("a handoff was received", **told)


def _tell_judged(verdicts: Sequence[tuple[Handoff, Verdict]]) -> None:
    facts = [(one, verdict, lines.of_verdict(one, verdict)) for one, verdict in verdicts]
    _write(
        lambda: [
            lines.trace("handoff_validated", one, verdict.validated_at, told, duration_ms=round(verdict.duration_ms, 3))
            for one, verdict, told in facts
        ]
    )
    for one, verdict, told in facts:
        tell = log.info if _rejects((one, verdict)) else log.debug
        tell("a handoff was judged", **told)


def _tell_decided(handoff: Handoff, actor: Actor, note: str) -> None:
    told = lines.of_decision(handoff, actor, note)
    _write(lambda: [lines.trace("handoff_processed", handoff, timezone.now(), told)])
    log.info("a handoff was decided", **told)


def _tell_reported(line: HealthLine, tenant_id: int, report: str, *, failed: bool) -> None:
    _write(lambda: [lines.health(line)])
    reason, fallback = line.reason and str(line.reason), line.fallback and str(line.fallback)
    facts = {"agent": line.agent, "phase": line.phase, "run_id": line.run_id, "source": str(line.source)}
    more = {"reason": reason, "fallback": fallback, "failed": failed, "tenant": tenant_id}
    log.info("a handoff file was reported", report=report, **facts, **more)


def _rejects(judged: tuple[Handoff, Verdict]) -> bool:
    return judged[1].outcome is Outcome.REJECTED


def _write(make: Callable[[], Iterable[str]]) -> None:
    if settings.EVENTS_FILE is not None:
        _file(settings.EVENTS_FILE).write(make())


@lru_cache(maxsize=4)
def _file(path: Path) -> Appending:
    return Appending(path)
