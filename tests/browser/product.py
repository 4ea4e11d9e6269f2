"""The product that the browser opens: real processes, the bundled sample, more tenants, people and keys."""

import gzip
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx

import handoffaudit
from tests.running.conftest import Up, run

PASSWORD = "correct horse battery staple"
TENANTS = ("default", "empty", "way", "desk", "live", "rules", "doors", "model", "logs", "agents")
SAMPLES = Path(handoffaudit.__file__).parent / "samples"

# Handoffs of the sample. The first is held, because its sender explains the circle; the others are rejected.
CIRCLE_WITH_REASON = "import-59e047bb0a0d5e841b935d05e60a44522a8bdfc5-1"
CIRCLE = "065a3d18-09a3-4142-a199-bea1c64a2c5c"
NOT_JSON = "import-bbfee7e62a7f627375055fc217420502b6537ada-1"
ACCEPTED = "01c05620-9248-41b6-9da5-afbce7f068a0"

# mara administers every tenant, rui and sana review in every tenant, and vik is a viewer of the first.
SEED = """
import json
from collections import Counter
from datetime import timedelta
from django.utils import timezone
from handoffaudit.accounts import keys, people, tenants
from handoffaudit.accounts.models import Membership, Person, Role
from handoffaudit.diagnostics import file_stats
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import Alert, Delivery, ModelCall, Subscriber
from handoffaudit.policy import kinds, rules
from handoffaudit.validation.config import TypePolicy

made = [tenants.get(slug) or tenants.create(slug=slug, name=slug.capitalize(), actor="tests") for slug in slugs]
for name, role in (("mara", Role.ADMIN), ("rui", Role.REVIEWER), ("sana", Role.REVIEWER), ("vik", Role.VIEWER)):
    person = Person.objects.create_user(username=name, password=password)
    for tenant in made[:1] if name == "vik" else made:
        Membership.objects.create(tenant=tenant, person=person, role=role)
for version, length in enumerate((8, 6)):
    row = TypePolicy("visa_check", recommended_length=length)
    kinds.strictness.upsert_row(tenant=made[0], base_version=version, row=row, actor="mara", note="Shorter chains.")
kinds.rules.save(tenant=made[0], base_version=0, rows=rules.example_sets(), actor="mara", note="Examples.")
visa = {"handoff_type": "visa_check", "schema": {"type": "object", "required": ["country"]}, "claim_fields": ["note"]}
kinds.schemas.save(tenant=made[0], base_version=0, rows=kinds.schemas.parse([visa]), actor="mara")
asked = tenants.get("model")
outcomes = [("ok", None, 1), ("ok", None, 1), ("overloaded", 529, 3), ("refused", 401, 1), ("budget", None, 0)]
for n in range(60):
    outcome, status, tries = outcomes[n % 5]
    ModelCall.objects.create(
        tenant=asked, at=timezone.now() - timedelta(minutes=17 * n), use=("grounding", "critique", "objective")[n % 3],
        model=("claude-haiku-5-5", "claude-sonnet-5-5")[n % 2], prompt="grounding@1", outcome=outcome, tries=tries,
        http_status=status, detail="" if outcome == "ok" else "What the service said of it.", latency_ms=300.0 * n,
        tokens_in=1200, tokens_out=90, cost_usd=0.004 if outcome == "ok" else 0.0, cached=n % 10 == 0,
    )
for n, reason in enumerate(["", "", "file_missing", "json_parse_error", "schema_invalid"] * 12):
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=7 * n)
    source = "text_fallback" if reason else "handoff_json"
    place = (hour, ("planner", "implementer", "plan_reviewer")[n % 3], ("plan", "implement")[n % 2], "claude")
    file_stats.count_health(made[0].pk, Counter({file_stats.HealthKey(*place, source, reason, ""): n % 4 + 1}))
# Alerts of thresholds open and close by themselves, and so does that of an unavailable LLM, because no key is set.
for kind in ("would_have_rejected", "webhook_failing"):
    alerts.raise_alert(asked.pk, kind, 3)
about = {"kind": "rejection_rate", "value": 0.61, "acknowledged_by": "handoffaudit"}
at = timezone.now() - timedelta(hours=2)
Alert.objects.create(tenant=asked, opened_at=at, last_at=at, acknowledged_at=timezone.now(), **about)
wants = {"kind": "webhook", "name": "CI", "address": "https://127.0.0.1/hook", "secret": "shown to nobody"}
told = Subscriber.objects.create(tenant=asked, events=["verdict", "decision"], active=False, created_by="mara", **wants)
for n, error in enumerate(["", "The receiver answered 500: check its log.", ""]):
    Delivery.objects.create(
        tenant=asked, subscriber=told, event="verdict", about=f"it {n}", payload="{}", created_at=timezone.now(),
        tries=n, last_status=500 if error else None, last_error=error, last_ms=n,
        delivered_at=timezone.now() if n == 2 else None,
    )
scopes = ["ingest", "read", "review", "admin"]
keys_of = {t.slug: keys.create(tenant=t, name="tests", scopes=scopes, expires_at=None, actor="tests") for t in made}
links = [people.invite(tenant=made[0], name=f"guest{n}", role=Role.VIEWER, actor="mara").path for n in range(2)]
print(json.dumps({"secrets": {slug: secret for slug, (_, secret) in keys_of.items()}, "links": links}))
"""


