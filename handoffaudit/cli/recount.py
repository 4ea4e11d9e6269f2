"""`handoffaudit recount`: the kept counts against the handoffs themselves."""

import json
import sys

import click

from handoffaudit.cli.bootstrap import start_with_database
from handoffaudit.cli.options import data_option, example, json_option


@click.command(name="recount", epilog=example("handoffaudit recount --check"))
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a count is wrong.")
@data_option
@json_option
def command(*, check: bool, as_json: bool) -> None:
    """Count all handoffs again, compare with the kept counts, and put right what differs."""
    start_with_database()
    from handoffaudit.handoffs import counts

    found = counts.recount(repair=not check)
    if as_json:
        click.echo(json.dumps({"rows": found.rows, "wrong": found.wrong, "repaired": bool(found.wrong) and not check}))
    elif not found.wrong:
        click.echo(f"All {found.rows:,} counts are right.")
    elif check:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts are wrong: run handoffaudit recount to put them right.")
    else:
        click.echo(f"{found.wrong:,} of {found.rows:,} counts were wrong; they are right now.")
    if check and found.wrong:
        sys.exit(1)
