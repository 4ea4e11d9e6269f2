"""`handoffaudit policy`: writes all policies to a file, compares a file with them, and applies a file."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import actor_name, find_tenant, start_with_database
from handoffaudit.cli.import_receivers import Server, describe_refusal
from handoffaudit.cli.policy_file import MOST_BYTES, BadFile, PolicyFile, read_file, write_file
from handoffaudit.cli.terminal import data_option, example, json_option, tenant_option

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant

GIT_SECONDS: Final = 10
LONGEST_SHOWN: Final = 100


class Refused(Exception):
    """The refusal of a set: the values that cannot be saved, or the kinds that somebody saved since."""

    def __init__(
        self, detail: str, errors: Sequence[Mapping[str, Any]], conflicts: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__(detail)
        self.errors = errors
        self.conflicts = conflicts


class Target(Protocol):
    """The owner of the policies: the local database, or a server."""

    def export(self) -> dict[str, Any]: ...

    def put(self, **change: Any) -> list[dict[str, Any]]: ...


class LocalTarget:
    """The policies of a tenant in the local database."""

    def __init__(self, tenant: "Tenant") -> None:
        self._tenant = tenant

    def export(self) -> dict[str, Any]:
        from handoffaudit.policy import policy_set

        return policy_set.export(self._tenant)

    def put(self, **change: Any) -> list[dict[str, Any]]:
        from handoffaudit.policy import policy_set

        policies, actor = change["policies"], actor_name()
        try:
            if change.get("dry_run"):
                planned = policy_set.plan(self._tenant, policies, actor)
            else:
                note = policy_set.compose_note(change["commit"], change["note"])
                planned = policy_set.apply(self._tenant, policies, change["base_versions"], actor, note)
        except policy_set.InvalidSet as invalid:
            errors = [
                {"kind": one.kind, "row": one.error.row, "field": one.error.field, "value": one.error.value}
                | {"message": one.error.message, "remedy": one.error.remedy}
                for one in invalid.errors
            ]
            raise Refused(str(invalid), errors, []) from invalid
        except policy_set.StaleSet as stale:
            raise Refused(str(stale), [], [one.to_plain() for one in stale.conflicts]) from stale
        return [one.to_plain() for one in planned]


class ServerTarget(Server):
    """The policies of the key's tenant on a server."""

    scope = "admin"
    again = "try again"

    def export(self) -> dict[str, Any]:
        status, found = self.request("GET", "/policies")
        if status != 200:
            raise Stop(f"The policies can't be read ({describe_refusal(status, found)}).", 2)
        return found

    def put(self, **change: Any) -> list[dict[str, Any]]:
        status, found = self.request("PUT", "/policies", json.dumps(change).encode())
        if status == 200:
            items: list[dict[str, Any]] = found["items"]
            return items
        # Other refusals, such as of a body that is too large, are about no value.
        if status not in (409, 422) or not (found.get("conflicts") or found.get("errors")):
            raise Stop(f"The policies are refused ({describe_refusal(status, found)}).", 2)
        raise Refused(found["detail"], found.get("errors", []), found.get("conflicts", []))


