"""Real processes: `handoffaudit up` in a folder of its own, on a free port."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import SystemRandom
from typing import Any

import httpx
import pytest

from tests import warm

PRODUCT = [sys.executable, "-m", "handoffaudit"]
LEFT_OUT = ("DATABASE_URL", "REDIS_URL", "HANDOFFAUDIT_DATA", "HANDOFFAUDIT_SECRET_KEY", "DJANGO_SETTINGS_MODULE")


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment of a person's shell, without the variables that the tests set."""
    return {name: value for name, value in os.environ.items() if name not in LEFT_OUT} | more


def run(*arguments: str, folder: Path, text: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments, text=text, env=clean_environment(**{"HANDOFFAUDIT_DATA": str(folder)} | env))


@cache
def _prepared() -> Path:
    """Return a data folder as a first start leaves it."""
    # Below the folder that goes when the tests end.
    folder = Path(tempfile.mkdtemp(dir=os.environ["HANDOFFAUDIT_DATA"])) / "data"
    environment = clean_environment(HANDOFFAUDIT_DATA=str(folder))
    done = warm.run(module="handoffaudit.cli.serve.setup", env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def prepared(folder: Path) -> Path:
    """Copy an unused data folder to `folder`, because migrations take most of the time of a first start."""
    shutil.copytree(_prepared(), folder)
    return folder


def free_port() -> int:
    """Return a free port that connections don't get as their own end, and that no other test process returns.

    A lock on a file, held until this process ends, keeps the port before something listens on it.
    """
    locks = Path(tempfile.gettempdir(), f"handoffaudit-ports-{os.getuid()}")
    locks.mkdir(exist_ok=True)
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        lock = os.open(locks / str(port), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
        else:
            return port


def descendants(pid: int) -> list[int]:
    """Return all processes below this process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, look = [], [pid]
    while look:
        below = parents.get(look.pop(), [])
        found += below
        look += below
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(true: Callable[[], object], seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


class Up:
    """One start of `handoffaudit up`, by day in a fork of a process that has loaded it, unless a program is given."""

    def __init__(
        self, folder: Path, *arguments: str, port: int | None = None, program: list[str] | None = None, **env: str
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        logs = folder.parent / f"logs-{self.port}-{time.monotonic_ns()}"
        logs.mkdir(parents=True)
        self._out, self._err = logs / "out", logs / "err"
        words = ["up", "--data", str(folder), "--port", str(self.port), *arguments]
        environment = clean_environment(PYTHONUNBUFFERED="1", **env)
        self.process: warm.AnyProcess
        with self._out.open("w") as out, self._err.open("w") as err:
            if program:
                self.process = subprocess.Popen(
                    [*program, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
                )
            else:
                self.process = warm.start("handoffaudit", *words, stdout=out, stderr=err, env=environment)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_ready(self) -> "Up":
        wait_for(lambda: "Ready in" in self.out or self.process.poll() is not None)
        assert self.process.poll() is None, self.err
        return self

    @property
    def ready_in(self) -> float:
        found = re.search(r"Ready in ([\d.]+) s", self.out)
        assert found
        return float(found[1])

    @property
    def link(self) -> str | None:
        found = re.search(r"Sign in +(\S+)", self.out)
        return found[1] if found else None

    def worker(self) -> int:
        """Return the process id of the worker, which may just be started again."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [pid for pid in descendants(self.process.pid) if role(pid) == "worker"]
            return bool(found)

        wait_for(is_there)
        return found[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(120)


def role(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("handoff-")
    except OSError:
        return ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepared(tmp_path / "data")


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., Up]]:
    """Yield a function that starts the product, in `folder` by default, and stop all started products at the end."""
    started: list[Up] = []

    def start_one(*arguments: str, folder: Path | None = None, **given: Any) -> Up:
        up = Up(folder or request.getfixturevalue("folder"), *arguments, **given)
        started.append(up)
        return up

    yield start_one
    for up in started:
        up.stop()


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Yield one product for all tests that do not stop it, started as users start it."""
    up = Up(prepared(tmp_path_factory.mktemp("running") / "data"), program=PRODUCT)
    try:
        yield up.wait_ready()
    finally:
        up.stop()


@pytest.fixture(scope="package")
def client(running: Up) -> Iterator[httpx.Client]:
    """Yield a client with a new key that may do everything."""
    made = run("key", "create", "tests", "--scopes", "ingest,read,review,admin", folder=running.folder)
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with httpx.Client(base_url=running.address, headers=headers, timeout=60) as client:
        yield client
