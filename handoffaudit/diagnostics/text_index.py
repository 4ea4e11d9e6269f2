"""The words of blocked handoffs: their index, which a worker fills after judging, and the search in it.

The words are stored in `BlockedText`. PostgreSQL finds them with a GIN index over a `tsvector`, SQLite with FTS5. Both
match whole words without a stemmer. The last word of a search also matches longer words that begin with it.
"""

import re
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
import structlog
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import BlockedText, Watermark
from handoffaudit.handoffs import db, judge_leases
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.filters import first_id_at, moment_of
from handoffaudit.handoffs.leases import BEGINNING, NamedLease, background_part
from handoffaudit.handoffs.models import Handoff, HandoffBody, State, Verdict
from handoffaudit.validation.prompts.masking import MASKED, mask_secrets
from handoffaudit.validation.prompts.secrets import mask_text
from handoffaudit.validation.text import normalize

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.index_blocked"
MARK: Final = "blocked_text"
LEASE: Final = NamedLease(Watermark, "blocked_text.claim")
BLOCKED: Final = (State.REJECTED, State.HELD, State.DECLINED)

# A verdict gets its id before its transaction ends, so a verdict may become visible up to this long after verdicts with
# higher ids.
OVERLAP: Final = timedelta(minutes=2)
# A part of a run looks at `MOST_VERDICTS` verdicts. A transaction stores the words of `MOST_DOCUMENTS` documents.
MOST_VERDICTS: Final = 5_000
MOST_DOCUMENTS: Final = 50
_LONGEST_RUN: Final = 20.0

# At most `MOST_TEXT` characters of a document are indexed. `_MARGIN` more are read, so that a secret at the end is
# found whole.
MOST_TEXT: Final = 16 * 1024
_MARGIN: Final = 4 * 1024
# Of a document that is not JSON, at most this many bytes are decoded: four for each character.
_MOST_BYTES: Final = 4 * (MOST_TEXT + _MARGIN)
LONGEST_WORD: Final = 64
MOST_WORDS: Final = 8
SHORTEST_PREFIX: Final = 3
MOST_FOUND: Final = 20
# With more matches than this, PostgreSQL reads the newest rows until enough of them match.
MOST_MATCHES: Final = 3_000
_AT_ONCE: Final = 200
_BODIES_AT_ONCE: Final = 10

_TABLE: Final = "diagnostics_blockedtext"
_HANDOFFS: Final = "handoffs_handoff"
_WORDS: Final = "diagnostics_blockedtext_words"
_VECTOR: Final = "array_to_tsvector(string_to_array(words, ' '))"
_BOM: Final = b"\xef\xbb\xbf"
_ASCII_WORDS: Final = re.compile(r"[a-z0-9]+")
_SEPARATOR: Final = " "


def create_index() -> None:
    """Create the index of the words if it is missing. Called after each migration.

    FTS5 takes the words from the table. A trigger removes the words of a deleted row. A trigger that adds words would
    make FTS5 write each row separately, which takes 25 times as long.
    """
    if _TABLE not in connection.introspection.table_names():
        return
    statements = (
        (f'CREATE INDEX IF NOT EXISTS "{_WORDS}" ON "{_TABLE}" USING gin ({_VECTOR})',)
        if db.is_postgresql()
        else (
            f'CREATE VIRTUAL TABLE IF NOT EXISTS "{_WORDS}" USING fts5('
            f"words, content='{_TABLE}', content_rowid='id', tokenize='ascii')",
            f'CREATE TRIGGER IF NOT EXISTS "{_WORDS}_removed" AFTER DELETE ON "{_TABLE}" BEGIN '  # noqa: S608
            f'INSERT INTO "{_WORDS}"("{_WORDS}", rowid, words) VALUES (\'delete\', old.id, old.words); END',
        )
    )
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def anything_due() -> bool:
    """Return whether the lease is free and a run still has verdicts to look at. Cheap enough for each sweep."""
    return LEASE.is_free() and Verdict.objects.filter(id__gte=first_id_at(_read_mark())).exists()


