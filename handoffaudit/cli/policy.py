"""`handoffaudit policy`: exports all policies, and compares, tests and applies a policy file."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import find_tenant, start_django, start_with_database
from handoffaudit.cli.policy_file import (
    MOST_BYTES,
    MOST_BYTES_OF_CASES,
    BadFile,
    PolicyFile,
    read_cases,
    read_file,
    write_cases,
    write_file,
)
from handoffaudit.cli.policy_targets import BadCase, FileTarget, LocalTarget, Refused, ServerTarget, Target
from handoffaudit.cli.terminal import data_option, example, json_option, printable, tenant_option

GIT_SECONDS: Final = 10
LONGEST_SHOWN: Final = 100

T = TypeVar("T")


def _target_options(scope: str) -> Callable[[Any], Any]:
    """Return a decorator that adds options for the owner of the policies: a tenant of the local database, or a server.

    `scope` is the scope that a key for --url needs.
    """
    options = (
        tenant_option,
        click.option("--url", metavar="URL", help="A server, instead of the local database."),
        click.option(
            "--key",
            metavar="KEY",
            envvar="HANDOFFAUDIT_KEY",
            help=f"API key with the scope {scope}; prefer the variable HANDOFFAUDIT_KEY.",
        ),
        data_option,
    )

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _open_target(tenant: str, url: str | None, key: str | None, *, scope: str = "admin") -> Target:
    if url is not None:
        if not key:
            raise Stop(f"--url needs an API key with the scope {scope}: give it with --key or HANDOFFAUDIT_KEY.")
        return ServerTarget(url, key, scope)
    start_with_database()
    return LocalTarget(find_tenant(tenant))


@click.group(name="policy", epilog=example("handoffaudit policy export > policy.yaml"))
def command() -> None:
    """Keep policies in a file: export, compare, test and apply them."""


@command.command(name="export", epilog=example("handoffaudit policy export > policy.yaml"))
@click.option("--cases", is_flag=True, help="Write the cases instead of the policies, for policy test.")
@_target_options("admin (read with --cases)")
@json_option
def export(tenant: str, url: str | None, key: str | None, *, cases: bool, as_json: bool) -> None:
    """Write all policies to standard output as YAML. Applying the file right away changes nothing."""
    target = _open_target(tenant, url, key, scope="read" if cases else "admin")
    if cases:
        items = target.export_cases()
        click.echo(json.dumps({"cases": items}) if as_json else write_cases(items), nl=as_json)
        return
    found = target.export()
    click.echo(json.dumps(found) if as_json else write_file(found["policies"]), nl=as_json)


@command.command(name="diff", epilog=example("handoffaudit policy diff policy.yaml"))
@click.argument("file", metavar="FILE")
@_target_options("admin")
@json_option
def diff(file: str, tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Compare FILE with the policies in force.

    Exits with 0 if nothing differs, with 1 if a policy differs, and with 2 if FILE is invalid.
    """
    read = _read(file)
    items = _compare(_open_target(tenant, url, key), file, read)
    _show(items, as_json=as_json, is_saved=False)
    _warn_of_short_terms(items, read)
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
@_target_options("admin")
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
        _warn_of_short_terms(items, read)
        sys.exit(1 if any(item["changes"] for item in items) else 0)
    commit = _find_commit(file) if given["commit"] is None else _check_commit(given["commit"])
    versions = {item["kind"]: item["base_version"] for item in items}
    if unknown := sorted(bases.keys() - versions.keys()):
        raise Stop(f"--base names {unknown[0]!r}, and {file} has no policies of this kind: check the kind.")
    try:
        saved = target.put(policies=read.policies, base_versions=versions | bases, commit=commit, note=given["note"])
    except Refused as refused:
        raise _explain(refused, file, read) from refused
    _show(saved, as_json=as_json, is_saved=True)
    _warn_of_short_terms(saved, read)


