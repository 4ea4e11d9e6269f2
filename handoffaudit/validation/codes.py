"""Rule codes, which layers and formats declare beside their checks, and the issues with these codes.

`catalogue` collects the declared codes.
"""

from dataclasses import dataclass
from typing import Any

from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import brief, clean

_MAX_SENTENCE = 600


@dataclass(frozen=True, slots=True)
class Code:
    """A rule code, or a family of generated codes that begin with it: `schema` of `schema.minimum`.

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
