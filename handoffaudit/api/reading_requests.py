"""Requests before they mean anything: bodies within the limits, parameters that are known, what the sender prefers."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest
from django.http.request import RawPostDataException, UnreadablePostError
from ninja import Schema
from ninja.parser import Parser

from handoffaudit.api.problems import Problem
from handoffaudit.handoffs.filters import FilterError

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})")


class StrictParser(Parser):
    """Takes no lone surrogates, NaN or endless integers, which Python's own takes and no database keeps."""

    def parse_body(self, request: HttpRequest) -> Any:
        return orjson.loads(request.body)


def check_names(request: HttpRequest, query: type[Schema]) -> None:
    """A parameter that is misspelt must not pass as one that narrows nothing. Raises `BadFilter`."""
    known = list(query.model_fields)
    for name in request.GET:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the filters are {', '.join(known)}."
            raise FilterError(name[:40], request.GET[name][:40], f"there is no such filter; {hint}")


def check_length(request: HttpRequest, most: int) -> None:
    """Before anything is read. Raises `Problem` 413, or 400 for a length that is none."""
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdigit():
        raise Problem(400, "Bad length", f"Content-Length is {announced[:40]!r}: send the number of bytes.")
    if int(announced) > most:
        raise Problem(
            413, "Body too large", f"The body has {int(announced):,} bytes; {most:,} are the most.", limit=most
        )


def body_of(request: HttpRequest, most: int, *, may_be_empty: bool = False) -> bytes:
    """The body, at most that many bytes. Raises `Problem` 413, or 400 where there is none.

    `may_be_empty`: an empty document is a finding of its sender's, and no refusal.
    """
    check_length(request, most)
    try:
        body = request.body
    except (RawPostDataException, UnreadablePostError) as error:
        raise Problem(400, "Body cut off", f"The body could not be read to its end: {error}.") from error
    if len(body) > most:
        raise Problem(413, "Body too large", f"The body has {len(body):,} bytes; {most:,} are the most.", limit=most)
    # Chunks without a length are not read: what they bring must not pass as an empty document.
    if not body and (not may_be_empty or "HTTP_TRANSFER_ENCODING" in request.META):
        raise Problem(400, "No body", "Send the document as the body of the request, with its Content-Length.")
    return body


def pieces_of(request: HttpRequest, most: int, piece: int) -> Iterator[bytes]:
    """Give the body in pieces of that many bytes, without keeping it. Raise `Problem` as `body_of` does, and where the
    body ends before the length that was announced."""
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
    """What `Prefer: wait=N` asks for, at most the setting's; 0 where it does not."""
    found = _WAIT.search(request.META.get("HTTP_PREFER", ""))
    return min(int(found[1]), settings.MAX_WAIT_SECONDS) if found else 0
