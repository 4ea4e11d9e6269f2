"""Bulk rows like those of a busy month: 30 days, 40 agents, 8 types, all states, common and rare rule codes.

Every handoff has its findings, events and counts. Lists never read documents and verdicts, so these are stored only for
every twentieth handoff and for the handoffs that a reviewer sees first. They are the bundled samples with their real
verdicts.
"""

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import orjson
from django.db import connection, transaction
from django.utils import timezone
from psycopg.types.json import Jsonb

from benchmarks.behind import Behind
from benchmarks.documents import submissions
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.handoffs import counts, db, verdicts
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, prepare, read_submission
from handoffaudit.handoffs.ingest.store import BODY, EVENT
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.results import FINDING, VERDICT
from handoffaudit.policy import kinds
from handoffaudit.validation.layers.base import History
from handoffaudit.validation.times import hour_of
from handoffaudit.validation.verdict import verdict_to_dict

CHUNK = 10_000
BODY_OF_EVERY = 20
# The review page opens a handoff of the queue, and prefetches the next one, so these need documents.
FIRST_IN_THE_QUEUE = 60
NEWEST = 500
DAYS = 30
AGENTS = [f"agent-{number:02}" for number in range(1, 41)]
TYPES = ["message", "tool_exchange", "research_result", "deal_data", "customer_info", "status_update", "plan", "review"]
TYPE_WEIGHTS = [40, 20, 12, 8, 8, 6, 4, 2]
STATES = {"accepted": 700, "rejected": 100, "held": 40, "approved": 80, "declined": 50, "superseded": 28, "received": 2}
# The states after a person's decision, with the state before the decision.
DECIDED = {"approved": "held", "declined": "rejected"}
WARNINGS = {"": 780, "consistency.timestamp_not_utc": 120, "tokens.count_drift": 60, "chain.declared_differs": 40}
ERRORS = {
    "structure.missing_field": 400,
    "tokens.over_budget": 250,
    "chain.circular": 250,
    "structure.bad_enum": 80,
    "chain.self_handoff": 15,
    "integrity.payload_hash_mismatch": 5,
}
HOLDS = {"chain.needs_approval": 700, "chain.circular_with_reason": 300}
# One long trace among the newest handoffs, because these have documents.
LONG_TRACE, LONG_TRACE_LENGTH, LONG_TRACE_ENDS = "trace-of-60-handoffs", 60, 300
PHASES = ["plan", "research", "write", "review", "fix", "publish"]
# The outcomes of handoff files (source, reason and fallback), with weights.
FILES = {
    ("handoff_json", "", ""): 85,
    ("text_fallback", "file_missing", "text_fallback_ok"): 6,
    ("text_fallback", "schema_invalid", "text_fallback_ok"): 5,
    ("text_fallback", "json_parse_error", "text_fallback_fail"): 4,
}
SEVERITIES = dict.fromkeys(WARNINGS, "warning") | dict.fromkeys(ERRORS, "error")

FIELDS = Handoff._meta.concrete_fields  # noqa: SLF001 -- Django's documented API
HANDOFF = db.Columns.of(Handoff, *(column.name for column in FIELDS))


@dataclass(slots=True)
class _Rows:
    handoffs: list[list[Any]] = field(default_factory=list)
    bodies: list[list[Any]] = field(default_factory=list)
    verdicts: list[list[Any]] = field(default_factory=list)
    findings: list[list[Any]] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)

    def write(self) -> None:
        with transaction.atomic():
            for columns, rows in (
                (HANDOFF, self.handoffs),
                (BODY, self.bodies),
                (VERDICT, self.verdicts),
                (FINDING, self.findings),
                (EVENT, self.events),
            ):
                db.insert_rows(columns, rows)


@dataclass(frozen=True, slots=True)
class Sample:
    """A document, its context and evidence, and its verdict as JSON."""

    original: bytes
    context: bytes | None
    evidence: bytes | None
    verdict: str


