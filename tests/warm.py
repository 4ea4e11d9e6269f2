"""Processes that have loaded the product before they start, because loading Python and Django takes a second each time.

A server in a process of its own loads every module and then forks for each call. The fork reads its environment, its
settings, its arguments and its streams anew, so that a call ends like that of `python -m MODULE`.
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
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

# The server loads these, and what these load.
PACKAGES = ("accounts", "cli", "diagnostics", "evaluation", "handoffs", "llm", "policy", "validation")
ROOT = Path(__file__).parents[1]
SECONDS = 300


def run(
    *arguments: str,
    module: str = "handoffaudit",
    text: str | None = None,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENTS` to its end, and return what it printed and its exit code."""
    environment = dict(os.environ) if env is None else env
    asked = {"module": module, "arguments": arguments, "cwd": str(cwd or Path.cwd()), "environment": environment}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((text or "").encode())
        given.seek(0)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                files = [theirs.fileno(), given.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(_server(), [b"1"], files)
            ours.settimeout(SECONDS)
            ours.sendall(json.dumps(asked).encode())
            ours.shutdown(socket.SHUT_WR)
            code = int(ours.recv(16))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([module, *arguments], code, out.read().decode(), err.read().decode())


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


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each call. Returns in a fork alone, which then is the process of the call."""
    while True:
        message, files, *_ = socket.recv_fds(control, 1, 4)
        if not message:
            os._exit(0)
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
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection.sendall(str(code).encode())
            os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return asked


def _become(asked: dict[str, Any]) -> None:
    """Forget what was read from the environment of the server."""
    from django.conf import settings
    from django.core.cache import caches
    from django.db import connections
    from django.utils.functional import empty

    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["arguments"]
    settings._wrapped = empty
    for handler in (connections, caches):
        vars(handler).pop("settings", None)
        handler.__init__()
    for name in ("handoffaudit.settings", asked["module"], f"{asked['module']}.__main__"):
        if name not in ("handoffaudit", "evals"):
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
    threading._shutdown()
    atexit._run_exitfuncs()
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
