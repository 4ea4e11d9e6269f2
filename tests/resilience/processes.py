"""The product as real processes: granian, Celery workers, and a Redis server of their own."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg

from handoffaudit.handoffs import notify
from tests import warm
from tests.resilience import serve
from tests.running.conftest import free_port

WORKER = (
    *("celery", "-A", "handoffaudit.celery", "worker", "-P", "threads"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"),
)
ASKERS = 8

# Tests must not use a person's settings and key.
NOT_FOR_TESTS = ("HANDOFFAUDIT_", "ANTHROPIC_")

CLEAR = """
from django.db import connection
from handoffaudit.celery import app
from handoffaudit.diagnostics.models import RetentionRun, Watermark
from handoffaudit.handoffs.models import Alert, ModelAnswer, ModelBreaker, ModelCall, ModelCheck, ModelSpend
from handoffaudit.handoffs.models import Event, Finding, Handoff, HandoffBody, JudgeLease, Verdict
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyCount, HourlySource, HourlyTotal
from handoffaudit.handoffs.models import TelemetrySpan, TelemetryTrace
asked = (Alert, ModelAnswer, ModelBreaker, ModelCall, ModelCheck, ModelSpend)
# A worker that was killed may have held a lease, which lasts two minutes.
leases = (JudgeLease, Watermark, RetentionRun)
telemetry = (TelemetrySpan, TelemetryTrace)
with connection.cursor() as cursor:
    counted = (DailyCount, DailyPair, HourlyCount, HourlySource, HourlyTotal)
    for model in (*asked, *leases, *counted, *telemetry, Event, Finding, HandoffBody, Verdict, Handoff):
        cursor.execute(f"DELETE FROM {model._meta.db_table}")
app.control.purge()
"""


def eventually(condition: Callable[[], Any], seconds: float = 120, what: str = "") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what or f"not so within {seconds} s"
        time.sleep(0.05)


class Installation:
    """A database, a broker and processes, which end together."""

    def __init__(self, folder: Path, environment: dict[str, str], code: Path | None = None) -> None:
        self.folder = folder
        # The checkout whose code the processes run; None: this one.
        self.code: Path | None = code
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_TESTS)},
            "DJANGO_SETTINGS_MODULE": "handoffaudit.settings",
            "HANDOFFAUDIT_DATA": str(folder),
            "HANDOFFAUDIT_SECRET_KEY": "a key of the tests that protects nothing at all, and is long",
            "HANDOFFAUDIT_SWEEP_SECONDS": "1",
            "HANDOFFAUDIT_CLAIM_SECONDS": "2",
            "HANDOFFAUDIT_CLAIM_SIZE": "20",
            "DATABASE_URL": "",
            "REDIS_URL": "",
            **environment,
        }
        self.processes: list[warm.AnyProcess] = []
        self.url = ""
        (folder / "static").mkdir(parents=True)
        # An older checkout lacks the second way, which makes an SQLite database in a moment.
        migrate = "django.core.management import call_command; call_command('migrate', verbosity=0)"
        if code is None:
            migrate = "handoffaudit.cli import database; database.migrate()"
        self.key = self.run(
            f"from {migrate}\n"
            "from handoffaudit.accounts import keys, tenants\n"
            "tenant = tenants.create(slug='acme', name='Acme', actor='tests')\n"
            "scopes = ['ingest', 'read', 'review']\n"
            "print(keys.create(tenant=tenant, name='sender', scopes=scopes, expires_at=None, actor='tests')[1])"
        )

    def run(self, code: str) -> str:
        """Run code inside the installation in a process of its own, and return what the code printed."""
        if self.code is None:
            done = warm.run(code, module="tests.resilience.snippet", env=self.environment)
        else:
            done = subprocess.run(
                [sys.executable, "-c", f"import django; django.setup()\n{code}"],
                cwd=self.code,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the database directly, without the product."""
        url = self.environment["DATABASE_URL"]
        if url:
            with psycopg.connect(url) as server:
                return server.execute(sql).fetchall()  # type: ignore[arg-type]
        file = sqlite3.connect(self.folder / "handoffaudit.sqlite3", timeout=120)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()

    def waiting(self) -> int:
        ((number,),) = self.query("SELECT count(*) FROM handoffs_handoff WHERE state IN ('received', 'validating')")
        return int(number)

    def start(self, module: str, *arguments: str, within: Sequence[str] = ()) -> warm.AnyProcess:
        """Start `python -m MODULE`. `within` is the start of a command that runs the rest elsewhere."""
        process: warm.AnyProcess
        with (self.folder / "processes.log").open("ab") as log:
            if within or self.code:
                # An older checkout lacks the module of the tests.
                program = ["-c", Path(serve.__file__).read_text()] if module == serve.__name__ else ["-m", module]
                command = [*within, sys.executable, *program, *arguments]
                process = subprocess.Popen(
                    command, cwd=self.code, env=self.environment, stdout=log, stderr=log, start_new_session=True
                )
            else:
                streams = {"stdout": log, "stderr": log}
                process = warm.start(module, *arguments, **streams, env=self.environment, new_group=True)
        self.processes.append(process)
        return process

    def web(self, address: str = "127.0.0.1", within: Sequence[str] = (), port: int | None = None) -> warm.AnyProcess:
        port = port or free_port()
        self.url = f"http://{address}:{port}"
        process = self.start(serve.__name__, str(port), address, within=within)
        eventually(self.answers, what=self.log())
        return process

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def worker(self, within: Sequence[str] = ()) -> warm.AnyProcess:
        return self.start(*WORKER, "--queues", "structural", "--concurrency", "2", within=within)

    def asker(self) -> warm.AnyProcess:
        """Start a worker of the queue of LLM checks."""
        return self.start(*WORKER, "--queues", "semantic", "--concurrency", str(ASKERS))

    def set_model(self, url: str) -> None:
        """Set the LLM of the processes that start from now on, with short timeouts."""
        self.environment |= {
            "ANTHROPIC_API_KEY": "sk-of-the-tests",
            "ANTHROPIC_BASE_URL": url,
            "HANDOFFAUDIT_MODEL_SECONDS": "3",
            "HANDOFFAUDIT_MODEL_TRIES": "1",
            "HANDOFFAUDIT_MODEL_CONCURRENCY": str(ASKERS),
            "HANDOFFAUDIT_MODEL_BREAKER_SECONDS": "2",
        }

    def log(self) -> str:
        path = self.folder / "processes.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.key}"}, timeout=120)

    def wake(self, times: int) -> None:
        self.run(f"from handoffaudit.celery import app\nfor _ in range({times}): app.send_task({notify.TASK!r})")

    def clear(self) -> None:
        """End all processes, and delete all handoffs and messages."""
        for process in self.processes:
            kill(process)
        self.processes.clear()
        self.run(CLEAR)


def kill(process: warm.AnyProcess) -> None:
    """Kill the process and its children at once, without time to clean up."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


class OwnRedis:
    """A Redis server that a test may stop."""

    def __init__(self, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        self.address, self.port = address, free_port()
        self._within = within
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*self._within, "redis-server", "--port", str(self.port), "--bind", self.address]
        command += ["--save", "", "--appendonly", "no", "--protected-mode", "no"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        eventually(self.answers)

    def answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((self.address, self.port)) == 0

    def stop(self) -> None:
        if self.process is not None:
            kill(self.process)
            self.process = None
