"""Why a handoff file was not used, in words: what it is, and what mends it."""

from dataclasses import dataclass

from handoffaudit.diagnostics.file_tally import FALLBACK_FAILED, FALLBACK_OK, OTHER
from handoffaudit.validation.formats.file_report import Reason


@dataclass(frozen=True, slots=True)
class Words:
    title: str
    what: str
    mend: str


REASON_WORDS = {
    Reason.FILE_MISSING.value: Words(
        "File missing",
        "There was no handoff file where it was expected: the agent wrote none, or wrote it elsewhere.",
        "Give the agent the whole path in its instructions, and have it write the file last of all. Where the paths "
        "below differ, correct the one that the agent is told, or the one that is looked at.",
    ),
    Reason.JSON_PARSE_ERROR.value: Words(
        "Not JSON",
        "The file was there and can't be read as JSON.",
        "Have the agent write one JSON object and nothing else: no code fence around it, no comment, no comma after "
        "the last entry. The place is where reading stopped.",
    ),
    Reason.SCHEMA_INVALID.value: Words(
        "Fields wrong",
        "The file is JSON, and lacks a field of the contract or has it in another type.",
        "Have the agent write status (a string), artifacts (a list), next (any value, null too) and summary (a "
        "string).",
    ),
    FALLBACK_OK: Words(
        "Recovered from text",
        "The log line gives reason=text_fallback_ok and nothing else: the handoff was read from the text block of the "
        "response, and why the file was not used is not said.",
        "Have the agent write its handoff file as well. Send reports instead of lines to learn why a file is not used.",
    ),
    FALLBACK_FAILED: Words(
        "Unrecoverable",
        "The log line gives reason=text_fallback_fail: neither the file nor the text block of the response could be "
        "used, so the phase failed.",
        "Have the agent write its handoff file, and end its response with the text block. Send reports instead of "
        "lines to learn what each of them lacks.",
    ),
    OTHER: Words(
        "No reason given",
        "The log line says that the file was not used, and not why.",
        "Have the sender write reason= into its line, or send reports instead: they find out why.",
    ),
}
