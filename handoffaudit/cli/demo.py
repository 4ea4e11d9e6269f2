"""`handoffaudit demo`: agents of a real framework hand over work live, on a temporary server."""

import os
import select
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import click

from handoffaudit.cli import Stop, up
from handoffaudit.cli.serve.processes import LOOK_SECONDS, Supervisor
from handoffaudit.cli.terminal import example

# The program of the agents, and the policies of their handoffs: files in `handoffaudit.samples`.
CREW, POLICY = "crew.py", "crew-policy.yaml"
NEEDED = ("pydantic_ai", "handoffaudit_client")
# Settings that belong to another server, whose data the demonstration must neither use nor change; and keys that cost
# money. Without `HANDOFFAUDIT_OIDC_ISSUER`, the server ignores all other settings of the sign-in provider.
FOREIGN = (
    *("DATABASE_URL", "DATABASE_REPLICA_URL", "REDIS_URL", "ANTHROPIC_API_KEY", "HANDOFFAUDIT_MODEL_PROVIDER"),
    *("HANDOFFAUDIT_DATA", "HANDOFFAUDIT_STATIC", "HANDOFFAUDIT_CHECKPOINTS", "HANDOFFAUDIT_EVENTS_FILE"),
    *("HANDOFFAUDIT_SEAL_KEY", "HANDOFFAUDIT_ALLOWED_HOSTS", "HANDOFFAUDIT_PUBLIC_URL", "HANDOFFAUDIT_BEHIND_PROXY"),
    *("HANDOFFAUDIT_EMAIL_URL", "HANDOFFAUDIT_OIDC_ISSUER", "HANDOFFAUDIT_PASSWORD_SIGN_IN"),
    "HANDOFFAUDIT_ADMIN_SECOND_FACTOR",
)


@click.command(name="demo", epilog=example("handoffaudit demo", "handoffaudit demo --port 9000 --pace 3"))
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@click.option(
    "--pace",
    default=1.5,
    show_default=True,
    type=click.FloatRange(0, 60),
    help="How long an agent thinks before each step, in seconds.",
)
@click.option("--keep", metavar="DIR", help="Keep the data in this folder. Default: a temporary folder.")
@click.option(
    "--python",
    metavar="PATH",
    help="A Python that has pydantic-ai-slim and handoffaudit-client. Default: the Python of this command.",
)
@click.option("--once", is_flag=True, help="Begin without asking, and stop when the agents have finished.")
def command(port: int, pace: float, keep: str | None, python: str | None, *, once: bool) -> None:
    """Watch agents hand over work: one run is sound, one invents a price, one loops, and one waits for you.

    The agents are real agents of Pydantic AI with scripted models, so no LLM is asked. The server has its own data.
    The data is removed when you stop the server with Ctrl-C, unless you name a folder with --keep.
    """
    python = python or sys.executable
    check_python(python)
    for name in FOREIGN:
        os.environ.pop(name, None)

    def play(supervisor: Supervisor) -> None:
        if once or wait_for_enter(supervisor):
            run_crew(supervisor, f"http://127.0.0.1:{port}", [python, "-", str(pace)])
        supervisor.stopping = supervisor.stopping or once

    # A `TemporaryDirectory` would also be removed by each forked process that ends.
    folder = str(Path(keep).absolute()) if keep else tempfile.mkdtemp(prefix="handoffaudit-demo-")
    os.environ["HANDOFFAUDIT_DATA"] = folder
    try:
        up.serve("127.0.0.1", port, play)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def check_python(python: str) -> None:
    """Raise `Stop` if a Python cannot be started, or lacks the framework or the client."""
    look = f"import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, {NEEDED!r})))"
    try:
        is_complete = subprocess.run([python, "-c", look], check=False).returncode == 0  # noqa: S603
    except OSError as error:
        raise Stop(f"{python} can't be started ({error.strerror}): give another --python.") from error
    if not is_complete:
        raise Stop(
            f"{python} lacks pydantic-ai-slim or handoffaudit-client. Install the extra demo, for example with"
            " pip install 'handoffaudit[demo]', or name a Python that has both with --python."
        )


def wait_for_enter(supervisor: Supervisor) -> bool:
    """Wait for Enter, so that a person can sign in before the agents begin. Return False if a signal came first.

    If standard input is not a terminal, do not wait.
    """
    if not sys.stdin.isatty():
        return not supervisor.stopping
    up.say("  Sign in with the link above, then press Enter here: the agents begin.")
    while not supervisor.stopping:
        supervisor.look()
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            sys.stdin.readline()
            return True
    return False


def run_crew(supervisor: Supervisor, address: str, command: list[str]) -> None:
    """Save the policy of the agents, create their key, and let them work while the server runs."""
    folder = files("handoffaudit.samples")
    with as_file(folder / CREW) as crew, as_file(folder / POLICY) as policy:
        call_cli("policy", "apply", str(policy), "--note", "The demonstration")
        os.environ["HANDOFFAUDIT_KEY"] = call_cli("key", "create", "crew", "--scopes", "ingest,observe,read")
        os.environ["HANDOFFAUDIT_URL"] = address
        if not up.run_beside(supervisor, [str(crew) if part == "-" else part for part in command]):
            up.warn("The agents failed: see the messages above.")
    up.say("\n  Open Traces to see the runs. Ctrl-C stops the server.")


def call_cli(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-m", "handoffaudit", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise Stop("The demonstration can't be prepared: see the messages above.", 1)
    return done.stdout.strip()
