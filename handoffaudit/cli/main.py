"""Entry point of the command line; each command's module is loaded on use, so that `--help` is fast."""

import sys
from importlib import import_module

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import printable
from handoffaudit.process import drop_empty

# Each command with its module (or module and function) and its help text, in the order of `handoffaudit --help`.
COMMANDS = {
    "up": ("up", "Start everything: web server and worker."),
    "demo": ("demo", "Watch agents hand over work, on a temporary server."),
    "key": ("key", "Create, list and revoke API keys."),
    "sign-in-link": ("upkeep.sign_in_link", "Make a one-time link for a person who cannot sign in."),
    "import": ("import_files", "Import handoffs from files."),
    "import-log": ("import_log", "Import log lines."),
    "export": ("upkeep.export", "Export stored handoffs as submissions."),
    "policy": ("policy", "Export, compare and apply policies as a file."),
    "validate": ("validate", "Judge handoffs in files, without a server."),
    "repair": ("repair", "Repair a rejected handoff."),
    "hook": ("hook", "Allow or block an event of an agent host."),
    "mcp": ("hook.mcp", "Serve the tools of a server to an MCP host."),
    "report-file": ("file_reports.report_file", "Report the result of a handoff file check."),
    "watch": ("file_reports.watch", "Report handoff files as agents write them."),
    "eval": ("eval", "Measure layers on labelled data."),
    "doctor": ("doctor", "Check the installation and say what to do."),
    "retention": ("retention", "Preview deletion, place legal holds, erase a person's data."),
    "recount": ("upkeep.recount", "Check stored counts and correct differences."),
    "verify-log": ("trust.verify_log", "Verify the audit log and its seals."),
    "seal-key": ("trust.seal_key", "Show or change the key that signs seals."),
    "evidence": ("trust.evidence", "Write a signed evidence bundle."),
    "verify-bundle": ("trust.verify_bundle", "Check an evidence bundle, offline."),
    "backup": ("upkeep.backup", "Back up the embedded database to a file."),
    "manage": ("upkeep.manage", "Run one of Django's own commands."),
}

EXAMPLES = """\b
Examples:
  handoffaudit up --sample
  handoffaudit key create crew
  handoffaudit import handoffs.jsonl
  handoffaudit validate handoff.json"""


class LazyGroup(click.Group):
    """Command group that imports a command's module only when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(".")
        command: click.Command = getattr(import_module(f"handoffaudit.cli.{module}"), function or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["--help"]})
@click.version_option(package_name="handoffaudit", message="%(version)s")
def command() -> None:
    """Store, judge and decide every handoff from one AI agent to the next."""


def main() -> None:
    run(command, "handoffaudit")


def run(program: click.Command, name: str) -> None:
    """Run a program of this name, and exit with its code. Print an error as one line on standard error."""
    drop_empty()
    try:
        code = program.main(prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.ctx.get_help() if shown.ctx else "")
        code = 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        code = _fail(f"{error.format_message()} See {path} --help.", error.exit_code)
    except Stop as error:
        code = _fail(error.message, error.code)
    except click.ClickException as error:
        code = _fail(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        code = _fail("Interrupted.", 1)
    except BrokenPipeError:
        # The reader of standard output has closed the pipe. Python would raise again while closing standard output.
        sys.stdout = None
        code = 1
    except Exception as error:
        stop = _describe_database_fault(error)
        if stop is None:
            raise
        code = _fail(stop.message, stop.code)
    sys.exit(code if isinstance(code, int) else 0)


def _describe_database_fault(error: Exception) -> Stop | None:
    """Return the message about a fault of the database, such as a full disk, and None for any other error."""
    # Only commands that use the database load these modules. Other commands must not load a framework.
    database, faults = map(sys.modules.get, ("handoffaudit.cli.database", "handoffaudit.database_faults"))
    return database.describe_error(error) if database and faults and faults.fault_of(error) else None


def _fail(message: str, code: int) -> int:
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {printable(' '.join(message.split()))}", err=True)
    return code
