"""`handoffaudit recount`: compares the stored counts with the handoffs, and repairs the counts."""

import json
import sys

import click

from handoffaudit.cli.bootstrap import start_with_database
from handoffaudit.cli.options import data_option, example, json_option


@click.command(name="recount", epilog=example("handoffaudit recount --check"))
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a count is wrong.")
@click.option(
    "--agents",
    is_flag=True,
    help="Also recompute which agent introduced each finding, and the finding groups. Takes longer.",
)
@data_option
@json_option
def command(*, check: bool, agents: bool, as_json: bool) -> None:
    """Count all handoffs again, compare with the stored counts, and correct the differences."""
    if check and agents:
        raise click.UsageError("--check changes nothing and --agents does: give one of them.")
    start_with_database()
    from handoffaudit.diagnostics import attribution
    from handoffaudit.handoffs import counts

    found = counts.recount(repair=not check)
    gone_over = attribution.rebuild() if agents else None
    if as_json:
        result = {"rows": found.rows, "wrong": found.wrong, "repaired": bool(found.wrong) and not check}
        click.echo(json.dumps(result | ({} if gone_over is None else {"gone_over": gone_over})))
    elif not found.wrong:
        click.echo(f"All {found.rows:,} counts are right.")
    elif check:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts are wrong: run handoffaudit recount to put them right.")
    else:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts were wrong; they are right now.")
    if gone_over is not None and not as_json:
        click.echo(f"The findings of {gone_over:,} handoffs were gone over.")
    if check and found.wrong:
        sys.exit(1)
