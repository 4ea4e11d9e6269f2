"""Rule codes about the form of a document: structure, schema, business rules, tokens, and handoff files."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

STRUCTURE_CODES = (
    Code(
        "structure.json_parse",
        "structure",
        Severity.ERROR,
        "Not JSON",
        "The submission is not valid JSON, or is nested too deeply to be read.",
        "Send one JSON object in UTF-8; the marked place is where reading stopped.",
    ),
    Code(
        "structure.unrecognised_format",
        "structure",
        Severity.ERROR,
        "Unrecognised format",
        "The document has the shape of none of the formats that are read, or names a format that is not one of them.",
        "Name the format of the submission, and give the fields of that format.",
    ),
    Code(
        "structure.missing_field",
        "structure",
        Severity.ERROR,
        "Missing field",
        "A field that the format requires is not there.",
        "Add the field.",
    ),
    Code(
        "structure.wrong_type",
        "structure",
        Severity.ERROR,
        "Wrong type",
        "A field holds a value of another JSON type than the format asks for.",
        "Convert the value to the type asked for.",
    ),
    Code(
        "structure.empty",
        "structure",
        Severity.ERROR,
        "Empty",
        "A text or list that must hold something is empty.",
        "Fill it in.",
    ),
    Code(
        "structure.out_of_range",
        "structure",
        Severity.ERROR,
        "Out of range",
        "A number is below the lowest or above the highest value allowed.",
        "Use a number within the range.",
    ),
    Code(
        "structure.bad_enum",
        "structure",
        Severity.ERROR,
        "Not an allowed value",
        "A field that takes one of a few values holds another.",
        "Use one of the allowed values.",
    ),
    Code(
        "structure.bad_format",
        "structure",
        Severity.ERROR,
        "Wrong form",
        "A text is not written in the form asked for: a date and time, a UUID, a checksum, a URI, an id.",
        "Write it in the form of the example.",
    ),
    Code(
        "structure.too_long",
        "structure",
        Severity.ERROR,
        "Too long",
        "A text is longer than allowed.",
        'Shorten it; cut the end and add "...".',
    ),
    Code(
        "structure.unknown_field",
        "structure",
        Severity.ERROR,
        "Unknown field",
        "A field stands where the format allows no fields but its own.",
        "Remove it, or use the name that the format knows.",
    ),
    Code(
        "structure.version_mismatch",
        "structure",
        Severity.ERROR,
        "Version not read",
        "The document is of a version of the format that is not read.",
        "Send it in a version that is read.",
    ),
    Code(
        "structure.source_not_in_chain",
        "structure",
        Severity.ERROR,
        "Source not in chain",
        "The agent that hands over is not in the chain of agents that the work has passed through.",
        "Add the source agent as the last entry of the chain.",
    ),
    Code(
        "structure.generated_trace_id",
        "structure",
        Severity.WARNING,
        "Trace id generated",
        "A legacy handoff came without a trace id, and one was made for it.",
        "Send a trace_id, the same one for every handoff of a piece of work.",
    ),
    Code(
        "structure.schema_missing",
        "structure",
        Severity.WARNING,
        "Schema not found",
        "The format's JSON Schema could not be read: only required fields and their types were checked.",
        "Nothing to change in the handoff: an operator installs handoffaudit anew, with its schema files.",
    ),
)

TOKENS_CODES = (
    Code(
        "tokens.over_budget",
        "tokens",
        Severity.ERROR,
        "Over the token budget",
        "The compact JSON of the document is more tokens than its type may have.",
        "Shorten the largest sections, or refer to files in place of carrying them along.",
    ),
    Code(
        "tokens.count_drift",
        "tokens",
        Severity.WARNING,
        "Declared token count is off",
        "The declared count differs by more than 30 % from the estimate (characters / 4), both of the document as "
        "sent and of its compact JSON.",
        "Recount after the document's last change: characters of its compact JSON, divided by 4.",
    ),
    Code(
        "tokens.estimated",
        "tokens",
        Severity.INFO,
        "Tokens estimated",
        "No tokenizer was available, so tokens were estimated as characters / 4.",
        "Nothing to change in the handoff: an operator installs the tokenizer (splintr-rs).",
    ),
)

FILES_CODES = (
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

RULE_FAMILY = Code(
    code="business_rule",
    layer="rules",
    severity=Severity.ERROR,
    title="Breaks a business rule",
    what="The data breaks a rule that is set for its type; the code ends with the kind and the id of the rule, and the "
    "rule says how grave that is.",
    hint="Change the data so that the rule holds.",
)

SCHEMA_FAMILY = Code(
    code="schema",
    layer="structure",
    severity=Severity.ERROR,
    title="Breaks the schema of its type",
    what="The data breaks a JSON Schema that the sender gave or that is registered for the type; the code ends with "
    "the schema keyword that failed.",
    hint="Change the data so that it keeps to the schema.",
)
