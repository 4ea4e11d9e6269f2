"""The command that runs the server until it is interrupted."""

import contextlib
import json
from pathlib import Path

import click

from tests.messages_api.scripted import from_json
from tests.messages_api.server import running


@click.command()
@click.option("--port", default=8099, show_default=True, help="Port on loopback.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON list of answers, given in order; then come the defaults.",
)
def main(port: int, script: Path | None) -> None:
    """Run a Messages API server for development, which gives scripted answers and asks no LLM."""
    with running(port) as server:
        if script:
            server.script(*(from_json(one) for one in json.loads(script.read_text())))
        click.echo(f"ANTHROPIC_BASE_URL={server.url} ANTHROPIC_API_KEY=any")
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()


if __name__ == "__main__":
    main()
