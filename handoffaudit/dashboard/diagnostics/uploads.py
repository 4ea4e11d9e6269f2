"""Uploads of logs: the form, the limits, and the result of each import."""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import filesizeformat
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from handoffaudit.accounts.models import Role
from handoffaudit.compression import PIECE, DamagedStream
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.filters import SortedPage
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.diagnostics.logs import search, store, upload
from handoffaudit.diagnostics.logs.filters import ImportOrder, LogQuery
from handoffaudit.diagnostics.logs.search import FoundLine
from handoffaudit.diagnostics.logs.upload import TooLarge, limit_stream
from handoffaudit.diagnostics.models import LogBlock, LogImport
from handoffaudit.filter_fields import FilterError
from handoffaudit.validation.logs.lines import KIND_TEXTS, HealthLine, Kind
from handoffaudit.validation.text import clean, pluralize

# A running worker starts to read an import within this time.
LATE = timedelta(seconds=30)

# A bad line may have up to 64 KB, so the page cuts the text.
MOST_TEXT = 500


@dataclass(frozen=True, slots=True)
class KindStat:
    name: str
    note: str
    number: int
    query: str


@dataclass(frozen=True, slots=True)
class ShownImport:
    """An import on a page; `unstored` is the number of its bytes that no worker has stored yet."""

    row: LogImport
    unstored: int = 0

    @property
    def name(self) -> str:
        return readable(self.row.source)

    @property
    def sent_by(self) -> str:
        return readable(self.row.sent_by)

    @property
    def new(self) -> int:
        return max(self.row.lines - self.row.known, 0)

    @property
    def is_interrupted(self) -> bool:
        return bool(self.row.error) and not self.row.received_at

    @property
    def is_running(self) -> bool:
        return bool(self.unstored) or (not self.row.finished_at and not self.is_interrupted)

    @property
    def stored(self) -> int:
        return self.row.size - self.unstored

    @property
    def percent(self) -> int:
        """Return the progress of a running import, at most 99: first the stored bytes, then the new lines processed."""
        if self.unstored:
            return 100 * self.stored // self.row.size
        return min(99, 100 * self.done // self.new) if self.new else 0

    @property
    def done(self) -> int:
        """Return how many new lines were processed, including bad lines."""
        return self.row.read + self.row.bad

    @property
    def late(self) -> bool:
        received = self.row.received_at
        return bool(self.is_running and not self.done and received and timezone.now() - received > LATE)

    @property
    def state(self) -> str:
        if self.unstored:
            return "being stored"
        if self.is_interrupted:
            return "broken off"
        if self.row.finished_at:
            return "read in part" if self.row.error else "read"
        return "being read" if self.row.received_at else "being stored"

    @property
    def tone(self) -> str:
        return {"broken off": "bad", "read in part": "wait", "read": "good"}.get(self.state, "quiet")

    @property
    def icon(self) -> str:
        return {"broken off": "error", "read in part": "warning", "read": "passed"}.get(self.state, "validating")

    @property
    def announcement(self) -> str:
        """Return the text that a screen reader announces at the end of the import."""
        if self.is_running:
            return ""
        return self.row.error or f"All read: {pluralize(self.new, 'new line')}, {self.row.bad:,} bad."

    @property
    def query(self) -> str:
        return LogQuery(source=self.row.source).to_query()

    @property
    def kinds(self) -> list[KindStat]:
        numbers, source = {Kind.BAD.value: self.row.bad} | self.row.kinds, self.row.source
        return [
            KindStat(
                text.title,
                text.form,
                numbers.get(kind.value, 0),
                LogQuery(source=source, kind=kind.value).to_query(),
            )
            for kind, text in KIND_TEXTS.items()
        ]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line in no known format: its number, the error, and the line with control characters made visible."""

    number: int
    why: str
    text: str

    @classmethod
    def of(cls, found: FoundLine) -> "BadRow":
        return cls(found.number, readable(found.why), cut(found.text, MOST_TEXT))


# The embedded server has 32 threads, and slow uploads must leave threads for other requests.
MOST_AT_ONCE = 4

# The form also contains the names of its fields, the token and the boundaries between fields.
FORM_BYTES = 64 * 1024

MOST_ORIGIN = 80

MOST_NAME = 200

_slots = threading.BoundedSemaphore(MOST_AT_ONCE)


class NotReceived(Exception):
    """The error for a refused log; `said` is for its sender. `by_command`: the command line would accept the log."""

    def __init__(self, status: HTTPStatus, said: str, *, by_command: bool = False) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.by_command = by_command


class ToDataFolder(FileUploadHandler):
    """An upload handler that writes to an unnamed file in the data folder.

    A temporary folder may be kept in memory, and a named file would stay behind when the process is killed.
    """

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
    """Return the size limit in words, such as `2.0 GB`."""
    return filesizeformat(settings.MAX_LOG_BYTES).replace("\xa0", " ")


@contextmanager
def receive_upload(request: HttpRequest) -> Iterator[None]:
    """Allow the form to be read inside the context.

    Raises `NotReceived` before any byte is read if the form is too large or too many uploads run at once.
    """
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if announced.isdecimal() and int(announced) > settings.MAX_LOG_BYTES + FORM_BYTES:
        raise too_large()
    if not _slots.acquire(blocking=False):
        said = f"{MOST_AT_ONCE} logs are being uploaded right now, the maximum. Upload the log again in a minute."
        raise NotReceived(HTTPStatus.SERVICE_UNAVAILABLE, said)
    try:
        request.upload_handlers = [ToDataFolder(request)]
        yield
    finally:
        _slots.release()


def too_large() -> NotReceived:
    said = f"The log is larger than {most_bytes()}, the maximum (HANDOFFAUDIT_MAX_LOG_BYTES)."
    return NotReceived(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, by_command=True)


@dataclass(frozen=True, slots=True)
class SentLog:
    """A log that was sent.

    `source` is the log's name, which stays the same when the log is sent again. `pieces` yields the unpacked
    bytes and may raise `NotReceived`.
    """

    source: str
    pieces: Iterator[bytes]


def read_uploads(request: HttpRequest) -> list[SentLog]:
    """Return the files of the form; raise `NotReceived` if the form has none."""
    origin = clean(request.POST.get("origin", "").strip(), MOST_ORIGIN)
    files = [file for file in request.FILES.getlist("log") if file.size]
    if not files:
        raise NotReceived(
            HTTPStatus.BAD_REQUEST, "No log was uploaded, or the file was empty: choose a file with lines."
        )
    return [SentLog(_source(origin, file.name or "log"), _pieces(file)) for file in files]


def _source(origin: str, name: str) -> str:
    plain = name.removesuffix(".gz") or name
    return clean(f"{origin}/{plain}" if origin else plain, MOST_NAME)


def _pieces(file: "UploadedFile[bytes]") -> Iterator[bytes]:
    stream = iter(partial(file.read, PIECE), b"")
    try:
        yield from limit_stream(stream, settings.MAX_LOG_BYTES, settings.MAX_LOG_RATIO, "HANDOFFAUDIT_MAX_LOG_BYTES")
    except TooLarge as error:
        said = f"{clean(file.name or 'The log', MOST_NAME)} {error}."
        by_command = error.limit == settings.MAX_LOG_BYTES
        raise NotReceived(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said, by_command=by_command) from error
    except (OSError, DamagedStream) as error:
        said = f"The packed file can't be read to its end ({error}). The lines read so far are stored."
        raise NotReceived(HTTPStatus.BAD_REQUEST, said) from error


TEMPLATE = "dashboard/diagnostics/logs/import_page.html"

IMPORTED = "dashboard/diagnostics/logs/imported.html"

REFUSED = "dashboard/diagnostics/logs/form.html#refused"

IMPORTS = 50

MOST_BAD = 100

# Reasons are counted in at most this many lines, which are read for the page.
MOST_HEALTH = 1_000
MOST_REASONS = 12


@require_role(Role.VIEWER)
@require_safe
def imports_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return _page(request, who)


def _page(request: HttpRequest, who: TenantMembership, refused: NotReceived | None = None) -> HttpResponse:
    cursor, address = request.GET.get("cursor", ""), reverse("dashboard:log_import", args=[who.tenant.slug])
    try:
        filters = ImportOrder.from_query(request.GET)
        rows, following = store.list_imports(who.tenant, filters.order, cursor, IMPORTS)
    except FilterError as bad:
        return render_page(request, TEMPLATE, {"bad": bad, **form_context()}, status=HTTPStatus.BAD_REQUEST)
    unstored = upload.count_unstored_bytes(rows)
    shown = [ShownImport(row, unstored.get(row.pk, 0)) for row in rows]
    context: dict[str, Any] = {
        "imports": shown,
        "is_running": any(one.is_running for one in shown),
        "cursor": cursor,
        "filters": filters,
        "views": SortedPage(address, ""),
        "newest": build_url(address, filters.to_query()) if cursor else "",
        "next": build_url(address, filters.to_query(), urlencode({"cursor": following})) if following else "",
        "refused": refused,
        **form_context(),
    }
    status = refused.status if refused else HTTPStatus.OK
    return render_page(request, TEMPLATE, context, partials=("imports",), status=status)


def form_context() -> dict[str, Any]:
    """Return the context for the size limit that the form shows."""
    return {"limit": settings.MAX_LOG_BYTES, "limit_words": most_bytes()}


# The CSRF token is checked only after the role, because the check reads the whole form to find the token.
@csrf_exempt
@require_role(Role.REVIEWER)
@require_POST
def send(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Store the uploaded logs and redirect to the import, or to the list of imports after several logs."""
    try:
        with receive_upload(request):
            return _take(request, who)
    except NotReceived as refused:
        if is_htmx(request):
            return render(request, REFUSED, {"refused": refused}, status=refused.status)
        return _page(request, who, refused)


@csrf_protect
def _take(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    stored = [
        upload.receive_log(who.tenant, log.source, who.person.username, log.pieces, keep_broken=True)
        for log in read_uploads(request)
    ]
    name, more = ("log_imported", [stored[0].pk]) if len(stored) == 1 else ("log_import", [])
    address = reverse(f"dashboard:{name}", args=[who.tenant.slug, *more])
    return HttpResponseClientRedirect(address) if is_htmx(request) else redirect(address)


@require_role(Role.VIEWER)
@require_safe
def import_status(request: HttpRequest, who: TenantMembership, log_import: UUID) -> HttpResponse:
    """Show the progress of an import or, if it no longer runs, its result with a page of its bad lines."""
    row = LogImport.objects.filter(tenant=who.tenant, pk=log_import).first()
    if row is None:
        raise Http404("There is no such import.")
    one = ShownImport(row, upload.count_unstored_bytes([row]).get(row.pk, 0))
    context: dict[str, Any] = {
        "one": one,
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "most_health": MOST_HEALTH,
        "lines_removed": LogBlock.objects.filter(imported=row).exclude(removed_at=None).exists(),
    }
    try:
        if not one.is_running:
            context["reasons"] = _reasons(who, row)
        if row.bad and not one.is_running:
            page = store.list_bad_lines(row, cursor=request.GET.get("after", ""), limit=MOST_BAD)
            context |= {"bad_lines": [BadRow.of(found) for found in page.items], "next_bad": page.next}
    except FilterError as bad:
        return render_page(request, IMPORTED, context | {"bad": bad}, status=HTTPStatus.BAD_REQUEST)
    return render_page(request, IMPORTED, context, partials=("reading",))


def _reasons(who: TenantMembership, row: LogImport) -> list[tuple[str, int, str]]:
    """Return the reasons in the newest health lines of the log, the most frequent first.

    Each reason has its number of lines, and the query that lists them.
    """
    query = LogQuery(source=row.source, kind=Kind.HEALTH.value)
    found = search.search_lines(who.tenant, query, limit=MOST_HEALTH).items
    counts = Counter(str(each.line.reason) for each in found if isinstance(each.line, HealthLine) and each.line.reason)
    return [
        (reason, number, LogQuery(source=row.source, event=reason).to_query())
        for reason, number in counts.most_common(MOST_REASONS)
    ]


urlpatterns = [
    path("diagnostics/logs/import/", imports_page, name="log_import"),
    path("diagnostics/logs/import/send/", send, name="log_send"),
    path("diagnostics/logs/import/<uuid:log_import>/", import_status, name="log_imported"),
]
