"""Senders that submit handoffs to a running installation until they are stopped, and count every answer."""

import threading
import time
import uuid
from collections import Counter
from types import TracebackType

import httpx

from tests.resilience.processes import Installation, eventually
from tests.resilience.state import assert_all_are_judged_once

BACKLOG_SECONDS = 900


class Load:
    """`senders` threads, each submitting one handoff after another. Use as a context manager.

    `acknowledged` holds the ids that were answered 2xx; `answers` counts answers by status (and refused connections as
    "none"); `unexplained` holds refusals without `Retry-After`, and answers of 500.
    """

    def __init__(self, installation: Installation, senders: int = 4, pause: float = 0.0) -> None:
        self._installation = installation
        self._pause = pause
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(senders)]
        self.acknowledged: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.unexplained: list[str] = []
        self.slowest = 0.0

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self) -> None:
        while not self._stopped.is_set():
            with self._installation.client() as client:
                while not self._stopped.is_set():
                    try:
                        self._submit(client)
                    except httpx.TransportError:
                        with self._lock:
                            self.answers["none"] += 1
                        time.sleep(0.2)
                        break
                    time.sleep(self._pause)

    def _submit(self, client: httpx.Client) -> None:
        handoff_id = str(uuid.uuid4())
        began = time.monotonic()
        answer = client.post("/handoffs", json=submission(handoff_id))
        took = time.monotonic() - began
        with self._lock:
            self.slowest = max(self.slowest, took)
            self.answers[str(answer.status_code)] += 1
            if answer.is_success:
                self.acknowledged.add(handoff_id)
            elif answer.status_code == 500 or "retry-after" not in answer.headers:
                self.unexplained.append(f"{answer.status_code} {answer.text[:300]}")
        if not answer.is_success:
            time.sleep(0.2)


def submission(handoff_id: str) -> dict[str, object]:
    return {
        "document": {
            "handoff_id": handoff_id,
            "tenant_id": "acme",
            "source_agent_id": "researcher",
            "target_agent_id": "writer",
            "call_chain": ["planner", "researcher"],
            "handoff_type": "status_update",
            "data": {"text": "Three of five suppliers answered.", "note": "x" * 1500},
        }
    }


def assert_nothing_is_lost(installation: Installation, load: Load) -> None:
    """Every acknowledged handoff is stored and judged once; others may be stored whose answer did not arrive."""
    assert load.unexplained == []
    stored = {str(row[0]) for row in installation.query("SELECT handoff_id FROM handoffs_handoff")}
    assert load.acknowledged - stored == set()
    # One worker needs minutes for what eight senders left in its queue.
    eventually(lambda: installation.waiting() == 0, seconds=BACKLOG_SECONDS, what=installation.log())
    assert_all_are_judged_once(installation, len(stored))
