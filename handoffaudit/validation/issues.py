"""Issues, which are the findings about a sender's document, and the rule codes that issues are made from.

The layers and formats declare the codes beside their checks, and `layers.CATALOGUE` collects the declared codes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import msgspec

from handoffaudit.validation.paths import Location, dotted_path, pointer
from handoffaudit.validation.text import brief, clean

MAX_ISSUES = 100


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_COUNTED: Final = frozenset({Severity.WARNING, Severity.ERROR, Severity.CRITICAL})


def is_counted(severity: str) -> bool:
    """Return whether findings of this severity count in lists, numbers, rates, groups and alerts.

    Findings of other severities are notes: the verdict contains notes, and the page of the handoff lists them below the
    findings.
    """
    return severity in _COUNTED


class Issue(msgspec.Struct, frozen=True):
    """One finding: the defect, its place in the document, and a hint how to fix the document.

    `location` holds the keys and list positions from the root of the document. `holds` is True if the handoff waits for
    the decision of a person. The rule code decides this, so `holds` is not stored.
    """

    layer: str
    code: str
    severity: Severity
    message: str
    hint: str
    location: Location = ()
    expected: Any = None
    actual: Any = None
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
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

    def assign_number(self, number: int) -> "Issue":
        """Return a copy with an issue id for its position in the verdict, counted from 1."""
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
            "severity": str(self.severity),
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
    """Return the first `limit` issues. If there are more, the message of the last issue says so.

    For issues that may differ in severity, call `limit_mixed_issues`.
    """
    kept = list(islice(issues, limit + 1))
    if len(kept) <= limit:
        return kept
    last = kept[limit - 1]
    message = f"{last.message} There are more findings like this: only the first {limit} are listed."
    return [
        *kept[: limit - 1],
        msgspec.structs.replace(last, message=message, metadata={**last.metadata, "more": True}),
    ]


_RANK: Final = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def limit_mixed_issues(issues: Iterable[Issue]) -> list[Issue]:
    """Limit issues of several severities as `limit_issues` does, but drop the least severe ones.

    A dropped error would change the outcome.
    """
    found = list(issues)
    if len(found) > MAX_ISSUES:
        found.sort(key=lambda issue: _RANK[issue.severity])
    return limit_issues(found)


_MAX_SENTENCE = 600


@dataclass(frozen=True, slots=True)
class Code:
    """A rule code, or a family of generated codes that begin with `code`: `schema` is the family of `schema.minimum`.

    `what` describes the defect, `why` says why it matters, and `hint` what to do. A finding may have a more specific
    hint. `layer` defaults to the part of `code` before the first dot. `holds` is True if the handoff waits for the
    decision of a person. `approvable` is True if a person may accept a handoff with a finding of this code.
    """

    code: str
    severity: Severity
    title: str
    what: str
    why: str
    hint: str
    layer: str = ""
    holds: bool = False
    approvable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer", self.layer or self.code.partition(".")[0])


def make(
    code: Code,
    member: str = "",
    /,
    *,
    location: Location = (),
    message: str,
    expected: Any = None,
    actual: Any = None,
    hint: str | None = None,
    severity: Severity | None = None,
    **metadata: Any,
) -> Issue:
    """Return an issue with a code, or with the code `member` of a family.

    The layer comes from the code, and so does the hint unless `hint` is given. Values from the document are shortened
    and made storable. `severity` overrides the severity of the code, if the policy or a rule sets one.
    """
    return Issue(
        layer=code.layer,
        code=f"{code.code}.{member}" if member else code.code,
        severity=severity or code.severity,
        message=clean(message, _MAX_SENTENCE),
        hint=clean(hint, _MAX_SENTENCE) if hint else code.hint,
        location=tuple(clean(part) if isinstance(part, str) else part for part in location),
        expected=brief(expected),
        actual=brief(actual),
        metadata=brief(metadata) if metadata else {},
        holds=code.holds,
    )
