"""Bare django-ninja views: an empty answer, one INSERT, and one COPY (SQLite: one `executemany`) of rows or spans."""

import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import uuid_utils.compat
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import NinjaAPI

from benchmarks.floor.tables import LISTED, ROW, SPAN, SPAN_TYPES, SPANS_OF_EXPORT, SPANS_TABLE, TABLE, TYPES

api = NinjaAPI(docs_url=None, openapi_url=None)

MARKS = ", ".join(["%s"] * len(ROW))
INSERT = f"INSERT INTO {TABLE} ({LISTED}) VALUES ({MARKS})"
COPY_SPANS = f"COPY {SPANS_TABLE} ({', '.join(SPAN)}) FROM STDIN (FORMAT BINARY)"
COPY = f"COPY {TABLE} ({LISTED}) FROM STDIN (FORMAT BINARY)"


def _row(original: bytes, now: datetime) -> list[Any]:
    digest = secrets.token_hex(32)
    return [
        *(uuid_utils.compat.uuid7(), 1, str(uuid.uuid4()), "payload", "message", "Excel_Expert", "Computer_terminal"),
        *("", "", "", None, "received", now, now, len(original), digest, digest, 4, original),
    ]


def _sqlite_row(original: bytes, now: datetime) -> list[Any]:
    row = _row(original, now)
    row[0] = row[0].hex
    row[12] = row[13] = now.replace(tzinfo=None).isoformat(" ")
    return row


@api.get("/empty")
def empty(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"{}", content_type="application/json")


@api.post("/insert")
def insert(request: HttpRequest) -> HttpResponse:
    now = datetime.now(UTC)
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        # Django disables prepared statements.
        connection.connection.prepare_threshold = 0
        with psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(INSERT, _row(request.body, now), prepare=True, binary=True)
    else:
        with connection.cursor() as lite:
            lite.execute(INSERT, _sqlite_row(request.body, now))
    return HttpResponse(b"{}", status=202, content_type="application/json")


@api.post("/copy")
def copy(request: HttpRequest) -> HttpResponse:
    now = datetime.now(UTC)
    documents = request.body.split(b"\n")
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with psycopg.Cursor(connection.connection) as cursor, cursor.copy(COPY) as into:
                into.set_types(TYPES)
                for document in documents:
                    into.write_row(_row(document, now))
        else:
            with connection.cursor() as lite:
                lite.executemany(INSERT, [_sqlite_row(document, now) for document in documents])
    return HttpResponse(b"{}", content_type="application/json")


@api.post("/copy_spans")
def copy_spans(request: HttpRequest) -> HttpResponse:
    """COPY the bytes of an export into the columns of spans, in as many rows as it has spans."""
    body, now = request.body, 1_795_379_700_000_000_000
    size = -(-len(body) // SPANS_OF_EXPORT)
    with (
        transaction.atomic(),
        psycopg.Cursor(connection.connection) as cursor,
        cursor.copy(COPY_SPANS) as into,
    ):
        into.set_types(SPAN_TYPES)
        for start in range(0, len(body), size):
            ids = uuid_utils.compat.uuid7(), 1, secrets.token_hex(16), secrets.token_hex(8), ""
            into.write_row((*ids, "a span", now, now, "", 1, body[start : start + size]))
    return HttpResponse(b"", content_type="application/x-protobuf")


PAGE = b"<!DOCTYPE html><html lang=en><title>A page</title><link rel=icon href=data:,><h1>A page</h1>"


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(PAGE)


urlpatterns = [path("page", page), path("", api.urls)]
