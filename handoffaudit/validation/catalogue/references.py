"""Rule codes of the references layer."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

CODES = (
    Code(
        "references.missing_file",
        "references",
        Severity.WARNING,
        "Missing file",
        "A file that the handoff refers to does not exist.",
        "Create the file before handing over, or correct its path.",
    ),
    Code(
        "references.ephemeral",
        "references",
        Severity.INFO,
        "Temporary file",
        "A file that the handoff refers to lies under a temporary folder and may be gone when it is needed.",
        "Move the file to a folder that lasts, such as the session's own, and refer to it there.",
    ),
)