def _target_options(command: Any) -> Any:
    options = (
        tenant_option,
        click.option("--url", metavar="URL", help="A server, instead of the local database."),
        click.option(
            "--key",
            metavar="KEY",
            envvar="HANDOFFAUDIT_KEY",
            help="API key with the scope admin; prefer the variable HANDOFFAUDIT_KEY.",
        ),
        data_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _open_target(tenant: str, url: str | None, key: str | None) -> Target:
    if url:
        if not key:
            raise Stop("--url needs an API key with the scope admin: give it with --key or HANDOFFAUDIT_KEY.")
        return ServerTarget(url, key)
    start_with_database()
    return LocalTarget(find_tenant(tenant))


@click.group(name="policy", epilog=example("handoffaudit policy export > policy.yaml"))
def command() -> None:
    """Keep policies in a file: export, compare and apply them."""


@command.command(name="export", epilog=example("handoffaudit policy export > policy.yaml"))
@_target_options
@json_option
def export(tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Write all policies to standard output as YAML. Applying the file right away changes nothing."""
    found = _open_target(tenant, url, key).export()
    click.echo(json.dumps(found) if as_json else write_file(found["policies"]), nl=as_json)


@command.command(name="diff", epilog=example("handoffaudit policy diff policy.yaml"))
@click.argument("file", metavar="FILE")
@_target_options
@json_option
def diff(file: str, tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Compare FILE with the policies in force.

    Exits with 0 if nothing differs, with 1 if something does, and with 2 if FILE is invalid.
    """
    read = _read(file)
    items = _compare(_open_target(tenant, url, key), file, read)
    _show(items, as_json=as_json, is_saved=False)
    sys.exit(1 if any(item["changes"] for item in items) else 0)


@command.command(
    name="apply",
    epilog=example("handoffaudit policy apply policy.yaml --dry-run", "handoffaudit policy apply policy.yaml"),
)
@click.argument("file", metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Save nothing, and exit as diff does.")
@click.option("--commit", metavar="HASH", help="The commit that FILE comes from. Default: the current one of git.")
@click.option("--note", default="", metavar="TEXT", help="Why the policies change, for the history.")
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="KIND=VERSION",
    help="The version that was reviewed, as diff prints it; a kind with a later version is refused. Repeatable.",
)
@_target_options
@json_option
def apply(
    file: str,
    tenant: str,
    url: str | None,
    key: str | None,
    **given: Any,
) -> None:
    """Save the kinds of policies in FILE that differ, all of them or none.

    FILE is compared first. Exits with 1 if somebody saved a policy meanwhile, and with 2 if FILE is invalid.
    """
    read, bases = _read(file), _read_bases(given["bases"])
    target, as_json = _open_target(tenant, url, key), given["as_json"]
    items = _compare(target, file, read)
    if given["dry_run"]:
        _show(items, as_json=as_json, is_saved=False)
        sys.exit(1 if any(item["changes"] for item in items) else 0)
    commit = _find_commit(file) if given["commit"] is None else _check_commit(given["commit"])
    versions = {item["kind"]: item["base_version"] for item in items} | bases
    try:
        saved = target.put(policies=read.policies, base_versions=versions, commit=commit, note=given["note"])
    except Refused as refused:
        raise _explain(refused, file, read) from refused
    _show(saved, as_json=as_json, is_saved=True)


def _read(file: str) -> PolicyFile:
    try:
        with click.open_file(file, "rb") as opened:
            return read_file(opened.read(MOST_BYTES + 1))
    except OSError as error:
        raise Stop(f"{file} can't be read ({error.strerror}).") from error
    except BadFile as bad:
        place = f"{file}, line {bad.line}" if bad.line else file
        raise Stop(f"{place}: {bad.message} {bad.remedy}") from bad


def _read_bases(given: Sequence[str]) -> dict[str, int]:
    found = {}
    for one in given:
        kind, _, version = one.partition("=")
        if not kind or not version.isdecimal() or len(version) > 9:
            raise click.UsageError(f"--base is {one!r}: write a kind and its version, such as rules=3.")
        found[kind] = int(version)
    return found


def _compare(target: Target, file: str, read: PolicyFile) -> list[dict[str, Any]]:
    try:
        return target.put(policies=read.policies, dry_run=True)
    except Refused as refused:
        raise _explain(refused, file, read) from refused


def _explain(refused: Refused, file: str, read: PolicyFile) -> Stop:
    """Print every error with its line, or every change that somebody saved, and return the end of the command."""
    if refused.conflicts:
        for one in refused.conflicts:
            who = f"{one['changed_by']} saved version {one['version']}" + (f" ({one['note']})" if one["note"] else "")
            click.echo(f"{one['kind']}: {who} after version {one['base_version']}:", err=True)
            _show_changes(one, err=True)
        return Stop(str(refused), 1)
    for error in refused.errors:
        click.echo(_format_error(error, file, read), err=True)
    count = len(refused.errors)
    return Stop(f"{file} can't be applied: {count} {'error' if count == 1 else 'errors'}. Nothing was saved.", 2)


def _format_error(error: Mapping[str, Any], file: str, read: PolicyFile) -> str:
    kind, row, path = str(error.get("kind", "")), str(error.get("row", "")), str(error.get("field") or "")
    place = ", ".join(part for part in (kind, row, path) if part)
    value = "" if error["value"] is None else f" (value: {_cut(error['value'])})"
    return f"{file}, line {read.find_line(kind, row, path)}: {place}: {error['message']}{value} {error['remedy']}"


def _show(items: Sequence[Mapping[str, Any]], *, as_json: bool, is_saved: bool) -> None:
    if as_json:
        click.echo(json.dumps({"items": items}))
        return
    different = [item for item in items if item["changes"]]
    for item in different:
        saved = f"saved as version {item['version']}" if is_saved else f"differs from version {item['base_version']}"
        click.echo(f"{item['kind']}: {saved}")
        _show_changes(item)
    if not different:
        click.echo("No difference.", err=True)


def _show_changes(item: Mapping[str, Any], *, err: bool = False) -> None:
    for change in item["changes"]:
        row, old, new = change["row"], change["old"], change["new"]
        if change["field"] == "row":
            click.echo(f"  + {row}" if old is None else f"  - {row}", err=err)
        else:
            click.echo(f"  ~ {row}, {change['field']}: {_cut(old)} -> {_cut(new)}", err=err)
    if item.get("more"):
        click.echo(f"  … and {item['more']:,} more", err=err)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _check_commit(commit: str) -> str:
    if len(commit) > LONGEST_SHOWN or not commit.isascii() or not commit.isprintable():
        raise click.UsageError(f"--commit has up to {LONGEST_SHOWN} printable characters, such as a hash of git.")
    return commit


def _find_commit(file: str) -> str:
    """Return the current commit of the folder of the file; with a remark if git has another content of the file."""
    path = Path.cwd() / file
    folder = Path.cwd() if file == "-" else path.resolve().parent
    commit = _ask_git(folder, "rev-parse", "HEAD")
    if not commit or file == "-":
        return commit
    changed = _ask_git(folder, "status", "--porcelain", "--", path.resolve().name)
    return f"{commit} with uncommitted changes" if changed else commit


def _ask_git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 -- the arguments are ours
            ["git", "-C", str(folder), *arguments],  # noqa: S607 -- git is where PATH says
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
