"""Benchmark of `handoffaudit hook`, which delays an agent on every tool call."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from benchmarks.options import Options
from benchmarks.report import Row

GOAL = 0.15
SCRIPT = Path(sys.executable).with_name("handoffaudit")
EVENT = {
    "hook_event_name": "PostToolUse",
    "session_id": "session-17",
    "tool_input": {"prompt": "List the open invoices.", "subagent_type": "bookkeeper"},
    "tool_response": "Two are open: 2026-003 and 2026-007. " * 50,
}
ANSWER = json.dumps({"status": "PASSED", "blocked": False, "exit_code": 0, "reason": ""}).encode()


def hook(options: Options) -> Iterator[Row]:
    """Time the console script and Python alone in turn; the gate answers immediately."""
    with tempfile.TemporaryDirectory() as folder, _gate() as url:
        environment = {"HANDOFFAUDIT_URL": url, "HANDOFFAUDIT_KEY": "ha_benchmark", "HANDOFFAUDIT_HOOK_SPOOL": folder}
        for what, tool, more in (
            ("of another tool", "Bash", {}),
            ("of a delegation, asked and answered", "Agent", {}),
            ("of a delegation, the server away", "Agent", {"HANDOFFAUDIT_URL": "http://127.0.0.1:9"}),
        ):
            text = json.dumps(EVENT | {"tool_name": tool}).encode()
            took, bare = _turns(options.calls, [str(SCRIPT), "hook"], environment | more, text)
            yield Row(
                f"`handoffaudit hook`, an event {what}",
                f"{took:.3f} s",
                f"{bare:.3f} s (Python alone)",
                f"{took / bare:.1f}",
                f"≤ {GOAL:g} s",
                took <= GOAL,
            )


def _turns(calls: int, command: list[str], environment: dict[str, str], text: bytes) -> tuple[float, float]:
    ours, bare = [], []
    for _ in range(calls):
        bare.append(_seconds([sys.executable, "-c", "pass"], {}, b""))
        ours.append(_seconds(command, environment, text))
    return median(ours), median(bare)


def _seconds(command: list[str], environment: dict[str, str], text: bytes) -> float:
    began = time.monotonic()
    subprocess.run(command, input=text, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


class _Passing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _gate() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Passing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
