"""Parsing of requests: body limits, known parameters, and the parameters that several calls share."""

import re
import uuid
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, Final

import orjson
from django.conf import settings
from django.http import HttpRequest
from django.http.request import RawPostDataException, UnreadablePostError
from ninja import Path, Schema
from ninja.parser import Parser
from pydantic import Field

from handoffaudit.api.errors import Problem
from handoffaudit.handoffs.filters import FilterError

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})")


class StrictParser(Parser):
    """Parser that rejects lone surrogates, NaN and huge integers.

    Python's own parser accepts such values, but no database stores them.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        return orjson.loads(request.body)


def check_names(request: HttpRequest, query: type[Schema]) -> None:
    """Refuse unknown parameters, so that a misspelt filter is not ignored. Raises `FilterError`."""
    known = list(query.model_fields)
    for name in request.GET:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the filters are {', '.join(known)}."
            raise FilterError(name[:40], request.GET[name][:40], f"there is no such filter; {hint}")


def check_length(request: HttpRequest, most: int) -> None:
    """Check the announced length before the body is read.

    Raises `Problem` 413 if the length is above `most` bytes, or 400 if the length is not a number.
    """
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdigit():
        raise Problem(400, "Bad length", f"Content-Length is {announced[:40]!r}: send the number of bytes.")
    if int(announced) > most:
        raise Problem(
            413, "Body too large", f"The body has {int(announced):,} bytes; the maximum is {most:,}.", limit=most
        )


def read_body(request: HttpRequest, most: int, *, may_be_empty: bool = False) -> bytes:
    """Return the body of at most `most` bytes.

    Raises `Problem` 413 if the body is larger, or 400 if the body is empty or cut off. With `may_be_empty` an empty
    body is returned: an empty document becomes a finding for its sender, not a refused request.
    """
    check_length(request, most)
    try:
        body = request.body
    except (RawPostDataException, UnreadablePostError) as error:
        raise Problem(400, "Body cut off", f"The body could not be read to its end: {error}.") from error
    if len(body) > most:
        raise Problem(413, "Body too large", f"The body has {len(body):,} bytes; the maximum is {most:,}.", limit=most)
    # Django does not read a chunked body without a length. Such a body must not pass as an empty document.
    if not body and (not may_be_empty or "HTTP_TRANSFER_ENCODING" in request.META):
        raise Problem(400, "No body", "Send the document as the body of the request, with its Content-Length.")
    return body


def read_pieces(request: HttpRequest, most: int, piece: int) -> Iterator[bytes]:
    """Yield the body in pieces of at most `piece` bytes, without keeping the body in memory.

    Raises `Problem` 413 if the body is larger than `most` bytes, or 400 if the body is empty or ends before its
    announced length.
    """
    size = 0
    try:
        while read := request.read(piece):
            size += len(read)
            if size > most:
                raise Problem(413, "Body too large", f"The body has more than {most:,} bytes.", limit=most)
            yield read
    except (RawPostDataException, UnreadablePostError) as error:
        raise Problem(400, "Body cut off", f"The body could not be read to its end: {error}.") from error
    if not size:
        raise Problem(400, "No body", "Send the document as the body of the request, with its Content-Length.")
    announced = int(request.META.get("CONTENT_LENGTH") or 0)
    if size < announced:
        raise Problem(400, "Body cut off", f"The body ended after {size:,} of {announced:,} bytes: send it again.")


def seconds_to_wait(request: HttpRequest) -> int:
    """Return the seconds of `Prefer: wait=N`, at most the limit of the settings; 0 without this header."""
    found = _WAIT.search(request.META.get("HTTP_PREFER", ""))
    return min(int(found[1]), settings.MAX_WAIT_SECONDS) if found else 0


SOURCE: Final = "The exact name of the source agent."

TARGET: Final = "The exact name of the target agent."

UNTIL: Final = "Before this time (exclusive): a date (from 00:00 UTC), a date and time, or 24h, 7d, 30d ago."

LIMIT: Final = "Maximum number of items per page."

NEXT: Final = "The cursor of the next page; null for the last page."

LINKS: Final = (
    "Addresses on this server. `page` is the web page. `codes` is a URI template: replace `{code}` "
    "with a rule code to get the address of its documentation, readable without an account."
)

PHASE: Final = "The phase of the run."

Reference = Annotated[
    str,
    Path(
        description="The server's `id` or the sender's `handoff_id`. If the `handoff_id` contains a `/`, find the "
        "handoff with `GET /handoffs?handoff_id=…` and use its `id`.",
        examples=["0197f0c2-6f5c-7d53-9b0a-6f2f4f3f0a11"],
    ),
]

TraceId = Annotated[str, Path(description="The sender's `trace_id`; may contain slashes.", examples=["run-7"])]

ReportId = Annotated[uuid.UUID, Path(description="The `id` in the answer to the report.")]

ImportId = Annotated[uuid.UUID, Path(description="The `id` in the answer to the import.")]

WorkflowId = Annotated[str, Path(description="The `workflow_id` of the event, or its session; may contain slashes.")]

PhaseId = Annotated[str, Path(description="The `phase_id` in the answer to the event.")]

SchemaName = Annotated[str, Path(description="The name of the schema, from the list above.", examples=["payload"])]


class HandoffsQuery(Schema):
    """Filters and paging of handoff lists."""

    type: str = Field("", description="The handoff type.", examples=["research_result"])
    source: str = Field("", description=SOURCE, examples=["planner"])
    target: str = Field("", description=TARGET, examples=["writer"])
    code: str = Field("", description="Only handoffs with a finding of this rule code.", examples=["chain.circular"])
    trace: str = Field("", description="Only handoffs of this trace.")
    group: str = Field("", description="Only handoffs of the finding group with this `id`.", examples=["12"])
    since: str = Field("", description="From this time: a date, a date and time, or 24h, 7d, 30d ago.", examples=["7d"])
    until: str = Field("", description=UNTIL)
    cursor: str = Field("", description="The `next` of the previous page.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)


CODES = "`codes`: URI template for the documentation of a rule code, readable without an account; "
"replace `{code}` with the code."
