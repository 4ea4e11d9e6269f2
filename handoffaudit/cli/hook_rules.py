"""Phase rules of the user: loading the rules file, and evaluation against the user's files."""

import json
import os
import re
import selectors
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from handoffaudit.cli import Stop
from handoffaudit.cli.hook_server import OutOfTime, time_limit
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.phase_rules import LONGEST_TEXT, PhaseRule, RuleResult, RuleStatus, RuleType, parse_rules
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.text import clean

LONGEST_RULES_FILE = 1024 * 1024

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH

_MOST_SHOWN = 3


def load_rules(path: Path, code: int) -> tuple[PhaseRule, ...]:
    """Load the rules from a file that holds a list of rules, or an object with the list as `rules`.

    Raises `Stop` with the exit code `code` if the file can't be read, is wrong, or may have been written by another
    user.
    """
    try:
        refused, raw = _read_trusted(path)
    except OSError as error:
        raise Stop(f"The rules file {path} can't be read ({error.strerror}).", code) from error
    if refused:
        raise Stop(refused, code)
    if len(raw) > LONGEST_RULES_FILE:
        raise Stop(f"The rules file {path} is longer than {LONGEST_RULES_FILE // 1024**2} MiB.", code)
    try:
        plain = json.loads(raw)
        return parse_rules(plain["rules"] if isinstance(plain, dict) and "rules" in plain else plain)
    except InvalidConfigError as error:
        flaws = "; ".join(str(one) for one in error.flaws[:_MOST_SHOWN])
        more = f"; and {len(error.flaws) - _MOST_SHOWN} more" if len(error.flaws) > _MOST_SHOWN else ""
        raise Stop(f"The rules file {path} is wrong: {flaws}{more}", code) from error
    except (ValueError, RecursionError) as error:
        raise Stop(f"The rules file {path} is not JSON ({error}).", code) from error


def _read_trusted(path: Path) -> tuple[str, bytes]:
    """Return the reason not to trust the rules file, and the beginning of the file.

    If the file is trusted, the reason is empty; otherwise, no bytes are read. The beginning has at most one byte more
    than `LONGEST_RULES_FILE`. Raises `OSError` if the file can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # Check the open file and not the path: another process could put another file at the path after the check.
        if refused := _explain_distrust(os.fstat(descriptor), path):
            return refused, b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return "", file.read(LONGEST_RULES_FILE + 1)
    finally:
        os.close(descriptor)


def _explain_distrust(found: os.stat_result, path: Path) -> str:
    """Return the reason not to trust the rules file; an empty text if the file may be used."""
    if not stat.S_ISREG(found.st_mode):
        return f"The rules file {path} is not a file."
    if found.st_uid != os.getuid():
        return f"The rules file {path} belongs to another user, and its commands would run as you: use your own copy."
    if found.st_mode & _OTHERS_MAY_WRITE:
        return f"Others can write to the rules file {path}, and its commands would run as you: chmod go-w {path}"
    return ""


KEPT_BYTES = 4096

_CHUNK = 65536

_LOOK_SECONDS = 0.05

# An agent may have influenced the command, so the command does not get the API key.
_NOT_PASSED_ON = ("HANDOFFAUDIT_KEY",)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    `code` is None if the command did not start or did not end in time; `problem` says which. `output` is the end of
    the command's output.
    """

    code: int | None
    output: str
    problem: str = ""


def run_command(command: Sequence[str], folder: Path, seconds: float) -> CommandResult:
    """Run a command in `folder`, then kill everything that is left in its process group.

    The command is killed after `seconds`, or when this process is told to stop.
    """
    with _hold_stops() as stops:
        return _run(command, folder, seconds, stops)


@contextmanager
def _hold_stops() -> Iterator[list[int]]:
    """Collect each SIGINT and SIGTERM of the `with` block in the yielded list; after the block, raise the first.

    A handler that ends this process while a command starts would leave the command running.
    """
    stops: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in held:
        signal.signal(number, lambda number, _: stops.append(number))
    try:
        yield stops
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for stop in stops[:1]:
            signal.raise_signal(stop)


def _run(command: Sequence[str], folder: Path, seconds: float, stops: Sequence[int]) -> CommandResult:
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
        return CommandResult(None, "", f"it can't be started ({error})")
    try:
        kept, in_time = _follow(process, time.monotonic() + seconds, stops)
    finally:
        _end(process)
    output = kept.decode("utf-8", "replace")
    if not in_time:
        return CommandResult(None, output, f"it did not end within {seconds:g} s")
    return CommandResult(process.returncode, output)


def _follow(process: "subprocess.Popen[bytes]", until: float, stops: Sequence[int]) -> tuple[bytes, bool]:
    """Return the end of the output, and whether the process ended before `until` and before any of `stops`.

    The process is not reaped yet.
    """
    assert process.stdout is not None  # noqa: S101
    kept, reading = b"", True
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ended = _has_ended(process)
            left = until - time.monotonic()
            if (left <= 0 or stops) and not ended:
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
    # Kill the process group before the process is reaped: until then, no other process can get the same number. On
    # macOS, killing fails if all processes of the group have ended. On every system, killing fails if the processes
    # belong to another user.
    try:
        os.killpg(process.pid, signal.SIGKILL)
        will_end = True
    except OSError:
        will_end = _has_ended(process)
    if will_end:
        process.wait()
    if process.stdout:
        process.stdout.close()


