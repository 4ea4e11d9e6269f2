"""Answers as JSON: the base class of their schemas, types of fields, problems, and parts made without a schema."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from django.conf import settings
from django.http import HttpResponse
from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator

from handoffaudit.handoffs import queries
from handoffaudit.handoffs.ingest.prepare import Receipt
from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.handoffs.periods import format_utc
from handoffaudit.validation.formats.framework_traces import origin_of
from handoffaudit.validation.repair import Repair, repair_to_dict
from handoffaudit.validation.verdict import verdict_to_dict


class Answer(BaseModel):
    """Schema of an answer, which reads its fields from an object's attributes.

    Ninja's `Schema` reads each attribute in Python: the summaries of 100 handoffs would take 15 ms longer.
    """

    model_config = ConfigDict(from_attributes=True)


class Extended:
    """An object with further attributes, for a schema that reads both."""

    def __init__(self, found: object, **further: Any) -> None:
        # The copy of the attributes saves calls of `__getattr__`, which is slow.
        vars(self).update(getattr(found, "__dict__", {}), **further, _found=found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


def answer(
    schema: type[BaseModel], found: object, status: int = 200, *, context: Any = None, **headers: str
) -> HttpResponse:
    """Answer with the fields of `schema`, read from the attributes of `found` or from the keys of a dictionary.

    `context` is passed to the validators of fields: the tenant, if the answer has addresses of pages. A field with a
    default is left out if `found` does not have it.
    """
    return json_response(schema.model_validate(found, context=context), status, **headers)


def json_response(content: Any, status: int = 200, **headers: str) -> HttpResponse:
    response = HttpResponse(orjson.dumps(content, default=_members), status=status, content_type="application/json")
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


def _members(content: Any) -> Mapping[str, Any]:
    if not isinstance(content, BaseModel):
        raise TypeError
    given, members = content.model_fields_set, vars(content)
    return members if len(given) == len(members) else {name: members[name] for name in members if name in given}


def moment(value: datetime | None) -> str | None:
    return value.astimezone(UTC).isoformat("T", "milliseconds").removesuffix("+00:00") + "Z" if value else None


# A time with milliseconds, in UTC.
Moment = Annotated[str, BeforeValidator(moment)]

# A time in whole seconds, in UTC.
Second = Annotated[str, BeforeValidator(format_utc)]

Text = Annotated[str, BeforeValidator(str)]

# An empty text is null.
Nullable = Annotated[str | None, BeforeValidator(lambda value: value or None)]

# JSON that is sent as it is stored, as an `orjson.Fragment`.
Stored = WrapValidator(lambda value, _: value)


def at(path: str) -> AliasPath:
    """Return the place of a field's value, such as `group.pk`, for `validation_alias`."""
    return AliasPath(*path.split("."))


class BareProblemOut(Answer):
    type: str = Field(
        description="Address of the documentation of this problem type, readable without an account; `about:blank` "
        "if the HTTP status says everything.",
        examples=["/help/problems/not-found/"],
    )
    title: str = Field(description="Short summary, the same for all problems of this type.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong in this case, and what to do.")
    request_id: str | None = Field(
        None, description="The id of the request, as in the header X-Request-ID and in the logs of the server."
    )


class RefusedValueOut(Answer):
    """A rejected value."""

    row: str | None = Field(None, description="For tables: the name of the row.")
    field: str = Field(description="The parameter, or the field of the body with its path.", examples=["limit"])
    value: Any = Field(description="The value sent, truncated; null if none was sent.", examples=["0"])
    message: str = Field(description="What is wrong, in one sentence.", examples=['"0" is too small.'])
    remedy: str = Field(description="What to send instead.", examples=["Send 1 or more."])


class ProblemOut(BareProblemOut):
    errors: list[RefusedValueOut] | None = Field(None, description="The rejected values, if any.")
    field: str | None = Field(None, description="For a single rejected value: its name, as in `errors`.")
    value: Any = Field(None, description="For a single rejected value: the value sent.")
    remedy: str | None = Field(None, description="For a single rejected value: what to send instead.")


def main_links(pk: str, tenant_slug: str) -> dict[str, str]:
    """Return the main links of a handoff. Items of a batch have only these links, because a batch can be large."""
    return {"self": f"/api/v1/handoffs/{pk}", "page": f"{settings.PUBLIC_URL}/t/{tenant_slug}/handoffs/{pk}/"}


def links(pk: str, tenant_slug: str) -> dict[str, str]:
    base = f"/api/v1/handoffs/{pk}"
    return main_links(pk, tenant_slug) | {
        "verdicts": f"{base}/verdicts",
        "events": f"{base}/events",
        "attempts": f"{base}/attempts",
        "chain": f"{base}/chain.svg",
        "review": f"{base}/review",
        "codes": codes_link(),
    }


def codes_link() -> str:
    """Return the address of the documentation of rule codes, as a URI template (RFC 6570).

    The findings have no addresses of their own, because stored verdicts are sent unchanged.
    """
    return f"{settings.PUBLIC_URL}/help/codes/{{code}}/"


def receipt_of(receipt: Receipt) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": receipt.id, "handoff_id": receipt.handoff_id, "state": receipt.state}
    if receipt.issues:
        shown["issues"] = [
            issue.to_dict() | {"issue_id": f"issue-{number}"} for number, issue in enumerate(receipt.issues, 1)
        ]
    return shown


def repair_of(result: Repair) -> dict[str, Any]:
    """Return a repair with the verdict on the offered candidate."""
    verdict = verdict_to_dict(result.repaired.verdict) if result.repaired else None
    return repair_to_dict(result) | {"verdict": verdict, "session_context": None, "links": {"codes": codes_link()}}


def documents_of(handoff: Handoff) -> dict[str, Any]:
    """Return the sent document with its hash, its origin in telemetry, and the fields stored beside it.

    The document is JSON in `document`, or text in `raw` if it is not JSON. If retention removed the document, every
    field is None except the hash and the time of the removal.
    """
    body = queries.body(handoff)
    if body is None:
        left = queries.removal_of(handoff)
        nothing = dict.fromkeys(("document", "raw", "lifted", "context", "evidence", "reason", "telemetry"))
        removed_at = moment(left.at) if left else None
        return nothing | {"original_sha256": left.sha256 if left else None, "removed_at": removed_at}
    return _documents_of(body) | {"removed_at": None}


def _documents_of(body: HandoffBody) -> dict[str, Any]:
    original = bytes(body.original)
    plain = original.removeprefix(b"\xef\xbb\xbf")
    document: orjson.Fragment | None
    raw: str | None
    origin = None
    try:
        origin = origin_of(orjson.loads(plain))
        # Send the original bytes. Encoding the document again would fail on deep nesting, and change numbers.
        document, raw = orjson.Fragment(plain), None
    except orjson.JSONDecodeError:
        document, raw = None, original.decode(errors="replace")
    return {
        "document": document,
        "raw": raw,
        "original_sha256": hashlib.sha256(original).hexdigest(),
        "lifted": orjson.Fragment(bytes(body.lifted)) if body.lifted is not None else None,
        "context": orjson.Fragment(bytes(body.context)) if body.context is not None else None,
        "evidence": orjson.Fragment(bytes(body.evidence)) if body.evidence is not None else None,
        "reason": body.reason or None,
        "telemetry": origin,
    }
