"""Rule codes about the files in which handoffs are written and found."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

CODES = (
    Code(
        "files.fallback_location",
        "references",
        Severity.WARNING,
        "Written to the fallback location",
        "The handoff could not be written under its session path; it is in the system's temporary folder.",
        "Make the session's folder writable, and move the file there before the temporary folder is emptied.",
    ),
    Code(
        "files.handoff_file_missing",
        "structure",
        Severity.ERROR,
        "Handoff file is missing",
        "The agent wrote no handoff file where it was expected, and nothing else tells how its phase ended.",
        "Let the agent write its handoff file to the path that is expected.",
    ),
    Code(
        "files.strict",
        "structure",
        Severity.ERROR,
        "Handoff file not used",
        "The policy lets only the handoff file count, and the file is missing or cannot be used. A block in the "
        "agent's response does not stand in for the file.",
        "Let the agent write its handoff file to the expected path: status, artifacts, next and summary as one JSON "
        "object.",
    ),
    Code(
        "files.text_fallback",
        "structure",
        Severity.WARNING,
        "Read from the response's text",
        "The handoff file could not be used; the ---HANDOFF--- block of the agent's response was read in its place.",
        "Let the agent write its handoff file: status, artifacts, next and summary as one JSON object.",
    ),
)
