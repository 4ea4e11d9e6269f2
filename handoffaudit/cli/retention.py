"""`handoffaudit retention`: shows and previews deletion, places and lifts legal holds, and erases values."""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import actor_name, find_tenant, start_with_database
from handoffaudit.cli.terminal import ProgressLine, data_option, example, json_option, printable, tenant_option

if TYPE_CHECKING:
    from handoffaudit.diagnostics.models import Erasure
    from handoffaudit.diagnostics.retention_run import Count
    from handoffaudit.policy.retention import Retention

reason_option = click.option("--reason", required=True, metavar="TEXT", help="The reason, for the audit log.")


@click.group(name="retention", epilog=example("handoffaudit retention show"))
def command() -> None:
    """Show and preview deletion, place and lift legal holds, and erase a person's data."""


@command.command(name="show", epilog=example("handoffaudit retention show"))
@tenant_option
@data_option
@json_option
def show(tenant: str, *, as_json: bool) -> None:
    """Show for how long each kind of data is kept, how much is stored, and what the next run deletes."""
    start_with_database()
    from handoffaudit.diagnostics import retention_run

    found = retention_run.list_standings(find_tenant(tenant))
    if as_json:
        rows = [
            {
                "name": one.rule.name.value,
                "days": one.rule.days,
                "types": dict(one.rule.types),
                "there": one.there.number,
                "goes": one.goes.number if one.goes is not None else 0,
                "removed": one.last.removed if one.last else 0,
            }
            for one in found
        ]
        click.echo(json.dumps({"items": rows}))
        return
    for one in found:
        goes = f", the next run deletes {_number(one.goes)}" if one.goes is not None else ""
        click.echo(f"{one.rule.name.value:<14}  kept {_terms(one.rule)}, {_number(one.there)} stored{goes}")


@command.command(name="preview", epilog=example("handoffaudit retention preview handoffs 365"))
@click.argument("kind")
@click.argument("days", type=int)
@tenant_option
@data_option
@json_option
def preview(kind: str, days: int, tenant: str, *, as_json: bool) -> None:
    """Count what the first run would delete if data of this KIND were kept for DAYS. Nothing is saved."""
    start_with_database()
    from django.utils import timezone

    from handoffaudit.diagnostics import retention_run
    from handoffaudit.policy.retention import parse_row, warning_of
    from handoffaudit.policy.values import InvalidPolicy

    try:
        row = parse_row({"name": kind, "days": days})
    except InvalidPolicy as invalid:
        raise Stop(" ".join(f"{one.message} {one.remedy}" for one in invalid.errors)) from None
    goes = retention_run.count_going(find_tenant(tenant), row, timezone.now() + retention_run.first_after())
    if as_json:
        click.echo(json.dumps({"name": kind, "days": days, "goes": goes.number, "more": goes.more}))
    else:
        click.echo(f"The first run would delete {_number(goes)} {_unit(kind)} of {kind}.")
    if warning := warning_of(row):
        click.echo(warning, err=True)


@command.command(name="holds", epilog=example("handoffaudit retention holds"))
@tenant_option
@data_option
@json_option
def holds(tenant: str, *, as_json: bool) -> None:
    """List the newest 100 legal holds, active and lifted."""
    start_with_database()
    from handoffaudit.handoffs import legal_holds

    found = legal_holds.list_holds(find_tenant(tenant))
    if as_json:
        rows = [
            {"id": one.pk, "scope": one.scope, "name": one.name, "reason": one.reason, "active": one.lifted_at is None}
            for one in found
        ]
        click.echo(json.dumps({"items": rows}))
        return
    for one in found:
        state = f"lifted {one.lifted_at:%Y-%m-%d} by {one.lifted_by}" if one.lifted_at else "active"
        click.echo(printable(f"{one.pk:>4}  {one.scope:<8}  {one.name}  {state}: {one.reason}"))


@command.command(name="hold", epilog=example('handoffaudit retention hold trace run-42 --reason "Case 2026-117"'))
@click.argument("scope", type=click.Choice(["handoff", "trace", "tenant"]))
@click.argument("key", default="")
@reason_option
@tenant_option
@data_option
def hold(scope: str, key: str, reason: str, tenant: str) -> None:
    """Keep a handoff, a trace or the whole tenant from every removal. KEY is the id of the handoff or the trace."""
    start_with_database()
    from handoffaudit.accounts import Refused
    from handoffaudit.handoffs import legal_holds

    try:
        made = legal_holds.place(tenant=find_tenant(tenant), scope=scope, key=key, reason=reason, actor=actor_name())
    except Refused as refused:
        raise Stop(refused.message) from None
    click.echo(printable(f"Hold {made.pk} on the {made.scope} {made.name} is active."))


