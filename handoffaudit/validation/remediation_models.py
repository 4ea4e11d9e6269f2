"""The policy and the record of remediation, as users have and keep them."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.remediation import Action, RemediationLog, RemediationState


class RemediationAction(StrEnum):
    """What the library recommends. A pass without any finding is `accept_with_warnings`, too."""

    RETRY = Action.RETRY.value
    RE_RETRIEVE = Action.RE_RETRIEVE.value
    ESCALATE = Action.ESCALATE.value
    INSUFFICIENT_EVIDENCE = Action.INSUFFICIENT_EVIDENCE.value
    ACCEPT_WITH_WARNINGS = Action.ACCEPT_WITH_WARNINGS.value


class RemediationPolicy(BaseModel):
    """How often the sender of a type is asked to try again, and what is taken to a person at once."""

    model_config = ConfigDict(frozen=True)

    output_type: str = ANY_OTHER_TYPE
    max_retries: int = Field(default=2, ge=0)
    max_re_retrievals: int = Field(default=1, ge=0)
    auto_escalate_on_critical: bool = True
    min_severity_to_remediate: Severity = Severity.ERROR


class RemediationRecord(BaseModel):
    """Every action of one lineage of attempts, with its time.

    `validation_id` is the verdict that it began with. `actions_taken`: each with "action" and "timestamp" (RFC 3339,
    UTC); retries with "attempt", their number since the last new retrieval; escalations with "reason".
    """

    remediation_id: str = Field(default_factory=lambda: str(uuid4()))
    validation_id: str
    state: RemediationState = RemediationState.PENDING
    actions_taken: list[dict[str, Any]] = Field(default_factory=list)
    retry_count: int = 0
    max_retries: int = 2
    started_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    resolved_at: datetime | None = None
    resolution: str | None = None

    @property
    def re_retrievals(self) -> int:
        return sum(taken.get("action") == RemediationAction.RE_RETRIEVE for taken in self.actions_taken)

    @classmethod
    def of(cls, log: RemediationLog) -> "RemediationRecord":
        fields = {name: getattr(log, name) for name in cls.model_fields}
        return cls(**{**fields, "actions_taken": [dict(taken) for taken in log.actions_taken]})

    def log(self) -> RemediationLog:
        """The engine's own form of it."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RemediationLog(**{**fields, "actions_taken": tuple(self.actions_taken)})
