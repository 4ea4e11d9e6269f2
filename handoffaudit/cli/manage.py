"""`handoffaudit manage`: Django's own commands."""

import click

from handoffaudit.cli.bootstrap import refuse_no_data, start_django
from handoffaudit.cli.options import data_option, example

# These commands create the database, or need none.
WITHOUT_DATA = ("migrate", "help", "version", "check", "makemigrations", "collectstatic", "export_openapi_schema")


@click.command(
    name="manage",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=example("handoffaudit manage migrate", "handoffaudit manage help"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]...")
@data_option
def command(arguments: tuple[str, ...]) -> None:
    """Run one of Django's own commands; `manage help` lists them."""
    if misplaced := next((one for one in arguments if one == "--data" or one.startswith("--data=")), None):
        raise click.UsageError(f"{misplaced} goes before the command: handoffaudit manage --data DIR {arguments[0]}.")
    if arguments and not {"-h", "--help"} & set(arguments) and arguments[0] not in WITHOUT_DATA:
        refuse_no_data()
    start_django()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["handoffaudit manage", *arguments])
