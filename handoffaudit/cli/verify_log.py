"""`handoffaudit verify-log`: checks that nobody changed the audit log."""

import json
import sys
from typing import Any

import click

from handoffaudit.cli.bootstrap import find_tenant, start_with_database
from handoffaudit.cli.options import data_option, example, json_option


@click.command(name="verify-log", epilog=example("handoffaudit verify-log"))
@click.option("--tenant", metavar="SLUG", help="Check only this tenant's log. Default: all logs.")
@data_option
@json_option
def command(tenant: str | None, *, as_json: bool) -> None:
    """Check the hash chain of the audit log. Exits with 1 if an entry was changed or is missing."""
    start_with_database()
    from handoffaudit.accounts import audit
    from handoffaudit.accounts.models import Tenant

    chosen = [find_tenant(tenant)] if tenant else list(Tenant.objects.order_by("slug"))
    results: list[dict[str, Any]] = []
    for one in chosen:
        broken = audit.verify(one)
        results.append(
            {
                "tenant": one.slug,
                "entries": one.audit_number,
                "intact": broken is None,
                "broken_at": broken.number if broken else None,
                "why": broken.why if broken else None,
            }
        )
    if as_json:
        click.echo(json.dumps({"items": results}))
    else:
        for result in results:
            click.echo(_format_line(result))
    if not all(result["intact"] for result in results):
        sys.exit(1)


def _format_line(result: dict[str, Any]) -> str:
    if result["intact"]:
        return f"{result['tenant']}: intact, {result['entries']:,} entries."
    return f"{result['tenant']}: broken at entry {result['broken_at']:,}: {result['why']}."
