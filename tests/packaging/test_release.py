"""Tests of the release: one version, known licences, and an installed size within its limit."""

import importlib.metadata
import runpy
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LICENCES: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "licences.py"))
LOCKED: list[str] = LICENCES["locked_names"]((ROOT / "requirements.lock").read_text())
MOST_BYTES = 250_000_000


def version_of(project: Path) -> str:
    found: str = tomllib.loads(project.read_text())["project"]["version"]
    return found


def test_server_and_client_have_one_version() -> None:
    version = version_of(ROOT / "pyproject.toml")
    assert version_of(ROOT / "client" / "pyproject.toml") == version
    assert importlib.metadata.version("handoffaudit") == version
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_has_a_known_licence() -> None:
    found = list(LICENCES["list_dependencies"](LOCKED))
    # Dependencies of other platforms are not installed here.
    assert len(found) > len(LOCKED) - 5
    assert [one for one in found if not one.is_allowed] == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("", False),
        ("UNKNOWN", False),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-only", False),
        ("MIT OR Proprietary", False),
    ],
)
def test_an_unknown_licence_is_refused(expression: str, expected: bool) -> None:
    assert LICENCES["is_allowed"](expression) is expected


def test_the_installed_size_is_within_its_limit() -> None:
    """Sum the files of the locked distributions, with their bytecode, and of the product."""
    total = sum(path.stat().st_size for path in (ROOT / "handoffaudit").rglob("*") if path.is_file())
    total += sum(
        path.stat().st_size for name in ("templates", "static") for path in (ROOT / name).rglob("*") if path.is_file()
    )
    for name in LOCKED:
        try:
            files = importlib.metadata.distribution(name).files or []
        except PackageNotFoundError:
            continue
        total += sum(path.stat().st_size for one in files if (path := Path(str(one.locate()))).is_file())
    assert 100_000_000 < total <= MOST_BYTES
