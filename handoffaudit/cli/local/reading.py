"""A submission or a bare document of a file, read as the server reads it."""

from dataclasses import dataclass, field

from handoffaudit.validation import formats
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_input import parse_json
from handoffaudit.validation.record import Envelope, Reading
from handoffaudit.validation.submission import read_submission


@dataclass(frozen=True, slots=True)
class Given:
    """What was sent, taken apart; `issues` say why it can't be, and then there is no `document`. `sent` is the document
    as it was written."""

    document: object = None
    format: str | None = None
    envelope: Envelope = field(default_factory=Envelope)
    issues: tuple[Issue, ...] = ()
    sent: bytes | None = None

    def read(self) -> Reading:
        if self.issues:
            return Reading(None, self.issues, self.format or "")
        return formats.read(self.document, self.format, self.envelope)


def take_apart(sent: bytes, declared_format: str | None = None) -> Given:
    """With a declared format, or without a `document` in it, what was sent is the bare document."""
    given = read_submission(sent, declared_format)
    if given.issues:
        return Given(issues=given.issues)
    value, issues = parse_json(given.document)
    if issues:
        return Given(format=given.format, issues=issues)
    bare = given.document is sent and declared_format is None
    if bare and isinstance(value, dict) and isinstance(raw := value.get("raw"), str):
        # How an export writes a document that is not JSON.
        form = value.get("format")
        return take_apart(raw.encode("utf-8", "surrogatepass"), form if isinstance(form, str) else "")
    return Given(value, given.format or None, given.envelope, sent=given.document)