@command.command(
    name="test",
    epilog=example("handoffaudit policy test policy.yaml", "handoffaudit policy test policy.yaml --cases cases.yaml"),
)
@click.argument("file", metavar="FILE")
@click.option("--cases", "cases_file", metavar="FILE", help="The cases, as policy export --cases writes them.")
@_target_options("read")
@json_option
def test(file: str, cases_file: str | None, tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Judge the cases by the policies in FILE, without the LLM. Nothing is saved.

    With --cases and without --url, no database is used: kinds of policies that FILE does not name are as shipped. Exits
    with 0 if no case fails, with 1 if a case fails, and with 2 if FILE is invalid or there is no case.
    """
    if cases_file and url is None:
        _refuse_options("tenant", "data")
    read = _read(file)
    cases, lines = _load(cases_file, read_cases, MOST_BYTES_OF_CASES) if cases_file else (None, [])
    try:
        if cases is not None and url is None:
            os.environ.setdefault("HANDOFFAUDIT_SECRET_KEY", secrets.token_urlsafe(50))
            start_django()
            results = FileTarget().test(read.policies, cases)
        else:
            results = _open_target(tenant, url, key, scope="read").test(read.policies, cases)
    except BadCase as bad:
        raise Stop(f"{cases_file}, line {lines[bad.number]}: {bad.message}", 2) from bad
    except Refused as refused:
        raise _explain(refused, file, read) from refused
    if not results:
        raise Stop("There is no case to test: keep one on the page of a handoff.", 2)
    _show_results(results, as_json=as_json)
    sys.exit(1 if any(one["status"] == "failed" for one in results) else 0)


def _refuse_options(*names: str) -> None:
    """Refuse options of the command line that this use of the command would ignore."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            said = f"--{name} has no effect with --cases, because the cases of a file are judged without a database."
            remedy = "Leave it out, or leave out --cases to judge the stored cases of a tenant."
            raise click.UsageError(f"{said} {remedy}")


def _show_results(results: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"items": results}))
        return
    numbers = {status: sum(one["status"] == status for one in results) for status in ("passed", "failed", "needs_llm")}
    for one in results:
        if one["status"] == "passed":
            continue
        state = "failed" if one["status"] == "failed" else "not tested, needs the LLM"
        click.echo(printable(f"{one['handoff_id']}: {state}"))
        differences = (f"{differs} {fix}" for differs, fix in zip(one["differs"], one["fixes"], strict=True))
        for line in (*differences, *one["notes"]):
            click.echo(printable(f"  {line}"))
    from handoffaudit.validation.text import pluralize

    unasked = sum(one["status"] == "passed" and any("LLM" in note for note in one["notes"]) for one in results)
    said = f"{pluralize(len(results), 'case')}: {numbers['passed']} passed, {numbers['failed']} failed"
    said += f", {numbers['needs_llm']} not tested because they need the LLM" if numbers["needs_llm"] else ""
    click.echo(said + (f". The LLM was not asked about {unasked} that passed." if unasked else "."), err=True)


def _read(file: str) -> PolicyFile:
    return _load(file, read_file, MOST_BYTES)


def _load(file: str, read: Callable[[bytes], T], most: int) -> T:
    try:
        with click.open_file(file, "rb") as opened:
            return read(opened.read(most + 1))
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
    """Print every error with its line, or every change that somebody saved meanwhile; return the `Stop` to raise."""
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


def _warn_of_short_terms(items: Sequence[Mapping[str, Any]], read: PolicyFile) -> None:
    """Warn of each retention term that changes and is below six months, as the page and the API do."""
    from handoffaudit.policy.retention import parse_row, warning_of

    changed = {change["row"] for item in items if item["kind"] == "retention" for change in item["changes"]}
    for row in read.policies["retention"] if changed else ():
        if row["name"] in changed and (warning := warning_of(parse_row(row))):
            click.echo(f"  retention, {row['name']}: {warning}", err=True)


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _check_commit(commit: str) -> str:
    if len(commit) > LONGEST_SHOWN or not commit.isascii() or not commit.isprintable():
        raise click.UsageError(f"--commit has up to {LONGEST_SHOWN} printable characters, such as a hash of git.")
    return commit


def _find_commit(file: str) -> str:
    """Return the current commit of the file's folder, with a remark if the file has uncommitted changes.

    Return an empty text if git knows no commit there. For standard input (`-`), use the current folder.
    """
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
