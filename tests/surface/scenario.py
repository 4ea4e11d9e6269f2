"""A tenant that lives through what the product stores, sends and logs, by its API and its pages."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from django.apps import apps
from django.conf import settings
from django.test import Client, TestCase, override_settings
from structlog.contextvars import clear_contextvars

from handoffaudit.accounts.models import Person, Role, Tenant
from handoffaudit.celery import app as celery
from tests.conftest import PASSWORD, member
from tests.handoffs.webhooks.receiver import Receiver
from tests.handoffs.webhooks.receiver import running as receiving
from tests.messages_api.server import running as answering
from tests.pages import text_of
from tests.surface.doors import create_tenant, deliver_waiting, gather_events, raise_alert

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "examples"
OPENAPI = DOCS / "openapi.json"
NEW_PASSWORD = "a long pass phrase 42"
LOG = b"""[2026-02-15T00:15:00Z] [INFO] [gate] agent started
agent=planner phase=plan source=text_fallback reason=file_missing timestamp=2026-02-15T00:15:00Z run=r1
{"event_type": "AGENT_START", "trace_id": "t-1", "timestamp": "2026-02-15T00:15:00Z", "details": {"agent": "planner"}}
not a line of any form
"""


@dataclass
class Scenario:
    """What the scenario left behind outside the database."""

    tenant: Tenant
    admin: Client
    receiver: Receiver
    api_key: str = ""
    logged: list[dict[str, Any]] = field(default_factory=list)
    events_file: list[str] = field(default_factory=list)

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request to the API with a key that may do everything, and return its JSON answer."""
        sent = body if isinstance(body, bytes) else orjson.dumps(body)
        answer = Client().generic(
            method,
            f"/api/v1{path}",
            sent,
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.api_key}", **headers},
        )
        assert answer.status_code < 400, (path, answer.content)
        return json.loads(answer.content) if answer.content else None

    def post(self, path: str, **data: Any) -> Any:
        """Post a form of a page of the tenant as its administrator."""
        answer = self.admin.post(f"/t/acme/{path}", data)
        assert answer.status_code in (200, 204, 302), (path, answer.status_code, answer.content)
        return answer

    def work(self) -> None:
        """Run what workers run."""
        for name in ("judge_waiting", "check_waiting", "try_drafts", "try_prompts"):
            celery.tasks[f"handoffaudit.handoffs.tasks.{name}"].run()
        for name in ("attribute_judged", "read_logs"):
            celery.tasks[f"handoffaudit.diagnostics.tasks.{name}"].run()
        gather_events()
        deliver_waiting()


class _Listening(logging.Handler):
    def __init__(self, into: list[dict[str, Any]]) -> None:
        super().__init__(logging.DEBUG)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, dict):
            self._into.append(dict(record.msg))


@contextmanager
def played(folder: Path) -> Iterator[Scenario]:
    """Play the scenario in the transaction of the caller."""
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    everything = type(settings.WEBHOOK_PRIVATE)(everything=True)
    events = folder / "events.log"
    ours = logging.getLogger("handoffaudit")
    celery.loader.import_default_modules()
    with answering() as model, receiving() as receiver:
        changed = override_settings(
            ANTHROPIC_API_KEY="sk-of-the-tests",
            MODEL_BASE_URL=model.url,
            EMAIL_SET_UP=True,
            MODEL_TRIES=1,
            MAX_HOOK_SECONDS=0,
            WEBHOOK_PRIVATE=everything,
            EVENTS_FILE=events,
        )
        with changed:
            tenant = create_tenant(slug="acme", name="Acme", actor="tests")
            admin = Client()
            admin.force_login(member(tenant, "admin", Role.ADMIN))
            scenario = Scenario(tenant, admin, receiver)
            listening = _Listening(scenario.logged)
            # An earlier test may have left the id of its request.
            clear_contextvars()
            level = ours.level
            ours.addHandler(listening)
            ours.setLevel(logging.DEBUG)
            try:
                with TestCase.captureOnCommitCallbacks(execute=True):
                    _play(scenario)
            finally:
                ours.removeHandler(listening)
                ours.setLevel(level)
            scenario.events_file = events.read_text().splitlines()
            yield scenario


def _play(scenario: Scenario) -> None:
    _prepare(scenario)
    _set_policies(scenario)
    _submit(scenario)
    _send_reports_and_logs(scenario)
    _decide(scenario)
    _keep_views(scenario)
    _change_webhooks(scenario)
    _change_people(scenario)


def _prepare(scenario: Scenario) -> None:
    scopes = ["ingest", "read", "review", "admin"]
    page = scenario.admin.post(
        "/t/acme/settings/keys/create/", {"name": "ci", "scopes": scopes, "expires": ""}, follow=True
    )
    scenario.api_key = text_of(page, "#secret")
    for kind, address, events in (
        ("webhook", scenario.receiver.url, ["verdict", "decision", "alert", "group"]),
        ("email", "team@example.com", ["alert", "decision"]),
    ):
        scenario.post("settings/webhooks/create/", kind=kind, name=kind, address=address, events=events)


def _set_policies(scenario: Scenario) -> None:
    """Save each kind of policy as the API's documentation shows it."""
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        if "put" in methods:
            body = methods["put"]["requestBody"]["content"]["application/json"]
            example = body.get("example") or next(iter(body["examples"].values()))["value"]
            scenario.api("PUT", path.removeprefix("/api/v1"), example | {"base_version": 0})
    scenario.post("settings/alerts/save/", row="queue_age", base_version="0")
    # The example has shadow mode, where nothing is held.
    scenario.post("strictness/revert/", to_version="0", base_version="1")


