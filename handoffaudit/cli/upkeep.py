"""Small commands: backup, export and recount of stored data, Django's own commands, and one-time sign-in links."""

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import (
    actor_name,
    find_database_file,
    find_tenant,
    make_data_folder,
    refuse_no_data,
    start_django,
    start_with_database,
)
from handoffaudit.cli.terminal import ProgressLine, data_option, example, json_option, tenant_option
from handoffaudit.sqlite_file import REMEDY, find_damage, is_damage

# The backup copies this many pages (of 4 KiB) before it reports progress and reacts to Ctrl-C.
PAGES = 4096
FILTERS = ("state", "type", "source", "target", "code", "trace", "since", "until")
# These commands of Django create the database, or need none.
WITHOUT_DATA = ("migrate", "help", "version", "check", "makemigrations", "collectstatic", "export_openapi_schema")


@click.command(name="backup", epilog=example("handoffaudit backup /backups/handoffaudit.sqlite3"))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@data_option
def backup(file: Path) -> None:
    """Write the whole database to FILE, which must not exist; the server can keep running.

    The command checks the copy before it creates FILE. If the copy is damaged, the command fails and creates no FILE.

    Also keep the files secret-key and seal-key of the data folder. Without secret-key, everybody must sign in again,
    and authenticator apps and recovery codes stop working. The seals are signed with seal-key. To restore, stop the
    server, put FILE back as handoffaudit.sqlite3, remove the files beside it that end in -wal and -shm, and start the
    server.
    """
    if (database := find_database_file()) is None:
        # This call reports an address that cannot be read or names another kind of database.
        start_django()
        raise Stop('The database is PostgreSQL: pg_dump --format=custom --file=FILE "$DATABASE_URL" backs it up.')
    refuse_no_data()
    try:
        if file.exists():
            raise Stop(f"{file} is there already: name a new file.")
        # The file is readable only for its owner, as the database is.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")
        os.close(handle)
        draft = Path(name)
        try:
            _copy(database, draft)
            with ProgressLine().during(lambda: "100 % copied, checking the copy"):
                _refuse_damage(database, draft)
            draft.rename(file)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except FileNotFoundError as error:
        raise Stop(
            f"{file} can't be written ({error.strerror}): create its folder, or name a file elsewhere."
        ) from error
    except (OSError, sqlite3.Error) as error:
        if is_damage(error):
            raise _build_damage_error(database, str(error)) from error
        raise Stop(f"{file} can't be written ({error}){_describe_lack_of_room(file, database)}.") from error
    click.echo(f"{file}: {file.stat().st_size:,} bytes, a copy of {database}.", err=True)


def _describe_lack_of_room(file: Path, database: Path) -> str:
    """Return the end of a message about a file that can't be written: empty if a lack of room can't be the cause."""
    try:
        free, needed = shutil.disk_usage(file.parent).free, database.stat().st_size
    except OSError:
        return ""
    if free >= needed:
        return ""
    return (
        f": {free / 1e6:,.0f} MB are free in {file.parent}, and the database has {needed / 1e6:,.0f} MB: make room, or"
        " name a file on another disk"
    )


def _refuse_damage(database: Path, copy: Path) -> None:
    """Raise `Stop` if the copy is damaged. A damaged copy shows that the original database is damaged, too."""
    if damage := find_damage(copy, thorough=True):
        raise _build_damage_error(database, damage)


def _build_damage_error(database: Path, damage: str) -> Stop:
    return Stop(f"No backup was written, because the database {database} is damaged ({damage}): {REMEDY}")


