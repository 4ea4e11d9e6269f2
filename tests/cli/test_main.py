"""Tests of the rules that hold for every command."""

import errno
import re
import subprocess
import sys

import click
import pytest
from django.db import OperationalError

from handoffaudit.cli import Stop, database, main
from handoffaudit.cli.main import COMMANDS, command
from tests import warm
from tests.running.conftest import prepared
from tests.test_docs import leaves

LEAVES = leaves(command, "handoffaudit")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments)


@pytest.mark.parametrize("path", LEAVES)
def test_help_has_an_example_that_names_the_command(path):
    shown = run(*path.split()[1:], "--help")
    assert shown.returncode == 0
    assert path in shown.stdout.partition("Example")[2]


def test_help_loads_no_django():
    """The time until the help appears is measured in `benchmarks/`."""
    assert run("--help").returncode == 0
    look = "import sys; from handoffaudit.cli import main; [main.command.get_command(None, n) for n in main.COMMANDS]; "
    told = subprocess.run(
        [sys.executable, "-c", look + "print('django' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"


def test_every_command_is_shown_with_its_own_name():
    for name in COMMANDS:
        found = command.get_command(click.Context(command), name)
        assert found is not None
        assert found.name == name


NO_SERVER = "No server is named: give its address with --url or HANDOFFAUDIT_URL."

WRONG = {
    "nope": "No such command 'nope'. See handoffaudit --help.",
    "key create": "Missing argument 'NAME'. See handoffaudit key create --help.",
    "up --port 0": "Invalid value for '--port': 0 is not in the range 1<=x<=65535. See handoffaudit up --help.",
    "import /nowhere": "/nowhere can't be read (No such file or directory).",
    "import - --url x --key k": "'x' is not the address of a server: write it like https://audit.example.com.",
    "import - --url http://x": "--url needs an API key with the scope ingest: give it with --key or HANDOFFAUDIT_KEY.",
    "import - --url= --key k": NO_SERVER,
    "import-log - --source a --url= --key k": NO_SERVER,
    "report-file --path a/handoff.json --agent a --phase p --url= --key k": NO_SERVER,
    "policy export --url= --key k": NO_SERVER,
    "key create crew --agent=": "Invalid value for '--agent': the name is empty. Name an agent, or leave --agent out "
    "for any agent. See handoffaudit key create --help.",
    "policy export --url http://x": "--url needs an API key with the scope admin: give it with --key or "
    "HANDOFFAUDIT_KEY.",
    "policy export --cases --url http://x": "--url needs an API key with the scope read: give it with --key or "
    "HANDOFFAUDIT_KEY.",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_call_is_one_line_and_exit_2(line):
    done = run(*line.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {WRONG[line]}\n")


def test_an_error_does_not_steer_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["handoffaudit"])

    @click.command()
    def fail():
        raise Stop("409: \x1b[2J of\n\x9b1m the server")

    with pytest.raises(SystemExit) as ended:
        main.run(fail, "handoffaudit")
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("Error: 409: \ufffd[2J of \ufffd1m the server\n")


def test_the_version_is_printed():
    assert run("--version").stdout.strip() == __import__("importlib.metadata").metadata.version("handoffaudit")


def test_a_reader_that_goes_away_is_no_crash(tmp_path):
    shell = f"{sys.executable} -m handoffaudit key list --json --data {prepared(tmp_path / 'data')} | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_database_during_a_command_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError("no room") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "argv", ["x"])
    with pytest.raises(SystemExit) as ended:
        main.run(click.Command("x", callback=fail), "x")
    assert ended.value.code == 2
    name = re.escape(database.name_database())
    assert re.fullmatch(rf"Error: The database {name} can't be used \(.*\): make room\.\n", capsys.readouterr().err)
