"""Benchmark of lenient handoffs, while an LLM takes ten seconds and a hundred strict handoffs wait for it."""

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks import load, places, rig, servers
from benchmarks.load import Load, Outcome
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row
from benchmarks.servers import Server
from tests.messages_api.scripted import says
from tests.messages_api.server import MessagesServer, running

RATE = 50.0
CONNECTIONS = 16
STRICT = 100
MODEL_SECONDS = 10.0
# Shorter than a call of the LLM, so that all calls are in flight during the whole measurement.
LOADED_SECONDS = 8.0
PATIENCE_SECONDS = 60.0
P95_RATIO = 1.5
CALL_RATIO = 1.5
VALID = {"valid": True, "issues": []}


def semantic(options: Options) -> Iterator[Row]:
    if "postgresql" not in options.databases:
        return
    with running() as model, places.postgresql("semantic") as place:
        asking = {
            "ANTHROPIC_API_KEY": "benchmark",
            "ANTHROPIC_BASE_URL": model.url,
            "HANDOFFAUDIT_MODEL_CONCURRENCY": str(STRICT),
        }
        place.environment.update(asking)
        rig.migrate(place)
        key = rig.ask(place, "key")
        rig.ask(place, "lenient_but", handoff_type="research_result")
        with servers.product(place) as web, servers.judges(place, 1), _asker(place):
            _warm(model, web, key)
            idle = _lenient(web, key)
            took = _strict(model, web, key)
            most, loaded = next(took), _lenient(web, key)
            seconds = next(took)
    ratio = loaded.percentile(0.95) / idle.percentile(0.95)
    yield Row(
        what=f"POST to verdict of lenient handoffs, {RATE:g}/s, {STRICT} strict ones waiting for the model",
        figure=f"p95 {loaded.percentile(0.95):.1f} ms",
        floor=f"none waiting: p95 {idle.percentile(0.95):.1f} ms",
        ratio=f"{ratio:.2f}",
        goal=f"≤ {P95_RATIO}",
        met=ratio <= P95_RATIO,
    )
    yield Row(
        what=f"{STRICT} calls to a model that takes {MODEL_SECONDS:g} s, from one worker",
        figure=f"{most} in flight at a time, all verdicts after {seconds:.1f} s",
        floor=f"one call: {MODEL_SECONDS:g} s",
        ratio=f"{seconds / MODEL_SECONDS:.2f}",
        goal=f"{STRICT} in flight, ≤ {CALL_RATIO}",
        met=most == STRICT and seconds <= CALL_RATIO * MODEL_SECONDS,
    )


@contextmanager
def _asker(place: Place) -> Iterator[None]:
    command = ["-m", "celery", "--app", "handoffaudit.celery", "--quiet", "worker", "--pool", "threads"]
    command += ["--concurrency", str(STRICT), "--queues", "semantic", "--loglevel", "ERROR"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--hostname", "asker@localhost"]
    with servers.started([sys.executable, *command], place):
        yield


def _warm(model: MessagesServer, web: Server, key: str) -> None:
    """Send one handoff to the LLM and wait for the answer, so that the SDK is loaded before the measurement."""
    _post(web, key, [_document()])
    _wait_for(lambda: len(model.requests) >= 1 and not model.in_flight)
    model.reset()


def _lenient(web: Server, key: str) -> Outcome:
    headers = (("Authorization", f"Bearer {key}"), ("Prefer", "wait=10"))
    sent = Load(
        web.port, "/api/v1/handoffs", headers=headers, connections=CONNECTIONS, seconds=LOADED_SECONDS, rate=RATE
    )
    return load.send(sent).only(200)


def _strict(model: MessagesServer, web: Server, key: str) -> Iterator[float]:
    """Yield the largest number of calls in flight, then the seconds until the last call was answered."""
    model.respond = lambda _: says(VALID, delay=MODEL_SECONDS)
    began = time.monotonic()
    _post(web, key, [_document() for _ in range(STRICT)])
    _wait_for(lambda: model.in_flight >= STRICT or time.monotonic() - began > MODEL_SECONDS / 2)
    yield model.most_in_flight
    _wait_for(lambda: len(model.requests) >= STRICT and not model.in_flight)
    yield time.monotonic() - began


def _wait_for(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError("the model was not asked in time")
        time.sleep(0.02)


def _document() -> dict[str, object]:
    made = os.urandom(8).hex()
    return {
        "handoff_id": made,
        "tenant_id": "default",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "call_chain": ["planner", "researcher"],
        "handoff_type": "research_result",
        "data": {"summary": f"Supplier {made} delivers within a week."},
    }


def _post(web: Server, key: str, documents: list[dict[str, object]]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Host": "localhost"}
    connection.request("POST", "/api/v1/handoffs/batch", json.dumps(documents), headers)
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"the batch was answered {answer.status}: {answer.read(500)!r}")
    connection.close()
