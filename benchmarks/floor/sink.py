"""Receiver of the telemetry of three libraries, without any work: `python -m benchmarks.floor.sink`.

The command prints its address. Each item has a mark such as `mark-000017`; `GET /marks` answers the number of different
marks since the last `DELETE /marks`.
"""

import gzip
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

MARK = re.compile(rb"mark-\d{6}")


class Sink(BaseHTTPRequestHandler):
    """Handler that accepts every request, and answers as the library expects."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    marks: ClassVar[set[bytes]] = set()

    def do_POST(self) -> None:
        body = self._read()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.marks.update(MARK.findall(body))
        number = body.count(b"\n") + 1 if self.path.endswith("/batch") else 0
        items = [{"status": 202, "id": "1", "handoff_id": "1", "state": "received"}] * number
        # Sentry and the collector of OpenTelemetry take an empty object as success.
        self._answer({"items": items} if number else {})

    def do_GET(self) -> None:
        self._answer(len(self.marks))

    def do_DELETE(self) -> None:
        self.marks.clear()
        self._answer({})

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, content: object) -> None:
        raw = json.dumps(content).encode()
        is_telemetry = self.path.endswith("/v1/traces")
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf" if is_telemetry else "application/json")
        self.send_header("Content-Length", str(0 if is_telemetry else len(raw)))
        self.end_headers()
        if not is_telemetry:
            self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
