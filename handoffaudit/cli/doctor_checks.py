"""The checks of `handoffaudit doctor` on this machine, and the order of all checks."""

import importlib.metadata
import os
import pwd
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.db import connection
from django.utils import timezone
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from handoffaudit.accounts.models import Tenant
from handoffaudit.checks import TAG
from handoffaudit.cli.doctor import Check, Installation, Level, Result
from handoffaudit.cli.doctor_servers import (
    check_broker,
    check_clock,
    check_connections,
    check_database,
    check_migrations,
    check_partitions,
    check_replica,
    needs_database,
    skip_folder,
)
from handoffaudit.cli.serve.setup import is_static_current
from handoffaudit.database_faults import describe_shortage
from handoffaudit.diagnostics.status import NOBODY_AFTER, describe_silence, expected_workers, silent_workers
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.alerts import format_span
from handoffaudit.handoffs.llm import client
from handoffaudit.llm.service import build_client
from handoffaudit.trust import signatures
from handoffaudit.trust.checkpoints import STANDARD_OUTPUT
from handoffaudit.trust.models import Seal
from handoffaudit.validation.prompts.question import Unavailable
from handoffaudit.validation.text import pluralize

DISTRIBUTION: Final = "handoffaudit"
LLM_SECONDS: Final = 20.0
NAMED_LIBRARIES: Final = 5


def check_settings(installation: Installation) -> Iterator[Result]:
    """Run Django's system checks of the product."""
    found = checks.run_checks(tags=[TAG])
    for message in found:
        level = Level.ERROR if message.is_serious() else Level.WARNING
        yield Result("settings", level, f"{message.msg} ({message.id})", message.hint or "")
    if not found and not installation.wrong:
        yield Result("settings", Level.OK, f"Version {settings.VERSION}, data folder {settings.DATA_FOLDER}.")


def check_python(_: Installation) -> Iterator[Result]:
    needed = importlib.metadata.metadata(DISTRIBUTION)["Requires-Python"]
    version = ".".join(map(str, sys.version_info[:3]))
    if version in SpecifierSet(needed):
        yield Result("python", Level.OK, f"Python {version}.")
    else:
        yield Result("python", Level.ERROR, f"Python is {version}.", f"Install Python {needed}.")


def check_libraries(_: Installation) -> Iterator[Result]:
    """Compare the installed libraries with the declared requirements and with the lock file."""
    wrong = [text for text in map(describe_unmet, importlib.metadata.requires(DISTRIBUTION) or ()) if text]
    for unmet in wrong:
        yield Result("libraries", Level.ERROR, unmet, "Install handoffaudit again, in an environment of its own.")
    locked = read_lock(settings.WEB / "requirements.lock")
    versions = {name: _find_version(name) for name in locked}
    others = [
        f"{name} {versions[name]} ({locked[name]})" for name in locked if versions[name] not in (None, locked[name])
    ]
    if wrong:
        return
    # Newer versions than in the lock file are normal and no fault. The message names them for bug reports.
    text = f"{len(locked) - len(others)} of {len(locked)} libraries have the versions of requirements.lock"
    if others:
        more = f" and {len(others) - NAMED_LIBRARIES} more" if len(others) > NAMED_LIBRARIES else ""
        text = f"All requirements are met. {text}; different: {', '.join(others[:NAMED_LIBRARIES])}{more}"
    yield Result("libraries", Level.OK, f"{text}.")


def describe_unmet(line: str) -> str:
    """Describe a declared requirement that is not met. Return an empty text if it is met, or does not apply here."""
    requirement = Requirement(line)
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return ""
    version = _find_version(requirement.name)
    if version is None:
        return f"{requirement.name} is not installed."
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{requirement.name} is {version}, but {requirement.specifier} is needed."
    return ""


