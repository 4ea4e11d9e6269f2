"""The benchmarks by name; each benchmark takes the options of the run and yields rows of the table."""

from collections.abc import Callable, Iterator

from benchmarks import validation
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.suites import (
    browser,
    client,
    hook,
    ingest,
    judged,
    latency,
    logs,
    memory,
    otlp,
    pages,
    removal,
    semantic,
    start,
)

Suite = Callable[[Options], Iterator[Row]]

SUITES: dict[str, Suite] = {
    "ingest_single": ingest.single,
    "ingest_batch": ingest.batch,
    "otlp": otlp.otlp,
    "judged": judged.judged,
    "latency": latency.latency,
    "pages": pages.pages,
    "browser": browser.browser,
    "semantic": semantic.semantic,
    "start": start.start,
    "hook": hook.hook,
    "client": client.client,
    "memory": memory.memory,
    "logs": logs.logs,
    "removal": removal.removal,
    "validation": validation.validation,
}
