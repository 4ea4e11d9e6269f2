"""The client runs on each Python of this machine that it supports."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.client.conftest import FOLDER, finish, python

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

CODE = """
import asyncio, dataclasses, enum, os, pathlib, pkgutil, sys
import handoffaudit_client
from handoffaudit_client import AsyncClient, Client, assignments, key_forms, masking
from handoffaudit_client.testing import FakeServer

class Kind(enum.Enum):
    FINAL = "final"

@dataclasses.dataclass
class Found:
    kind: Kind
    password: str

for look in key_forms.LOOKS:
    key_forms.compile_pattern(look.pattern)

with FakeServer() as server, Client(server.url, server.key, spool=sys.argv[1]) as audit:
    with audit.trace("t"):
        audit.send("a", "b", Found(Kind.FINAL, "hunter2"), handoff_id="first")
        audit.tool_result("search", b"x", arguments={"q": "sk-abcdefghij1234567890"})
        assert audit.gate("b", "c", "password=hunter2 and Bearer abcdefghij1234567890").state == "accepted"
    child = os.fork()
    if child == 0:
        audit.send("a", "b", 1, handoff_id="child")
        os._exit(0 if audit.flush(60) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert audit.flush(60)
    found = [one["document"]["data"] for one in server.wait_for(3)]
    assert found[0] == {"kind": "final", "password": "[masked]"}, found
    assert found[1] == "password=[masked] and Bearer [masked]"
    assert server.tool_results["t"][0]["arguments"] == {"q": "[masked]"}

    async def main():
        async with AsyncClient(server.url, server.key, spool=sys.argv[1]) as twin:
            await twin.send("a", "b", 1)
            return await twin.gate("a", "b", 2)

    assert asyncio.run(main())
print("ran")
"""


def program_of(version: str) -> str | None:
    """Return the interpreter of a version, if there is one that starts."""
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    for program in [shutil.which(f"python{version}"), *map(str, pyenv)]:
        if program and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            return program
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_it_runs(version: str, tmp_path: Path) -> None:
    program = program_of(version)
    if program is None:
        pytest.skip(f"no Python {version} on this machine")
    assert FOLDER.is_dir()
    assert finish(python(CODE, tmp_path / "spool", program=program)).startswith("ran")
