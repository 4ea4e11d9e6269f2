"""One handoff through the pipeline, beside its past and under the policy of its tenant."""

import time
from dataclasses import dataclass, replace
from typing import Final

from django.utils import timezone

from handoffaudit.handoffs.arrivals import Arrival, read
from handoffaudit.handoffs.models import Handoff, HandoffBody, new_id
from handoffaudit.handoffs.reference_files import reference_files
from handoffaudit.handoffs.rows import reading_of
from handoffaudit.handoffs.unread import verdict_of_unread
from handoffaudit.policy.kinds import file_policy
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import Demands, ValidationConfig
from handoffaudit.validation.counting import default_counter
from handoffaudit.validation.formats import handoff_file
from handoffaudit.validation.layers.base import History, Subject
from handoffaudit.validation.ports import LanguageModel
from handoffaudit.validation.record import Record
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.verdict import Verdict
from handoffaudit.validation.workflows import workflow_of


class AskLater:
    """In place of a model: the layers that ask one are pending."""


ASK_LATER: Final = AskLater()
Asked = LanguageModel | AskLater | None


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a handoff's past: its trace, and the attempts before it."""

    history: History
    remediation: RemediationLog | None = None


def verdict_on(
    handoff: Handoff, body: HandoffBody, before: Before, config: ValidationConfig, *, model: Asked = None
) -> Verdict:
    """What the pipeline says of one stored handoff. Without a `model`, the layers that ask one do not run."""
    reading = reading_of(handoff, body)
    if reading.record is None:
        return verdict_of_unread(handoff, reading.issues)
    handoff.user_approved = reading.record.user_approved
    return verdict_of(reading.record, handoff, before, config, model=model, sent=bytes(body.original))


def verdict_of_arrival(arrival: Arrival, before: Before, config: ValidationConfig) -> Verdict:
    """What it says of one that is not stored."""
    handoff = arrival.handoff.as_model()
    reading = read(arrival.submission)
    if reading.record is None:
        return verdict_of_unread(handoff, reading.issues)
    return verdict_of(reading.record, handoff, before, config, sent=arrival.submission.document)


def verdict_of(
    record: Record,
    handoff: Handoff,
    before: Before,
    config: ValidationConfig,
    *,
    model: Asked = None,
    sent: bytes | None = None,
) -> Verdict:
    """Return the verdict on a record, be it stored or not. `sent` is the document as it arrived, where it did."""
    subject = Subject(
        record=record,
        policy=config.policy_for(handoff.handoff_type),
        history=before.history,
        received_at=handoff.received_at,
        counter=default_counter(),
        files=reference_files(),
        policy_version=config.version,
        policy_versions=config.versions,
        demands=_demands(record, handoff, config),
        remediation=before.remediation,
        known_agents=config.known_agents,
        model=None if isinstance(model, AskLater) else model,
        sent=sent,
    )
    verdict = pipeline.run(
        subject,
        validation_id=str(new_id()),
        now=timezone.now,
        monotonic=time.perf_counter,
        layers=None if model is None else pipeline.layers_with_model(),
    )
    return replace(verdict, handoff_id=handoff.handoff_id)


def _demands(record: Record, handoff: Handoff, config: ValidationConfig) -> Demands:
    """Return what is demanded beside the strictness row. Whether only the handoff file counts is answered for the time
    when the handoff arrived, as its report was: judged again later, it gets the same verdict."""
    demands = config.demands_for(handoff.handoff_type, workflow_of(record))
    if record.format != handoff_file.NAME or record.original_document is None:
        return demands
    (policy,) = file_policy.at_time(handoff.tenant_id, handoff.received_at).rows
    return replace(demands, strict_files=policy.strict_handoff_files)
