"""Parsing of requests: body limits, known parameters, and the parameters that several calls share."""

import io
import re
import uuid
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import RawPostDataException, UnreadablePostError
from ninja import Path, Schema
from ninja.errors import AuthenticationError
from ninja.operation import Operation
from ninja.parser import Parser
from pydantic import Field, create_model

from handoffaudit.api.errors import Problem
from handoffaudit.compression import DECOMPRESSORS, PIECE, DamagedStream
from handoffaudit.filter_fields import FilterError, FilterField, TextFilter
from handoffaudit.filter_set import FilterSet
from handoffaudit.handoffs.filters import Filters

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})")


class StrictParser(Parser):
    """Parser that rejects lone surrogates, NaN and infinite numbers, and reads integers beyond 64 bits as floats.

    Python's own parser accepts such values, but no database stores them.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        return orjson.loads(request.body)


def check_names(request: HttpRequest, query: type[Schema]) -> None:
    """Refuse unknown parameters, so that a misspelt filter is not ignored. Raise `FilterError`."""
    known = list(query.model_fields)
    for name in request.GET:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the filters are {', '.join(known)}."
            raise FilterError(name[:40], request.GET[name][:40], f"there is no such filter; {hint}")


def skip_parameters(**defaults: Any) -> Callable[[Any], Any]:
    """Return a decorator that calls an operation with `defaults` if a request has no query.

    The operation must have no parameters in its path. Raise `ValueError` if the operation has a throttle. Without the
    decorator, Ninja would check parameters that nobody sent, for each of a thousand submissions a second.
    """

    def decorate(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        operation: Operation = run.__self__  # type: ignore[attr-defined]
        (check,) = operation.auth_callbacks
        if operation.throttle_objects:
            raise ValueError("a request without parameters would skip the throttle")

        def run_without_parameters(request: HttpRequest) -> HttpResponse:
            if request.META.get("QUERY_STRING"):
                return run(request)
            try:
                found = check(request)
                if found is None:
                    return operation.api.on_exception(request, AuthenticationError())
                request.auth = found  # type: ignore[attr-defined]
                response: HttpResponse = operation.view_func(request, **defaults)
            except Exception as error:  # noqa: BLE001 -- ninja's handlers answer it or raise it again
                return operation.api.on_exception(request, error)
            return response

        return run_without_parameters

    return decorate


def check_length(request: HttpRequest, most: int) -> None:
    """Check the announced length before the body is read.

    Raise `Problem` 413 if the length is above `most` bytes, or 400 if the length is not a number.
    """
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdigit():
        raise Problem(400, "Bad length", f"Content-Length is {announced[:40]!r}: send the number of bytes.")
    if int(announced) > most:
        raise Problem(
            413, "Body too large", f"The body has {int(announced):,} bytes; the maximum is {most:,}.", limit=most
        )


class _DecodedBody(io.RawIOBase):
    """The body of a request, decompressed while it is read, up to `most` bytes.

    The class stands in for Django's stream of a request. Memory and time depend on the limit and not on the content.
    """

    def __init__(self, stream: Any, encoding: str, most: int) -> None:
        self.most = most
        self._pieces = DECOMPRESSORS[encoding](iter(partial(stream.read, PIECE), b""))
        self._encoding = encoding
        self._size = 0
        self._left = b""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes. Raise `Problem` 413 above the limit, or 400 if the content is damaged."""
        parts, length = [self._left], len(self._left)
        while size < 0 or length < size:
            part = self._next()
            if not part:
                break
            parts.append(part)
            length += len(part)
        content = b"".join(parts)
        end = length if size < 0 else size
        self._left = content[end:]
        return content[:end]

    def _next(self) -> bytes:
        try:
            part = next(self._pieces, b"")
        except DamagedStream as error:
            raise damaged_body(self._encoding, error) from error
        self._size += len(part)
        if self._size > self.most:
            detail = f"The body has more than {self.most:,} bytes, the maximum, after {self._encoding} is unpacked."
            raise Problem(413, "Body too large", detail, limit=self.most)
        return part