@command.command(name="lift", epilog=example('handoffaudit retention lift 7 --reason "The case is closed"'))
@click.argument("number", type=int)
@reason_option
@tenant_option
@data_option
def lift(number: int, reason: str, tenant: str) -> None:
    """Lift a legal hold by its NUMBER, as `retention holds` shows it."""
    start_with_database()
    from handoffaudit.accounts import Refused
    from handoffaudit.handoffs import legal_holds
    from handoffaudit.handoffs.models import LegalHold

    try:
        legal_holds.lift(tenant=find_tenant(tenant), hold=number, reason=reason, actor=actor_name())
    except LegalHold.DoesNotExist:
        raise Stop(f"There is no hold {number}: see handoffaudit retention holds --tenant {tenant}.") from None
    except Refused as refused:
        raise Stop(refused.message) from None
    click.echo(f"Hold {number} is lifted.")


@command.command(
    name="erase", epilog=example('handoffaudit retention erase ada@example.com --reason "Request of 14 February"')
)
@click.argument("value")
@reason_option
@click.option(
    "--yes", is_flag=True, help="Also erase the value; this cannot be undone. Without --yes, rows are only counted."
)
@tenant_option
@data_option
@json_option
def erase(value: str, reason: str, tenant: str, *, yes: bool, as_json: bool) -> None:
    """Count the rows with a VALUE, such as an e-mail or a name, and with --yes replace the VALUE in the rows.

    Rows that a legal hold keeps are counted as held, and stay unchanged.
    """
    start_with_database()
    from handoffaudit.accounts import Refused
    from handoffaudit.diagnostics import erasure
    from handoffaudit.diagnostics.models import ErasureState

    owner = find_tenant(tenant)
    try:
        one = erasure.request(tenant=owner, value=value, reason=reason, actor=actor_name())
        one = _work(one, ErasureState.COUNTING)
        if yes:
            one = _work(erasure.confirm(tenant=owner, erasure=one.pk, actor=actor_name()), ErasureState.ERASING)
    except Refused as refused:
        raise Stop(refused.message) from None
    if as_json:
        click.echo(json.dumps({"id": str(one.pk), "state": one.state, **_counts(one)}))
        return
    for name, numbers in _counts(one).items():
        for kind, number in numbers.items():
            click.echo(f"{name:<7} {number:>9,}  {kind}")
    if yes:
        click.echo(f"Erased. The receipt is {one.pk}, with the digest {one.digest}.")
    else:
        click.echo(
            f"Nothing is changed yet: repeat the command with --yes to erase, within {erasure.EXPIRES.days} days."
        )


def _counts(one: "Erasure") -> dict[str, Any]:
    return {"found": one.found, "erased": one.erased, "held": one.held}


def _work(one: "Erasure", while_state: str) -> "Erasure":
    """Work on erasures until `one` leaves the state. A worker may do the work instead, so wait between tries."""
    from handoffaudit.diagnostics import erasure

    progress = ProgressLine()
    while one.state == while_state:
        if erasure.run(1.0):
            time.sleep(0.05)
        one.refresh_from_db()
        progress.update(lambda: _describe_step(one))
    progress.finish()
    return one


def _describe_step(one: "Erasure") -> str:
    """Return which rows an erasure searches. The number of rows with the value says little, because it may stay 0."""
    from handoffaudit.diagnostics.removal import TARGETS

    if one.step >= len(TARGETS):
        return f"{one.state}: the last step"
    found = sum((one.erased if one.state == "erasing" else one.found).values())
    after = f", up to row {one.reached}" if one.reached else ""
    place = f"{TARGETS[one.step].title}{after} (step {one.step + 1} of {len(TARGETS)})"
    return f"{one.state}: {place}; rows with the value: {found:,}"


def _terms(rule: "Retention") -> str:
    from handoffaudit.validation.text import pluralize

    kept = "forever" if rule.days is None else pluralize(rule.days, "day")
    return f"{kept} ({pluralize(len(rule.types), 'type')} with other terms)" if rule.types else kept


def _unit(kind: str) -> str:
    """Return the unit in which a kind of data is counted: lines for logs, rows for all other kinds."""
    from handoffaudit.policy.retention import Data

    return "lines" if kind == Data.LOGS else "rows"


def _number(count: "Count") -> str:
    return f"{'more than ' if count.more else ''}{count.number:,}"
