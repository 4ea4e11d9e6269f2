"""Processes that have loaded the product before they start, because loading Python and Django takes a second each time.

A server in a process of its own loads every module and then forks for each call. The fork reads its environment, its
settings, its arguments and its streams anew, so that a call ends like that of `python -m MODULE`. The nightly tests
start Python for each process that goes on, such as a worker.
"""

import atexit
import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

# The server loads these, and what these load.
PACKAGES = ("accounts", "cli", "diagnostics", "evaluation", "handoffs", "llm", "policy", "validation")
ROOT = Path(__file__).parents[1]
SECONDS = 300
NUMBER_BYTES = 4
# The kinds of calls: a command, or a process of the product, which needs more modules.
COMMAND, PRODUCT = b"c", b"p"
SERVERS = ("celery", "granian", "tests.resilience.serve")


class Process:
    """A process that the server forked, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._read_number()
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = self._read_number()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
            self._answers.close()
        return self.returncode

    def _read_number(self) -> int:
        answer = self._answers.recv(NUMBER_BYTES)
        assert len(answer) == NUMBER_BYTES, "the process that waits for this one has died"
        return int.from_bytes(answer, signed=True)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


AnyProcess = Process | subprocess.Popen[bytes]


def run(
    *arguments: str,
    module: str = "handoffaudit",
    text: str | None = None,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENTS` to its end, and return what it printed and its exit code."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((text or "").encode())
        given.seek(0)
        code = _fork(module, arguments, (given, out, err), cwd, env).wait(SECONDS)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([module, *arguments], code, out.read().decode(), err.read().decode())


def start(
    module: str,
    *arguments: str,
    stdout: IO[Any] | int = subprocess.DEVNULL,
    stderr: IO[Any] | int = subprocess.DEVNULL,
    env: dict[str, str],
    new_group: bool = False,
) -> AnyProcess:
    """Start `python -m MODULE ARGUMENTS`, on request as the first process of a group of its own, without an input."""
    # Not at the top, because the server must not load pytest.
    from tests.scale import NIGHTLY

    if NIGHTLY:
        command = [sys.executable, "-m", module, *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
        return subprocess.Popen(command, **streams, env=env, process_group=0 if new_group else None)
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        out, err = (nothing if isinstance(stream, int) else stream for stream in (stdout, stderr))
        return _fork(module, arguments, (nothing, out, err), None, env, new_group=new_group)


def _fork(
    module: str,
    arguments: tuple[str, ...],
    streams: tuple[IO[Any], ...],
    cwd: Path | str | None,
    env: dict[str, str] | None,
    *,
    new_group: bool = False,
) -> Process:
    asked = {"module": module, "arguments": arguments, "cwd": str(cwd or Path.cwd()), "new_group": new_group}
    asked["environment"] = dict(os.environ) if env is None else env
    kind = PRODUCT if module in SERVERS or arguments[:1] == ("up",) else COMMAND
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_server(), [kind], [theirs.fileno(), *(stream.fileno() for stream in streams)])
    ours.sendall(json.dumps(asked).encode())
    ours.shutdown(socket.SHUT_WR)
    ours.settimeout(SECONDS)
    return Process(ours)


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    folder = tempfile.mkdtemp(dir=os.environ["HANDOFFAUDIT_DATA"])
    settings = {"DJANGO_SETTINGS_MODULE": "handoffaudit.settings", "HANDOFFAUDIT_DATA": folder}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=os.environ | settings,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _load() -> None:
    import django

    django.setup()
    for package in PACKAGES:
        top = import_module(f"handoffaudit.{package}")
        for found in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            if ".migrations" not in found.name:
                import_module(found.name)
    import_module("evals.__main__")
    import_module("anthropic")
    gc.collect()
    gc.freeze()


@cache
def _load_product() -> None:
    """Load what a web server and a worker need besides; the module of the application makes the application."""
    import granian.server  # noqa: F401

    import handoffaudit.urls  # noqa: F401
    from handoffaudit.celery import app
    from handoffaudit.validation.tokenizers import default_counter

    app.loader.import_default_modules()
    default_counter()
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each call. Returns in a fork alone, which then is the process of the call."""
    while True:
        message, files, *_ = socket.recv_fds(control, 1, 4)
        if not message:
            os._exit(0)
        if message == PRODUCT:
            _load_product()
        if os.fork() == 0:
            control.close()
            return _wait_for_call(*files)
        for file in files:
            os.close(file)


def _wait_for_call(answer: int, *streams: int) -> dict[str, Any]:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=answer) as connection:
        asked: dict[str, Any] = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
        pid = os.fork()
        if pid:
            if asked["new_group"]:
                os.setpgid(pid, pid)
            _send(connection, pid)
            _send(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os._exit(0)
    if asked["new_group"]:
        os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return asked


def _send(connection: socket.socket, number: int) -> None:
    # A test may have ended that started the process.
    with suppress(BrokenPipeError):
        connection.sendall(number.to_bytes(NUMBER_BYTES, signed=True))


def _become(asked: dict[str, Any]) -> None:
    """Forget what was read from the environment of the server."""
    from django.conf import settings
    from django.core.cache import caches
    from django.db import connections
    from django.utils.functional import empty

    os.environ.clear()
    # Celery's module sets these when it is loaded, which was before.
    os.environ.update({"DJANGO_SETTINGS_MODULE": "handoffaudit.settings", "CELERY_SKIP_CHECKS": "1"})
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["arguments"]
    settings._wrapped = empty
    for handler in (connections, caches):
        vars(handler).pop("settings", None)
        handler.__init__()
    for name in ("handoffaudit.settings", asked["module"], f"{asked['module']}.__main__"):
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)


def _code_of(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 -- printed as Python does
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> None:
    """End as Python does, but do not tidy up the memory of all modules, which takes longer than most calls."""
    from django.conf import settings
    from django.db import connections

    threading._shutdown()
    atexit._run_exitfuncs()
    # Otherwise this would load the settings, which make the data folder.
    if settings.configured:
        connections.close_all()
    for stream in (sys.stdout, sys.stderr):
        if stream:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _load()
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(asked)
    _end(_code_of(asked["module"]))
