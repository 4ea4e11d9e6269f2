"""API that takes traces from exporters of OpenTelemetry (OTLP/HTTP)."""

from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import read_body
from handoffaudit.api.serializers import Answer
from handoffaudit.handoffs.span_store import store_export
from handoffaudit.validation.telemetry import otlp

router = Router(tags=["Handoffs"])

# The name of the operation, whose answers and errors have the form of the OpenTelemetry protocol.
OPERATION: Final = "export_traces"

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": ["array", "null"], "items": items}


def _object_with(name: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: _list_of(items)}}


# The export is valid even if a span cannot be read, so the schema allows anything as a span.
_EXPORT: Final = _object_with("resourceSpans", _object_with("scopeSpans", _object_with("spans", {})))

_SPAN: Final = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "invoke_agent triage",
    "startTimeUnixNano": "1771114500000000000",
    "endTimeUnixNano": "1771114501000000000",
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}],
}

_TRACES: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            otlp.JSON: {"schema": _EXPORT, "example": {"resourceSpans": [{"scopeSpans": [{"spans": [_SPAN]}]}]}},
            otlp.PROTOBUF: _BINARY,
        },
    }
}


def describe_answers(answers: dict[str, Any]) -> None:
    """Describe answers as protobuf and as JSON, and errors as `google.rpc.Status`."""
    for status, answered in answers.items():
        schema = {"schema": {"$ref": f"#/components/schemas/{'ExportOut' if int(status) < 400 else 'RpcStatusOut'}"}}
        answered["content"] = {otlp.JSON: schema, otlp.PROTOBUF: _BINARY}


class PartialSuccessOut(Answer):
    rejectedSpans: str = Field(description="The number of rejected spans, as text.", examples=["2"])  # noqa: N815
    errorMessage: str = Field(description="Why spans were rejected.")  # noqa: N815 -- names of the protocol


class ExportOut(Answer):
    partialSuccess: PartialSuccessOut | None = Field(  # noqa: N815 -- a name of the protocol
        None, description="The number of rejected spans and the reasons; absent if none was rejected."
    )


class RpcStatusOut(Answer):
    """The `google.rpc.Status` of an error."""

    code: int = Field(description="The gRPC status code.", examples=[3])
    message: str = Field(description="What is wrong, and what to do.")


@router.post(
    "/otlp/traces",
    auth=KeyWith(Scope.INGEST, stores=True),
    operation_id=OPERATION,
    summary="Store the spans of an OpenTelemetry exporter",
    response={200: ExportOut, 400: RpcStatusOut},
    openapi_extra=_TRACES,
)
def export_traces(request: HttpRequest) -> HttpResponse:
    """Store what the spans say about agents and tools; a worker makes handoffs from the spans a few seconds later.

    The address is also `/v1/traces`, where exporters post. The body is an ExportTraceServiceRequest as protobuf or as
    JSON, packed with gzip or zstd, or not packed. The answer and the errors are protobuf for a protobuf request,
    otherwise JSON. Prompts are left out.
    """
    who = caller(request)
    media_type = str(request.content_type)
    if media_type not in (otlp.PROTOBUF, otlp.JSON):
        said = f"Content-Type is {media_type[:60]!r}: send {otlp.PROTOBUF} or {otlp.JSON}."
        raise Problem(415, "A type that is not known", said)
    body = read_body(request, settings.MAX_TELEMETRY_BYTES, may_be_empty=True)
    try:
        export = otlp.read_export(body, media_type, who.key.key_id)
    except otlp.TooManySpans as error:
        raise Problem(413, "Too many items", str(error), limit=error.most) from error
    except otlp.BadExport as error:
        raise Problem(400, "The traces can't be read", str(error)) from error
    store_export(who.tenant, who.key, export)
    return HttpResponse(otlp.write_answer(export, media_type), content_type=media_type)