def read_lock(path: Path) -> dict[str, str]:
    """Return the version of each library that the lock file names."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", path.read_text(), re.MULTILINE))


def _find_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@needs_database
def check_workers(_: Installation) -> Iterator[Result]:
    """Check that each kind of worker was seen recently, and how long the oldest handoff has waited."""
    queue, silent = stats.measure_worker_queue(), silent_workers()
    age = timezone.now() - queue.oldest_at if queue.oldest_at else timedelta()
    is_late = age > NOBODY_AFTER
    number = queue.waiting + queue.leased
    waits = f"{pluralize(number, 'handoff waits', 'handoffs wait')}, the oldest for {format_span(age.total_seconds())}"
    for name in expected_workers():
        if name in silent:
            level = Level.ERROR if is_late else Level.WARNING
            message = f"{name}: {describe_silence(silent[name])}."
            yield Result("workers", level, message, "Start it with handoffaudit up, or as docs/deploy.md says.")
        else:
            yield Result("workers", Level.OK, f"{name}: seen.")
    if is_late:
        yield Result("queue", Level.WARNING, f"{waits}.", "Start more workers, or read the log of the worker.")
    else:
        yield Result("queue", Level.OK, f"{waits}." if queue.oldest_at else "No handoff waits.")


def check_disk(_: Installation) -> Iterator[Result]:
    if shortage := describe_shortage():
        what, fix = shortage.split(": ", 1)
        yield Result("disk", Level.ERROR, f"{what}.", f"{fix.capitalize()}.")
        return
    folder = next((one for one in (settings.DATA_FOLDER, *settings.DATA_FOLDER.parents) if one.is_dir()), Path("/"))
    yield Result("disk", Level.OK, f"{shutil.disk_usage(folder).free / 1e6:,.0f} MB are free in {folder}.")


def check_permissions(installation: Installation) -> Iterator[Result]:
    """Check that this user can write to the data folder, and that other users cannot read what is stored there."""
    folder: Path = settings.DATA_FOLDER
    found = [_describe_unusable(folder)]
    if found == [None]:
        installation.folder_works = True
        found = [_describe_open(path) for path in _stored_files(folder)]
    results = [result for result in found if result]
    if not results and folder.is_dir():
        results = [Result("permissions", Level.OK, f"Only its owner can read what is stored in {folder}.")]
    yield from results


def _describe_unusable(folder: Path) -> Result | None:
    """Return a result that says why this user cannot use the data folder, or None if the user can.

    With PostgreSQL, the folder may be missing.
    """
    user = _user_name(os.getuid())
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if there == folder and not folder.is_dir():
        fix = "Name a folder with --data or HANDOFFAUDIT_DATA."
        return Result("permissions", Level.ERROR, f"{folder} is not a folder.", fix)
    if there != folder and os.access(there, os.W_OK | os.X_OK):
        if connection.vendor != "sqlite":
            return None
        fix = "Name the folder of the server with --data or HANDOFFAUDIT_DATA, or run handoffaudit up once."
        return Result("permissions", Level.ERROR, f"There is no data folder {folder}.", fix)
    needed = [there]
    if there == folder and os.access(folder, os.X_OK):
        needed += [*_stored_files(folder), *(one for one in (settings.QUEUE_FOLDER,) if one.is_dir())]
    path = next((one for one in needed if not os.access(one, os.R_OK | os.W_OK)), None)
    if path is None and os.access(there, os.X_OK):
        return None
    path = path or there
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        fix = "Mount it for writing, or name another folder with --data or HANDOFFAUDIT_DATA."
        return Result("permissions", Level.ERROR, f"{path} is on a file system that is mounted read-only.", fix)
    owner = _user_name(path.stat().st_uid)
    message = f"This user, {user}, cannot write to {path}, which belongs to {owner}."
    if there != folder:
        message = f"There is no data folder {folder}, and this user, {user}, cannot create it in {there}."
        fix = f"Name another folder with --data, or run as root: install -d -m 700 -o {user} {folder}"
    else:
        fix = f"Run this as {owner} if the server does, too. If the server runs as {user}: chown -R {user} {folder}"
    return Result("permissions", Level.ERROR, message, fix)


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _describe_open(path: Path) -> Result | None:
    """Return a result about a file that other users can read or write, or None for any other file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077 or _is_closed(path.parent):
        return None
    level = Level.ERROR if path.name in ("secret-key", signatures.KEY_FILE) else Level.WARNING
    message = f"Other users of this machine can read or write {path} (mode {mode:o})."
    return Result("permissions", level, message, f"chmod 600 {path}")


def _stored_files(folder: Path) -> list[Path]:
    files = [folder / "secret-key", folder / signatures.KEY_FILE]
    if connection.vendor == "sqlite":
        # The write-ahead log needs no check, because SQLite gives it the mode of the database.
        files.append(Path(connection.settings_dict["NAME"]))
    return [file for file in files if file.is_file()]


def _is_closed(folder: Path) -> bool:
    """Return whether only the owner can enter the folder, so that the modes of its files do not matter."""
    return not stat.S_IMODE(folder.stat().st_mode) & 0o077


@needs_database
def check_seal_key(_: Installation) -> Iterator[Result]:
    """Check that the seal key is the key of the stored seals. With another key, nothing is sealed."""
    try:
        key = signatures.find_key(settings.DATA_FOLDER)
    except signatures.WrongKey as error:
        # `check_settings` reports a wrong key in the environment.
        if not signatures.is_set():
            fix = "Restore the file from a backup. If the key is lost, run handoffaudit seal-key rotate --lost."
            yield Result("seal key", Level.ERROR, str(error), fix)
        return
    heads = [(tenant, Seal.head_of(tenant)) for tenant in Tenant.objects.filter(is_sample=False).order_by("pk")]
    others = {
        signatures.id_of(needed): tenant.slug
        for tenant, head in heads
        if head and (needed := head.current_key) != (key.public if key else None)
    }
    place = signatures.VARIABLE if signatures.is_set() else str(settings.DATA_FOLDER / signatures.KEY_FILE)
    for needed, slug in others.items():
        what = f"is {key.key_id}" if key else "is missing"
        message = f"The seal key {what}, but the seals of {slug} are signed with {needed}: nothing new is sealed."
        fix = f"Put the key {needed} into {place}. If it is lost, run handoffaudit seal-key rotate --lost."
        yield Result("seal key", Level.ERROR, message, fix)
    if not others:
        text = f"{key.key_id} signs the seals." if key else "No key yet: the first start of the server creates the key."
        yield Result("seal key", Level.OK, text)


