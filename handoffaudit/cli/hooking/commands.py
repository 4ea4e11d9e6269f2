"""A command run within limits: of its time, and of what is kept of its output."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 4096
_CHUNK = 65536
_LOOK_SECONDS = 0.05
# what our own calls need is not for commands that an agent may have had a hand in
_NOT_PASSED_ON = ("HANDOFFAUDIT_KEY",)


@dataclass(frozen=True, slots=True)
class Ran:
    """`code` is None where it did not end in time or could not be started; `problem` then says so. `output` is the end
    of what it wrote."""

    code: int | None
    output: str
    problem: str = ""


def run(command: Sequence[str], folder: Path, seconds: float) -> Ran:
    """Runs a command in `folder`. When it ends, or its time does, all that it has started in its process group ends."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    try:
        process = subprocess.Popen(  # noqa: S603 (the user's own rules file names it)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ran(None, "", f"it can't be started ({error})")
    try:
        kept, in_time = _follow(process, time.monotonic() + seconds)
    finally:
        _end(process)
    output = kept.decode("utf-8", "replace")
    if not in_time:
        return Ran(None, output, f"it did not end within {seconds:g} s")
    return Ran(process.returncode, output)


def _follow(process: "subprocess.Popen[bytes]", until: float) -> tuple[bytes, bool]:
    """The last of the output, and whether the process ended in time. It is not reaped yet."""
    assert process.stdout is not None  # noqa: S101
    kept, reading = b"", True
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ended = _has_ended(process)
            left = until - time.monotonic()
            if left <= 0 and not ended:
                return kept, False
            if reading and selector.select(0 if ended else min(left, _LOOK_SECONDS)):
                chunk = os.read(process.stdout.fileno(), _CHUNK)
                kept, reading = (kept + chunk)[-KEPT_BYTES:], bool(chunk)
            elif ended:
                return kept, True
            elif not reading:
                time.sleep(min(left, _LOOK_SECONDS))


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: "subprocess.Popen[bytes]") -> None:
    # before it is reaped: until then its number belongs to nobody else
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()
