"""What goes to a model and comes back from it, as the pipeline is given it."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.library.defaults import new_id, utc_now


class EvidenceItem(BaseModel):
    """A piece of evidence that the model was given. `relevance` from 0.0 to 1.0."""

    source: str
    content: Any = Field(default_factory=dict)
    relevance: float = 1.0
    retrieved_at: datetime = Field(default_factory=utc_now)


class LLMEnvelope(BaseModel):
    """What a model was asked, and with what. Fields of your own are kept.

    `expected_output_schema`: a JSON Schema (draft 2020-12; empty: none) that the output must keep to.
    """

    model_config = ConfigDict(extra="allow")

    instructions: str
    envelope_id: str = Field(default_factory=new_id)
    trace_id: str = Field(default_factory=new_id)
    agent_id: str = ""
    agent_type: str = ""
    tenant_id: str = "default"
    context: dict[str, Any] = Field(default_factory=dict)
    retrieved_evidence: list[EvidenceItem] = Field(default_factory=list)
    expected_output_schema: dict[str, Any] | bool = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=utc_now)


class LLMResult(BaseModel):
    """What a model answered. Fields of your own are kept.

    The pipeline sets `validation_passed` (None until then) and `validation_errors`.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    envelope_id: str
    result_id: str = Field(default_factory=new_id)
    trace_id: str = ""
    content: str = ""
    parsed_output: Any = None
    model_used: str = ""
    created_at: datetime = Field(default_factory=utc_now)
    validation_passed: bool | None = None
    validation_errors: list[str] = Field(default_factory=list)
