"""Commands that report handoff files: `report-file` for one file, and `watch` for the folder of a run."""

import json
import signal
import sys
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import data_folder, data_option, example, json_option, receiver_options, tenant_option

if TYPE_CHECKING:
    from handoffaudit.cli.folder_follower import Watcher
    from handoffaudit.cli.report_receivers import Receiver, ReportSubject

LONGEST_RESPONSE = 64 * 1024 * 1024


@click.command(
    name="report-file",
    epilog=example(
        "handoffaudit report-file --path runs/1/handoff.json --agent planner --phase plan --response answer.txt",
        "handoffaudit report-file --path handoff.json --agent planner --phase plan --local",
    ),
)
@click.option("--path", metavar="FILE", help="Expected path of the handoff file.")
@click.option("--agent", metavar="NAME", help="The agent that should have written the file.")
@click.option("--phase", metavar="NAME", help="The phase that ended.")
@click.option(
    "--response",
    metavar="FILE",
    help="File with the agent's last response, which counts if the handoff file can't be used; - is standard input.",
)
@click.option("--run", metavar="ID", help="Id of the run. Default: a new run.")
@click.option("--runtime", metavar="NAME", default="", help="Runtime of the agent, e.g. claude.")
@click.option("--iteration", type=click.IntRange(0, 10**9), metavar="N", help="Iteration of the phase.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder to search for a missing file by name, by default the current folder. Links are followed only "
    "within DIR. Without --root, a file is not read if it is a link, or if one of the two folders above it is a link.",
)
@receiver_options
@click.option(
    "--flush",
    is_flag=True,
    help="Send waiting reports, and check no file. Exits with 1 if reports still wait or were set aside.",
)
@click.option("--any-key", is_flag=True, help="With --flush: also reports made with another key.")
@tenant_option
@data_option
@json_option
def report_file(  # noqa: PLR0913 (click hands over each option)
    *,
    path: str | None,
    agent: str | None,
    phase: str | None,
    response: str | None,
    run: str | None,
    runtime: str,
    iteration: int | None,
    root: Path | None,
    url: str | None,
    key: str | None,
    spool: Path | None,
    tenant: str,
    local: bool,
    strict: bool,
    flush: bool,
    any_key: bool,
    as_json: bool,
) -> None:
    """Report the result of a handoff file check.

    The command prints one log line. The report goes to the server at --url, otherwise to the local database; with
    --local it is judged here and not stored.

    Exits with 0 if the file was used or the response replaced the file, and with 1 if the phase failed. Exits with 2 if
    the call is wrong, or if the server is unavailable or refuses the report. If the server is unavailable, the report
    is stored, and sent with the next report.
    """
    folder = spool or data_folder() / "reports"
    if flush:
        _flush(url, key, folder, any_key=any_key)
    if any_key:
        raise click.UsageError("--any-key needs --flush.")
    if missing := [name for name, given in (("--path", path), ("--agent", agent), ("--phase", phase)) if not given]:
        raise click.UsageError(f"Missing option: {', '.join(missing)}.")
    from handoffaudit.cli import report_receivers
    from handoffaudit.cli.report_receivers import choose_receiver

    text = _read_response(response, root)
    to = choose_receiver(
        "handoffaudit report-file", url=url, key=key, local=local, strict=strict, tenant=tenant, spool=folder
    )
    about = report_receivers.ReportSubject(
        run_id=run or f"report-{uuid.uuid4().hex[:12]}",
        agent=str(agent),
        phase=str(phase),
        path=str(path),
        runtime=runtime,
        iteration=iteration,
    )
    answer = _send_report(to, _make_report(about, text, root))
    _tell(answer, as_json=as_json)
    if left := to.describe_left():
        click.echo(left, err=True)
    if answer["failed"]:
        sys.exit(1)


def _make_report(about: "ReportSubject", response: str | None, root: Path | None) -> dict[str, Any]:
    """Return the report on the current state of the file."""
    from handoffaudit.cli import file_lookup, report_receivers

    wanted = Path(about.path)
    looked = file_lookup.look(wanted, root)
    found = None if looked.file["exists"] else file_lookup.find_elsewhere(wanted.name, root or Path(), wanted)
    return report_receivers.make_report(about, looked, datetime.now(UTC), response=response, elsewhere=found)


def _send_report(to: "Receiver", made: dict[str, Any]) -> dict[str, Any]:
    from handoffaudit.cli.report_receivers import Kept, Refused

    try:
        answer = to.report(made)
    except (Kept, Refused) as error:
        raise Stop(str(error)) from error
    to.close()
    return answer


def _flush(url: str | None, key: str | None, folder: Path, *, any_key: bool) -> NoReturn:
    from handoffaudit.cli.hook_spool import flush_spool
    from handoffaudit.cli.report_receivers import report_server

    sys.exit(flush_spool(report_server(url, key), folder, any_key=any_key))


def _tell(answer: dict[str, object], *, as_json: bool) -> None:
    from handoffaudit.cli.report_receivers import explain_answer

    click.echo(json.dumps(answer) if as_json else answer["line"])
    if as_json or not answer["reasons"]:
        return
    for line in explain_answer(answer):
        click.echo(line, err=True)


def _read_response_bytes(path: str, root: Path | None) -> bytes:
    from handoffaudit.cli import file_lookup

    if path == "-":
        return sys.stdin.buffer.read(LONGEST_RESPONSE + 1)
    if str(Path(path).parent) in ("/dev", "/dev/fd"):
        # A shell passes the output of another command under these paths, and an agent can't put a link there.
        with Path(path).open("rb") as file:
            return file.read(LONGEST_RESPONSE + 1)
    return file_lookup.read_bytes(Path(path), root, LONGEST_RESPONSE + 1)


def _read_response(path: str | None, root: Path | None) -> str | None:
    if path is None:
        return None
    try:
        raw = _read_response_bytes(path, root)
    except OSError as error:
        raise Stop(f"The response {path} can't be read ({error.strerror}).") from error
    if len(raw) > LONGEST_RESPONSE:
        raise Stop(f"The response {path} is longer than {LONGEST_RESPONSE // 1024**2} MiB: give only the end of it.")
    return raw.decode(errors="replace")


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
@click.option(
    "--expected", metavar="FILE", multiple=True, help="A required file below FOLDER; repeat the option for each file."
)
@click.option(
    "--phase-timeout",
    type=click.FloatRange(0, 10**7),
    metavar="SECONDS",
    help="Report an expected file as missing after this many seconds without a change in its folder. Default: never.",
)
@click.option(
    "--response",
    metavar="NAME",
    default="",
    help="Name of the file with the agent's response, which is beside each handoff file.",
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
def watch(  # noqa: PLR0913 (click hands over each option)
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

    Stop with Ctrl-C. With --once the command exits with 1 if a phase failed, and with 2 if reports wait for the server
    or were refused.
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
    if left := to.describe_left():
        click.echo(left, err=True)
    if once and (watching.counts["kept"] or watching.counts["refused"]):
        sys.exit(2)
    if once and watching.counts["failed"]:
        sys.exit(1)


def _until_interrupted(watching: "Watcher", every: float) -> None:
    """Scan the folder in a loop until Ctrl-C or SIGTERM."""
    # A shell without job control starts background programs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        while True:
            watching.look(time.monotonic())
            time.sleep(every)
    # The terminal shows ^C in the current line, so the summary needs a new line.
    click.echo(err=True)
