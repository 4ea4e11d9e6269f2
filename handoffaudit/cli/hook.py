"""Commands that agent hosts start: `hook` asks a server's gate about one event, and `mcp` serves tools."""

import contextlib
import io
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import data_folder, example, key_option, url_option

if TYPE_CHECKING:
    from handoffaudit.cli.hook_gate import Decision
    from handoffaudit.cli.hook_server import Server
    from handoffaudit.validation.phase_rules import PhaseRule

MIB = 1024 * 1024
DELEGATION_TOOLS = frozenset({"Task", "SubagentTask", "AgentTask", "Agent"})

LONGEST_BYTES = 8 * MIB

_OF_SUBAGENTS = ("SubagentStart", "SubagentStop")


class BadEvent(Exception):
    """The input is not an event; the message says why."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an agent host: `text` as received; `tool` and `name` are empty if the event has none.

    `sent_back_before` means that a hook has already kept the agent from ending, and sent it back to work.
    """

    text: str
    name: str
    tool: str
    sent_back_before: bool = False

    @property
    def of_a_delegation(self) -> bool:
        """Return whether the event is part of a delegation. The server is always asked about such an event."""
        return self.name in _OF_SUBAGENTS or (
            self.name in ("PreToolUse", "PostToolUse") and self.tool in DELEGATION_TOOLS
        )

    @property
    def has_tool_result(self) -> bool:
        """Return whether the event has the result of a tool that delegates nothing."""
        return self.name == "PostToolUse" and not self.of_a_delegation

    @property
    def takes_rules(self) -> bool:
        """Return whether phase rules apply: an action is done, or a task is about to be delegated."""
        return self.name in ("PostToolUse", "SubagentStop") or (self.name == "PreToolUse" and self.of_a_delegation)


def read_event(stream: BinaryIO) -> Event:
    """Return the single event in the stream. Raises `BadEvent` if the stream holds no event or is too long."""
    raw = stream.read(LONGEST_BYTES + 1)
    if len(raw) > LONGEST_BYTES:
        raise BadEvent(f"it is longer than {LONGEST_BYTES // MIB} MiB")
    try:
        text = raw.decode("utf-8-sig")
        plain = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError) as error:
        raise BadEvent(f"it is not JSON ({error})") from error
    if plain is None:
        raise BadEvent("there is nothing on standard input")
    if not isinstance(plain, dict):
        raise BadEvent("it is not a JSON object")
    return _parse_event(text, plain)


def _parse_event(text: str, plain: dict[str, Any]) -> Event:
    name, tool = _read_text(plain, "hook_event_name"), _read_text(plain, "tool_name")
    call = plain.get("tool")
    if "hook_event_name" not in plain and isinstance(call, dict):
        # Other hosts send a call in this format, once its result is there.
        name, tool = "PostToolUse", _read_text(call, "name")
    return Event(text, name, tool, bool(plain.get("stop_hook_active")))


def _read_text(plain: dict[str, Any], field: str) -> str:
    value = plain.get(field)
    return value if isinstance(value, str) else ""


class WrongCall(click.UsageError):
    """A usage error that exits with 1, because exit code 2 means blocked."""

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
@url_option
@key_option
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
@click.option(
    "--emit",
    is_flag=True,
    help="Print the decision as JSON for Claude Code, and exit with 0 even if the event is blocked.",
)
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    envvar="HANDOFFAUDIT_HOOK_RULES",
    help="File with your own phase rules, writable only by you.",
)
@click.option(
    "--hybrid",
    is_flag=True,
    help="Evaluate the rules even if the server judges the event. Both the rules and the server can block.",
)
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
    help="Maximum size in MiB of the spool for one server and key.",
)
@click.option(
    "--tool-results",
    is_flag=True,
    help="Send what tools returned, as evidence, and leave delegations to the other hooks. No rules are evaluated.",
)
@click.option(
    "--flush",
    is_flag=True,
    help="Send waiting events, and read no event. Exits with 1 if events still wait or were set aside.",
)
@click.option("--any-key", is_flag=True, help="With --flush: also send events that were kept with another key.")
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
    """Allow or block an event of an agent host, as the server or your own rules decide.

    The event is JSON on standard input. If the event is no delegation and no rules apply, the command exits with
    0 and sends no request to the server.

    Exits with 0 if the event is allowed, could not be judged, or is unreadable. If the event is blocked, exits with 1
    (or --block-exit) and writes the reason to standard error. A wrong call exits with 2, or with 1 if 2 means blocked.
    """
    # With these options, the agent host takes exit code 2 for a blocked event, so a wrong call must not exit with 2.
    wrong = 1 if block_exit == "2" or emit or tool_results else 2
    if hybrid and not rules:
        raise Stop("--hybrid needs rules: name their file with --rules or HANDOFFAUDIT_HOOK_RULES.", wrong)
    if any_key and not flush:
        raise Stop("--any-key needs --flush.", wrong)
    folder = spool or data_folder(wrong) / "hooks"
    if flush:
        from handoffaudit.cli.hook_spool import flush_spool

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
    from handoffaudit.cli.hook_gate import Gate
    from handoffaudit.cli.hook_spool import NO_WAIT_SECONDS, Spool

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
    from handoffaudit.cli.hook_gate import Gate
    from handoffaudit.cli.hook_spool import Spool

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
    """Return the event. If it can't be read, warn and return None, because a bad event must not stop an agent.

    Raises `Stop` with the exit code `wrong` if standard input is a terminal.
    """
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
    from handoffaudit.cli.hook_rules import load_rules

    # Unlike `Path.expanduser`, this function keeps a path that names an unknown user.
    return load_rules(Path(os.path.expanduser(path)), wrong)  # noqa: PTH111


def _find_server(url: str | None, key: str | None, wrong: int) -> "Server":
    from handoffaudit.cli.hook_server import check_server

    return check_server(url, key, wrong)


def _tell(event: Event, decision: "Decision", block_exit: int, *, emit: bool) -> int:
    from handoffaudit.cli import hook_gate

    # Do not block an agent that was sent back already, because the agent would never end.
    blocked = decision.blocked and not event.sent_back_before
    if emit:
        output = {} if event.sent_back_before else hook_gate.host_output(event, decision)
        if output:
            click.echo(json.dumps(output))
        return 0
    if not blocked:
        return 0
    click.echo(hook_gate.blocking_reason(decision), err=True)
    return block_exit


def _warn(message: str) -> None:
    # The reader of standard error may be gone, which is not a reason to stop.
    with contextlib.suppress(OSError):
        click.echo(f"Warning: {' '.join(message.split())}", err=True)


MCP_EXTRA = "handoffaudit[mcp]"


@click.command(name="mcp", epilog=example("claude mcp add handoffaudit -- handoffaudit mcp"))
@url_option
@key_option
def mcp(url: str | None, key: str | None) -> None:
    """Serve the tools of a running server to an MCP host, such as Claude Code or Cursor.

    The host starts this command, and speaks with it over standard input and output. The tools submit and check
    handoffs, wait for verdicts, list blocked handoffs and explain rule codes.
    """
    from handoffaudit.cli.hook_server import check_server

    found = check_server(url, key, 2)
    try:
        from handoffaudit.cli.mcp_tools import create_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise Stop(f"The MCP SDK is missing or too old: install it with pip install '{MCP_EXTRA}'.") from error
    # The SDK reads standard input in a thread. Without this line, the thread would keep the process alive after Ctrl-C
    # until the next line of input comes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    create_server(found.url, found.key).run("stdio")
