"""Start of Django for the commands that need it, with a database that is ready for use."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import DATABASE_FILE, data_folder

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant


def start_django() -> None:
    """Load Django with defaults for a terminal: logs are text, and only warnings and errors are logged.

    Raise `Stop` for wrong settings, or a data folder that cannot be written.
    """
    from django.core.exceptions import ImproperlyConfigured
    from environs import EnvError

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")
    os.environ.setdefault("HANDOFFAUDIT_LOG_FORMAT", "text")
    os.environ.setdefault("HANDOFFAUDIT_LOG_LEVEL", "WARNING")
    try:
        import django

        django.setup()
    except (ImproperlyConfigured, EnvError) as error:
        raise Stop(str(error)) from error
    except OSError as error:
        # The settings store a generated secret key in the data folder if HANDOFFAUDIT_SECRET_KEY is not set.
        raise Stop(describe_unwritable(error)) from error


def describe_unwritable(error: OSError) -> str:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "make room on its disk" if is_full else "give another one with --data, or change its permissions"
    return f"The data folder can't be written ({error.strerror}: {error.filename}): {remedy}."


def make_data_folder() -> None:
    """Create the data folder for its owner alone. Raise `Stop` if this fails."""
    try:
        data_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Stop(describe_unwritable(error)) from error


def find_database_file() -> Path | None:
    """Return the file of the SQLite database, or None if `DATABASE_URL` names no SQLite file."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        return data_folder() / DATABASE_FILE
    import dj_database_url

    # The settings report an address that cannot be read.
    with suppress(ValueError, KeyError):
        parsed = dj_database_url.parse(url)
        if parsed["ENGINE"] == "django.db.backends.sqlite3":
            return Path(str(parsed["NAME"])).absolute()
    return None


def refuse_no_data() -> None:
    """Raise `Stop` if there is no SQLite file of the database. Call the function before Django is loaded.

    Only a start of the server and `manage migrate` create a database. A database that another command created would be
    empty, and the server would not know the keys in it.
    """
    file = find_database_file()
    if file is None or file.is_file():
        return
    if os.environ.get("DATABASE_URL"):
        raise Stop(f"There is no database {file}: correct DATABASE_URL.")
    raise Stop(
        f"There is no data in {file.parent}: name the folder that handoffaudit up was started with, by --data or"
        " HANDOFFAUDIT_DATA."
    )


def start_with_database() -> None:
    """Load Django, and check that the database exists and suits this version. Raise `Stop` otherwise.

    The embedded database is migrated if needed.
    """
    refuse_no_data()
    start_django()
    from handoffaudit.cli import database

    with database.stop_on_database_errors():
        database.refuse_emptied()
        database.refuse_unknown()
        if not database.is_behind():
            return
        if os.environ.get("DATABASE_URL"):
            raise Stop("The database is of an older version: run handoffaudit manage migrate first.")
        database.migrate()


def find_tenant(slug: str) -> "Tenant":
    from handoffaudit.accounts import tenants

    found = tenants.get(slug)
    if found is None and slug == tenants.DEFAULT:
        return tenants.default(actor_name())
    if found is None:
        from handoffaudit.accounts.models import Tenant

        known = ", ".join(Tenant.objects.order_by("slug").values_list("slug", flat=True)[:10])
        raise Stop(f"There is no tenant {slug!r}: give one of {known or 'default'}.")
    return found


def actor_name() -> str:
    """Return the name of the user who runs the command, for the audit log."""
    import getpass

    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return "command line"
