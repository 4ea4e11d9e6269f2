"""Tests of the metrics: who may read them, what they count, and the dashboard and alert rules that use them."""

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml
from django.db import DatabaseError, connections
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from handoffaudit.accounts.models import Tenant
from handoffaudit.api import health
from handoffaudit.diagnostics import status
from handoffaudit.diagnostics.models import RetentionRun, Watermark
from handoffaudit.diagnostics.retention_run import MARK
from handoffaudit.handoffs import counts, judge, judge_leases, stats
from handoffaudit.handoffs.counts import Total
from handoffaudit.handoffs.models import Delivery, Handoff, MetricTotal
from tests.api.support import client
from tests.handoffs.support import held, let_leases_expire, payload, submit
from tests.running.conftest import prepared, run

pytestmark = pytest.mark.django_db

DEPLOY = Path(__file__).parents[2] / "deploy"
TOKEN = "a-token-of-the-tests-0123456789"
Samples = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(health, "CACHED_SECONDS", 0.0)
    monkeypatch.setattr("handoffaudit.api.health._COLLECTOR._kept_until", 0.0)


def get(token: str | None = TOKEN, **headers: str) -> httpx.Response:
    with client(None) as opened:
        return opened.get(
            "http://testserver/metrics", headers=({"Authorization": f"Bearer {token}"} if token else {}) | headers
        )


