"""`handoffaudit hook`: asks a server's gate about one event of an agent host."""

import contextlib
import io
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.hooks.event import BadEvent, Event, read_event
from handoffaudit.cli.terminal import data_folder, example

if TYPE_CHECKING:
    from handoffaudit.cli.hooks.gate import Decision
    from handoffaudit.cli.hooks.server import Server
    from handoffaudit.validation.phase_rules import PhaseRule

MIB = 1024 * 1024


class WrongCall(click.UsageError):
    """A wrong call where exit code 2 means blocked."""

    exit_code = 1


class HookCommand(click.Command):
    """Command whose usage errors never exit with the code that means blocked."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = f"{' '.join(args)} ".replace("=", " ")
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "--block-exit 2 " in given or "--emit " in given or "--tool-results " in given:
                raise WrongCall(error.format_message(), ctx) from error
            raise


@click.command(
    name="hook",
    cls=HookCommand,
    epilog=example("handoffaudit hook --block-exit 2 < event.json", "handoffaudit hook --flush"),
)
@click.option("--url", metavar="URL", envvar="HANDOFFAUDIT_URL", help="The server, e.g. https://audit.example.com.")
@click.option(
    "--key",
    metavar="KEY",
    envvar="HANDOFFAUDIT_KEY",
    help="API key for the server; prefer the variable HANDOFFAUDIT_KEY.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 600),
    default=65.0,
    show_default=True,
    envvar="HANDOFFAUDIT_HOOK_TIMEOUT",
    help="Seconds to wait for the answer of the server.",
)
@click.option(
    "--block-exit",
    type=click.Choice(["1", "2"]),
    default="1",
    show_default=True,
    help="Exit code for a blocked event. Claude Code requires 2.",
)
@click.option("--emit", is_flag=True, help="Exit with 0, and print JSON for Claude Code instead.")
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    envvar="HANDOFFAUDIT_HOOK_RULES",
    help="File with your own phase rules, writable only by you.",
)
@click.option("--hybrid", is_flag=True, help="Always evaluate the rules; the rules or the server can block.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    envvar="CLAUDE_PROJECT_DIR",
    help="Base folder of the rules' paths and commands. Default: CLAUDE_PROJECT_DIR, otherwise the current folder.",
)
@click.option(
    "--spool",
    type=click.Path(path_type=Path),
    envvar="HANDOFFAUDIT_HOOK_SPOOL",
    help="Folder for events that wait for an unavailable server. Default: hooks in the data folder.",
)
@click.option(
    "--spool-mib",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Maximum size of the spool folder in MiB.",
)
@click.option(
    "--tool-results",
    is_flag=True,
    help="Send what tools returned, as evidence, and leave delegations to the other hooks. No rules are evaluated.",
)
@click.option("--flush", is_flag=True, help="Send waiting events, and read no event.")
@click.option("--any-key", is_flag=True, help="With --flush: also events read with another key.")
def command(  # noqa: PLR0913 (click hands over each option)
    url: str | None,
    key: str | None,
    timeout: float,
    block_exit: str,
    rules: Path | None,
    root: Path | None,
    spool: Path | None,
    spool_mib: int,
    *,
    emit: bool,
    hybrid: bool,
    tool_results: bool,
    flush: bool,
    any_key: bool,
) -> None:
    """Check an event of an agent host against the server.

    The event is JSON on standard input. An event that is not a delegation and that needs no rules exits at once with 0.

    Exits with 0 if the event is allowed, could not be judged, or is unreadable; with 1 (or --block-exit) if the event
    is blocked, with the reason on standard error. A wrong call exits with 2, or with 1 if 2 means blocked.
    """
    # With these options the agent host also takes exit code 2 for blocked.
    wrong = 1 if block_exit == "2" or emit or tool_results else 2
    if hybrid and not rules:
        raise Stop("--hybrid needs rules: name their file with --rules or HANDOFFAUDIT_HOOK_RULES.", wrong)
    if any_key and not flush:
        raise Stop("--any-key needs --flush.", wrong)
    folder = spool or data_folder() / "hooks"
    if flush:
        from handoffaudit.cli.hooks.spool import flush_spool

        sys.exit(flush_spool(_find_server(url, key, wrong), folder, any_key=any_key))
    event = _read_event(wrong)
    if tool_results:
        if event is not None and event.has_tool_result:
            _send_result(event, _find_server(url, key, wrong), folder, spool_mib * MIB)
        return
    if event is None or not (event.of_a_delegation or (rules and event.takes_rules)):
        return
    found = _read_rules(rules, wrong) if event.takes_rules else ()
    if not event.of_a_delegation and not found:
        return
    server = _find_server(url, key, wrong)
    try:
        decision = _decide(event, server, found, folder, root, timeout=timeout, most=spool_mib * MIB, hybrid=hybrid)
    except Exception as error:  # noqa: BLE001 (our own bug must not stop an agent)
        _warn(f"The event was not judged: {type(error).__name__}. Please report this.")
        return
    code = _tell(event, decision, int(block_exit), emit=emit)
    if code:
        sys.exit(code)


def _send_result(event: Event, server: "Server", folder: Path, most: int) -> None:
    from handoffaudit.cli.hooks.gate import Gate
    from handoffaudit.cli.hooks.spool import NO_WAIT_SECONDS, Spool

    # Results may fill only half of the spool, so that there is room for delegations.
    spool = Spool(folder / server.name, most // 2)
    gate = Gate(server, spool, (), root=Path(), hybrid=False, seconds=NO_WAIT_SECONDS, warn=_warn)
    try:
        gate.send_result(event)
    except Exception as error:  # noqa: BLE001 (our own bug must not stop an agent)
        _warn(f"The result was not sent: {type(error).__name__}. Please report this.")


def _decide(
    event: Event,
    server: "Server",
    rules: "tuple[PhaseRule, ...]",
    folder: Path,
    root: Path | None,
    *,
    timeout: float,
    most: int,
    hybrid: bool,
) -> "Decision":
    from handoffaudit.cli.hooks.gate import Gate
    from handoffaudit.cli.hooks.spool import Spool

    # When the agent host ends the hook, the hook must still end the processes that its rules started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gate = Gate(
        server,
        Spool(folder / server.name, most),
        rules,
        # Without rules, the current folder is not looked up, because the folder may be gone.
        root=(root or Path()).absolute() if rules else Path(),
        hybrid=hybrid,
        seconds=timeout,
        warn=_warn,
    )
    return gate.decide(event)


def _read_event(wrong: int) -> Event | None:
    """Return the event, or None after a warning if the event can't be read, which must not stop an agent."""
    stream = sys.stdin.buffer if sys.stdin else io.BytesIO()
    if stream.isatty():
        raise Stop("The event is read from standard input: handoffaudit hook < event.json", wrong)
    try:
        return read_event(stream)
    except (BadEvent, OSError) as error:
        _warn(f"The event can't be read, and was not judged: {error}.")
    return None


def _read_rules(path: Path | None, wrong: int) -> "tuple[PhaseRule, ...]":
    if path is None:
        return ()
    from handoffaudit.cli.hooks.user_rules import load_rules

    return load_rules(path.expanduser(), wrong)


def _find_server(url: str | None, key: str | None, wrong: int) -> "Server":
    from handoffaudit.cli.hooks.server import check_server

    return check_server(url, key, wrong)


def _tell(event: Event, decision: "Decision", block_exit: int, *, emit: bool) -> int:
    from handoffaudit.cli.hooks import gate

    # Do not block an agent that was sent back already, because the agent would never end.
    blocked = decision.blocked and not event.sent_back_before
    if emit:
        output = {} if event.sent_back_before else gate.host_output(event, decision)
        if output:
            click.echo(json.dumps(output))
        return 0
    if not blocked:
        return 0
    click.echo(gate.blocking_reason(decision), err=True)
    return block_exit


def _warn(message: str) -> None:
    # The reader of standard error may be gone, which is no reason to stop.
    with contextlib.suppress(OSError):
        click.echo(f"Warning: {' '.join(message.split())}", err=True)
