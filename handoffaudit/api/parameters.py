"""What parameters that many operations have mean: said once, and told with each of them."""

import uuid
from typing import Annotated, Final

from ninja import Path, Schema
from pydantic import Field

SOURCE: Final = "The agent that handed over: its exact name."
TARGET: Final = "The agent that was handed to: its exact name."
UNTIL: Final = "Before this moment: a date (its beginning, UTC), a date and time, or 24h, 7d, 30d ago."
LIMIT: Final = "How many a page has at most."
NEXT: Final = "The cursor of the next page; null on the last one."
LINKS: Final = (
    "Addresses below this server; `page` is for people. `codes` is a URI template: with a code in place of `{code}` it "
    "is where that code is told, readable without an account."
)
PHASE: Final = "The phase of the run."

Reference = Annotated[
    str,
    Path(
        description="The product's `id`, or the sender's `handoff_id`. One with a `/` in it is found by "
        "`GET /handoffs?handoff_id=…`, and then named by its `id`.",
        examples=["0197f0c2-6f5c-7d53-9b0a-6f2f4f3f0a11"],
    ),
]
TraceId = Annotated[str, Path(description="The sender's `trace_id`; it may hold slashes.", examples=["run-7"])]
ReportId = Annotated[uuid.UUID, Path(description="The `id` that the report was answered with.")]
ImportId = Annotated[uuid.UUID, Path(description="The `id` that the import was answered with.")]
WorkflowId = Annotated[str, Path(description="The event's `workflow_id`, else its session; it may hold slashes.")]
PhaseId = Annotated[str, Path(description="The `phase_id` that the event was answered with.")]
SchemaName = Annotated[str, Path(description="Which schema: one of the names above.", examples=["payload"])]


class HandoffsQuery(Schema):
    """What lists of handoffs are narrowed by, and the page of them."""

    type: str = Field("", description="The handoff type.", examples=["research_result"])
    source: str = Field("", description=SOURCE, examples=["planner"])
    target: str = Field("", description=TARGET, examples=["writer"])
    code: str = Field("", description="Handoffs with a finding of this code.", examples=["chain.circular"])
    trace: str = Field("", description="The `trace_id` that they have.")
    group: str = Field("", description="Handoffs of this finding group: its `id`.", examples=["12"])
    since: str = Field("", description="A date, a date and time, or 24h, 7d, 30d.", examples=["7d"])
    until: str = Field("", description=UNTIL)
    cursor: str = Field("", description="The `next` of the page before.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)
