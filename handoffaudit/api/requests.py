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
            413, "Body too large", f"The body has {int(announced):,} bytes; {most:,} are the most.", limit=most
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
        raise Problem(413, "Body too large", f"The body has {len(body):,} bytes; {most:,} are the most.", limit=most)
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


SOURCE: Final = "The agent that handed over: its exact name."

TARGET: Final = "The agent that was handed to: its exact name."

UNTIL: Final = "Before this moment: a date (its beginning, UTC), a date and time, or 24h, 7d, 30d ago."

LIMIT: Final = "How many a page has at most."

NEXT: Final = "The cursor of the next page; null on the last one."

LINKS: Final = (
    "Addresses below this server; `page` is for people. `codes` is a URI template: with a code in place of `{code}` it "
    "is where that code is told, readable without an account."
)

PHASE: Final = "The phase of the run."

Reference = Annotated[
    str,
    Path(
        description="The product's `id`, or the sender's `handoff_id`. One with a `/` in it is found by "
        "`GET /handoffs?handoff_id=…`, and then named by its `id`.",
        examples=["0197f0c2-6f5c-7d53-9b0a-6f2f4f3f0a11"],
    ),
]

TraceId = Annotated[str, Path(description="The sender's `trace_id`; it may hold slashes.", examples=["run-7"])]

ReportId = Annotated[uuid.UUID, Path(description="The `id` that the report was answered with.")]

ImportId = Annotated[uuid.UUID, Path(description="The `id` that the import was answered with.")]

WorkflowId = Annotated[str, Path(description="The event's `workflow_id`, else its session; it may hold slashes.")]

PhaseId = Annotated[str, Path(description="The `phase_id` that the event was answered with.")]

SchemaName = Annotated[str, Path(description="Which schema: one of the names above.", examples=["payload"])]


class HandoffsQuery(Schema):
    """Filters and paging of handoff lists."""

    type: str = Field("", description="The handoff type.", examples=["research_result"])
    source: str = Field("", description=SOURCE, examples=["planner"])
    target: str = Field("", description=TARGET, examples=["writer"])
    code: str = Field("", description="Handoffs with a finding of this code.", examples=["chain.circular"])
    trace: str = Field("", description="The `trace_id` that they have.")
    group: str = Field("", description="Handoffs of this finding group: its `id`.", examples=["12"])
    since: str = Field("", description="A date, a date and time, or 24h, 7d, 30d.", examples=["7d"])
    until: str = Field("", description=UNTIL)
    cursor: str = Field("", description="The `next` of the page before.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)


CODES = "`codes`: where a code is told, readable without an account: a URI template, `{code}` stands for the code."