def _read_mark() -> datetime:
    """Return the time of the first verdict that a run has to look at."""
    mark = Watermark.objects.filter(name=MARK).values_list("at", flat=True).first() or BEGINNING
    # A clock that was ahead may have set the mark to a future time.
    return min(mark, timezone.now() - OVERLAP)


def run() -> int:
    """Index the blocked handoffs that were judged since the last run, and return their number.

    The run ends when nothing is due, or after some seconds. If handoffs wait to be judged, the run ends after its
    current transaction, and a pause follows (`pause_after`). Return 0 if another process holds the lease.
    """
    return LEASE.run_parts(_index_parts(), _LONGEST_RUN, judge_leases.is_anything_waiting)


def _index_parts() -> Iterator[int]:
    """Index one part of the verdicts after another, and yield the number of documents after each transaction."""
    Watermark.objects.get_or_create(name=MARK, defaults={"at": BEGINNING})
    verdicts = Verdict.objects.order_by("id").values_list("id", flat=True)
    part = list(verdicts.filter(id__gte=first_id_at(_read_mark()))[:MOST_VERDICTS])
    while part:
        looked_at = timezone.now()
        while due := _list_due(part[0], part[-1]):
            with background_part():
                indexed = _index(due)
            yield indexed
        _move(min(moment_of(part[-1]), looked_at - OVERLAP))
        yield 0
        part = list(verdicts.filter(id__gt=part[-1])[:MOST_VERDICTS])
    _move(timezone.now() - OVERLAP)


def _list_due(first: uuid.UUID, last: uuid.UUID) -> list[uuid.UUID]:
    """Return some blocked handoffs whose words are not stored yet, with a verdict from `first` to `last`."""
    rows = Verdict.objects.filter(id__range=(first, last), handoff__state__in=BLOCKED, handoff__body__isnull=False)
    indexed = BlockedText.objects.filter(handoff=OuterRef("handoff_id"))
    found = rows.filter(~Q(outcome="accepted"), ~Exists(indexed)).order_by("id")
    return list(found.values_list("handoff_id", flat=True)[:MOST_DOCUMENTS])


def _index(due: Sequence[uuid.UUID]) -> int:
    # The rows are added in the order of the keys, because the search shows later rows first.
    bodies = HandoffBody.objects.filter(pk__in=set(due)).order_by("pk")
    documents = bodies.values_list("pk", "handoff__tenant_id", "original").iterator(chunk_size=_BODIES_AT_ONCE)
    texts = [
        (pk, tenant_id, hash(bytes(original)), words_or_none(pk, tenant_id, original))
        for pk, tenant_id, original in documents
    ]
    with write_turn(), transaction.atomic():
        # The lock makes retention, erasures and other processes wait, so that each row is added once, and only if its
        # document still exists. A document that an erasure has changed meanwhile is still due.
        locked = bodies.select_for_update().values_list("pk", "original").iterator(chunk_size=_BODIES_AT_ONCE)
        read = {pk: hash(bytes(original)) for pk, original in locked}
        for pk in BlockedText.objects.filter(handoff__in=due).values_list("handoff", flat=True):
            read.pop(pk, None)
        rows = [
            BlockedText(handoff=pk, tenant_id=tenant, words=words)
            for pk, tenant, digest, words in texts
            if read.get(pk) == digest
        ]
        add(rows)
    return len(rows)


def words_or_none(pk: uuid.UUID, tenant_id: int, original: bytes | memoryview) -> str:
    """Return the words of a document, or no words after an exception. A bug must not stop the index."""
    try:
        return words_of(tenant_id, original)
    except Exception:
        log.exception("the words of a document could not be indexed", handoff=str(pk))
        return _scope(tenant_id)


