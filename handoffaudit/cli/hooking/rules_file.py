"""The rules file: phase rules run commands, so they are read only where nobody but their user can have written them."""

import json
import os
import stat
from pathlib import Path

from handoffaudit.cli.stop import Stop
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.phase_rules import PhaseRule, parse_rules

LONGEST_BYTES = 1024 * 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_TOLD = 3


def load(path: Path, code: int) -> tuple[PhaseRule, ...]:
    """The rules of a file that holds a list of them, or an object with the list as `rules`. Raises Stop with `code`
    where it can't be read, is wrong, or others can have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Stop(f"The rules file {path} can't be read ({error.strerror}).", code) from error
    # looked at through the open file, which nobody can swap for another
    with os.fdopen(descriptor, "rb") as file:
        if refused := _distrust(os.fstat(descriptor), path):
            raise Stop(refused, code)
        raw = file.read(LONGEST_BYTES + 1)
    if len(raw) > LONGEST_BYTES:
        raise Stop(f"The rules file {path} is longer than {LONGEST_BYTES // 1024**2} MiB.", code)
    try:
        plain = json.loads(raw)
        return parse_rules(plain["rules"] if isinstance(plain, dict) and "rules" in plain else plain)
    except InvalidConfigError as error:
        told = "; ".join(str(one) for one in error.flaws[:_MOST_TOLD])
        more = f"; and {len(error.flaws) - _MOST_TOLD} more" if len(error.flaws) > _MOST_TOLD else ""
        raise Stop(f"The rules file {path} is wrong: {told}{more}", code) from error
    except (ValueError, RecursionError) as error:
        raise Stop(f"The rules file {path} is no JSON ({error}).", code) from error


def _distrust(found: os.stat_result, path: Path) -> str:
    """Why the file is not used; empty where it may be."""
    if not stat.S_ISREG(found.st_mode):
        return f"The rules file {path} is no file."
    if found.st_uid != os.getuid():
        return f"The rules file {path} belongs to another user, and its commands would run as you: use your own copy."
    if found.st_mode & _OTHERS_MAY_WRITE:
        return f"Others can write to the rules file {path}, and its commands would run as you: chmod go-w {path}"
    return ""