def check_checkpoints(_: Installation) -> Iterator[Result]:
    """Check that checkpoints can be written to each place. If not, the server only logs a warning."""
    if not settings.CHECKPOINTS:
        yield Result("checkpoints", Level.OK, "None are written (HANDOFFAUDIT_CHECKPOINTS=off).")
        return
    faults = {place: fault for place in settings.CHECKPOINTS if (fault := _find_place_fault(place))}
    for place, fault in faults.items():
        shown = _name_place(place)
        message = f"Nothing can be written to {shown} ({fault}), so removed newest entries would not be noticed."
        fix = "Correct HANDOFFAUDIT_CHECKPOINTS, or the rights on the folder."
        yield Result("checkpoints", Level.ERROR, message, fix)
    if not faults:
        yield Result("checkpoints", Level.OK, f"Written to {', '.join(map(_name_place, settings.CHECKPOINTS))}.")


def _name_place(place: str) -> str:
    """Return the name of a place for people. The path of a web address may be a secret."""
    if place == STANDARD_OUTPUT:
        return "standard output"
    return "/".join(place.split("/")[:3]).rpartition("@")[2] if "://" in place else place


def _find_place_fault(place: str) -> str:
    """Return why a place cannot take checkpoints, or an empty text. A web address is not asked."""
    if "://" in place:
        with suppress(ValueError):
            return "" if urlsplit(place).hostname else "the address has no host"
        return "the address cannot be read"
    path = Path(place)
    # `check_permissions` checks the data folder.
    if place == STANDARD_OUTPUT or (path.parent == settings.DATA_FOLDER and not path.is_dir()):
        return ""
    if path.is_dir() or not path.parent.is_dir():
        return "it is a folder" if path.is_dir() else "its folder is absent"
    return "" if os.access(path if path.exists() else path.parent, os.W_OK) else "this user may not write"


def check_llm(installation: Installation) -> Iterator[Result]:
    """Check whether the LLM is configured; with `--online`, ask it one short question."""
    if not client.is_configured():
        yield Result(
            "llm",
            Level.OK,
            "No LLM key is set: strict handoffs are accepted unverified, or held if their type fails closed.",
        )
        return
    model = settings.MODEL_FAST
    if not installation.online:
        yield Result("llm", Level.OK, f"{settings.MODEL_PROVIDER} is set, and was not asked (--online asks {model}).")
        return
    try:
        service = build_client(settings.MODEL_PROVIDER, settings.ANTHROPIC_API_KEY, settings.MODEL_BASE_URL)
        assert service is not None  # noqa: S101 -- is_configured
        reply = service.complete(
            model=model,
            system="",
            messages=[{"role": "user", "content": "Answer with the word yes."}],
            schema={},
            max_tokens=16,
            seconds=LLM_SECONDS,
        )
    except Unavailable as error:
        fix = "Check ANTHROPIC_API_KEY or the provider's credentials, HANDOFFAUDIT_MODEL_FAST and the network."
        yield Result("llm", Level.ERROR, f"{model} does not answer: {error.detail}", fix)
    else:
        yield Result("llm", Level.OK, f"{model} answers ({reply.usage.tokens_out} tokens).")


def check_static_files(installation: Installation) -> Iterator[Result]:
    root = Path(settings.STATIC_ROOT)
    if not installation.folder_works and root.is_relative_to(settings.DATA_FOLDER):
        yield skip_folder("static files")
        return
    fix = "Run handoffaudit manage collectstatic --noinput, or start the server with handoffaudit up."
    if not (root / "staticfiles.json").is_file():
        yield Result("static files", Level.ERROR, f"There are no collected static files in {root}.", fix)
    elif not is_static_current():
        yield Result("static files", Level.WARNING, f"The static files in {root} are of another version.", fix)
    else:
        yield Result("static files", Level.OK, f"Collected in {root}.")


CHECKS: Final[tuple[Check, ...]] = (
    check_settings,
    check_python,
    check_libraries,
    check_permissions,
    check_database,
    check_replica,
    check_connections,
    check_clock,
    check_migrations,
    check_partitions,
    check_broker,
    check_workers,
    check_disk,
    check_seal_key,
    check_checkpoints,
    check_llm,
    check_static_files,
)