@cache
def sample() -> dict[str, dict[str, Any]]:
    """Return the submissions of the bundled sample by the `handoff_id` that they have after the import."""
    found = {}
    for path in SAMPLES.glob("*.jsonl.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            sent = json.loads(line)
            own = sent.get("document", {}).get("handoff_id")
            found[own or f"import-{hashlib.sha256(line).hexdigest()[:40]}-1"] = sent
    return found


def anew(handoff_id: str, tenant: str) -> dict[str, Any]:
    """Return a sample document as another run would send it to the tenant, with its own id and its own trace."""
    sent = deepcopy(sample()[handoff_id])
    document, own = sent["document"], str(uuid.uuid4())
    for name in ("parent_handoff_id", "retry_of"):
        sent.pop(name, None)
    sent["trace_id"] = str(uuid.uuid4())
    if "handoff" in document:
        sent["handoff_id"] = own
        document["handoff"]["trace_id"] = sent["trace_id"]
    else:
        document |= {"handoff_id": own, "tenant_id": tenant}
    return sent


class Sender:
    """The agent's side of one tenant: the API with a key."""

    def __init__(self, address: str, tenant: str, key: str) -> None:
        self.tenant = tenant
        self.pages = f"{address}/t/{tenant}/"
        self.api = httpx.Client(
            base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=120, trust_env=False
        )

    def submit(self, handoff_id: str) -> dict[str, Any]:
        """Submit a document and return when the handoff is judged."""
        sent = self.api.post("/handoffs", json=anew(handoff_id, self.tenant), headers={"Prefer": "wait=20"})
        assert sent.status_code in (200, 422), sent.text
        return self.get(sent.json()["id"])

    def get(self, reference: str) -> dict[str, Any]:
        answer = self.api.get(f"/handoffs/{reference}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def last_event(self, reference: str) -> dict[str, Any]:
        return dict(self.api.get(f"/handoffs/{reference}/events").json()["items"][-1])

    def decide(self, reference: str, decision: str) -> None:
        """Decide a handoff by the API as another reviewer."""
        answer = self.api.post(f"/handoffs/{reference}/review", json={"decision": decision, "note": "By the API."})
        assert answer.status_code == 200, answer.text

    def find(self, **filters: str) -> dict[str, Any]:
        return dict(self.api.get("/handoffs", params=filters).json()["items"][0])

    def listen(self, reference: str) -> Callable[[], dict[str, Any]]:
        """Wait for the decision in a thread, and return a function that returns the decision."""
        heard: list[httpx.Response] = []

        def wait() -> None:
            heard.append(self.api.get(f"/handoffs/{reference}", headers={"Prefer": "wait=60"}))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()

        def hear() -> dict[str, Any]:
            thread.join(60)
            assert heard, "the sender still waits"
            return dict(heard[0].json())

        return hear

    def wait_state(self, reference: str, state: str, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while (now := self.get(reference)["state"]) != state:
            assert time.monotonic() < until, f"it is still {now}"
            time.sleep(0.02)

    def empty_queue(self) -> None:
        for one in self.api.get("/handoffs", params={"state": "held,rejected", "limit": "200"}).json()["items"]:
            self.api.post(f"/handoffs/{one['id']}/review", json={"decision": "decline"})


@dataclass(frozen=True, slots=True)
class Product:
    """A running product; `first_link` makes the first administrator, and `links` are unused invitations."""

    address: str
    first_link: str
    links: list[str]
    senders: dict[str, Sender]


def product_of(up: Up) -> Product:
    assert up.link
    code = f"slugs, password = {TENANTS!r}, {PASSWORD!r}{SEED}"
    seeded = run("manage", "shell", "-v0", "-c", code, folder=up.folder)
    assert seeded.returncode == 0, seeded.stderr
    made = json.loads(seeded.stdout)
    senders = {slug: Sender(up.address, slug, made["secrets"][slug]) for slug in TENANTS}
    return Product(up.address, up.link, [up.address + link for link in made["links"]], senders)
