"""Tests of the release: a version from the tags of git, known licences, and an installed size within its limit."""

import importlib.metadata
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parents[2]
LICENCES: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "licences.py"))
LOCKED: list[str] = LICENCES["locked_names"]((ROOT / "requirements.lock").read_text())
MOST_BYTES = 250_000_000

PARTS = (".gitattributes", "pyproject.toml", "client/pyproject.toml", "scripts/release")
# `git archive` fills this in. These tests may themselves run in an archive, where it is filled in already.
ARCHIVAL = "describe-name: $Format:%(describe:tags=true,match=v[0-9]*.[0-9]*)$\n"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with what the version depends on, without git."""
    folder = tmp_path / "checkout"
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, folder / part)
    (folder / ".git_archival.txt").write_text(ARCHIVAL)
    return folder


@pytest.fixture
def clone(checkout: Path) -> Path:
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "First")
    return checkout


def versions_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the versions of the server and of the client, without what follows a `+`."""
    found = []
    for project in (folder, folder / "client"):
        # A build runs in the folder of the project.
        monkeypatch.chdir(project)
        metadata = ProjectMetadata(str(project), PluginManager(), tomllib.loads(Path("pyproject.toml").read_text()))
        found.append(metadata.version.partition("+")[0])
    return found


def archive(clone: Path) -> Path:
    folder = clone.parent / "archive"
    git(clone, "archive", "--output", "../archive.tar", "HEAD")
    shutil.unpack_archive(clone.parent / "archive.tar", folder, filter="data")
    return folder


@pytest.mark.filterwarnings("ignore:git archive did not support describe output")
def test_a_copy_without_git_has_a_version_before_the_first(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions_of(checkout, monkeypatch) == ["0.1.0.dev0"] * 2


def test_commits_before_the_first_tag_count(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(clone, "tag", "backup-2026")
    assert versions_of(clone, monkeypatch) == ["0.1.0.dev1"] * 2
    assert versions_of(archive(clone), monkeypatch) == ["0.1.0.dev0"] * 2


def test_a_tag_is_the_version(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(clone, "tag", "--annotate", "v0.2.0", "--message", "handoffaudit 0.2.0")
    assert versions_of(clone, monkeypatch) == ["0.2.0"] * 2
    assert versions_of(archive(clone), monkeypatch) == ["0.2.0"] * 2


def test_commits_after_a_tag_are_before_the_next_version(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(clone, "tag", "v0.2.0")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "Second")
    assert versions_of(clone, monkeypatch) == ["0.2.1.dev1"] * 2
    assert versions_of(archive(clone), monkeypatch) == ["0.2.1.dev1"] * 2


def check_release(clone: Path, *tags: str) -> subprocess.CompletedProcess[str]:
    """Run the first step of `scripts/release` on a commit with these tags, with variables for another version."""
    (clone / "CHANGELOG.md").write_text("".join(f"## {tag.removeprefix('v')}, 2026-12-01\n" for tag in tags))
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "Release")
    for tag in tags:
        git(clone, "tag", tag)
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env |= {
        f"SETUPTOOLS_SCM_PRETEND_VERSION{end}": "9.9" for end in ("", "_FOR_HANDOFFAUDIT", "_FOR_HANDOFFAUDIT_CLIENT")
    }
    return subprocess.run(
        ["scripts/release", "--check"], cwd=clone, env=env, capture_output=True, text=True, check=False
    )


def test_the_tag_alone_decides_the_version_of_a_release(clone: Path) -> None:
    done = check_release(clone, "v0.2.0rc1")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["==", "the", "version", "0.2.0rc1"], "")


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (
            ("v0.2.0-rc1",),
            "the tag v0.2.0-rc1 is not in the canonical form of PEP 440: name it like v0.2.0, or like v0.2.0rc1",
        ),
        (("v2",), "the tag v2 is not in the canonical form"),
        (("v0.2.0", "v0.2.0rc1"), "several version tags (v0.2.0 v0.2.0rc1)"),
        (("backup-2026",), "the commit has no version tag"),
    ],
)
def test_a_release_has_one_tag_in_a_known_form(clone: Path, tags: tuple[str, ...], message: str) -> None:
    done = check_release(clone, *tags)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_tag_on_an_earlier_commit_is_no_release(clone: Path) -> None:
    git(clone, "tag", "v0.2.0")
    done = check_release(clone)
    assert done.returncode == 1
    assert "the commit has no version tag" in done.stderr


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an archive has these fields filled in")
def test_an_archive_names_its_tag() -> None:
    assert (ROOT / ".git_archival.txt").read_text() == ARCHIVAL


def test_docs_and_deployments_name_the_newest_version_of_the_changelog() -> None:
    newest = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "deploy" / "kubernetes").glob("*.yaml")]
    image_or_wheel = re.compile(r"handoffaudit(?:_client)?[:-](\d[\d.]*\d)")
    named = [one for path in files for one in image_or_wheel.findall(path.read_text())]
    assert len(named) > 5
    assert set(named) == {newest}


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
