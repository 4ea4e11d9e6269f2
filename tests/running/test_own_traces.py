"""Tests that a web process and a worker send spans to a receiver, and that received telemetry makes no spans."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.running.conftest import clean_environment, prepared, wait_for

pytestmark = pytest.mark.nightly

# Requests through the application that is served, in a process of their own.
WEB = """
import httpx, sys, time
from handoffaudit.wsgi import application
from handoffaudit import observability
with httpx.Client(transport=httpx.WSGITransport(app=application), base_url="http://localhost") as client:
    for path in sys.argv[1:]:
        client.get(path, headers={"X-Request-ID": "mine", "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    client.post("/v1/traces", content=b"", headers={"Content-Type": "application/x-protobuf"})
observability._tracer.span_processor.force_flush()
"""
WORKER = ("-m", "celery", "--quiet", "--app", "handoffaudit", "worker", "--pool", "threads", "--concurrency", "1")


class Receiver(ThreadingHTTPServer):
    """An OTLP receiver that keeps the spans by the name of their service."""

    spans: dict[str, list[Span]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            (name,) = [one.value.string_value for one in resource.resource.attributes if one.key == "service.name"]
            for scope in resource.scope_spans:
                self.server.spans.setdefault(name, []).extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(("127.0.0.1", 0), _Handler) as server:
        server.spans = {}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def environment(tmp_path: Path, receiver: Receiver) -> dict[str, str]:
    named = {"HANDOFFAUDIT_DATA": str(prepared(tmp_path / "data")), "DJANGO_SETTINGS_MODULE": "handoffaudit.settings"}
    # A worker sends each span soon.
    return clean_environment(**named, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_BSP_SCHEDULE_DELAY="200")


def attributes(span: Span) -> dict[str, object]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_requests_arrive_and_telemetry_makes_no_span(environment: dict[str, str], receiver: Receiver) -> None:
    subprocess.run([sys.executable, "-c", WEB, "/help/problems/?q=secret", "/healthz"], env=environment, check=True)
    spans = receiver.spans["handoffaudit-web"]
    (request,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert request.trace_id.hex() == "ab" * 16
    found = attributes(request)
    assert found["url.path"] == "/help/problems/"
    assert found["http.response.status_code"] == 200
    assert found["handoffaudit.request_id"] == "mine"
    assert "secret" not in str(spans)
    # The request with telemetry and the health check have no span, and queries outside of requests neither.
    assert {span.trace_id for span in spans} == {request.trace_id}


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, *WORKER, "--queues", "structural", "--without-gossip", "--without-mingle"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


def test_tasks_and_their_queries_arrive_and_polling_makes_no_span(
    environment: dict[str, str], receiver: Receiver
) -> None:
    send = "from handoffaudit.handoffs import notify; assert notify.send()"
    with worker(environment):
        subprocess.run([sys.executable, "-c", send], env=environment, check=True)
        wait_for(lambda: "handoffaudit-worker" in receiver.spans, 60)
        # The worker looks at the database about once a second.
        time.sleep(3)
    spans = receiver.spans["handoffaudit-worker"]
    (task,) = [span for span in spans if span.kind == Span.SPAN_KIND_CONSUMER]
    assert task.name == "judge_waiting"
    queries = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert queries
    assert {span.trace_id for span in queries} == {task.trace_id}


def test_without_an_endpoint_nothing_is_loaded(tmp_path: Path) -> None:
    env = clean_environment(HANDOFFAUDIT_DATA=str(tmp_path), DJANGO_SETTINGS_MODULE="handoffaudit.settings")
    code = (
        "import sys, handoffaudit.wsgi; print(any(name.startswith('opentelemetry.exporter') for name in sys.modules))"
    )
    env = {name: value for name, value in env.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | {"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