READ_BYTES = 1024 * 1024

MATCHING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    status: RuleStatus
    message: str
    details: dict[str, Any] = field(default_factory=dict)


def evaluate(rules: Iterable[PhaseRule], root: Path) -> tuple[RuleResult, ...]:
    """Return a result for each rule, in order; paths start at `root`, and commands run there."""
    return tuple(_make_result(rule, _OF_TYPE[rule.rule_type](rule.rule_config, root)) for rule in rules)


def _make_result(rule: PhaseRule, found: RuleOutcome) -> RuleResult:
    return RuleResult(
        result_id=uuid.uuid4().hex,
        rule_id=rule.rule_id,
        validated_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        status=found.status,
        message=clean(mask_secrets(found.message), LONGEST_TEXT),
        details=found.details,
    )


def _file_exists(config: Mapping[str, Any], root: Path) -> RuleOutcome:
    name = config["file_path"]
    try:
        mode = _resolve_path(root, name).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return RuleOutcome(RuleStatus.FAILED, f"{name} is not there.")
    except (OSError, ValueError) as error:
        return RuleOutcome(RuleStatus.FAILED, f"{name} can't be looked up ({_explain_error(error)}).")
    if not stat.S_ISREG(mode):
        return RuleOutcome(RuleStatus.FAILED, f"{name} is not a file.")
    return RuleOutcome(RuleStatus.PASSED, f"{name} is there.")


def _explain_error(error: OSError | ValueError) -> str:
    # JSON can have half of a surrogate pair, which no path can have.
    return str(error.strerror) if isinstance(error, OSError) else "the path is not Unicode text"


def _content_match(config: Mapping[str, Any], root: Path) -> RuleOutcome:
    name = config["file_path"]
    try:
        # Without O_NONBLOCK, opening a pipe or a device could block.
        descriptor = os.open(_resolve_path(root, name), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(READ_BYTES + 1)
    except (OSError, ValueError) as error:
        return RuleOutcome(RuleStatus.FAILED, f"{name} can't be read ({_explain_error(error)}).")
    if raw is None:
        return RuleOutcome(RuleStatus.FAILED, f"{name} can't be read (nothing is there to read yet).")
    part = f" Only its first {READ_BYTES // 1024**2} MiB were read." if len(raw) > READ_BYTES else ""
    text = raw[:READ_BYTES].decode("utf-8", "replace")
    try:
        with time_limit(MATCHING_SECONDS):
            missing = [one for one in config["patterns"] if not re.search(one, text, re.MULTILINE)]
    except OutOfTime:
        return RuleOutcome(RuleStatus.FAILED, f"The patterns were not matched within {MATCHING_SECONDS:g} s.{part}")
    except (re.error, RecursionError, OverflowError) as error:
        return RuleOutcome(RuleStatus.FAILED, f"A pattern is not a regular expression ({error}).")
    if missing:
        return RuleOutcome(RuleStatus.FAILED, f"{name} has nothing that matches {', '.join(missing)}.{part}")
    return RuleOutcome(RuleStatus.PASSED, f"{name} has what was asked for.{part}")


def _test_pass(config: Mapping[str, Any], root: Path) -> RuleOutcome:
    ran = run_command(["/bin/sh", "-c", config["test_command"]], root, config["timeout_seconds"])
    return _judge_run(config["test_command"], ran, config["expected_exit_code"])


def _custom(config: Mapping[str, Any], root: Path) -> RuleOutcome:
    script = str(_resolve_path(root, config["script_path"]))
    return _judge_run(config["script_path"], run_command([script, *config["args"]], root, config["timeout_seconds"]), 0)


def _judge_run(name: str, ran: CommandResult, expected: int) -> RuleOutcome:
    output = mask_secrets(ran.output).strip()
    details: dict[str, Any] = {"exit_code": ran.code, "expected_exit_code": expected}
    if output:
        details["output"] = clean(output[-LONGEST_TEXT:], LONGEST_TEXT)
    if ran.code == expected:
        return RuleOutcome(RuleStatus.PASSED, f"{name} ended with {expected}.", details)
    what = ran.problem or f"it ended with {ran.code}, not with {expected}"
    return RuleOutcome(
        RuleStatus.FAILED, f"{name}: {what}." + (f" Its output ends: {output[-500:]}" if output else ""), details
    )


def _resolve_path(root: Path, given: str) -> Path:
    # Unlike `Path.expanduser`, this function keeps a path that names an unknown user.
    return root / os.path.expanduser(given)  # noqa: PTH111


_OF_TYPE = {
    RuleType.FILE_EXISTS: _file_exists,
    RuleType.CONTENT_MATCH: _content_match,
    RuleType.TEST_PASS: _test_pass,
    RuleType.CUSTOM: _custom,
}
