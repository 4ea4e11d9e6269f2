"""Phase rules evaluated: the user's own rules, on the user's own files, as the user."""

import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from handoffaudit.cli.hooking.bounding import OutOfTime, within
from handoffaudit.cli.hooking.commands import Ran, run
from handoffaudit.validation.phase_rules import LONGEST_TEXT, PhaseRule, RuleResult, RuleStatus, RuleType
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.text import clean

READ_BYTES = 1024 * 1024
MATCHING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    status: RuleStatus
    message: str
    details: dict[str, Any] = field(default_factory=dict)


def evaluate(rules: Iterable[PhaseRule], root: Path) -> tuple[RuleResult, ...]:
    """A result for each rule, in order. Paths start from `root`, and commands run there."""
    return tuple(_result(rule, _OF_TYPE[rule.rule_type](rule.rule_config, root)) for rule in rules)


def _result(rule: PhaseRule, found: Found) -> RuleResult:
    return RuleResult(
        result_id=uuid.uuid4().hex,
        rule_id=rule.rule_id,
        validated_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        status=found.status,
        message=clean(mask_secrets(found.message), LONGEST_TEXT),
        details=found.details,
    )


def _file_exists(config: Mapping[str, Any], root: Path) -> Found:
    path = _path(root, config["file_path"])
    if path.is_file():
        return Found(RuleStatus.PASSED, f"{config['file_path']} is there.")
    what = "is no file" if path.exists() else "is not there"
    return Found(RuleStatus.FAILED, f"{config['file_path']} {what}.")


def _content_match(config: Mapping[str, Any], root: Path) -> Found:
    name = config["file_path"]
    try:
        # a pipe or a device must not keep us
        descriptor = os.open(_path(root, name), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(READ_BYTES + 1)
    except OSError as error:
        return Found(RuleStatus.FAILED, f"{name} can't be read ({error.strerror}).")
    if raw is None:
        return Found(RuleStatus.FAILED, f"{name} can't be read (nothing is there to read yet).")
    part = f" Only its first {READ_BYTES // 1024**2} MiB were read." if len(raw) > READ_BYTES else ""
    text = raw[:READ_BYTES].decode("utf-8", "replace")
    try:
        with within(MATCHING_SECONDS):
            missing = [one for one in config["patterns"] if not re.search(one, text, re.MULTILINE)]
    except OutOfTime:
        return Found(RuleStatus.FAILED, f"The patterns were not matched within {MATCHING_SECONDS:g} s.{part}")
    except (re.error, RecursionError, OverflowError) as error:
        return Found(RuleStatus.FAILED, f"A pattern is no regular expression ({error}).")
    if missing:
        return Found(RuleStatus.FAILED, f"{name} has nothing that matches {', '.join(missing)}.{part}")
    return Found(RuleStatus.PASSED, f"{name} has what was asked for.{part}")


def _test_pass(config: Mapping[str, Any], root: Path) -> Found:
    ran = run(["/bin/sh", "-c", config["test_command"]], root, config["timeout_seconds"])
    return _of_run(config["test_command"], ran, config["expected_exit_code"])


def _custom(config: Mapping[str, Any], root: Path) -> Found:
    script = str(_path(root, config["script_path"]))
    return _of_run(config["script_path"], run([script, *config["args"]], root, config["timeout_seconds"]), 0)


def _of_run(name: str, ran: Ran, expected: int) -> Found:
    output = mask_secrets(ran.output).strip()
    details: dict[str, Any] = {"exit_code": ran.code, "expected_exit_code": expected}
    if output:
        details["output"] = clean(output[-LONGEST_TEXT:], LONGEST_TEXT)
    if ran.code == expected:
        return Found(RuleStatus.PASSED, f"{name} ended with {expected}.", details)
    what = ran.problem or f"it ended with {ran.code}, not with {expected}"
    return Found(
        RuleStatus.FAILED, f"{name}: {what}." + (f" Its output ends: {output[-500:]}" if output else ""), details
    )


def _path(root: Path, given: str) -> Path:
    return root / Path(given).expanduser()


_OF_TYPE = {
    RuleType.FILE_EXISTS: _file_exists,
    RuleType.CONTENT_MATCH: _content_match,
    RuleType.TEST_PASS: _test_pass,
    RuleType.CUSTOM: _custom,
}
