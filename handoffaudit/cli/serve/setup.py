"""Preparation of a data folder or a server's database: `python -m handoffaudit.cli.serve.setup [--json | --samples]`.

`up` prepares its data folder in a child process, so that the supervisor stays small. docker-compose.yml and the files
in deploy/ run the module before the server starts. With `--samples`, the module loads the handoff files and logs of the
sample.
"""

import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import describe_unwritable, find_tenant, start_django, start_with_database

# The file beside the collected static files that identifies their sources.
STAMP = ".made-from"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of the preparation.

    `link` is the path of the one-time link for the first administrator, None if an administrator can sign in already.
    """

    link: str | None = None
    warnings: list[str] = field(default_factory=list)
    error: str | None = None


def prepare() -> Prepared:
    """Check the settings and Redis, and prepare queue folders, database, seal key and static files.

    Raises `Stop` if a check or a preparation fails.
    """
    start_django()
    from handoffaudit.accounts.people import make_first_link
    from handoffaudit.celery import make_queue_folders
    from handoffaudit.cli import database

    warnings = check_settings()
    make_queue_folders()
    with database.stop_on_database_errors():
        database.refuse_emptied()
        database.refuse_damaged()
        database.refuse_unknown()
        database.migrate()
        link = make_first_link()
    check_redis()
    make_seal_key()
    try:
        collect_static()
    except OSError as error:
        raise Stop(describe_unwritable(error)) from error
    return Prepared(link=link, warnings=warnings)


def check_settings() -> list[str]:
    """Check the settings and return warnings. Raises `Stop` for settings that are unsafe."""
    from django.core import checks

    from handoffaudit.checks import TAG

    found = checks.run_checks(tags=[TAG])
    messages = [f"{one.msg} {one.hint} ({one.id})" for one in found]
    if any(one.is_serious() for one in found):
        raise Stop(next(text for one, text in zip(found, messages, strict=True) if one.is_serious()))
    return messages


def check_redis() -> None:
    from django.conf import settings

    if not settings.REDIS_URL:
        return
    import redis

    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        raise Stop(f"Redis can't be reached ({error}): check that it runs and that REDIS_URL is right.") from error


def make_seal_key() -> None:
    """Make the seal key at the first start. Raise `Stop` if the key cannot be made or used."""
    from django.conf import settings

    from handoffaudit.trust import signatures

    try:
        signatures.load_key(settings.DATA_FOLDER)
    except signatures.WrongKey as error:
        raise Stop(str(error)) from error


def collect_static() -> None:
    """Write hashed and compressed copies of the static files, unless the folder has current copies.

    All files in the folder are deleted before the copies are written. If `HANDOFFAUDIT_STATIC` names a folder with a
    `staticfiles.json`, nothing is deleted or written, because the operator keeps such a folder current. Raises `Stop`
    if the named folder has files, but neither `staticfiles.json` nor the stamp of an interrupted start.
    """
    from django.conf import settings
    from django.core.management import call_command

    root = Path(settings.STATIC_ROOT)
    is_named = bool(os.environ.get("HANDOFFAUDIT_STATIC"))
    made = (root / "staticfiles.json").is_file()
    if made and (is_named or is_static_current()):
        return
    is_filled = root.is_dir() and any(root.iterdir())
    if is_named and is_filled and not (root / STAMP).is_file():
        raise Stop(
            f"HANDOFFAUDIT_STATIC is {str(root)!r}, a folder with other files, which would be deleted: name a new or "
            "empty folder."
        )
    root.mkdir(parents=True, exist_ok=True)
    # If this process is killed, the next start recognizes its own files by the stamp.
    (root / STAMP).touch()
    call_command("collectstatic", interactive=False, clear=is_filled, verbosity=0)
    (root / STAMP).write_text(_fingerprint())


def is_static_current() -> bool:
    """Return whether the collected static files are those of this version; False for a folder without a stamp."""
    from django.conf import settings

    stamp = Path(settings.STATIC_ROOT) / STAMP
    return stamp.is_file() and stamp.read_text() == _fingerprint()


def _fingerprint() -> str:
    from django.conf import settings
    from django.contrib.staticfiles.finders import get_finders

    seen = hashlib.sha256(settings.VERSION.encode())
    for finder in get_finders():
        for path, storage in finder.list([]):
            status = Path(storage.path(path)).stat()
            seen.update(f"\n{path} {status.st_size} {status.st_mtime_ns}".encode())
    return seen.hexdigest()


def prepare_or_error() -> Prepared:
    """Prepare the data folder, or return the error that a person can correct."""
    try:
        return prepare()
    except Stop as error:
        return Prepared(error=error.message)


def main(*, as_json: bool) -> int:
    prepared = prepare_or_error()
    if as_json:
        sys.stdout.write(json.dumps(asdict(prepared)))
    else:
        _tell(prepared)
    return 2 if prepared.error else 0


def _tell(prepared: Prepared) -> None:
    for line in prepared.warnings:
        sys.stderr.write(f"Warning: {line}\n")
    if prepared.error:
        sys.stderr.write(f"Error: {prepared.error}\n")
    elif prepared.link:
        from django.conf import settings

        sys.stdout.write(f"First administrator, one-time link: {settings.PUBLIC_URL}{prepared.link}\n")


def fill_samples() -> None:
    """Load the handoff files and logs of the sample. `up --sample` has already imported the handoffs of the sample."""
    start_with_database()
    from handoffaudit.accounts import tenants
    from handoffaudit.diagnostics import sample_tenants

    sample_tenants.fill_beside(find_tenant(tenants.DEFAULT))


if __name__ == "__main__":
    if sys.argv[1:] == ["--samples"]:
        fill_samples()
    else:
        sys.exit(main(as_json="--json" in sys.argv[1:]))
