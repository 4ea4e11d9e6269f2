"""Program that sends items with one library: `python library.py LIBRARY URL FOLDER NUMBER PACE`.

It runs in an environment that has the library and nothing of the product. LIBRARY is `handoffaudit_client`,
`sentry_sdk` or `opentelemetry`; PACE is the pause between two items in seconds. It sends the items, prints a line,
waits for a line, and flushes. Then it prints its figures as JSON: the seconds of each call, of all calls and of the
flush, and the memory in KiB.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 200
SUMMARY = "Three suppliers deliver within a week. " * 20


def make_item(number: int) -> dict[str, Any]:
    """Return an item of about 2 KB, with a mark of its own."""
    offers = [{"name": f"item {one}", "price": one * 1.5, "note": "in stock"} for one in range(20)]
    return {"mark": f"mark-{number:06d}", "summary": SUMMARY, "items": offers, "key": "a value"}


def of_client(url: str, folder: str) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object]]:
    from handoffaudit_client import Client

    client = Client(url, "ha_benchmark", spool=folder)
    return lambda item: client.send("researcher", "writer", item, trace="t"), lambda: client.flush(120)


def of_sentry(url: str, _: str) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object]]:
    import sentry_sdk

    sentry_sdk.init(dsn=url.replace("http://", "http://public@") + "/1")
    return lambda item: sentry_sdk.capture_event({"message": "handoff", "extra": item}), lambda: sentry_sdk.flush(120)


def of_telemetry(url: str, _: str) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object]]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
    tracer = provider.get_tracer("benchmark")

    def send(item: dict[str, Any]) -> None:
        with tracer.start_as_current_span("handoff") as span:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(item))

    return send, lambda: provider.force_flush(120_000)


def memory_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    library, url, folder, number, pace = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
    of_library = {"handoffaudit_client": of_client, "sentry_sdk": of_sentry, "opentelemetry": of_telemetry}[library]
    send, flush = of_library(url, folder)
    for _ in range(WARM_UP if pace else 0):
        send(make_item(0))
    items = [make_item(one) for one in range(number)]
    gc.collect()
    before = memory_kib()
    took = []
    began = time.perf_counter()
    for item in items:
        start = time.perf_counter()
        send(item)
        took.append(time.perf_counter() - start)
        if pace:
            time.sleep(pace)
    calls = time.perf_counter() - began
    print("sent", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    flush()
    print(json.dumps([took, calls, time.perf_counter() - began, memory_kib() - before]), flush=True)


if __name__ == "__main__":
    main()
