"""Handoffs with a human decision: a submission with its `review` beside the document.

`{…submission…, "review": {"decision": "approved" | "declined", "codes": […]}}`. A declined handoff is faulty and an
approved handoff is sound, whatever the layers found. `codes`, optional, are the rule codes that the reviewer saw.
"""

from collections.abc import Iterable
from typing import Final

from handoffaudit.evaluation.items import Beside, Item, Label, Line
from handoffaudit.validation.record import Envelope

NAME: Final = "reviews"
_DECISIONS = {"declined": True, "approved": False}


def recognise(line: Line) -> bool:
    return "review" in line and "document" in line


def items(line: Line, beside: Beside) -> Iterable[Item]:
    decision = line["review"]["decision"]
    if decision not in _DECISIONS:
        raise ValueError(f"review.decision is {decision!r}, not one of {', '.join(_DECISIONS)}")
    document = line["document"]
    if not isinstance(document, dict):
        raise TypeError("document is not an object")
    name = line.get("handoff_id") or document.get("handoff_id") or ""
    yield Item(
        name=str(name),
        document=document,
        label=Label(_DECISIONS[decision]),
        format=line.get("format") or "",
        envelope=Envelope(
            context=line.get("context"),
            evidence=line.get("evidence"),
            trace_id=line.get("trace_id"),
            parent_handoff_id=line.get("parent_handoff_id"),
            step=line.get("step"),
            agent=line.get("agent"),
        ),
    )