def add(rows: Sequence[BlockedText]) -> None:
    """Store rows and add their words to the index."""
    if not rows:
        return
    BlockedText.objects.bulk_create(rows)
    if not db.is_postgresql():
        with connection.cursor() as cursor:
            first, last = rows[0].pk, rows[-1].pk
            cursor.execute(
                f'INSERT INTO "{_WORDS}"(rowid, words) SELECT id, words FROM "{_TABLE}" WHERE id BETWEEN %s AND %s',  # noqa: S608
                [first, last],
            )


def _move(reached: datetime) -> None:
    Watermark.objects.filter(name=MARK, at__lt=reached).update(at=reached)


def words_of(tenant_id: int, original: bytes | memoryview) -> str:
    """Return the word that stands for the tenant and the distinct words of the document, as one text.

    Secrets are left out. Only about the first `MOST_TEXT` characters of the document count.
    """
    raw = bytes(original).removeprefix(_BOM)
    try:
        texts = list(_texts_in(mask_secrets(_prune(orjson.loads(raw)))))
    except (orjson.JSONDecodeError, RecursionError):
        texts = [mask_text(_cut(raw[:_MOST_BYTES].decode(errors="replace"), MOST_TEXT))]
    found: dict[str, None] = {_scope(tenant_id): None}
    room = MOST_TEXT
    for text in texts:
        found.update(dict.fromkeys(split(text.replace(MASKED, _SEPARATOR)[:room])))
        room -= len(text)
        if room <= 0:
            break
    return _SEPARATOR.join(found)


def _scope(tenant_id: int) -> str:
    """Return the word that stands for the tenant. It begins with a private character, which no other word has."""
    return f"\ue000{tenant_id}"


def _prune(document: Any) -> Any:
    """Return a copy of a JSON value with about the first `MOST_TEXT` characters of its texts."""
    room = MOST_TEXT

    def prune(value: Any) -> Any:
        nonlocal room
        match value:
            case dict():
                kept: dict[str, Any] = {}
                for key, one in value.items():
                    if room <= 0:
                        break
                    name = _cut(key, room)
                    room -= len(name) + 1
                    kept[name] = prune(one)
                return kept
            case list():
                some: list[Any] = []
                for one in value:
                    if room <= 0:
                        break
                    some.append(prune(one))
                return some
            case str():
                text = _cut(value, room)
                room -= len(text) + 1
                return text
            case _:
                room -= 8
                return value

    return prune(document)


