"""The issue: one finding of a layer about a sender's document."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from handoffaudit.validation.paths import Location, dotted_path, pointer

MAX_ISSUES = 100


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding: the defect, its place in the document, and a hint how to fix the document.

    `location` holds the keys and list positions from the root of the document. `holds` is True if the handoff waits for
    the decision of a person; this follows from the code, so it is not stored.
    """

    layer: str
    code: str
    severity: Severity
    message: str
    hint: str
    location: Location = ()
    expected: Any = None
    actual: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    issue_id: str = ""
    holds: bool = False

    @property
    def blocks(self) -> bool:
        """Return whether the issue prevents the acceptance of the handoff."""
        return self.holds or self.severity in (Severity.ERROR, Severity.CRITICAL)

    @property
    def field_path(self) -> str:
        return dotted_path(self.location)

    @property
    def json_pointer(self) -> str:
        return pointer(self.location)

    def numbered(self, number: int) -> "Issue":
        """Return a copy with an issue id for its position in the verdict, counted from 1."""
        # `dataclasses.replace` would take three times as long, because it inspects the definition of every field.
        return Issue(
            self.layer,
            self.code,
            self.severity,
            self.message,
            self.hint,
            self.location,
            self.expected,
            self.actual,
            self.metadata,
            f"issue-{number}",
            self.holds,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "issue_id": self.issue_id,
            "layer": self.layer,
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "field_path": self.field_path,
            "json_pointer": self.json_pointer,
            "expected": self.expected,
            "actual": self.actual,
            "hint": self.hint,
            "metadata": dict(self.metadata),
        }


def limit_issues(issues: Iterable[Issue], limit: int = MAX_ISSUES) -> list[Issue]:
    """Return the first `limit` issues. If there are more, the message of the last issue says so."""
    kept = list(islice(issues, limit + 1))
    if len(kept) <= limit:
        return kept
    last = kept[limit - 1]
    message = f"{last.message} There are more findings like this: only the first {limit} issues are listed."
    return [*kept[: limit - 1], replace(last, message=message, metadata={**last.metadata, "more": True})]
