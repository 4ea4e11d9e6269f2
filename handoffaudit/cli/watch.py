"""`handoffaudit watch`: follows a run's folder, and reports handoff files as agents write them."""

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.options import data_folder, data_option, example, json_option, receiver_options, tenant_option

if TYPE_CHECKING:
    from handoffaudit.cli.folder_follower import Watcher


@click.command(
    name="watch",
    epilog=example(
        'handoffaudit watch runs/1 --expect "{phase}/{agent}/handoff.json" --phase-timeout 600',
        "handoffaudit watch runs/1 --once --local",
    ),
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--expect",
    metavar="PATTERN",
    default="**/handoff.json",
    show_default=True,
    help="Pattern of the handoff files below FOLDER; {run}, {phase}, {agent} and {runtime} match parts of the path.",
)
@click.option("--expected", metavar="FILE", multiple=True, help="A required file below FOLDER; repeat for each file.")
@click.option(
    "--phase-timeout",
    type=click.FloatRange(0, 10**7),
    metavar="SECONDS",
    help="Seconds without a change in its folder after which an expected file counts as missing. Default: never.",
)
@click.option(
    "--response",
    metavar="NAME",
    default="",
    help="Name of the file beside each handoff file that has the agent's response.",
)
@click.option(
    "--run", metavar="ID", default="", help="Id of the run. Default: taken from the path, otherwise the name of FOLDER."
)
@click.option("--runtime", metavar="NAME", default="", help="Runtime of the agents, e.g. claude.")
@click.option("--once", is_flag=True, help="Report existing and missing files once, then exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between scans. A file is read when it has not changed for this long.",
)
@receiver_options
@tenant_option
@data_option
@json_option
def command(  # noqa: PLR0913 (click hands over each option)
    *,
    folder: Path,
    expect: str,
    expected: tuple[str, ...],
    phase_timeout: float | None,
    response: str,
    run: str,
    runtime: str,
    once: bool,
    every: float,
    url: str | None,
    key: str | None,
    spool: Path | None,
    tenant: str,
    local: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Follow the FOLDER of a run, and report handoff files when agents write them.

    The command prints one log line per file. A file that is written again is reported as the next iteration. Reports go
    to the server at --url, otherwise to the local database; with --local they are judged here and not stored. Files
    already reported are not counted again.

    Stop with Ctrl-C. With --once the command exits with 1 if a phase failed, and with 2 if reports wait for the server.
    """
    from handoffaudit.cli.folder_follower import BadPattern, Follower, Pattern
    from handoffaudit.cli.folder_follower import Watcher as Loop
    from handoffaudit.cli.report_receivers import choose_receiver

    try:
        pattern = Pattern.of(expect)
        for path in expected:
            Pattern.of(path)
    except BadPattern as error:
        raise Stop(str(error)) from error
    if "/" in response:
        raise Stop("--response is the name of a file beside the handoff file, without folders.")
    reports = spool or data_folder() / "reports"
    to = choose_receiver(
        "handoffaudit watch", url=url, key=key, local=local, strict=strict, tenant=tenant, spool=reports
    )
    follower = Follower(folder, pattern, expected, settle=every, timeout=phase_timeout)
    watching = Loop(follower, to, run, runtime, response, as_json)
    if once:
        watching.look(time.monotonic(), all_now=True)
    else:
        _until_interrupted(watching, every)
    to.close()
    click.echo(watching.summary(), err=True)
    if left := to.left():
        click.echo(left, err=True)
    if once and watching.counts["kept"]:
        sys.exit(2)
    if once and watching.counts["failed"]:
        sys.exit(1)


def _until_interrupted(watching: "Watcher", every: float) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        watching.follow(time.monotonic, time.sleep, every)
    except KeyboardInterrupt:
        # The terminal shows ^C in the current line, so the summary needs a new line.
        click.echo(err=True)
