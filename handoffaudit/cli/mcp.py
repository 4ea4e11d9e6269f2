"""`handoffaudit mcp`: serves the tools of a running server to an MCP host, over standard input and output."""

import signal

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import example

EXTRA = "handoffaudit[mcp]"


@click.command(name="mcp", epilog=example("claude mcp add handoffaudit -- handoffaudit mcp"))
@click.option("--url", metavar="URL", envvar="HANDOFFAUDIT_URL", help="The server, e.g. https://audit.example.com.")
@click.option(
    "--key",
    metavar="KEY",
    envvar="HANDOFFAUDIT_KEY",
    help="API key for the server; prefer the variable HANDOFFAUDIT_KEY.",
)
def command(url: str | None, key: str | None) -> None:
    """Serve the tools of a running server to an MCP host, such as Claude Code or Cursor.

    The host starts this command, and speaks with it over standard input and output. The tools submit and check
    handoffs, wait for verdicts, list blocked handoffs and explain rule codes.
    """
    from handoffaudit.cli.hooks.server import check_server

    found = check_server(url, key, 2)
    try:
        from handoffaudit.cli.mcp_tools import create_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise Stop(f"The MCP SDK is missing or too old: install it with pip install '{EXTRA}'.") from error
    # The SDK reads standard input in a thread, which would keep the process until the next line comes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    create_server(found.url, found.key).run("stdio")
