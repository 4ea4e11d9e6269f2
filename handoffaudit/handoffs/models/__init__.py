"""The Django models of handoffs, their verdicts, reviews, counts, LLM calls, hook events and webhooks."""

from handoffaudit.handoffs.models.counts import DailyCount, DailyPair, HourlyCount, HourlyTotal
from handoffaudit.handoffs.models.handoff import (
    WAITING_STATES,
    ActorKind,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    Remediation,
    RemovedDocument,
    State,
    Verdict,
    new_id,
)
from handoffaudit.handoffs.models.hooks import HandedOut, HookEvent, ValidationState
from handoffaudit.handoffs.models.llm import (
    Alert,
    CheckKind,
    ModelAnswer,
    ModelBreaker,
    ModelCall,
    ModelCheck,
    ModelSpend,
)
from handoffaudit.handoffs.models.review import PassedOn, Proposal, ReviewHold, Trial
from handoffaudit.handoffs.models.webhooks import Delivery, Gathering, Subscriber, SubscriberKind

__all__ = [
    "WAITING_STATES",
    "ActorKind",
    "Alert",
    "CheckKind",
    "DailyCount",
    "DailyPair",
    "Delivery",
    "Event",
    "Finding",
    "Gathering",
    "HandedOut",
    "Handoff",
    "HandoffBody",
    "HookEvent",
    "HourlyCount",
    "HourlyTotal",
    "ModelAnswer",
    "ModelBreaker",
    "ModelCall",
    "ModelCheck",
    "ModelSpend",
    "PassedOn",
    "Proposal",
    "Remediation",
    "RemovedDocument",
    "ReviewHold",
    "State",
    "Subscriber",
    "SubscriberKind",
    "Trial",
    "ValidationState",
    "Verdict",
    "new_id",
]
