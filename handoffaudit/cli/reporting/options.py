"""Options that say where reports go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_OPTIONS = (
    click.option("--url", metavar="URL", envvar="HANDOFFAUDIT_URL", help="The server, e.g. https://audit.example.com."),
    click.option("--key", metavar="KEY", envvar="HANDOFFAUDIT_KEY", help="Its API key. Better in HANDOFFAUDIT_KEY."),
    click.option("--local", is_flag=True, help="Judge here, and keep and send nothing."),
    click.option("--strict", is_flag=True, help="With --local: only the file counts."),
    click.option(
        "--spool",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where reports wait for a server that is away. Default: reports in the data folder.",
    ),
)


def receiver_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
