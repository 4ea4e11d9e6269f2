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
    # The name in URLs, if it differs from the slug of the title.
    known_as: str = ""

    @property
    def name(self) -> str:
        return self.known_as or slugify(self.title)


_TYPES = (
    ProblemType("Bad length", 400, "Content-Length is not a number.", "Leave it to your HTTP library."),
    ProblemType("Body cut off", 400, "The connection ended before the whole body had arrived.", "Send it again."),
    ProblemType(
        "Damaged compression",
        400,
        "The body is declared as gzip or zstd, but can't be unpacked.",
        "Pack the body again with a window of at most 8 MiB, or send it without Content-Encoding.",
    ),
    ProblemType("No body", 400, "This call needs a body.", "Send the document as JSON."),
    ProblemType(
        "A filter can't be read",
        400,
        "A parameter of the address has an invalid value.",
        'In the answer, "field" names the parameter, and "remedy" says which values are allowed.',
    ),
    ProblemType(
        "Key needed",
        401,
        "The request has no key, or the key is unknown, revoked or expired.",
        "Send Authorization: Bearer and a key. An administrator creates keys under Settings, API keys.",
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
    ProblemType(
        "Another agent",
        403,
        "The document or a tool result names an agent that the key may not speak for. Nothing is stored.",
        "Use a key of that agent. An administrator changes the agents of a key under Settings, API keys.",
    ),
    ProblemType(
        "Key limited to agents",
        403,
        "The key may speak only for some agents, and a log can name any agent.",
        "Use a key that is not limited to agents.",
        known_as="a-key-without-agents-needed",
    ),
    ProblemType(
        "Not found",
        404,
        "Your tenant has nothing with this id, or the address does not exist.",
        "Check the address, the id, and the tenant of the key.",
    ),
    ProblemType("No such schema", 404, "No format or result has that name.", "The detail lists the existing names."),
    ProblemType(
        "Version conflict",
        409,
        "The handoff or the policy was changed after you read it.",
        "Read the current version, and send your change again. Nothing was overwritten.",
        known_as="it-changed",
    ),
    ProblemType(
        "It can't be decided",
        409,
        "The state of the handoff does not allow this action, no person may approve the handoff, or its comments can't "
        "be changed.",
        "The detail gives the reason. Look at the state and the rule codes of the handoff.",
    ),
    ProblemType(
        "The approval can't be used",
        409,
        "The handoff has no valid approval: it is not approved, or its approval was used, has expired, or came before "
        "a change of the policy.",
        "Do not start the next agent. The detail says what to do: wait for the decision, or send the document again "
        "with retry_of, so that it is judged anew.",
        known_as="the-approval",
    ),
    ProblemType(
        "Nothing to repair",
        409,
        "The handoff is not rejected, or it changed during the repair.",
        "Look at the state of the handoff.",
    ),
    ProblemType(
        "The case can't be removed",
        409,
        "A legal hold covers the handoff of the case, its trace or the tenant.",
        "Lift the hold first, or keep the case.",
    ),
    ProblemType(
        "The erasure is in another state",
        409,
        "An erasure can be confirmed after its count, and cancelled before it is confirmed.",
        "Read the erasure, and look at its state.",
    ),
    ProblemType(
        "The id is taken",
        409,
        "A handoff with this id and other content is stored.",
        "Use a new handoff_id, or send the same content. For another attempt, set retry_of.",
    ),
    ProblemType(
        "Body too large",
        413,
        "The body is larger than the limit. The size of a packed body is its size after unpacking.",
        "The detail names the limit. Send a smaller body.",
    ),
    ProblemType(
        "Document too large",
        413,
        "A handoff is larger than the limit for one handoff.",
        "Refer to files instead of including them.",
    ),
    ProblemType(
        "Bundle too large",
        413,
        "The period or trace has more handoffs, or larger documents, than an evidence bundle takes.",
        "Choose a shorter period, or get a bundle for each trace or handoff.",
    ),
    ProblemType(
        "Too many items", 413, "The batch has more items than the limit.", "Send the items in several batches."
    ),
    ProblemType(
        "Too many tool results",
        413,
        "The tool results of the batch have more bytes than the limit.",
        "Send the refused handoff again, in another batch.",
    ),
    ProblemType(
        "An encoding that is not known",
        415,
        "A body may be packed with gzip or zstd, once.",
        "Pack with gzip or zstd, or leave Content-Encoding out.",
    ),
    ProblemType(
        "A type that is not known",
        415,
        "Traces come as application/x-protobuf or application/json.",
        "Set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf.",
        known_as="the-type",
    ),
    ProblemType(
        "The traces can't be read",
        400,
        "The body is not an ExportTraceServiceRequest of OpenTelemetry.",
        "Send what an exporter of OpenTelemetry posts, and check Content-Type.",
        known_as="the-traces",
    ),
    ProblemType("An empty batch", 422, "The batch has no items.", "Send at least one item."),
    ProblemType(
        "The batch can't be read",
        422,
        "The batch is not a JSON array.",
        "Fix the array, or send one document per line (NDJSON), so that a bad document does not affect the others.",
    ),
    ProblemType(
        "The trace export can't be read",
        422,
        'The body is not JSON, or its field "data" is not a list of spans.',
        "Send what the trace exporter of OpenAI Agents posts.",
        known_as="trace-export",
    ),
    ProblemType(
        "The tool results can't be read",
        422,
        "A tool result has a wrong or missing field, is nested too deep, or belongs to no trace. Nothing is stored.",
        "The detail names each field.",
        known_as="tool-results",
    ),
    ProblemType(
        "No reviewer",
        422,
        "The person named for an assignment can't decide in this tenant.",
        "Name a reviewer or an administrator of the tenant, or nobody.",
    ),
    ProblemType(
        "Not a report of a handoff file",
        422,
        "A field of the report is wrong or missing.",
        "The issues name each place in the report.",
    ),
    ProblemType(
        "Rejected: it can't be read",
        422,
        "The document can't be read, and is stored as rejected.",
        "The issues name each place and what would make it pass.",
    ),
    ProblemType(
        "The note can't be taken",
        422,
        "A note is missing, or too long.",
        "Give the reason in a sentence. The detail names the limit.",
        known_as="the-note",
    ),
    ProblemType(
        "The comment can't be taken",
        422,
        "A comment is empty, or too long.",
        "Write a text. The detail names the limit.",
    ),
    ProblemType(
        "The case can't be kept",
        422,
        "A field of the case has an invalid value, the document of the handoff was removed, or the "
        "tenant's cases have reached their limit.",
        "The detail says what is wrong, and what would be accepted.",
    ),
    ProblemType(
        "The hold can't be placed",
        422,
        "A field of the legal hold has an invalid value, or the tenant has too many holds.",
        'In the answer, "field" names the field, and "remedy" says which values are allowed.',
        known_as="hold",
    ),
    ProblemType(
        "The hold can't be lifted",
        422,
        "The reason is missing, or cannot be stored.",
        "Give the reason in a sentence. The detail names the limit.",
        known_as="hold-lift",
    ),
    ProblemType(
        "The value can't be erased",
        422,
        "The value or the reason is invalid, or too many erasures are unfinished.",
        'In the answer, "field" names the field, and "remedy" says what would be accepted.',
        known_as="erasure",
    ),
    ProblemType(
        "The webhook can't be made",
        422,
        "A field of the webhook has an invalid value, or the tenant has too many webhooks.",
        'In the answer, "field" names the field, and "remedy" says which values are allowed.',
        known_as="the-webhook",
    ),
    ProblemType(
        "The request can't be read",
        422,
        "A field of the request is unknown or missing, or has an invalid value.",
        "The errors name each field.",
    ),
    ProblemType(
        "The policy is not valid",
        422,
        "A row of the policy has an invalid value.",
        "The errors name row, field and remedy.",
        known_as="the-table-cant-be-saved",
    ),
    ProblemType(
        "Too many requests",
        429,
        "The key made more requests in a minute than it may.",
        "Wait as long as Retry-After says, or send batches.",
    ),
    ProblemType(
        "Our mistake",
        500,
        "The request failed through no fault of yours.",
        "Give the operator the request id in the detail.",
    ),
    ProblemType(
        "The database can't be used",
        503,
        "The database is away, busy, locked, slow, full, read-only or damaged. In the answer, "
        '"cause" says which. Nothing was stored.',
        "Send the same again after as many seconds as Retry-After says. The operator finds the remedy at /readyz.",
    ),
    ProblemType(
        "The disk is nearly full",
        503,
        "The disk has too little free space for new handoffs. Stored handoffs can still be read and decided.",
        "Send the same again later. The operator makes room on the disk that /readyz names.",
    ),
    ProblemType(
        "Busy judging",
        503,
        "The server already judges as many documents on request as it may judge at the same time.",
        "Try again in a second, or submit the document, so that it waits in the queue.",
    ),
    ProblemType(
        "Busy with webhooks",
        503,
        "The tenant or the server already waits for as many receivers of webhooks as it may.",
        "Try again in ten seconds.",
    ),
    ProblemType(
        "No bundle now",
        503,
        "The server already makes as many evidence bundles as it may, or its seal key cannot be used.",
        "Try again in a minute. If the detail names the key, tell the operator.",
    ),
)

PROBLEM_TYPES: Mapping[str, ProblemType] = MappingProxyType({one.title: one for one in _TYPES})


def name_of(title: str, status: int) -> str:
    """Return the name of a problem's type for URLs and metrics, or `http-` and the status if there is no type."""
    known = PROBLEM_TYPES.get(title)
    return known.name if known else f"http-{status}"


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
            f"This server does not answer to the name {name!r}. Its operator adds the name to "
            "HANDOFFAUDIT_ALLOWED_HOSTS and restarts the server."
        )
    return ""
