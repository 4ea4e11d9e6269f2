"""Reports of handoff files, and helpers to send them."""

from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.file_reports import ReceivedReport, receive_report
from tests.handoffs.support import SENDER

GOOD = {"status": "complete", "artifacts": ["plan.md"], "next": None, "summary": "The plan is written."}
BLOCK = "Done.\n---HANDOFF---\nSTATUS: complete\nARTIFACTS: plan.md\nNEXT: none\nSUMMARY: The plan is written."
AT = "2026-02-15T00:15:00Z"


def report(content: Any = None, **changes: Any) -> dict[str, Any]:
    """Return the report of a file with that content, or of a missing file where there is no content."""
    file = {"exists": False} if content is None else {"exists": True, "content": content}
    whole = {"run_id": "run-17", "agent": "planner", "phase": "plan", "expected_path": "run-17/planner/handoff.json"}
    return {**whole, "file": file, **changes}


def received(tenant: Tenant, document: Any, handoff_id: str = "") -> ReceivedReport:
    sent = document if isinstance(document, bytes) else orjson.dumps(document)
    return receive_report(tenant, SENDER, sent, handoff_id)
