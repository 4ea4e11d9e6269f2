"""A small real gate on loopback, and the hook as an agent host calls it: in a process of its own."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.running.conftest import clean_environment, free_port

HOOK = [sys.executable, "-m", "handoffaudit", "hook"]
KEY = "ha_0123456789abcdef"
PASSED = {"status": "PASSED", "blocked": False, "exit_code": 0, "reason": ""}
BLOCKED = {"status": "FAILED", "blocked": True, "exit_code": 1, "reason": "The amounts are missing."}
NOT_APPLICABLE = {"status": "NOT_APPLICABLE", "blocked": False, "exit_code": 0, "reason": ""}
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "hooks"


@dataclass
class Request:
    path: str
    id: str
    authorization: str
    body: Any


@dataclass
class SmallGate:
    """A gate that answers a repeated id with its first answer, as the product does.

    `taken` holds each event once, in the order in which the gate took the events; `requests` holds all requests.
    The gate does not keep an answer whose status is not 200.
    """

    port: int = 0
    answer: Callable[[Request], tuple[int, dict[str, Any]]] = lambda _: (200, PASSED)
    seconds: float = 0.0
    requests: list[Request] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    # Setting the event ends the wait of `seconds`.
    goes_on: threading.Event = field(default_factory=threading.Event)
    _answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self, *answers: dict[str, Any], status: int = 200) -> None:
        """Give these answers in order, and repeat the last answer."""
        left = list(answers)
        self.answer = lambda _: (status, left.pop(0) if len(left) > 1 else left[0])

    def take(self, request: Request) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.requests.append(request)
            if request.id not in self._answers:
                status, said = self.answer(request)
                if status != 200:
                    return status, said
                self._answers[request.id] = (status, said)
                self.taken.append(request)
        # The gate answers only after it has taken the event.
        self.goes_on.wait(self.seconds)
        return self._answers[request.id]


def _handler(gate: SmallGate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(self.path, self.headers["Idempotency-Key"], self.headers["Authorization"], body)
            status, said = gate.take(request)
            sent = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Ignore the error: a hook that was killed does not wait for its answer."""


@contextmanager
def serving(gate: SmallGate) -> Iterator[SmallGate]:
    server = _Listening(("127.0.0.1", gate.port), _handler(gate))
    gate.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield gate
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def gate() -> Iterator[SmallGate]:
    with serving(SmallGate()) as started:
        yield started


@pytest.fixture
def closed_gate() -> SmallGate:
    """Return a gate that does not listen yet, on a free port."""
    return SmallGate(free_port())


@dataclass
class Hook:
    """The hook command in an environment of its own: a spool, a working folder, an address and a key."""

    folder: Path
    url: str
    key: str = KEY

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(
            HANDOFFAUDIT_URL=self.url, HANDOFFAUDIT_KEY=self.key, HANDOFFAUDIT_HOOK_SPOOL=str(self.folder / "spool")
        )

    def __call__(self, event: object, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the hook to its end; `start` starts Python anew."""
        text = event if isinstance(event, str) else json.dumps(event)
        return warm.run("hook", *options, text=text, cwd=self.folder, env=self.environment | more)

    def start(self, event: object, *options: str, **more: str) -> subprocess.Popen[str]:
        given = self.folder / f"event-{time.monotonic_ns()}"
        given.write_text(event if isinstance(event, str) else json.dumps(event))
        with given.open() as file:
            return subprocess.Popen(
                [*HOOK, *options],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.folder,
                env=self.environment | more,
            )

    def kept(self) -> list[dict[str, Any]]:
        """Return the events in the spool, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "spool").glob("*/*.json"))]

    def aside(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "spool").glob("*/aside/*.json"))]

    def rules(self, *rules: dict[str, Any]) -> str:
        path = self.folder / "rules.json"
        path.write_text(json.dumps({"rules": rules}))
        path.chmod(0o600)
        return str(path)


@pytest.fixture
def hook(gate: SmallGate, tmp_path: Path) -> Hook:
    return Hook(tmp_path, gate.url)


@pytest.fixture
def hook_without_server(closed_gate: SmallGate, tmp_path: Path) -> Hook:
    return Hook(tmp_path, closed_gate.url)


def event(name: str = "post-tool-use", **more: object) -> dict[str, Any]:
    """Return one of the documented example events."""
    return json.loads((EXAMPLES / f"{name}.json").read_text()) | more


def rule(name: str, command: str, severity: str = "error") -> dict[str, Any]:
    return {
        "rule_id": name,
        "rule_type": "test_pass",
        "rule_config": {"test_command": command},
        "severity": severity,
    }
