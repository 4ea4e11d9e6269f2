"""What is to be done about a verdict: a pure decision over a record of the tries before it."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class RemediationState(StrEnum):
    PENDING = "pending"
    RETRYING = "retrying"
    RE_RETRIEVING = "re_retrieving"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    EXHAUSTED = "exhausted"


class RemediationRecord(BaseModel):
    """Every action of one lineage of attempts, with its time."""

    remediation_id: str
    validation_id: str
    state: RemediationState = RemediationState.PENDING
    actions_taken: list[dict[str, Any]] = Field(default_factory=list)
    retry_count: int = 0
    max_retries: int = 2
    started_at: datetime
    resolved_at: datetime | None = None
    resolution: str | None = None
