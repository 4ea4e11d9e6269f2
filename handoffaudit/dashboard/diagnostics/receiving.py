"""Logs that come by the form: checked before they are read, taken to the disk piece by piece, a few at a time."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import IO, Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from handoffaudit.diagnostics.logs import gzip_stream
from handoffaudit.diagnostics.logs.gzip_stream import BadGzip, TooLarge, limit_stream
from handoffaudit.validation.text import clean

# Of 32 threads of the embedded way: who sends slowly must leave room for all others.
MOST_AT_ONCE = 4
# Names of fields, the token and the lines between them.
FORM_BYTES = 64 * 1024
MOST_ORIGIN = 80
MOST_NAME = 200

_slots = threading.BoundedSemaphore(MOST_AT_ONCE)


class NotReceived(Exception):
    """Why a log was not taken, in words for its sender; `by_command`: the command would take it."""

    def __init__(self, status: HTTPStatus, said: str, *, by_command: bool = False) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.by_command = by_command


class ToDataFolder(FileUploadHandler):
    """Writes what comes into a file without a name in the data folder: a temporary folder may be kept in memory, and a
    file with a name stays behind when the process is killed."""

    chunk_size = 1024 * 1024

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        settings.DATA_FOLDER.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=settings.DATA_FOLDER)  # noqa: SIM115 -- Django closes it

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._file.write(raw_data)

    def file_complete(self, file_size: int) -> "UploadedFile[bytes]":
        self._file.seek(0)
        return UploadedFile(self._file, self.file_name, self.content_type, file_size, self.charset)

    def upload_interrupted(self) -> None:
        self._file.close()


def most_bytes() -> str:
    """The limit in words: `2.0 GB`."""
    return filesizeformat(settings.MAX_LOG_BYTES).replace("\xa0", " ")


@contextmanager
def receiving(request: HttpRequest) -> Iterator[None]:
    """Within it the form may be read. Raises `NotReceived` where it is too large or too many come at once, before a
    byte of it is read."""
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if announced.isdecimal() and int(announced) > settings.MAX_LOG_BYTES + FORM_BYTES:
        raise too_large()
    if not _slots.acquire(blocking=False):
        said = f"{MOST_AT_ONCE} logs are being sent right now, which are the most at once. Send it again in a minute."
        raise NotReceived(HTTPStatus.SERVICE_UNAVAILABLE, said)
    try:
        request.upload_handlers = [ToDataFolder(request)]
        yield
    finally:
        _slots.release()


def too_large() -> NotReceived:
    said = f"The log is larger than {most_bytes()}, which is the most that is taken (HANDOFFAUDIT_MAX_LOG_BYTES)."
    return NotReceived(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, by_command=True)


@dataclass(frozen=True, slots=True)
class SentLog:
    """`source`: the name that it is known by, the same when it is sent again. `pieces`: its bytes, unpacked; reading
    them may raise `NotReceived`."""

    source: str
    pieces: Iterator[bytes]


def sent_logs(request: HttpRequest) -> list[SentLog]:
    """The files of the form. Raises `NotReceived` where there is none."""
    origin = clean(request.POST.get("origin", "").strip(), MOST_ORIGIN)
    files = [file for file in request.FILES.getlist("log") if file.size]
    if not files:
        raise NotReceived(HTTPStatus.BAD_REQUEST, "No log was sent, or an empty one: choose a file that has lines.")
    return [SentLog(_source(origin, file.name or "log"), _pieces(file)) for file in files]


def _source(origin: str, name: str) -> str:
    plain = name.removesuffix(".gz") or name
    return clean(f"{origin}/{plain}" if origin else plain, MOST_NAME)


def _pieces(file: "UploadedFile[bytes]") -> Iterator[bytes]:
    stream = iter(partial(file.read, gzip_stream.PIECE), b"")
    try:
        yield from limit_stream(stream, settings.MAX_LOG_BYTES, settings.MAX_LOG_RATIO, "HANDOFFAUDIT_MAX_LOG_BYTES")
    except TooLarge as error:
        said = f"{clean(file.name or 'The log', MOST_NAME)} {error}."
        by_command = error.limit == settings.MAX_LOG_BYTES
        raise NotReceived(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, by_command=by_command) from error
    except (OSError, BadGzip) as error:
        said = f"What is in the packed file can't be read to its end ({error}). What was read of it is kept."
        raise NotReceived(HTTPStatus.BAD_REQUEST, said) from error