def read() -> Samples:
    """Return each sample by its name and the values of its labels."""
    counts.flush_totals()
    answer = get()
    assert answer.status_code == 200
    return {
        (sample.name.removeprefix("handoffaudit_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.mark.parametrize("given", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x"])
def test_only_the_token_opens_the_metrics(given: str | None) -> None:
    headers = {} if given is None else {"Authorization": f"Bearer {given}"}
    with client(None) as opened:
        answer = opened.get("http://testserver/metrics", headers=headers)
    assert answer.status_code == 401
    assert "handoffaudit_" not in answer.text
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_key_of_the_api_does_not_open_the_metrics(key: str) -> None:
    assert get(key).status_code == 401


@pytest.mark.parametrize("token", [TOKEN, "", None])
def test_without_a_token_in_the_settings_there_are_no_metrics(settings, token: str | None) -> None:
    settings.METRICS_TOKEN = ""
    assert get(token).status_code == 404


def test_the_format_is_the_one_that_prometheus_asks_for() -> None:
    assert get().headers["Content-Type"].startswith("text/plain; version=")
    open_metrics = get(Accept="application/openmetrics-text; version=1.0.0")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


def test_submissions_and_refusals_are_counted(api: httpx.Client, tenant: Tenant) -> None:
    document = payload(handoff_id="a")
    assert api.post("/handoffs", json={"document": document}).status_code == 202
    assert api.post("/handoffs", json={"document": document}).status_code == 200
    assert api.post("/handoffs", json={"document": payload(handoff_id="a", payload={"x": 1})}).status_code == 409
    assert api.post("/handoffs", content=b"{").status_code == 422
    wrong = {"document": payload(handoff_id="c"), "tool_results": ["a text"]}
    assert api.post("/handoffs", json=wrong).status_code == 422
    batch = [payload(handoff_id="b"), payload(handoff_id="a", payload={"x": 2}), wrong]
    assert api.post("/handoffs/batch", json=batch).status_code == 200
    with client("ha_wrong") as stranger:
        assert stranger.post("/handoffs", json={"document": document}).status_code == 401
        assert stranger.get("/handoffs").status_code == 401
    found = read()
    assert found["submissions_total", "new"] == 2
    assert found["submissions_total", "known"] == 1
    assert found["submissions_total", "unreadable"] == 1
    assert found["refusals_total", "the-id-is-taken"] == 2
    assert found["refusals_total", "tool-results"] == 2
    assert found["refusals_total", "key-needed"] == 1
    assert sum(key[0] == "refusals_total" for key in found) == 3


def test_refusals_have_no_label_that_a_sender_chooses(api: httpx.Client) -> None:
    for at in range(20):
        api.post("/handoffs", content=b"x", headers={"Content-Type": f"text/x{at}", "Content-Encoding": f"z{at}"})
        api.post(f"/handoffs/{at}", content=b"x")
    assert len([key for key in read() if key[0] == "refusals_total"]) == 1


def test_verdicts_are_counted_with_their_times(tenant: Tenant) -> None:
    submit(tenant, payload())
    submit(tenant, held())
    Handoff.objects.update(received_at=timezone.now() - timedelta(seconds=12))
    judge.drain()
    found = read()
    assert found["verdicts_total", "accepted"] == 1
    assert found["verdicts_total", "held"] == 1
    assert found["verdict_seconds_count",] == 2
    assert found["verdict_seconds_bucket", "10.0"] == 0
    assert found["verdict_seconds_bucket", "30.0"] == 2
    assert found["verdict_seconds_bucket", "+Inf"] == 2
    assert 24 <= found["verdict_seconds_sum",] < 60
    assert found["held_handoffs",] == 1


def test_a_verdict_before_its_receipt_counts_as_immediate() -> None:
    counts.add_verdict_totals([("accepted", timedelta(seconds=-3)), ("accepted", timedelta(days=9))])
    found = read()
    assert found["verdict_seconds_bucket", "0.01"] == 1
    assert found["verdict_seconds_bucket", "3600.0"] == 1
    assert found["verdict_seconds_count",] == 2


def test_the_queue_its_age_and_its_leases_are_measured(tenant: Tenant) -> None:
    assert read()["queue_oldest_seconds",] == 0
    for _ in range(4):
        submit(tenant, payload())
    Handoff.objects.update(received_at=timezone.now() - timedelta(seconds=90))
    assert judge_leases.take_fresh(2)
    found = read()
    assert found["queue_handoffs",] == 2
    assert (found["leases", "held"], found["leases", "expired"]) == (2, 0)
    assert 90 <= found["queue_oldest_seconds",] < 120
    let_leases_expire()
    found = read()
    assert found["queue_handoffs",] == 4
    assert (found["leases", "held"], found["leases", "expired"]) == (0, 2)
    Handoff.objects.update(parked=True)
    assert read()["queue_handoffs",] == 0


def test_a_handoff_that_waits_for_the_llm_is_not_in_the_queue_of_the_workers(tenant: Tenant, model: object) -> None:
    submit(tenant, payload(handoff_type="deliverable"))
    judge.drain()
    found = read()
    assert found["queue_handoffs",] == 0
    assert found["llm_checks_waiting", "first"] == Handoff.objects.filter(state="validating").count()


def test_handoffs_that_wait_for_the_llm_do_not_hide_new_handoffs(
    tenant: Tenant, model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "COUNTED_LIVE", 2)
    for _ in range(2):
        submit(tenant, payload(handoff_type="deliverable"))
    judge.drain()
    submit(tenant, payload())
    assert stats.measure_worker_queue().waiting == 1


def test_numbers_of_a_queue_stop_at_the_limit(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "COUNTED_LIVE", 3)
    for _ in range(5):
        submit(tenant, payload())
    assert stats.measure_worker_queue().waiting == 3
    pks = Handoff.objects.values_list("pk", flat=True)[:2]
    Handoff.objects.filter(pk__in=list(pks)).update(claim_expires_at=timezone.now() - timedelta(minutes=1), tries=1)
    assert stats.measure_worker_queue().waiting == 3


def test_retention_workers_and_deliveries_are_measured(tenant: Tenant) -> None:
    now = timezone.now()
    Watermark.objects.create(name=MARK, at=now)
    Watermark.objects.create(name=status.WORKER, at=now - timedelta(seconds=33))
    for one, removed in ((tenant, 5), (Tenant.objects.create(slug="two", name="Two"), 7)):
        RetentionRun.objects.create(
            tenant=one, kind="documents", days=30, before=now, started_at=now, finished_at=now, removed=removed
        )
    counts.add_total(Total.DELIVERIES, "delivered", 3)
    counts.add_total(Total.LLM_CALLS, "ok", 2)
    counts.add_total(Total.LLM_MICRODOLLARS, number=1_500_000)
    found = read()
    assert found["retention_removed_total", "documents"] == 12
    assert found["retention_last_run_timestamp_seconds",] == pytest.approx(now.timestamp(), abs=0.01)
    assert 33 <= found["worker_silent_seconds", "worker"] < 60
    assert found["webhook_tries_total", "delivered"] == 3
    assert found["webhook_tries_total", "given_up"] == 0
    assert found["llm_calls_total", "ok"] == 2
    assert found["llm_cost_usd_total",] == 1.5


def test_deliveries_that_wait_are_counted(tenant: Tenant) -> None:
    from handoffaudit.handoffs.models import Subscriber

    one = Subscriber.objects.create(tenant=tenant, kind="webhook", name="x", address="https://example.com")
    for at, (due, tries) in enumerate([(True, 0), (True, 2), (False, 1)]):
        Delivery.objects.create(
            tenant=tenant,
            subscriber=one,
            event="verdict",
            about=str(at),
            payload="{}",
            created_at=timezone.now(),
            due_at=timezone.now() if due else None,
            tries=tries,
        )
    found = read()
    assert found["webhook_deliveries_waiting", "new"] == 1
    assert found["webhook_deliveries_waiting", "failed"] == 1


def test_no_tenant_is_named(api: httpx.Client, tenant: Tenant) -> None:
    api.post("/handoffs", json={"document": payload()})
    judge.drain()
    counts.flush_totals()
    text = get().text
    assert tenant.slug not in text
    assert "researcher" not in text


def test_without_the_database_the_metrics_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[Total, dict[str, int]]:
        raise DatabaseError("gone")

    monkeypatch.setattr(counts, "read_totals", fail)
    answer = get()
    assert answer.status_code == 200
    assert "handoffaudit_database_up 0.0" in answer.text
    assert "handoffaudit_build_info" in answer.text
    assert "queue" not in answer.text


def test_scrapes_share_the_queries(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Callable[..., object]
) -> None:
    monkeypatch.setattr(health, "CACHED_SECONDS", 60.0)
    get()
    with django_assert_num_queries(0):
        assert "handoffaudit_database_up 1.0" in get().text
    monkeypatch.setattr("handoffaudit.api.health._COLLECTOR._kept_until", 0.0)
    with django_assert_num_queries(10):
        get()


def test_a_failed_flush_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counts.add_total(Total.SUBMISSIONS, "new", 3)

    def fail(_: object) -> None:
        raise DatabaseError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(counts._AGGREGATE), "add", lambda *_: fail(_))
        with pytest.raises(DatabaseError):
            counts.flush_totals()
    counts.add_total(Total.SUBMISSIONS, "new")
    assert read()["submissions_total", "new"] == 4


