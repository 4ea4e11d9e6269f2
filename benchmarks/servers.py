"""The processes of a run, which the run starts and ends."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.places import ROOT, Place

# A full installation on two cores, and the embedded server with SQLite, as `handoffaudit up` starts it.
WEB_WORKERS, WEB_THREADS = 2, 8
EMBEDDED_WORKERS, EMBEDDED_THREADS = 1, 32
JUDGES, JUDGE_THREADS = 2, 2
READY_SECONDS = 60.0
STOP_SECONDS = 15.0
MOST_SAID = 3_000


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int


@contextmanager
def product(place: Place, *, workers: int = 0, threads: int = 0) -> Iterator[Server]:
    with _granian(place, "handoffaudit.wsgi:application", "/readyz", workers, threads) as server:
        yield server


@contextmanager
def floor(place: Place) -> Iterator[Server]:
    """Run the bare views, with the product's server and settings."""
    with _granian(place, "benchmarks.floor.wsgi:application", "/empty", 0, 0) as server:
        yield server


@contextmanager
def judges(place: Place, number: int = JUDGES) -> Iterator[None]:
    """Run Celery workers, as a full installation starts them."""
    command = [
        *(sys.executable, "-m", "celery", "--app", "handoffaudit.celery", "--quiet", "worker", "--pool", "threads"),
        *("--concurrency", str(JUDGE_THREADS), "--queues", "structural", "--loglevel", "ERROR"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
    with contextlib.ExitStack() as stack:
        for index in range(number):
            stack.enter_context(started([*command, "--hostname", f"bench{index}@localhost"], place))
        yield


@contextmanager
def up(place: Place) -> Iterator[Server]:
    """Run everything with `handoffaudit up`."""
    port = free_port()
    command = [sys.executable, "-m", "handoffaudit", "up", "--port", str(port), "--data", str(place.folder)]
    with started(command, place) as process:
        wait_until_ready(process, port, "/readyz")
        yield Server(port, process.pid)


@contextmanager
def _granian(place: Place, target: str, ready: str, workers: int, threads: int) -> Iterator[Server]:
    port = free_port()
    workers = workers or (WEB_WORKERS if place.on_postgresql else EMBEDDED_WORKERS)
    threads = threads or (WEB_THREADS if place.on_postgresql else EMBEDDED_THREADS)
    command = [
        *(sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port)),
        *("--workers", str(workers), "--blocking-threads", str(threads), "--http", "1", "--no-ws"),
        *("--log-level", "error", target),
    ]
    with started(command, place) as process:
        wait_until_ready(process, port, ready)
        yield Server(port, process.pid)


@contextmanager
def started(command: list[str], place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, env=place.environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        try:
            yield process
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read(MOST_SAID).decode(errors="replace"))
            raise
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", port: int, path: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with code {process.returncode}")
        if answers(port, path):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{process.args!r} was not ready in {READY_SECONDS:g} s")


def answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Host": "localhost"})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
