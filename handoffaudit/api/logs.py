"""API of logs: send a log, search its lines, and read the state of its import."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query as QueryOf
from ninja import Router
from ninja.params.functions import Query as Parameter
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import (
    NEXT,
    ImportId,
    PageQuery,
    check_length,
    check_names,
    content_encoding,
    damaged_body,
    read_pieces,
    with_filters,
)
from handoffaudit.api.serializers import Answer, Extended, Moment, Nullable, ProblemOut, Text, answer
from handoffaudit.compression import PIECE, DamagedStream
from handoffaudit.diagnostics.logs import search, store, upload
from handoffaudit.diagnostics.logs.filters import ImportOrder, LogQuery
from handoffaudit.diagnostics.logs.upload import TooLarge, limit_stream
from handoffaudit.diagnostics.models import LogImport
from handoffaudit.filter_fields import LONGEST, FilterError, TextFilter
from handoffaudit.validation.logs.lines import Kind, Line, TraceLine, fields_of

router = Router()

READ = KeyWith(Scope.READ)

EXAMPLE = (
    "agent=planner phase=plan source=text_fallback reason=schema_invalid timestamp=2026-02-15T00:15:00Z\n"
    "[2026-02-15T00:15:01Z] [VALIDATION] [plan_gate] the plan names no owner\n"
)

_TEXT: dict[str, Any] = {"schema": {"type": "string"}, "example": EXAMPLE}

BODY = {"requestBody": {"required": True, "content": {"text/plain": _TEXT, "application/x-ndjson": _TEXT}}}

SOURCE: Any = Parameter(
    ...,
    min_length=1,
    max_length=store.LONGEST_SOURCE,
    description="The name of the log. Use the same name each time: a line is counted once per name.",
)

FIRST_LINE: Any = Parameter(
    1, ge=1, le=10**12, description="The line number of the first line in the body, if you send the log in parts."
)


def _links(pk: UUID) -> dict[str, str]:
    return {"self": _address(pk)}


def _address(pk: UUID) -> str:
    return f"/api/v1/logs/imports/{pk}"


class TakenOut(Answer):
    id: Text = Field(description="The import's id.")
    source: str = Field(description="The log's name.")
    size: int = Field(description="Size of the received log in bytes, after unpacking.")
    lines: int = Field(description="Number of lines stored so far. When `stored` equals `size`, these are all lines.")
    known: int = Field(description="Number of lines that were sent before under this name; they are not counted again.")
    stored: int = Field(description="Number of bytes of the log that are stored as lines so far.")
    links: Annotated[dict[str, str], BeforeValidator(_links)] = Field(
        validation_alias="id", description="The address to poll for progress."
    )


class ImportOut(TakenOut):
    sent_by: str = Field(description="The key or person that sent the log.")
    started_at: Moment = Field(description="When the upload began.")
    received_at: Moment | None = Field(description="When the upload was complete; null before that.")
    finished_at: Moment | None = Field(description="When all lines were read; null while some wait.")
    read: int = Field(description="New lines in a known format.")
    bad: int = Field(description="New lines in no known format.")
    kinds: dict[str, int] = Field(description="New lines by format.", examples=[{"health": 12, "gate": 40}])
    error: Nullable = Field(description="Why the import is not complete; otherwise null.")


class BadOut(Answer):
    number: int = Field(description="The line number in the log, from 1.")
    why: str = Field(description="The reason why the line is in no known format.")
    text: str = Field(description="The line.")


class OneImportOut(ImportOut):
    bad_lines: list[BadOut] = Field(description="A page of the new lines in no known format.")
    next: str | None = Field(description="The cursor of the next page of bad lines; null on the last page.")


class ImportsOut(Answer):
    items: list[ImportOut] = Field(description="The imports, in the order of `sort`.")
    next: str | None = Field(description=NEXT)


def _fields(line: Line) -> dict[str, Any]:
    found = line.extra | fields_of(line) if isinstance(line, TraceLine) else fields_of(line)
    return {name: value for name, value in found.items() if value not in ("", None)}


class LineOut(Answer):
    source: str = Field(description="The log's name.")
    number: int = Field(description="The line number, from 1.")
    at: Moment | None = Field(description="The time in the line; null if the line has none.")
    kind: str = Field(description=f"{', '.join(Kind)}.", examples=["gate"])
    fields: Annotated[dict[str, Any], BeforeValidator(_fields)] = Field(
        validation_alias="line", description="The fields of the line, by name."
    )
    text: str = Field(description="The raw line.")
    why: Nullable = Field(description="For a line in no known format, the reason; otherwise null.")


class LinesOut(Answer):
    items: list[LineOut] = Field(description="The lines, newest first.")
    next: str | None = Field(description=f"{NEXT} A page can be short or empty, and still have a next page.")
    reached: Moment | None = Field(description="All lines from this time on have been searched; null on the last page.")


@with_filters(ImportOrder)
class ImportsQuery(PageQuery):
    pass


@with_filters(LogQuery, "text", "agent", "phase", max_length=LONGEST)
class LinesQuery(PageQuery):
    pass


@router.post(
    "/logs",
    auth=KeyWith(Scope.INGEST, stores=True, decodes=False),
    operation_id="send_log",
    summary="Send a log",
    response={202: TakenOut, 400: ProblemOut, 403: ProblemOut, 413: ProblemOut, 415: ProblemOut},
    openapi_extra=BODY,
)
def send_log(request: HttpRequest, source: str = SOURCE, first_line: int = FIRST_LINE) -> HttpResponse:
    """Store a log; a worker reads its lines soon after the answer.

    The body has lines in any of the known formats, as text. A gzip body is unpacked with or without `Content-Encoding`,
    a zstd body only with this header. The body is durable before the call is answered. If a log has more than 9 MiB or
    250,000 lines, a worker stores the lines only after the answer. In that case, poll `links.self` until `stored`
    equals `size`. A line that was sent before under the same name is not counted again. So you can send a log again
    after it grew, and repeat a request.
    """
    who = caller(request)
    if who.key.agents.patterns:
        detail = f"The key {who.key.name!r} speaks only for some agents, and a log can name any agent: use another key."
        raise Problem(403, "Key limited to agents", detail)
    check_length(request, settings.MAX_BATCH_BYTES)
    if not source.strip() or not source.isprintable():
        raise FilterError("source", source[:40], "name the log in printable characters, the same each time it is sent.")
    encoding = content_encoding(request)
    pieces = limit_stream(
        read_pieces(request, settings.MAX_BATCH_BYTES, PIECE),
        settings.MAX_BATCH_BYTES,
        settings.MAX_LOG_RATIO,
        "HANDOFFAUDIT_MAX_BATCH_BYTES",
        encoding=encoding,
    )
    try:
        made = upload.receive_log(
            who.tenant, source.strip(), who.actor.name, pieces, first_line=first_line, keep_broken=False
        )
    except TooLarge as error:
        detail = f"The body {error}: send the log in smaller parts."
        raise Problem(413, "Body too large", detail, limit=error.limit) from error
    except DamagedStream as error:
        raise damaged_body(encoding or "gzip", error) from error
    return answer(TakenOut, _with_stored(made, upload.count_unstored_bytes([made])), 202, Location=_address(made.pk))


@router.get(
    "/logs",
    auth=READ,
    operation_id="search_logs",
    summary="Search log lines, newest first",
    response={200: LinesOut, 400: ProblemOut},
)
def search_logs(request: HttpRequest, query: QueryOf[LinesQuery]) -> HttpResponse:
    """Search log lines, the newest first.

    A search reads a limited amount of data: if the answer has `next`, the next page continues from `reached`.
    """
    check_names(request, LinesQuery)
    checked = LogQuery.from_query({name: getattr(query, name) for name in ("kind", "since", "until")})
    # `from_query` removes the spaces around a text. The API searches for a text exactly as the client sent it.
    texts = {
        one.attribute: getattr(query, one.attribute)
        for one in LogQuery.list_declared()
        if type(one.field) is TextFilter
    }
    asked = replace(checked, **texts)
    page = search.search_lines(caller(request).tenant, asked, cursor=query.cursor, limit=query.limit)
    return answer(LinesOut, page)


@router.get(
    "/logs/imports",
    auth=READ,
    operation_id="list_log_imports",
    summary="List received logs",
    response={200: ImportsOut, 400: ProblemOut},
)
def list_log_imports(request: HttpRequest, query: QueryOf[ImportsQuery]) -> HttpResponse:
    check_names(request, ImportsQuery)
    order = ImportOrder.from_query(request.GET).order
    found, following = store.list_imports(caller(request).tenant, order, query.cursor, query.limit)
    unstored = upload.count_unstored_bytes(found)
    return answer(ImportsOut, {"items": [_with_stored(one, unstored) for one in found], "next": following})


@router.get(
    "/logs/imports/{import_id}",
    auth=READ,
    operation_id="get_log_import",
    summary="Get one received log with its bad lines",
    response={200: OneImportOut, 400: ProblemOut, 404: ProblemOut},
)
def get_log_import(request: HttpRequest, import_id: ImportId, query: QueryOf[PageQuery]) -> HttpResponse:
    """Return how much of a log is read, and which of its new lines are in no known format, with the reason."""
    check_names(request, PageQuery)
    found = LogImport.objects.filter(tenant=caller(request).tenant, pk=import_id).first()
    if found is None:
        raise Http404(f"There is no import {import_id}.")
    page = store.list_bad_lines(found, cursor=query.cursor, limit=query.limit)
    shown = _with_stored(found, upload.count_unstored_bytes([found]))
    return answer(OneImportOut, Extended(shown, bad_lines=page.items, next=page.next))


def _with_stored(made: LogImport, unstored: Mapping[UUID, int]) -> Extended:
    return Extended(made, stored=made.size - unstored.get(made.pk, 0))
