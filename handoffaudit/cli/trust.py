"""Commands that prove what was recorded: `verify-log`, `seal-key`, `evidence` and `verify-bundle`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import find_tenant, start_with_database
from handoffaudit.cli.terminal import (
    ProgressLine,
    data_folder,
    data_option,
    example,
    json_option,
    printable,
    tenant_option,
)

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.trust.chain import Report

# The exit code of verify-bundle for a bundle that is intact and says that it left something out.
INCOMPLETE: Final = 3


@click.command(
    name="verify-log",
    epilog=example("handoffaudit verify-log", "handoffaudit verify-log --checkpoint checkpoints.jsonl"),
)
@click.option("--tenant", metavar="SLUG", help="Check only this tenant's log. Default: all logs.")
@click.option(
    "--checkpoint",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also compare with the checkpoints in this file, kept outside the database.",
)
@click.option("--key", metavar="PUBLIC", help="The public key, or a file with it. Default: the key of this server.")
@data_option
@json_option
def verify_log(tenant: str | None, checkpoint: Path | None, key: str | None, *, as_json: bool) -> None:
    """Check the audit log and its seals. Exits with 1 if something was changed, removed or added.

    The seals cover decisions, verdicts and policy versions. The command names each sealed row that was changed or
    removed, and each row that was added among sealed rows. It also names each handoff whose state differs from its
    newest event, and the first broken entry of the audit log. It stops at 50 problems of a tenant. Somebody who can
    write to the database and knows the seal key can make a log that this command accepts. If somebody without the key
    removed the newest rows, only --checkpoint shows it.
    """
    start_with_database()
    from handoffaudit.accounts.models import Tenant

    public = _public_key(key)
    chosen = [find_tenant(tenant)] if tenant else list(Tenant.objects.order_by("slug"))
    reports = {one.slug: _verify(one, public) for one in chosen}
    if checkpoint is not None:
        _compare(checkpoint, chosen, reports, public, is_complete=tenant is None)
    if as_json:
        click.echo(json.dumps({"items": [_as_json(slug, one) for slug, one in reports.items()]}))
    else:
        for slug, report in reports.items():
            click.echo("\n".join(_lines(slug, report)))
    if not all(report.is_intact for report in reports.values()):
        sys.exit(1)


def _verify(tenant: "Tenant", public: str | None) -> "Report":
    """Verify the log of a tenant, and show how many sealed rows were verified."""
    from handoffaudit.trust import chain

    report = chain.Report()
    with ProgressLine().during(lambda: f"{tenant.slug}: {report.rows:,} sealed rows verified"):
        return chain.verify(tenant, public, report)


def _public_key(given: str | None) -> str | None:
    from handoffaudit.trust import signatures

    try:
        if given is not None:
            return signatures.read_public_key(given)
        found = signatures.find_key(data_folder())
    except signatures.WrongKey as error:
        raise Stop(str(error)) from error
    return found.public if found else None


def _compare(
    file: Path, tenants: "list[Tenant]", reports: "dict[str, Report]", key: str | None, *, is_complete: bool
) -> None:
    """Compare the logs with the checkpoints of a file, and add each contradiction to the reports.

    A tenant without a checkpoint in the file is a problem, too, unless the tenant is a sample. Raise `Stop` if the file
    can't be read.
    """
    from handoffaudit.trust import chain, checkpoints

    by_slug, seen = {one.slug: one for one in tenants}, set()
    known = {one for report in reports.values() for one in report.keys} | ({key} if key else set())
    try:
        for line in checkpoints.read_lines(file, known):
            slug = line.facts["tenant"]
            if slug in by_slug:
                seen.add(slug)
                found = list(checkpoints.compare(by_slug[slug], line))
            elif is_complete:
                found = [f"checkpoint in line {line.number}: there is no tenant with this name"]
                reports.setdefault(slug, chain.Report())
            else:
                continue
            room = chain.MOST_PROBLEMS - len(reports[slug].problems)
            reports[slug].problems += [one for one in found if one not in reports[slug].problems][: max(room, 0)]
    except OSError as error:
        raise Stop(f"{file} can't be read ({error.strerror}).") from error
    for slug in by_slug.keys() - seen:
        if not by_slug[slug].is_sample:
            reports[slug].problems.append(f"{file.name} has no checkpoint of this tenant")


def _as_json(slug: str, report: "Report") -> dict[str, Any]:
    return {
        "tenant": slug,
        "entries": report.entries,
        "intact": report.is_intact,
        "broken_at": report.broken.number if report.broken else None,
        "why": report.broken.why if report.broken else None,
        "seals": report.seals,
        "sealed_rows": report.rows,
        "removed_rows": report.removed,
        "erased_rows": report.erased,
        "waiting": report.waiting,
        "waiting_since": report.waiting_since.isoformat() if report.waiting_since else None,
        "problems": report.problems,
        "notes": report.notes,
    }


def _lines(slug: str, report: "Report") -> list[str]:
    state = "intact" if report.is_intact else "broken"
    lines = [f"{slug}: {state}, {report.entries:,} entries, {report.seals:,} seals of {report.rows:,} rows."]
    lines += [f"  {problem}" for problem in report.problems]
    if report.removed:
        lines.append(f"  note: retention removed {report.removed:,} of the sealed rows")
    if report.erased:
        lines.append(f"  note: erasures replaced a value in sealed rows {report.erased:,} times, as the seals say")
    if report.waiting_since is not None:
        lines.append(
            f"  note: {report.waiting:,} events wait for a seal, since {report.waiting_since:%Y-%m-%d %H:%M:%S} UTC"
        )
    return [*lines, *(f"  note: {note}" for note in report.notes)]


@click.group(name="seal-key")
def seal_key() -> None:
    """Show or change the key that signs seals, checkpoints and evidence bundles."""


@seal_key.command(name="show", epilog=example("handoffaudit seal-key show > seal-key.pub"))
@data_option
@json_option
def show(*, as_json: bool) -> None:
    """Print the public key, with which others check signatures."""
    from handoffaudit.trust import signatures

    public = _public_key(None)
    if public is None:
        raise Stop("There is no seal key yet: the first start of the server makes the key.")
    click.echo(json.dumps({"public_key": public, "key_id": signatures.id_of(public)}) if as_json else public)


@seal_key.command(name="rotate", epilog=example("handoffaudit seal-key rotate"))
@click.option("--lost", is_flag=True, help="The old key is lost: the new key alone signs the change.")
@data_option
def rotate(*, lost: bool) -> None:
    """Make a new key. The change is a seal that the old and the new key sign.

    If HANDOFFAUDIT_SEAL_KEY is set, the command prints the new value on standard output: set the variable to this
    value on every node, and restart.
    """
    start_with_database()
    from django.db import transaction

    from handoffaudit.trust import seals, signatures

    folder, new = data_folder(), signatures.make_key()
    is_set = signatures.is_set()
    try:
        old = None if lost else signatures.find_key(folder)
        if old is None and not lost:
            raise Stop("There is no seal key to change. If the key was lost, add --lost.")
        draft = None if is_set else signatures.write_draft(folder, new)
        with transaction.atomic():
            number = seals.change_key(old, new)
            if draft is None:
                # If the new key cannot be printed, nobody has it, so it must not sign.
                if sys.stdout is None:
                    raise Stop("Standard output is closed, so the new key can't be printed: the key did not change.")
                click.echo(new.secret)
    except signatures.WrongKey as error:
        raise Stop(str(error)) from error
    except OSError as error:
        raise Stop(f"The new key can't be printed ({error.strerror}), so the key did not change.") from error
    if draft is not None:
        draft.replace(folder / signatures.KEY_FILE)
    click.echo(f"{number:,} chains of seals continue with the key {new.key_id}.", err=True)


@click.command(
    name="evidence",
    epilog=example(
        "handoffaudit evidence --handoff 0191f0c2-… --output evidence.zip",
        "handoffaudit evidence --since 2026-11-01 --until 2026-11-02 --output day.zip",
    ),
)
@click.option("--handoff", metavar="ID", help="The handoff, with its other attempts.")
@click.option("--trace", metavar="TRACE", help="All handoffs of this trace.")
@click.option(
    "--since",
    metavar="TIME",
    help="All handoffs since: 24h, 7d, a date, or a date and time (UTC); rounded down to the hour, or to the"
    " day if it is more than 70 days ago.",
)
@click.option(
    "--until",
    metavar="TIME",
    help="With --since: before this time, rounded up to the hour, or to the day if it is more than 70 days ago."
    " Default: the end of the current hour.",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The new file.")
@tenant_option
@data_option
def evidence(
    handoff: str | None, trace: str | None, since: str | None, until: str | None, output: Path, tenant: str
) -> None:
    """Write a signed evidence bundle about a handoff, a trace or a period into FILE, which must not exist."""
    asked = {"handoff": handoff, "trace": trace, "since": since, "until": until}
    if [handoff, trace, since].count(None) != 2 or (until is not None and since is None):
        raise click.UsageError("Give one of --handoff, --trace and --since; --until needs --since.")
    start_with_database()
    from django.conf import settings

    from handoffaudit.cli.bootstrap import actor_name
    from handoffaudit.filter_fields import FilterError
    from handoffaudit.handoffs.models import Handoff
    from handoffaudit.trust import bundle, bundle_check, signatures
    from handoffaudit.validation.text import pluralize

    try:
        subject = bundle.find_subject(find_tenant(tenant), {name: value for name, value in asked.items() if value})
        key = signatures.load_key(settings.DATA_FOLDER)
        with output.open("xb") as file:
            try:
                for part in bundle.build(subject, key, by=actor_name(), with_audit=True):
                    file.write(part)
            except BaseException:
                output.unlink()
                raise
    except FileExistsError as error:
        raise Stop(f"{output} is there already: name a new file.") from error
    except OSError as error:
        raise Stop(f"{output} can't be written ({error.strerror}).") from error
    except (bundle.TooLarge, bundle.NothingFound, FilterError, signatures.WrongKey, Handoff.DoesNotExist) as error:
        raise Stop(str(error)) from error
    count = pluralize(len(subject.handoffs), "handoff")
    click.echo(f"{output}: {count}, {output.stat().st_size:,} bytes.", err=True)
    for line in bundle_check.describe_left_out(subject.left_out):
        click.echo(f"  left out: {line}", err=True)


@click.command(name="verify-bundle", epilog=example("handoffaudit verify-bundle evidence.zip --key seal-key.pub"))
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key", metavar="PUBLIC", help="The public key of the server, or a file with it (seal-key show).")
@json_option
def verify_bundle(file: Path, key: str | None, *, as_json: bool) -> None:
    """Check an evidence bundle offline. Exits with 1 if the bundle was changed or is signed with another key.

    Exits with 3 if the bundle is intact and says that it left something out. Without --key, the command trusts the key
    inside the bundle, which anybody can put there.
    """
    from handoffaudit.trust import bundle_check, signatures

    try:
        result = bundle_check.check(file, signatures.read_public_key(key) if key is not None else None)
    except signatures.WrongKey as error:
        raise Stop(str(error)) from error
    except bundle_check.WrongBundle as error:
        if as_json:
            click.echo(json.dumps({"intact": False, "problems": [str(error)], "notes": []}))
        else:
            click.echo(printable(f"{file.name}: broken. {error}"))
        sys.exit(1)
    found = {name: result.manifest[name] for name in ("tenant", "subject", "made_at", "made_by", "public_key")}
    found |= {name: getattr(result, name) for name in ("files", "seals", "entries", "problems", "notes")}
    left_out = result.manifest.get("left_out", {})
    found |= {"intact": not result.problems, "sealed_rows": result.sealed, "left_out": left_out}
    if as_json:
        click.echo(json.dumps(found))
    else:
        state = "broken" if result.problems else "intact, but not complete" if left_out else "intact"
        click.echo(
            f"{file.name}: {state}, {result.files:,} files, {result.sealed:,} sealed rows, {result.seals:,} seals."
        )
        click.echo(printable(f"  made at {found['made_at']} by {found['made_by']}"))
        left_out_lines = (f"left out: {one}" for one in result.left_out)
        for line in (*result.problems, *left_out_lines, *(f"note: {note}" for note in result.notes)):
            click.echo(printable(f"  {line}"))
    if result.problems or left_out:
        sys.exit(1 if result.problems else INCOMPLETE)