def _copy(database: Path, target: Path) -> None:
    progress = ProgressLine()

    def tell(_: int, left: int, pages: int) -> None:
        progress.update(lambda: f"{100 * (pages - left) / max(pages, 1):.0f} % copied")

    with (
        contextlib.closing(sqlite3.connect(database.as_uri() + "?mode=ro", uri=True, timeout=20)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        # A read transaction pins the state of the source. Without it, SQLite would restart the copy after each write of
        # another process. In WAL mode, writers do not wait for the reader.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(copy, pages=PAGES, progress=tell)
        # The backup must be a single file, without a write-ahead log beside it.
        copy.execute("PRAGMA journal_mode=DELETE")
    progress.finish()


@click.command(name="recount", epilog=example("handoffaudit recount --check"))
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a count is wrong.")
@click.option(
    "--agents",
    is_flag=True,
    help="Also recompute which agent introduced each finding, and the finding groups. Takes longer.",
)
@data_option
@json_option
def recount(*, check: bool, agents: bool, as_json: bool) -> None:
    """Count all handoffs and handoff files again, compare with the stored counts, and correct the differences."""
    if check and agents:
        raise click.UsageError("--check changes nothing and --agents does: give one of them.")
    start_with_database()
    from handoffaudit.diagnostics import attribution, file_reports
    from handoffaudit.diagnostics.models import Watermark
    from handoffaudit.handoffs.recount import Difference, RecountLease
    from handoffaudit.handoffs.recount import recount as recount_counts

    lease = RecountLease(Watermark, "recount")
    held_until = None if check else lease.acquire()
    if held_until is None and not check:
        raise Stop("Another process corrects the counts: wait until it ends or, if it was killed, for an hour.")
    try:
        with ProgressLine().during(lambda: "counting all handoffs"):
            parts = [recount_counts(repair=not check), file_reports.recount_days(repair=not check)]
    finally:
        lease.release(held_until)
    found = Difference(sum(one.rows for one in parts), sum(one.wrong for one in parts))
    gone_over = None
    if agents:
        with ProgressLine().during(lambda: "attributing all findings"):
            gone_over = attribution.rebuild()
    if as_json:
        result = {"rows": found.rows, "wrong": found.wrong, "repaired": bool(found.wrong) and not check}
        click.echo(json.dumps(result | ({} if gone_over is None else {"gone_over": gone_over})))
    elif not found.wrong:
        click.echo(f"All {found.rows:,} counts are right.")
    elif check:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts are wrong: run handoffaudit recount to correct them.")
    else:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts were wrong and are corrected.")
    if gone_over is not None and not as_json:
        click.echo(f"The findings of {gone_over:,} handoffs were attributed again.")
    if check and found.wrong:
        sys.exit(1)


@click.command(
    name="manage",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=example("handoffaudit manage migrate", "handoffaudit manage help"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]...")
@data_option
def manage(arguments: tuple[str, ...]) -> None:
    """Run one of Django's own commands; `manage help` lists them."""
    if misplaced := next((one for one in arguments if one == "--data" or one.startswith("--data=")), None):
        raise click.UsageError(f"{misplaced} goes before the command: handoffaudit manage --data DIR {arguments[0]}.")
    if arguments and not {"-h", "--help"} & set(arguments) and arguments[0] not in WITHOUT_DATA:
        refuse_no_data()
    if arguments[:1] == ("migrate",) and not os.environ.get("DATABASE_URL"):
        make_data_folder()
    start_django()
    from django.core.management import execute_from_command_line

    if arguments[:1] == ("migrate",):
        from handoffaudit.cli import database

        with database.stop_on_database_errors():
            pass
    execute_from_command_line(["handoffaudit manage", *arguments])


@click.command(
    name="export",
    epilog=example(
        "handoffaudit export --since 30d > handoffs.jsonl",
        "handoffaudit export --reviews | handoffaudit eval -",
    ),
)
@click.option("--state", metavar="STATES", help="Only handoffs in these states, e.g. rejected,held.")
@click.option("--type", metavar="TYPE", help="Only this handoff type.")
@click.option("--source", metavar="AGENT", help="Only handoffs from this agent.")
@click.option("--target", metavar="AGENT", help="Only handoffs to this agent.")
@click.option("--code", metavar="CODE", help="Only handoffs with a finding of this rule code.")
@click.option("--trace", metavar="TRACE", help="Only handoffs of this trace.")
@click.option("--since", metavar="TIME", help="Only handoffs since: 24h, 7d, a date, or a date and time.")
@click.option("--until", metavar="TIME", help="Only handoffs before this time (exclusive).")
@click.option(
    "--reviews", is_flag=True, help="Only handoffs decided by a person, with the decision, as input for eval."
)
@tenant_option
@data_option
def export(tenant: str, *, reviews: bool, **given: str | None) -> None:
    """Write stored handoffs to standard output as JSONL, one submission per line, oldest first.

    Each line can be imported again, here or elsewhere. Documents that are not JSON, and documents that retention has
    deleted, are left out and counted.
    """
    start_with_database()
    from handoffaudit import replica
    from handoffaudit.filter_fields import FilterError
    from handoffaudit.handoffs import export
    from handoffaudit.handoffs.filters import Filters

    try:
        filters = Filters.from_query({name: given[name] or "" for name in FILTERS})
    except FilterError as bad:
        raise Stop(f"--{bad.field} is {bad.value!r}: {bad.remedy}") from None
    out = sys.stdout.buffer
    written = unreadable = removed = 0
    progress = ProgressLine()
    with replica.prefer():
        for line in export.lines(find_tenant(tenant), filters, reviews=reviews):
            if line.text is None:
                removed += line.is_removed
                unreadable += not line.is_removed
                continue
            out.write(line.text + b"\n")
            written += 1
            # In a terminal, the handoffs themselves show the progress.
            if not out.isatty():
                progress.update(partial("{:,} handoffs written".format, written))
    progress.finish()
    out.flush()
    if filters.code and not written and not _is_code(filters.code):
        raise Stop(f"--code is {filters.code!r}, which is not a rule code: the product lists all under Help, Codes.")
    left_out = f" {unreadable:,} that are not JSON were left out." if unreadable else ""
    left_out += f" {removed:,} whose documents retention has removed were left out." if removed else ""
    if reviews and not (written or left_out):
        left_out = " No matching handoff was decided by a person: decide handoffs on the page Review first."
    click.echo(f"{written:,} handoff{'' if written == 1 else 's'} written.{left_out}", err=True)


def _is_code(code: str) -> bool:
    from handoffaudit.validation.layers import CATALOGUE, FAMILIES

    return code in CATALOGUE or code.partition(".")[0] in FAMILIES


@click.command(name="sign-in-link", epilog=example("handoffaudit sign-in-link mara"))
@click.argument("name")
@click.option("--reset-second-factor", is_flag=True, help="Also remove the person's passkeys, app and recovery codes.")
@data_option
def sign_in_link(name: str, *, reset_second_factor: bool) -> None:
    """Make a one-time link for the person NAME and print only the link on standard output.

    The person chooses a new password with the link or, if sign-in with a password is switched off, is signed in
    immediately. The link works for three days. Earlier links of the person stop working. The audit log records the
    link.
    """
    start_with_database()
    from django.conf import settings

    from handoffaudit.accounts import people
    from handoffaudit.accounts.models import Person

    person = Person.objects.filter(username__iexact=name, is_active=True).first()
    if person is None:
        raise Stop(f"There is no active person {name!r}: see Settings, People, for the names.")
    path = people.make_operator_link(person=person, actor=actor_name(), drop_factors=reset_second_factor)
    click.echo(f"{settings.PUBLIC_URL}{path}")
    if not settings.PUBLIC_URL:
        click.echo("Put the address of the server before the link, such as http://localhost:8000.", err=True)
