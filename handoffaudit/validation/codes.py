"""Rule codes, which the layers and formats declare beside their checks, and the issues made from them.

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

    `what` says what is found, `why` why it matters, and `hint` what to do if a finding has no hint of its own. `layer`
    is the part of `code` before the first dot if it is not given. `holds` is True if the handoff waits for the decision
    of a person. `approvable` is True if a person may accept a handoff with a finding of this code.
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
    """Return an issue of a code, or of the code `member` of a family, with the layer and the default hint of the code.

    Values that come from the document are cut to size and made storable. `severity` overrides the severity of the code
    where the policy or a rule sets one.
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