def _cut(text: str, length: int) -> str:
    """Return the beginning of a text. A secret that begins in it is masked, even if the end of the secret is cut."""
    length = max(length, 0)
    if len(text) <= length:
        return text
    masked = mask_text(text[: length + _MARGIN])
    # A secret that goes on after the margin is not masked, so the last `_MARGIN` characters are left out.
    return masked[:length] if len(text) <= length + _MARGIN else masked[:-_MARGIN]


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the keys, texts and numbers of a JSON value in the order of the document."""
    match value:
        case dict():
            for key, one in value.items():
                yield key
                yield from _texts_in(one)
        case list():
            for one in value:
                yield from _texts_in(one)
        case bool() | None:
            return
        case _:
            yield str(value)


def split(text: str) -> list[str]:
    """Return the words of a text in lower case. Letters, digits and their marks belong to a word."""
    if text.isascii():
        words = _ASCII_WORDS.findall(text.lower())
    else:
        folded = normalize("NFKC", text).casefold()
        words = "".join(char if _is_of_word(char) else _SEPARATOR for char in folded).split(_SEPARATOR)
    return [word[:LONGEST_WORD] for word in words if word]


def _is_of_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


def search(tenant: Tenant, text: str, most: int = MOST_FOUND) -> list[uuid.UUID]:
    """Return the ids of the newest blocked handoffs whose documents contain all words of the text.

    The last word also matches the beginning of a word if it has at least three characters and the text does not end
    with a space. Only the first `MOST_WORDS` distinct words count. Without a word of at least three characters, nothing
    is found.
    """
    typed = split(text)
    words = list(dict.fromkeys(typed))[:MOST_WORDS]
    if not any(len(word) >= SHORTEST_PREFIX for word in words):
        return []
    ends_open = words[-1] == typed[-1] and len(words[-1]) >= SHORTEST_PREFIX and not text.endswith(" ")
    wanted = [_scope(tenant.pk), *words]
    if db.is_postgresql():
        return _search_postgresql(
            tenant, " & ".join(f"'{word}'" for word in wanted) + (":*" if ends_open else ""), most
        )
    return _search_sqlite(tenant, " ".join(f'"{word}"' for word in wanted) + ("*" if ends_open else ""), most)


def _search_sqlite(tenant: Tenant, query: str, most: int) -> list[uuid.UUID]:
    # With CROSS JOIN, SQLite reads the index first, in descending order, and stops after enough rows.
    source = f'"{_WORDS}" AS found CROSS JOIN "{_TABLE}" AS stored ON stored.id = found.rowid'
    with connection.cursor() as cursor:
        cursor.execute(_newest(source, "found.words MATCH %s", "found.rowid"), [query, tenant.pk, tenant.pk, most])
        return [uuid.UUID(pk) for (pk,) in cursor.fetchall()]


def _search_postgresql(tenant: Tenant, query: str, most: int) -> list[uuid.UUID]:
    """Read all matches through the index or, if there are many, the newest rows until enough of them match.

    PostgreSQL cannot estimate how many rows contain the beginning of a word. By itself, it would read all rows for a
    rare word.
    """
    matches = f"{_VECTOR} @@ %s::tsquery"
    sql = f'SELECT stored.id, handoff FROM "{_TABLE}" AS stored WHERE {matches} AND tenant_id = %s LIMIT %s'  # noqa: S608
    with transaction.atomic(), connection.cursor() as cursor:
        with _without(cursor, "enable_seqscan", "enable_indexscan"):
            cursor.execute(sql, [query, tenant.pk, MOST_MATCHES + 1])
            found = cursor.fetchall()
        if len(found) > MOST_MATCHES:
            with _without(cursor, "enable_bitmapscan"):
                sql = _newest(f'"{_TABLE}" AS stored', matches, "stored.id")
                cursor.execute(sql, [query, tenant.pk, tenant.pk, most])
                return [pk for (pk,) in cursor.fetchall()]
    return _choose_blocked(tenant, [pk for _, pk in sorted(found, reverse=True)], most)


@contextmanager
def _without(cursor: Any, *plans: str) -> Iterator[None]:
    """Turn off settings of PostgreSQL's planner, such as `enable_seqscan`, and turn them on again at the end."""
    switch = "SELECT " + ", ".join(f"set_config('{plan}', %(to)s, true)" for plan in plans)
    cursor.execute(switch, {"to": "off"})
    yield
    cursor.execute(switch, {"to": "on"})


def _choose_blocked(tenant: Tenant, found: Sequence[uuid.UUID], most: int) -> list[uuid.UUID]:
    """Return the first handoffs of `found` that are still blocked."""
    rows = Handoff.objects.filter(tenant=tenant, state__in=BLOCKED)
    chosen: list[uuid.UUID] = []
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        blocked = set(rows.filter(pk__in=some).values_list("pk", flat=True))
        chosen += [pk for pk in some if pk in blocked]
        if len(chosen) >= most:
            break
    return chosen[:most]


def _newest(source: str, matches: str, order: str) -> str:
    """Return the SQL for the newest blocked handoffs whose words match."""
    states = ", ".join(f"'{state}'" for state in BLOCKED)
    return (
        f'SELECT stored.handoff FROM {source} CROSS JOIN "{_HANDOFFS}" AS judged'  # noqa: S608
        f" WHERE {matches} AND stored.tenant_id = %s AND judged.id = stored.handoff AND judged.tenant_id = %s"
        f" AND judged.state IN ({states}) ORDER BY {order} DESC LIMIT %s"
    )


def forget(tenant: Tenant, handoffs: Iterable[uuid.UUID]) -> None:
    """Remove the words of these handoffs, whose documents are gone or have changed."""
    BlockedText.objects.filter(tenant=tenant, handoff__in=list(handoffs)).delete()
