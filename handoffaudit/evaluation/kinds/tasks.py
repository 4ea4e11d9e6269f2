"""Work orders with their reports and the files that the reports name.

A file that never existed is a claim without evidence. A file that existed once may have been moved since, so fewer
files may exist now than the report honestly claimed.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from handoffaudit.evaluation.items import Beside, Item, Label, Line
from handoffaudit.validation.canonical import compact
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.tokenizers import estimate

NAME: Final = "tasks"
_LONGEST_SUMMARY = 500


def recognise(line: Line) -> bool:
    return "claimed_paths" in line or ("parse_error" in line and "raw" in line)


def items(line: Line, beside: Beside) -> Iterable[Item]:
    if "parse_error" in line:
        raise ValueError("the order could not be parsed where it comes from")
    claimed = line["claimed_paths"] or []
    yield Item(
        name=str(line["id"]),
        document={"handoff": _handoff(line, [str(path["path"]) for path in claimed])},
        label=Label(any(not path["ever_existed"] for path in claimed) if claimed else None),
        format="universal",
        envelope=Envelope(context=line["context"] if isinstance(line.get("context"), dict) else None),
        files=frozenset(str(path["path"]) for path in claimed if path["exists_now"]),
    )


def _handoff(line: Line, paths: list[str]) -> dict[str, Any]:
    source, target = line["source_agent_id"] or line["created_by"] or "unknown", line["target_agent_id"]
    order = line["data"] if isinstance(line["data"], dict) else {"order": line["data"]}
    summary = str(order.get("title") or line["id"])[:_LONGEST_SUMMARY]
    handoff: dict[str, Any] = {
        "version": "3.0",
        "schema_type": "universal",
        "timestamp": line["created_at"],
        "trace_id": _trace_id(str(line.get("origin_task") or line["id"])),
        "source": {"skill": source, "workflow_id": str(line["id"]), "session_path": ".", "phase": str(line["status"])},
        "target": {"skill": target},
        "context": {"summary": summary, "problem_type": "implementation"},
        "payload": {
            "working": order,
            "session": {"state": {"result": line["result"]}},
            "references": {"files": [{"path": path} for path in paths]},
        },
        "meta": {"confidence": "medium", "handoff_chain": [source]},
    }
    # The format requires a token count, which the data does not have. A correct count makes sure that this conversion
    # causes no finding.
    return {**handoff, "meta": {**handoff["meta"], "token_count": _token_count(handoff)}}


def _token_count(handoff: dict[str, Any]) -> int:
    return round(estimate(compact({"handoff": handoff}).decode("utf-8", "replace")))


def _trace_id(chain: str) -> str:
    """Return one trace ID for all tasks of a chain, as a UUID of version 4, which the format requires."""
    return str(UUID(bytes=sha256(chain.encode("utf-8", "replace")).digest()[:16], version=4))