def test_labels_are_limited() -> None:
    for at in range(counts.MOST_LABELS + 100):
        counts.add_total(Total.REFUSALS, f"reason-{at}")
    counts.flush_totals()
    assert MetricTotal.objects.count() == counts.MOST_LABELS


@pytest.mark.django_db(transaction=True)
def test_several_processes_add_to_the_same_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush from threads at once, each with a connection of its own, as processes do."""

    def add() -> None:
        for _ in range(5):
            counts._AGGREGATE.add({("submissions", "new"): [1], ("submissions", "known"): [2]})
        connections.close_all()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = counts.read_totals()[Total.SUBMISSIONS]
    assert found == {"new": 20, "known": 40}


NAME = re.compile(r"\bhandoffaudit_[a-z_]+")


@pytest.fixture
def known(tenant: Tenant) -> set[str]:
    """Return the names of all metrics as a scrape shows them."""
    Watermark.objects.create(name=MARK, at=timezone.now())
    return {line.split("{")[0].split(" ")[0] for line in get().text.splitlines() if not line.startswith("#")} | {
        # These have no sample before the first event.
        f"handoffaudit_{name}_total"
        for name in ("refusals", "verdicts", "llm_calls", "retention_removed")
    }


def expressions() -> Iterator[tuple[str, str]]:
    for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])


def test_the_dashboard_and_the_alert_rules_use_metrics_that_exist(known: set[str]) -> None:
    used = {name for _, expression in expressions() for name in NAME.findall(expression)}
    assert len(used) > 10
    assert used <= known
    # The dashboard or a rule uses every metric, apart from the parts of the histogram.
    assert {name for name in known - used if not name.endswith(("_sum", "_count", "_created"))} == set()


def test_every_rule_is_documented_with_every_metric(known: set[str]) -> None:
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert f"`{rule['alert']}`" in page
            assert {"summary", "action"} <= set(rule["annotations"])
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    assert {name for name in families if f"`{name}`" not in page} == set()


def test_an_imported_handoff_is_counted_though_the_command_ends_at_once(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "data")
    assert run("import", "-", folder=folder, text='{"a": 1}').returncode == 0
    with closing(sqlite3.connect(folder / "handoffaudit.sqlite3")) as database:
        found = database.execute("SELECT name, label, number FROM handoffs_metrictotal").fetchall()
    assert [row for row in found if row[0] == "submissions"] == [("submissions", "unreadable", 1)]