def _submit(scenario: Scenario) -> None:
    from tests.handoffs.support import circular, held, payload, to_itself

    evidence = [{"id": "offer", "content": "Three suppliers deliver within a week."}]
    strict = {"trace_id": "their-trace", "evidence": evidence, "agent": "researcher"}
    for number, document in enumerate((payload(), circular(), held(), held(), to_itself(), payload(data={}))):
        envelope = strict if number % 2 else {}
        scenario.api("POST", "/handoffs", {"document": document | {"handoff_id": f"h-{number}"}, **envelope})
    for path in sorted(EXAMPLES.glob("*.json")):
        text = path.read_text().replace('"tenant_id": "default"', '"tenant_id": "acme"')
        scenario.api("POST", "/handoffs", {"document": json.loads(text), "adapt": True})
    scenario.api("POST", "/handoffs/batch", [payload(data={"summary": "More."})])
    for path in sorted((EXAMPLES / "hooks").glob("p*.json")):
        scenario.api("POST", "/hooks/post-tool-use", path.read_bytes(), **{"Idempotency-Key": path.stem})
    scenario.work()
    for path in sorted((EXAMPLES / "hooks").glob("p*.json")):
        scenario.api("POST", "/hooks/post-tool-use", path.read_bytes(), **{"Idempotency-Key": f"again {path.stem}"})
    scenario.work()


def _send_reports_and_logs(scenario: Scenario) -> None:
    from tests.diagnostics.files.support import BLOCK, GOOD, report

    for number, sent in enumerate((report({}), report(GOOD), report(), report(response_text=BLOCK))):
        scenario.api("POST", "/handoff-files", sent | {"run_id": f"r{number}"})
    scenario.api("POST", "/logs?source=app.log", LOG)
    raise_alert(scenario.tenant.pk, "would_have_rejected", 1)
    scenario.work()


def _pks(model: str, **wanted: Any) -> list[Any]:
    found = apps.get_model(model).objects.filter(**wanted).order_by("pk")
    return list(found.values_list("pk", flat=True))


def _decide(scenario: Scenario) -> None:
    first, second = _pks("handoffs.Handoff", state="held")[:2]
    scenario.api("POST", f"/handoffs/{first}/review", {"decision": "approve", "note": "Seen."})
    scenario.api("POST", f"/handoffs/{second}/review", {"decision": "decline", "note": "No."})
    (alert,) = _pks("handoffs.Alert")
    scenario.post(f"diagnostics/alerts/{alert}/acknowledge/")
    group = _pks("diagnostics.FindingGroup")[0]
    scenario.post(f"groups/{group}/mute/", until="10", note="Known.")
    scenario.post(f"groups/{group}/unmute/")
    draft = {
        "row": "research_result",
        "handoff_type": "research_result",
        "claim_fields": "summary",
        "base_version": "1",
    }
    scenario.post("schemas/try/", **draft)
    scenario.work()


def _keep_views(scenario: Scenario) -> None:
    scenario.post("views/make/", page="handoffs", name="Held", query="state=held&source=planner", shared="on")
    (view,) = _pks("accounts.SavedView")
    scenario.post(f"views/{view}/", action="rename", name="Theirs")
    scenario.post(f"views/{view}/", action="update", query="state=held")
    scenario.post("views/opening/", page="handoffs", view=str(view), everybody="on")
    scenario.post(f"views/{view}/", action="delete")
    scenario.post("views/make/", page="handoffs", name="Mine", query="state=rejected&type=message")


def _change_webhooks(scenario: Scenario) -> None:
    hook = _pks("handoffs.Subscriber", kind="webhook")[0]
    address = f"settings/webhooks/{hook}"
    scenario.post(f"{address}/test/")
    scenario.post(f"{address}/change/", name="CI", address=scenario.receiver.url, events=["verdict"], states=["held"])
    scenario.post(f"{address}/switch/", on="0")
    scenario.post(f"{address}/switch/", on="1")
    scenario.post(f"{address}/rotate/")
    delivery = _pks("handoffs.Delivery", subscriber=hook)[0]
    scenario.post(f"{address}/deliveries/{delivery}/again/")
    scenario.work()
    scenario.post(f"settings/webhooks/{_pks('handoffs.Subscriber', kind='email')[0]}/delete/")


def _change_people(scenario: Scenario) -> None:
    page = scenario.admin.post("/t/acme/settings/people/invite/", {"name": "mira", "role": "reviewer"}, follow=True)
    link = text_of(page, "#link").removeprefix("http://testserver")
    Client().post(link, {"name": "mira", "password": NEW_PASSWORD, "again": NEW_PASSWORD})
    mira = Person.objects.get(username="mira").pk
    scenario.post(f"settings/people/{mira}/link/")
    scenario.post(f"settings/people/{mira}/role/", role="viewer")
    scenario.post(f"settings/people/{mira}/remove/")
    person = Client()
    person.force_login(Person.objects.get(username="admin"))
    person.post("/password/", {"old": PASSWORD, "password": NEW_PASSWORD, "again": NEW_PASSWORD})
    (key,) = _pks("accounts.Key")
    made = scenario.post("settings/keys/create/", name="second", scopes=["read"], expires="")
    assert made.status_code == 302
    scenario.post(f"settings/keys/{_pks('accounts.Key')[-1]}/revoke/")
    assert key
