"""Checks of a command's database: connection, damage and version; and the migration."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model
from psycopg_pool import PoolTimeout

from handoffaudit.cli import Stop
from handoffaudit.database_faults import Cause, describe_shortage, fault_of
from handoffaudit.sqlite_file import REMEDY, find_damage, is_damage, store_statistics


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for an exclusive lock and hold it; the lock is freed however the process ends."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


CONNECT_SECONDS = 5

# The longest time for which a command looks for damage at its start. If the file is cached in memory, this time is
# enough for some gigabytes.
DAMAGE_SECONDS = 5.0


@contextmanager
def stop_on_database_errors() -> Iterator[None]:
    """End the command with one line if the database can't be reached or read."""
    try:
        _try_connection()
        yield
    except (DatabaseError, PoolTimeout, psycopg.Error) as error:
        raise describe_error(error) from error


def describe_error(error: BaseException) -> Stop:
    """Return the message about an error of the database as the error that ends a command."""
    reason = " ".join(str(error.__cause__ or error).split())
    if is_damage(error):
        return damage_error(reason)
    return Stop(f"The database {name_database()} can't be used ({reason}): {_suggest_remedy(error)}")


def damage_error(reason: str) -> Stop:
    return Stop(f"The database {name_database()} is damaged ({reason}): {REMEDY}")


def refuse_damaged() -> None:
    """Raise `Stop` if a check of a few seconds finds damage in the SQLite file."""
    if connection.vendor == "sqlite" and (
        damage := find_damage(Path(connection.settings_dict["NAME"]), seconds=DAMAGE_SECONDS)
    ):
        raise damage_error(damage)


def refuse_emptied() -> None:
    """Raise `Stop` if the SQLite file has 0 bytes although it had tables before.

    A first start that was killed also leaves 0 bytes, and is not refused. The file had tables if the lock file of the
    migration or SQLite's log (`-wal`) has content. It also had tables if the data folder has static files, which older
    versions kept there.
    """
    if connection.vendor != "sqlite":
        return
    file = Path(connection.settings_dict["NAME"])
    if not file.is_file() or file.stat().st_size:
        return
    had_content = (one.is_file() and one.stat().st_size for one in (_migrate_lock(), Path(f"{file}-wal")))
    if any(had_content) or (settings.DATA_FOLDER / "static").is_dir():
        raise Stop(
            f"The database {file} has 0 bytes, but the data folder was in use before: {REMEDY} To start with an empty"
            " database instead, remove that file and the files that end in -wal and -shm beside it."
        )


def _try_connection() -> None:
    """Connect to PostgreSQL once, without the pool, which would retry for half a minute if the server is away."""
    if connection.vendor == "postgresql":
        parameters = {name: value for name, value in connection.get_connection_params().items() if name != "pool"}
        psycopg.connect(**parameters | {"connect_timeout": CONNECT_SECONDS}).close()


def name_database() -> str:
    """Return the name and the address of the database, without its password."""
    name = connection.settings_dict["NAME"]
    host = connection.settings_dict.get("HOST")
    return f"{name} at {host}:{connection.settings_dict.get('PORT') or 5432}" if host else str(name)


def _suggest_remedy(error: BaseException) -> str:
    fault = fault_of(error)
    if fault and fault.cause is not Cause.AWAY:
        return f"{fault.detail.partition(': ')[2] or 'try again later'}."
    if connection.vendor == "sqlite":
        # On a full disk, SQLite also reports errors that do not name the cause.
        shortage = describe_shortage()
        return f"{shortage or 'check the file and its permissions, or give another folder with --data'}."
    return "check that the server runs and that DATABASE_URL is right."


def refuse_unknown() -> None:
    """Raise `Stop` if a newer version migrated the database, or if some of the migrations before 0.1.0 are missing."""
    ours = {app.split(".")[-1] for app in settings.INSTALLED_APPS if app.startswith("handoffaudit.")}
    applied = {key for key in MigrationRecorder(connection).applied_migrations() if key[0] in ours}
    there = MigrationLoader(None).disk_migrations
    replaced = {key for migration in there.values() for key in migration.replaces}
    if unknown := sorted(applied - set(there) - replaced):
        app, name = unknown[0]
        raise Stop(
            f"The database {name_database()} was made by a newer version of handoffaudit (migration {app}.{name} is not"
            f" known to {settings.VERSION}): upgrade handoffaudit, or give another folder with --data."
        )
    for migration in there.values():
        lacking = sorted(set(migration.replaces) - applied)
        if lacking and len(lacking) < len(migration.replaces):
            app, name = lacking[0]
            raise Stop(
                f"The database {name_database()} was made before version 0.1.0 (migration {app}.{name} was"
                " never applied): export its handoffs with the version that made it, and import them into a new folder"
                " (--data)."
            )


def is_behind() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> None:
    """Migrate the database, one process at a time, because parallel migrations of an SQLite file conflict."""
    with hold_lock(_migrate_lock()):
        if connection.vendor == "sqlite" and not connection.introspection.table_names():
            create_tables()
        elif is_behind():
            call_command("migrate", interactive=False, verbosity=0)
        if connection.vendor == "sqlite":
            # A new version may have other statistics without a migration.
            connection.ensure_connection()
            with connection.wrap_database_errors:
                store_statistics(connection.connection)
            if not _migrate_lock().stat().st_size:
                _migrate_lock().write_text(f"The tables of {connection.settings_dict['NAME']} are made.\n")


def _migrate_lock() -> Path:
    """Return the lock file of the migration. The file has content once the SQLite database has its tables."""
    folder: Path = settings.DATA_FOLDER
    return folder / "migrate.lock"


def create_tables() -> None:
    """Create the tables of an empty SQLite database from the models, and record every migration as applied.

    A first start would otherwise wait for the migrations, which take ten times as long. Everything is one transaction.
    """
    migrations = MigrationLoader(None).disk_migrations
    applied = {*migrations, *(key for migration in migrations.values() for key in migration.replaces)}
    recorder = MigrationRecorder(connection)
    models: list[type[Model]] = [recorder.Migration, *apps.get_models()]
    with connection.schema_editor() as editor:
        for model in models:
            editor.create_model(model)
        # The signal below stores statistics about the indexes, so the indexes must exist by then. The editor would
        # create them later.
        for statement in editor.deferred_sql:
            editor.execute(statement)
        editor.deferred_sql.clear()
        recorder.Migration.objects.bulk_create(recorder.Migration(app=app, name=name) for app, name in sorted(applied))
        emit_post_migrate_signal(verbosity=0, interactive=False, db=connection.alias, apps=apps, plan=[])
