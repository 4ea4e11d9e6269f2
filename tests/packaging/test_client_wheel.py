"""Tests of the client's wheel: built, installed alone, and small."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "client"
MOST_BYTES = 100_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client-wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=CLIENT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES


def test_it_has_its_modules_types_and_licence_and_nothing_else(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(CLIENT)) for path in (CLIENT / "handoffaudit_client").rglob("*.py")}
    assert modules | {"handoffaudit_client/py.typed"} <= inside
    beside = {name for name in inside if not name.startswith("handoffaudit_client/")}
    assert {name.partition("/")[2] for name in beside} == {"METADATA", "RECORD", "WHEEL", "licenses/LICENSE"}
    assert (CLIENT / "LICENSE").read_text() == (CLIENT.parent / "LICENSE").read_text()


def test_it_needs_no_other_distribution(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet", str(wheel)]
    subprocess.run(install, check=True)
    code = "from handoffaudit_client import Client; from handoffaudit_client.testing import FakeServer; print(Client)"
    subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, cwd=tmp_path)