class _Filler:
    def __init__(self, tenant: Tenant, number: int, most_samples: int | None) -> None:
        self.tenant = tenant
        self.number = number
        self.random = random.Random(20260215)  # noqa: S311 -- the same rows in every run
        self.until = timezone.now()
        self.samples = list(islice(list_samples(tenant), most_samples))
        self.deltas: counts.Deltas = Counter()
        self.behind = Behind(tenant)
        self.trace = ""
        self.held = 0
        self.defaults = {column.attname: column.get_default() for column in FIELDS}

    def fill(self) -> None:
        rows = _Rows()
        for index in range(self.number):
            self._one(index, rows)
            if len(rows.handoffs) == CHUNK:
                rows.write()
                self.behind.write()
                rows = _Rows()
        rows.write()
        self.behind.finish(self.until)
        with transaction.atomic():
            counts.apply(self.deltas)

    def _pick(self, weights: dict[str, int]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def _codes(self, state: str) -> list[str]:
        if state == State.RECEIVED:
            return []
        codes = {self._pick(WARNINGS)}
        if state in (State.HELD, State.APPROVED):
            codes.add(self._pick(HOLDS))
        elif state in (State.REJECTED, State.DECLINED, State.SUPERSEDED):
            codes.add(self._pick(ERRORS))
        return sorted(codes - {""})

    def _one(self, index: int, rows: _Rows) -> None:
        at = self.until - timedelta(days=DAYS) * (1 - (index + 1) / (self.number + 1))
        # Whole milliseconds, as a UUIDv7 has them; the rest of the id is random.
        milliseconds = int(at.timestamp() * 1000)
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        pk = self._id(milliseconds)
        state = self._pick(STATES)
        # Only the newest handoffs wait to be judged.
        if state == State.RECEIVED and index < self.number * 0.999:
            state = State.ACCEPTED.value
        codes = self._codes(state)
        verdict = uuid.UUID(int=pk.int ^ 1) if state != State.RECEIVED else None
        from_end = self.number - index - LONG_TRACE_ENDS
        if index % 8 == 0 or from_end in (0, LONG_TRACE_LENGTH):
            is_long = 0 < from_end <= LONG_TRACE_LENGTH
            self.trace = LONG_TRACE if is_long else f"trace-{self.random.getrandbits(64):016x}"
        values = self.defaults | self._values(index, pk, at, state, codes) | {"verdict": verdict}
        self._beside(index, pk, at, values, rows)
        stored = values | {"codes": Jsonb(codes)} if db.is_postgresql() else values
        rows.handoffs.append([stored[name] for name in HANDOFF.names])
        place = counts.CountKey(
            self.tenant.pk,
            at.replace(minute=0, second=0, microsecond=0),
            *(values[name] for name in ("handoff_type", "source_agent_id", "target_agent_id")),
        )
        self.deltas.update(counts.count_transition(place, codes, "", state))

    def _id(self, milliseconds: int) -> uuid.UUID:
        bits = self.random.getrandbits
        return uuid.UUID(int=milliseconds << 80 | 7 << 76 | bits(12) << 64 | 2 << 62 | bits(62))

    def _values(self, index: int, pk: uuid.UUID, at: datetime, state: str, codes: list[str]) -> dict[str, Any]:
        # A few agents do most of the work.
        source, target = (AGENTS[int(40 * self.random.random() ** 2)] for _ in range(2))
        judged = state != State.RECEIVED
        return {
            "id": pk,
            "tenant_id": self.tenant.pk,
            "handoff_id": str(uuid.UUID(int=self.random.getrandbits(128))),
            "format": "payload",
            "handoff_type": self.random.choices(TYPES, TYPE_WEIGHTS)[0],
            "source_agent_id": source,
            "target_agent_id": target,
            "trace_id": self.trace,
            "step": index % 8,
            "state": state,
            "version": 2 if judged else 1,
            "received_at": at,
            "judged_at": at + timedelta(milliseconds=9) if judged else None,
            "sender_timestamp": at - timedelta(seconds=1),
            "size_bytes": 3000,
            "content_hash": f"{self.random.getrandbits(256):064x}",
            "data_hash": f"{self.random.getrandbits(256):064x}",
            "score": 1.0 - 0.1 * len(codes) if judged else None,
            "codes": codes,
            "token_count": 700 if judged else None,
            "chain_length": 3,
            "warnings": any(code in WARNINGS for code in codes),
            "approvable": "chain.self_handoff" not in codes,
            "review_due_at": at + timedelta(hours=72) if state == State.HELD else None,
            "tries": 1 if judged else 0,
        }

    def _beside(self, index: int, pk: uuid.UUID, at: datetime, values: dict[str, Any], rows: _Rows) -> None:
        tenant, state, codes = self.tenant.pk, values["state"], values["codes"]
        found = [(code, SEVERITIES.get(code, "warning")) for code in codes]
        if state != State.RECEIVED:
            self.behind.add(pk, at, values, found)
        for code, severity in found:
            rows.findings.append([tenant, pk, code, severity, code.partition(".")[0], "handoff.payload"])
        rows.events.append([pk, tenant, at, "key", "bench", "", "received", ""])
        if state != State.RECEIVED:
            rows.events.append([pk, tenant, at, "system", "handoffaudit", "received", "validating", ""])
            judged = DECIDED.get(state, state)
            rows.events.append([pk, tenant, at, "system", "handoffaudit", "validating", judged, "; ".join(codes)])
            if judged != state:
                later = at + timedelta(minutes=9)
                rows.events.append([pk, tenant, later, "person", "bench", judged, state, "looked at"])
        self.held += state == State.HELD
        is_met_first = index >= self.number - NEWEST or (state == State.HELD and self.held <= FIRST_IN_THE_QUEUE)
        if (index % BODY_OF_EVERY == 0 or is_met_first) and state != State.RECEIVED:
            sample = self.random.choice(self.samples)
            rows.bodies.append([pk, sample.original, sample.context, sample.evidence, None, ""])
            rows.verdicts.append([uuid.UUID(int=pk.int ^ 1), tenant, pk, "accepted", 1, at, sample.verdict])


def list_samples(tenant: Tenant) -> Iterator[Sample]:
    """Yield the bundled samples that can be read, with their verdicts by the policy of the tenant."""
    config = kinds.load_config(tenant.pk)
    for line in submissions():
        arrival = prepare(tenant.pk, tenant.slug, read_submission(line), timezone.now())
        if isinstance(arrival, PreparedHandoff) and not arrival.issues:
            handoff, sent = arrival.as_model(), arrival.submission
            body = HandoffBody(handoff=handoff, original=sent.document, context=sent.context, evidence=sent.evidence)
            verdict = verdicts.verdict_on_stored(handoff, body, verdicts.PriorContext(History()), config)
            content = orjson.dumps(verdict_to_dict(verdict)).decode()
            yield Sample(sent.document, sent.context, sent.evidence, content)


def update_statistics() -> None:
    """Update the statistics of PostgreSQL's planner and remove dead rows, as PostgreSQL itself would do in a month.

    On SQLite, the statistics do not depend on the rows.
    """
    if db.is_postgresql():
        with connection.cursor() as cursor:
            # A test fills the tables in a transaction, where PostgreSQL runs no VACUUM.
            cursor.execute("ANALYZE" if connection.in_atomic_block else "VACUUM ANALYZE")


def fill(tenant: Tenant, rows: int, *, most_samples: int | None = None) -> dict[str, Any]:
    """Fill an empty tenant with documents of the first `most_samples` samples; a filled tenant does not change.

    Return `shown`, `trace` and `long_trace`. `shown` has ids and states of some of the newest handoffs that have a
    document. The others are the ids of traces with 8 and with 60 handoffs.
    """
    handoffs = Handoff.objects.filter(tenant=tenant).order_by("-id")
    is_new, lacks_files = not handoffs.exists(), not file_stats.has_any(tenant)
    if is_new:
        _Filler(tenant, rows, most_samples).fill()
    if lacks_files:
        _fill_files(tenant, rows)
    if is_new or lacks_files:
        update_statistics()
    newest = handoffs.exclude(verdict=None)[:NEWEST].values_list("id", "state")
    shown = random.Random(20260215).sample(list(newest), min(60, len(newest)))  # noqa: S311 -- the same in every run
    trace = handoffs.exclude(trace_id="").values_list("trace_id", flat=True)[min(100, len(newest) - 1)]
    return {"shown": [(str(pk), state) for pk, state in shown], "trace": trace, "long_trace": LONG_TRACE}


def _fill_files(tenant: Tenant, rows: int) -> None:
    """Count as many handoff files as there are handoffs. Each agent works in three phases, in one runtime."""
    picked, first = random.Random(20260215), hour_of(timezone.now()) - timedelta(days=DAYS)  # noqa: S311 -- the same in every run
    found: file_stats.HealthDeltas = Counter()
    for source, reason, fallback in picked.choices(list(FILES), list(FILES.values()), k=rows):
        agent = int(len(AGENTS) * picked.random() ** 2)
        phase = PHASES[(agent + picked.randrange(3)) % len(PHASES)]
        hour = first + timedelta(hours=picked.randrange(DAYS * 24 + 1))
        place = (AGENTS[agent], phase, "claude" if agent % 2 else "codex")
        found[file_stats.HealthKey(hour, *place, source, reason, fallback)] += 1
    every = sorted(found.items())
    for start in range(0, len(every), CHUNK):
        with transaction.atomic():
            file_stats.count_health(tenant.pk, Counter(dict(every[start : start + CHUNK])))
