"""Types of problem documents (RFC 9457), each with the URL of its help page."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.utils.text import slugify

ADDRESS = "/help/problems/"

# The `type` of problems that their HTTP status explains in full.
PLAIN = "about:blank"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A type of problem: `what` it means, and what the sender should do (`remedy`)."""

    title: str
    status: int
    what: str
    remedy: str
    # The name in URLs, where it is older than the title.
    known_as: str = ""

    @property
    def name(self) -> str:
        return self.known_as or slugify(self.title)


_TYPES = (
    ProblemType("Bad length", 400, "Content-Length is not a number.", "Leave it to your HTTP library."),
    ProblemType("Body cut off", 400, "The connection ended before the body did.", "Send it again."),
    ProblemType(
        "Damaged gzip", 400, "The body says it is gzip and can't be unpacked.", "Pack it anew, or send it plain."
    ),
    ProblemType("No body", 400, "This call needs a body.", "Send the document as JSON."),
    ProblemType(
        "A filter can't be read",
        400,
        "A parameter of the address has a value that it can't have.",
        "The member field names the parameter, and remedy what it may be.",
    ),
    ProblemType(
        "Key needed",
        401,
        "There is no key, or it is revoked or past its end.",
        "Send Authorization: Bearer and a key. An administrator makes one under Settings, Keys.",
    ),
    ProblemType(
        "The key may not do this",
        403,
        "The key lacks a scope.",
        "Use a key with the scope that the detail names; scopes of a key can't be changed.",
    ),
    ProblemType(
        "Another tenant",
        403,
        "The document names a tenant that the key does not belong to.",
        "Put the key's tenant into tenant_id, or use a key of that tenant.",
    ),
    ProblemType("Not found", 404, "There is nothing of that id in your tenant.", "Check the id, and whose key it is."),
    ProblemType("No such schema", 404, "No format or result has that name.", "The detail names those there are."),
    ProblemType(
        "It changed",
        409,
        "Somebody else was quicker: what you saw is not what it is now.",
        "Read it again and decide on that; nothing was overwritten.",
    ),
    ProblemType(
        "It can't be decided",
        409,
        "It does not wait for a person, or no person can let it through.",
        "Look at its state and its codes.",
    ),
    ProblemType("Nothing to repair", 409, "Only what is rejected is repaired.", "Look at its state."),
    ProblemType(
        "The id is taken",
        409,
        "A handoff of that id with other content is stored.",
        "Use a new handoff_id, or send the same content. For another try set retry_of.",
    ),
    ProblemType(
        "Body too large", 413, "The body has more bytes than are taken.", "The detail says the limit; send less."
    ),
    ProblemType(
        "Document too large", 413, "One handoff is over its limit.", "Refer to files in place of carrying them."
    ),
    ProblemType("Too many items", 413, "A batch has more items than are taken.", "Send it in several batches."),
    ProblemType(
        "An encoding that is not known",
        415,
        "Bodies may be gzip or plain.",
        "Leave Content-Encoding out, or pack with gzip.",
    ),
    ProblemType("An empty batch", 422, "There is no item in it.", "Send at least one."),
    ProblemType(
        "The batch can't be read",
        422,
        "It is no JSON array.",
        "Mend it, or send one document a line (NDJSON): then a bad one spoils no other.",
    ),
    ProblemType("No reviewer", 422, "Nobody is named who decides.", "Name the reviewer."),
    ProblemType(
        "Not a report of a handoff file",
        422,
        "A field of the report is wrong or missing.",
        "The issues name each place.",
    ),
    ProblemType(
        "Rejected: it can't be read",
        422,
        "The document can't be read. It is kept, as rejected.",
        "The issues name each place and what would make it pass.",
    ),
    ProblemType(
        "The note can't be taken",
        422,
        "A note is missing, or too long.",
        "Say in a sentence why; the detail has the limit.",
        known_as="the-note",
    ),
    ProblemType(
        "The webhook can't be made",
        422,
        "A field of the webhook is not as it may be.",
        "The member field names what is wrong, and remedy what it may be.",
        known_as="the-webhook",
    ),
    ProblemType(
        "The request can't be read",
        422,
        "A field of the request is unknown, missing or of another type.",
        "The errors name each field.",
    ),
    ProblemType(
        "The table can't be saved", 422, "A row of the table is wrong.", "The errors name row, field and remedy."
    ),
    ProblemType(
        "Too many requests",
        429,
        "The key made more requests than it may in a minute.",
        "Wait as long as Retry-After says; send batches.",
    ),
    ProblemType(
        "Our mistake", 500, "The request failed through no fault of yours.", "Tell the operator the request id in it."
    ),
    ProblemType(
        "The database can't be used",
        503,
        "It is away, busy, locked, full, read-only or damaged; the member cause says which. Nothing was stored.",
        "Send the same again after as many seconds as Retry-After says. The operator finds at /readyz what to do.",
    ),
    ProblemType(
        "The disk is nearly full",
        503,
        "So little room is left that nothing new is taken. What is stored can be read and decided.",
        "Send the same again later. The operator makes room on the disk that /readyz names.",
    ),
    ProblemType(
        "Busy judging",
        503,
        "As many documents are being judged on request as may be.",
        "Try again in a second, or submit it: then it waits its turn.",
    ),
)

PROBLEM_TYPES: Mapping[str, ProblemType] = MappingProxyType({one.title: one for one in _TYPES})


def type_of(title: str) -> str:
    """Return the `type` of a problem document with that title."""
    known = PROBLEM_TYPES.get(title)
    return f"{ADDRESS}{known.name}/" if known else PLAIN


_LONGEST: Final = 100


def explain_unknown_host(request: HttpRequest) -> str:
    """Return the explanation of a request for a host name that is not allowed, or an empty text."""
    try:
        request.get_host()
    except DisallowedHost:
        name = request.META.get("HTTP_HOST", "")[:_LONGEST]
        return (
            f"This server does not answer to the name {name!r}. Its operator adds it to HANDOFFAUDIT_ALLOWED_HOSTS "
            "and starts it again."
        )
    return ""
