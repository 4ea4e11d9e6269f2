"""`handoffaudit key`: creates, lists and revokes API keys, and binds them to agents."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import actor_name, find_tenant, start_with_database
from handoffaudit.cli.terminal import data_option, example, json_option, tenant_option

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Key, Tenant


@click.group(name="key", epilog=example("handoffaudit key create crew --scopes ingest,read"))
def command() -> None:
    """Create, list and revoke API keys, and bind them to agents."""


def _refuse_blank(_: click.Context, __: click.Parameter, agents: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse an empty name, such as the value of an unset shell variable.

    Without a name, the key would speak for any agent.
    """
    if not all(agent.strip() for agent in agents):
        raise click.BadParameter("the name is empty. Name an agent, or leave --agent out for any agent.")
    return agents


agent_option = click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="AGENT",
    callback=_refuse_blank,
    help="An agent that the key may speak for: a name, or a pattern such as 'crew-*'. Repeatable, at most 20; without "
    "it, the key speaks for any agent.",
)


@command.command(name="create", epilog=example("KEY=$(handoffaudit key create crew)"))
@click.argument("name")
@tenant_option
@click.option(
    "--scopes",
    default="ingest,read",
    show_default=True,
    help="Scopes of the key: any of ingest, observe, read, review, admin, separated by commas.",
)
@click.option(
    "--seam",
    type=click.Choice(["in_process", "outside"]),
    default=None,
    help="Only for a key with the scope observe: where the program that uses the key captures tool results, in the "
    "sender's process (default) or outside it.",
)
@agent_option
@data_option
@json_option
def create(name: str, tenant: str, scopes: str, seam: str | None, agents: tuple[str, ...], *, as_json: bool) -> None:
    """Create an API key and print only the key on standard output; with --json, the key and its fields.

    NAME is the user or the program that will use the key. The key is shown once, because only its hash is stored.
    """
    start_with_database()
    from handoffaudit.accounts import Refused, keys

    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    try:
        key, secret = keys.create(
            tenant=find_tenant(tenant),
            name=name,
            scopes=wanted,
            expires_at=None,
            actor=actor_name(),
            seam=seam or "",
            agents=agents,
        )
    except Refused as error:
        raise Stop(error.message) from error
    click.echo(json.dumps({"key": secret, **_describe(key)}) if as_json else secret)


@command.command(name="list", epilog=example("handoffaudit key list --tenant default"))
@tenant_option
@data_option
@json_option
def list_keys(tenant: str, *, as_json: bool) -> None:
    """List the newest keys of a tenant, at most 500, with the revoked keys last."""
    start_with_database()
    from handoffaudit.accounts import keys

    found = keys.list_newest(find_tenant(tenant))
    if as_json:
        click.echo(json.dumps({"items": [_describe(key) for key in found]}))
        return
    if not found:
        click.echo(f"The tenant {tenant} has no keys. Make one: handoffaudit key create NAME", err=True)
    for key in found:
        click.echo(_format_line(key))


@command.command(name="revoke", epilog=example("handoffaudit key revoke 3"))
@click.argument("key")
@tenant_option
@data_option
def revoke(key: str, tenant: str) -> None:
    """Revoke a key, which stops working within seconds.

    KEY is the number or the beginning of the key, as `key list` shows them.
    """
    start_with_database()
    from handoffaudit.accounts import keys

    owner = find_tenant(tenant)
    found = keys.revoke(tenant=owner, key_id=_find(owner, key), actor=actor_name())
    click.echo(f"Revoked: {found.name} ({found.prefix}…). It stops working within seconds.", err=True)


@command.command(name="bind", epilog=example("handoffaudit key bind 3 --agent researcher"))
@click.argument("key")
@tenant_option
@agent_option
@data_option
def bind(key: str, tenant: str, agents: tuple[str, ...]) -> None:
    """Set the agents that a key may speak for.

    KEY is the number or the beginning of the key, as `key list` shows them. The given agents replace the previous
    agents of the key.
    """
    start_with_database()
    from handoffaudit.accounts import Refused, keys

    owner = find_tenant(tenant)
    try:
        found = keys.bind(tenant=owner, key_id=_find(owner, key), agents=agents, actor=actor_name())
    except Refused as error:
        raise Stop(error.message) from error
    whom = ", ".join(found.agents) or "any agent"
    click.echo(f"{found.name} ({found.prefix}…) speaks for {whom}. The change takes effect within seconds.", err=True)


def _find(tenant: "Tenant", wanted: str) -> int:
    from django.db.models import Q

    from handoffaudit.accounts.models import Key

    is_wanted = Q(prefix=wanted.rstrip("…"))
    if wanted.isascii() and wanted.isdecimal():
        is_wanted |= Q(pk=int(wanted))
    # `key list` shows only the newest keys, so an older key is looked up in the table.
    matching = Key.objects.filter(is_wanted, tenant=tenant).values_list("pk", flat=True)[:2]
    if len(matching) != 1:
        found = "fits several keys" if matching else "is not a key"
        raise Stop(f"{wanted!r} {found} of the tenant {tenant.slug}: see handoffaudit key list --tenant {tenant.slug}.")
    return matching[0]


def _describe(key: "Key") -> dict[str, Any]:
    return {
        "id": key.pk,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": key.scopes,
        "seam": key.seam,
        "agents": key.agents,
        "created_at": _format_time(key.created_at),
        "created_by": key.created_by,
        "expires_at": _format_time(key.expires_at),
        "last_used_at": _format_time(key.last_used_at),
        "revoked_at": _format_time(key.revoked_at),
    }


def _format_time(time: datetime | None) -> str | None:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z") if time else None


def _format_line(key: "Key") -> str:
    state = "active"
    if key.revoked_at:
        state = f"revoked {key.revoked_at:%Y-%m-%d}"
    elif key.expires_at and key.expires_at <= datetime.now(UTC):
        state = f"expired {key.expires_at:%Y-%m-%d}"
    used = f"last used {key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never used"
    whom = f", speaks for {', '.join(key.agents)}" if key.agents else ""
    return f"{key.pk:>4}  {key.prefix}…  {key.name:<24}  {','.join(key.scopes):<20}  {state}, {used}{whom}"