class _UnknownBody(io.RawIOBase):
    """The body of a request in an encoding that cannot be read. Only calls that read a body are refused."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def read(self, _: int = -1, /) -> bytes:
        raise self._problem


def damaged_body(encoding: str, error: DamagedStream) -> Problem:
    """Return the refusal of a compressed body that cannot be decompressed."""
    detail = f"The body can't be unpacked as {encoding} ({error}): pack it again, or send it without Content-Encoding."
    return Problem(400, "Damaged compression", detail)


def content_encoding(request: HttpRequest) -> str:
    """Return gzip, zstd, or an empty text for a plain body. Raise `Problem` 415 for other encodings."""
    named = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    encoding = "" if named == "identity" else named.removeprefix("x-")
    if encoding and encoding not in DECOMPRESSORS:
        raise Problem(
            415,
            "An encoding that is not known",
            f"Content-Encoding is {named[:40]!r}: use one of {', '.join(DECOMPRESSORS)}, or none.",
            headers={"Accept-Encoding": ", ".join(DECOMPRESSORS)},
        )
    return encoding


def decode_body(request: HttpRequest) -> None:
    """Let later readers of the body get the decompressed content.

    Nothing is read before the API call reads its body. Reading raises `Problem` 413 for more than `MAX_BODY_BYTES`
    bytes, 400 for damaged content, or 415 for an unknown encoding. `read_body` sets another limit.
    """
    stream: Any
    try:
        encoding = content_encoding(request)
        if not encoding:
            return
        stream = _DecodedBody(request._stream, encoding, settings.MAX_BODY_BYTES)  # noqa: SLF001
    except Problem as problem:
        stream = _UnknownBody(problem)
    # Django has no public place for a stream that decodes the body.
    request._stream = stream  # noqa: SLF001


def read_body(request: HttpRequest, most: int, *, may_be_empty: bool = False) -> bytes:
    """Return the body of at most `most` bytes, decompressed.

    Raise `Problem` 413 if the body is larger, or 415 if its encoding is unknown. Raise `Problem` 400 if the body is
    empty, cut off or damaged, or if `Content-Length` is not a number. With `may_be_empty`, return an empty body, unless
    the request has the header `Transfer-Encoding`: the caller turns an empty document into a finding for its sender.
    """
    check_length(request, most)
    stream = getattr(request, "_stream", None)
    if isinstance(stream, _DecodedBody):
        stream.most = most
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

    Raise `Problem` 413 if the body is larger than `most` bytes, or 400 if the body is empty or ends before its
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


LIMIT: Final = "Maximum number of items per page."

NEXT: Final = "The cursor of the next page; null on the last page."

LINKS: Final = (
    "Addresses on this server. `page` is the web page. `codes` is a URI template: replace `{code}` "
    "with a rule code to get the address of the documentation of the code; nobody needs an account to read it."
)

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

SchemaName = Annotated[
    str, Path(description="The name of the schema. The description of the call lists the names.", examples=["payload"])
]


class PageQuery(Schema):
    cursor: str = Field("", description="The `next` of the previous page.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)


Q = TypeVar("Q", bound=Schema)


def with_filters(
    filters: type[FilterSet], *names: str, only: bool = False, max_length: int | None = None
) -> Callable[[type[Q]], type[Q]]:
    """Add the filters of a list to the parameters of an operation.

    The filters in `names` come first, then the other filters in the order of their declaration. With `only`, the other
    filters are left out. All filters come before the paging parameters. If the decorated class already has some of the
    filters, the other filters come after all its parameters instead.

    With `max_length`, a longer text filter is refused with 422, like an invalid value of any other parameter. The
    parameters then have the names of the filter set's attributes instead of the names in addresses.
    """

    def add(query: type[Q]) -> type[Q]:
        declared = {one.attribute if max_length else one.name: one.field for one in filters.list_declared()}
        known = query.model_fields.keys() & declared.keys()
        wanted = [name for name in (names if only else dict.fromkeys((*names, *declared))) if name not in known]
        parameters: dict[str, Any] = {name: (str, _parameter(declared[name], max_length)) for name in wanted}
        # No two schemas may share a name, not even schemas that no operation uses.
        name, query.__name__ = query.__name__, f"{query.__name__}Own"
        made = create_model(f"{name}Filters", __base__=Schema, **parameters)
        # Pydantic takes the fields of the last base first.
        bases: Any = (made, query) if known else (query, made)
        whole: type[Q] = create_model(name, __base__=bases, __module__=query.__module__, __doc__=query.__doc__)
        return whole

    return add


def _parameter(declared: FilterField, max_length: int | None) -> Any:
    most = max_length if type(declared) is TextFilter else None
    examples = [declared.example] if declared.example else None
    return Field(declared.nothing or "", description=str(declared.help_text), examples=examples, max_length=most)


@with_filters(Filters, "type", "source", "target", "code", "trace", "group", "since", "until", only=True)
class HandoffsQuery(PageQuery):
    """Filters and paging of handoff lists."""


CODES: Final = (
    "`codes`: URI template for the documentation of a rule code, readable without an account; "
    "replace `{code}` with the code."
)
