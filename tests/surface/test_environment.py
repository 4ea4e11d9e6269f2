"""Snapshots of the environment variables and of the defaults that are read at the start."""

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import handoffaudit
from handoffaudit.cli.main import command
from tests.running.conftest import clean_environment
from tests.surface.snapshots import check

PACKAGE = Path(handoffaudit.__file__).parent
OURS = re.compile(r"(HANDOFFAUDIT|ANTHROPIC|CLAUDE|GRANIAN|WEB)_[A-Z_]+|DATABASE_URL|REDIS_URL|XDG_DATA_HOME")
# Whoever asks the environment for a variable while the settings are read is written down with the default.
START = """
import json, os
from environs import Env
found = {}
def note(name, default=None):
    if isinstance(name, str):
        found.setdefault(name, default)
original = type(os.environ).get
def get(self, name, default=None):
    note(name, default)
    return original(self, name, default)
type(os.environ).get = get
for kind in ("str", "int", "float", "bool", "list"):
    def reader(self, name, default=None, *rest, read=getattr(Env, kind), **more):
        found[name] = default
        return read(self, name, default, *rest, **more)
    setattr(Env, kind, reader)
import django
django.setup()
import handoffaudit.celery, handoffaudit.urls, handoffaudit.wsgi
print(json.dumps(found, default=str))
"""


def read_at_start() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        named = {"HANDOFFAUDIT_DATA": folder, "DJANGO_SETTINGS_MODULE": "handoffaudit.settings"}
        environment = {name: value for name, value in clean_environment().items() if not OURS.fullmatch(name)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", START],
            env=environment | named,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout.replace(folder, "DATA"))
    return {name: default for name, default in found.items() if OURS.fullmatch(name)}


def named_in_code() -> set[str]:
    """Return each string in the package that is the name of a variable."""
    return {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OURS.fullmatch(node.value)
    }


def named_by_options() -> set[str]:
    def below(one: click.Command) -> set[str]:
        names = {str(parameter.envvar) for parameter in one.params if parameter.envvar}
        if isinstance(one, click.Group):
            context = click.Context(one)
            for name in one.list_commands(context):
                child = one.get_command(context, name)
                names |= below(child) if child else set()
        return names

    return below(command)


def test_environment_variables() -> None:
    at_start = read_at_start()
    others = (named_in_code() | named_by_options()) - set(at_start)
    check("environment", {"read at the start, with defaults": at_start, "read where they are used": sorted(others)})
