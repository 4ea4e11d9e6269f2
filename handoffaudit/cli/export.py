"""`handoffaudit export`: writes stored handoffs as submissions."""

import sys

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import find_tenant, start_with_database
from handoffaudit.cli.options import data_option, example, tenant_option

FILTERS = ("state", "type", "source", "target", "code", "trace", "since", "until")


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
@click.option("--since", metavar="TIME", help="Only handoffs received since: 24h, 7d, a date, or a date and time.")
@click.option("--until", metavar="TIME", help="Only handoffs received before (exclusive).")
@click.option(
    "--reviews", is_flag=True, help="Only handoffs decided by a person, with the decision, as input for eval."
)
@tenant_option
@data_option
def command(tenant: str, *, reviews: bool, **given: str | None) -> None:
    """Write stored handoffs to standard output as JSONL, one submission per line, oldest first.

    Each line can be imported again, here or elsewhere. Documents that are not JSON, and documents that retention has
    deleted, are left out and counted.
    """
    start_with_database()
    from handoffaudit.filter_fields import FilterError
    from handoffaudit.handoffs import export
    from handoffaudit.handoffs.filters import Filters

    try:
        filters = Filters.from_query({name: given[name] or "" for name in FILTERS})
    except FilterError as bad:
        raise Stop(f"--{bad.field} is {bad.value!r}: {bad.remedy}") from None
    out = sys.stdout.buffer
    written = unreadable = removed = 0
    for line in export.lines(find_tenant(tenant), filters, reviews=reviews):
        if line.text is None:
            removed += line.is_removed
            unreadable += not line.is_removed
            continue
        out.write(line.text + b"\n")
        written += 1
    out.flush()
    if filters.code and not written and not _is_code(filters.code):
        raise Stop(f"--code is {filters.code!r}, which is no code: Help, Codes in the product lists all.")
    left_out = f" {unreadable:,} that are no JSON were left out." if unreadable else ""
    left_out += f" {removed:,} whose documents retention has removed were left out." if removed else ""
    click.echo(f"{written:,} handoff{'' if written == 1 else 's'} written.{left_out}", err=True)


def _is_code(code: str) -> bool:
    from handoffaudit.validation.catalogue import CATALOGUE, FAMILIES

    return code in CATALOGUE or code.partition(".")[0] in FAMILIES
