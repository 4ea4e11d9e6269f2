"""The terminal of a command: options that commands share, and progress on standard error."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from handoffaudit.cli import Stop

DATABASE_FILE = "handoffaudit.sqlite3"


def _use_folder(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["HANDOFFAUDIT_DATA"] = value


# The option sets the environment variable, because Django reads its settings only once, at its start.
data_option = click.option(
    "--data",
    metavar="DIR",
    expose_value=False,
    callback=_use_folder,
    help="The data folder of the embedded server. Default: HANDOFFAUDIT_DATA, otherwise a folder of your user account.",
)

tenant_option = click.option("--tenant", default="default", show_default=True, metavar="SLUG", help="The tenant.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")


def example(*lines: str) -> str:
    """Return the epilog of a click command with examples."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {one}" for one in lines)])


def printable(text: str) -> str:
    """Replace line breaks and control characters, which would let a text of a sender control the terminal."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


def require_key(key: str | None) -> str:
    """Return the API key for `--url`. Raise `Stop` if there is none."""
    if not key:
        raise Stop("--url needs an API key with the scope ingest: give it with --key or HANDOFFAUDIT_KEY.")
    return key


def data_folder(code: int = 2) -> Path:
    """Return the data folder as the settings define it, without loading the settings.

    Raise `Stop` with the exit code `code` if the path begins with `~` and the home folder that it names is unknown.
    """
    given = os.environ.get("HANDOFFAUDIT_DATA")
    try:
        return Path(given).expanduser().absolute() if given else usual_data_folder()
    except RuntimeError:
        path = given or "~/.local/share"
        raise Stop(
            f"The data folder is {path!r}, but there is no such home folder: give a path without ~ with --data.", code
        ) from None


def usual_data_folder() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser().absolute() / "handoffaudit"


url_option = click.option(
    "--url", metavar="URL", envvar="HANDOFFAUDIT_URL", help="The server, e.g. https://audit.example.com."
)

key_option = click.option(
    "--key",
    metavar="KEY",
    envvar="HANDOFFAUDIT_KEY",
    help="API key for the server; prefer the variable HANDOFFAUDIT_KEY.",
)

send_url_option = click.option(
    "--url", metavar="URL", help="Send the data to this server, e.g. https://audit.example.com."
)

send_key_option = click.option(
    "--key", metavar="KEY", envvar="HANDOFFAUDIT_KEY", help="API key for --url; prefer the variable HANDOFFAUDIT_KEY."
)

_RECEIVER_OPTIONS = (
    url_option,
    key_option,
    click.option("--local", is_flag=True, help="Judge locally; store and send nothing."),
    click.option("--strict", is_flag=True, help="With --local: require the handoff file."),
    click.option(
        "--spool",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder for reports that wait for an unavailable server. Default: reports/ in the data folder.",
    ),
)


def receiver_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_RECEIVER_OPTIONS):
        command = option(command)
    return command


class FormatChoice(click.Choice[str]):
    """A choice of formats that imports the formats only when a command needs their names."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        from handoffaudit.validation.formats import BY_NAME

        return tuple(BY_NAME)

    @choices.setter
    def choices(self, _: tuple[str, ...]) -> None:
        """Ignore the choices that the base class sets."""


format_option = click.option(
    "--format",
    "form",
    type=FormatChoice(),
    help="Read the input as documents of this format, not as submissions with fields beside a document.",
)

strictness_option = click.option(
    "--type-policy", type=click.Choice(["strict", "lenient"]), help="Judge every handoff type as strict or as lenient."
)

policy_option = click.option(
    "--policy",
    metavar="FILE",
    multiple=True,
    help="File with a policy, as GET /api/v1/strictness, /rules, /schemas or /prompts returns it; repeat the option "
    "for each file.",
)

root_option = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of the files that documents refer to. Default: the folder of each FILE.",
)

skills_option = click.option(
    "--skills",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of skills (SKILL.md). The names of the skills are the known agents; other targets get a warning.",
)


QUIET_SECONDS, LINE_SECONDS = 1.0, 2.0
# The pause between two looks of a thread at the time.
TICK_SECONDS = 0.1


class ProgressLine:
    """A progress line on standard error that appears after the command has run for a second.

    A terminal shows one line, which is rewritten. Anything else gets a new line every two seconds.
    """

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._drawn = False
        self._terminal = sys.stderr.isatty()

    def update(self, describe: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_SECONDS)
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{describe()}" if self._terminal else f"{describe()}\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._drawn and self._terminal:
            sys.stderr.write("\r\x1b[K")

    @contextlib.contextmanager
    def during(self, describe: Callable[[], str]) -> Iterator[None]:
        """Show the line with the time since its start while the block runs.

        A thread updates the line, because one statement of a database may take minutes.
        """
        began, ended = time.monotonic(), threading.Event()

        def tick() -> None:
            while not ended.wait(TICK_SECONDS):
                self.update(lambda: f"{describe()} · {_clock(time.monotonic() - began)}")

        ticker = threading.Thread(target=tick, daemon=True)
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()
            self.finish()


BAR_SECONDS, BAR_LINE_SECONDS = 0.1, 5.0

BAR_WIDTH = 28


class ProgressBar:
    """A progress bar; `size` is the number of bytes to read, 0 if unknown (standard input)."""

    def __init__(self, size: int, *, show: bool = True, out: TextIO | None = None, noun: str = "documents") -> None:
        self._size = size
        self._out = out or sys.stderr
        self._show = show
        self._noun = noun
        self._bar = self._out.isatty()
        self._began = time.monotonic()
        self._next = self._began + (0 if self._bar else BAR_LINE_SECONDS)

    def update(self, number: int, read_bytes: int) -> None:
        now = time.monotonic()
        if not self._show or now < self._next:
            return
        self._next = now + (BAR_SECONDS if self._bar else BAR_LINE_SECONDS)
        self._draw(number, read_bytes, now)

    def finish(self, number: int) -> None:
        if self._show and self._bar:
            self._draw(number, self._size, time.monotonic())
            self._out.write("\n")

    def _draw(self, number: int, read_bytes: int, now: float) -> None:
        seconds = max(now - self._began, 0.001)
        text = f"{number:,} {self._noun} · {number / seconds:,.0f}/s"
        if self._size:
            share = min(read_bytes / self._size, 1.0)
            left = f" · {_clock(seconds / share - seconds)} left" if 0 < share < 1 else ""
            filled = round(share * BAR_WIDTH)
            bar = f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} " if self._bar else ""
            text = f"{bar}{100 * share:3.0f} % · {text}{left}"
        if self._bar:
            columns = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:columns]}")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
