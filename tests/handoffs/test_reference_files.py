"""Tests of referenced files below the folders of `HANDOFFAUDIT_REFERENCE_ROOTS`."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from handoffaudit.accounts.models import Tenant
from handoffaudit.env import folders
from handoffaudit.handoffs.repair_cases import Preview, preview
from handoffaudit.handoffs.verdicts import RootedFiles
from handoffaudit.validation.submission import Submission
from tests.validation.support import universal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root with the file `there.md` and with links, one of which leads to an outside folder with `secret`."""
    inside, outside = tmp_path / "work", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for name in ("there.md", "with space.md", "100%"):
        (inside / name).write_text("x")
    (outside / "secret").write_text("x")
    (inside / "link").symlink_to(outside)
    (inside / "own").symlink_to(inside / "there.md")
    (inside / "loop").symlink_to(inside / "loop")
    return inside


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("{root}/there.md", True),
        ("file://{root}/there.md", True),
        ("there.md", True),
        ("{root}/own", True),
        ("{root}/gone.md", False),
        ("gone.md", False),
        ("{root}/there.md/inside", False),
        ("{root}/" + "x" * 5000, False),
        ("{root}/loop", False),
        ("{root}/link/secret", None),
        ("{root}/link/gone", None),
        ("link/secret", None),
        ("{root}/../outside/secret", None),
        ("../outside/secret", None),
        ("{root}/a/../there.md", None),
        ("{root}-more/there.md", None),
        ("/etc/passwd", None),
        ("/no/such/file", None),
        ("FILE://localhost{root}/there.md", True),
        ("file:{root}/there.md", True),
        ("file://{root}/with%20space.md", True),
        ("file://{root}/100%", True),
        ("{root}/with%20space.md", False),
        ("file://localhost{root}/gone.md", False),
        ("file://{root}/a%00b", False),
        ("file://{root}/%ff", False),
        ("file://{root}/\ud83d", False),
        ("\ud83d/there.md", False),
        ("file://{root}/%2e%2e/outside/secret", None),
        ("file://other{root}/there.md", None),
        ("~/there.md", None),
        ("~someone/there.md", None),
        ("$HOME/there.md", None),
        ("${{HOME}}/there.md", None),
        ("%USERPROFILE%\\there.md", None),
        ("C:\\x\\y", None),
        ("c:/x/y", None),
        ("\\\\srv\\x", None),
        ("//srv/x", None),
        ("https://example.com/a.txt", None),
        ("s3://bucket/a.txt", None),
    ],
)
def test_only_what_lies_below_a_root_is_answered(root: Path, path: str, answer: bool | None) -> None:
    assert RootedFiles((root,)).exists(path.format(root=root)) is answer


def test_one_of_several_roots_is_enough(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert RootedFiles((other, root)).exists("there.md") is True
    assert RootedFiles((other, root)).exists("gone.md") is False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_may_not_be_read_is_not_answered(root: Path) -> None:
    (root / "closed").mkdir(mode=0)
    assert RootedFiles((root,)).exists("closed/file") is None


def test_roots_are_folders_and_not_the_whole_disk(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    name = "HANDOFFAUDIT_REFERENCE_ROOTS"
    monkeypatch.setenv(name, f" {root} ,, {root.parent}")
    assert folders(name) == [root, root.parent]
    monkeypatch.setenv(name, "")
    assert folders(name) == []
    for wrong in (f"{root}/there.md", "/"):
        monkeypatch.setenv(name, wrong)
        with pytest.raises(ImproperlyConfigured, match=name):
            folders(name)


def layer_of(tenant: Tenant, *paths: str) -> tuple[dict[str, Any], list[str]]:
    document = universal(payload={"references": {"files": [{"path": path} for path in paths]}})
    judged = preview(tenant, Submission(orjson.dumps(document)))
    assert isinstance(judged, Preview)
    (layer,) = (one for one in judged.verdict.layers if one.name == "references")
    missing = [issue.actual for issue in judged.verdict.issues if issue.code == "references.missing_file"]
    return {"status": layer.status, "why": layer.why}, missing


def test_the_server_says_what_it_checked(tenant: Tenant, root: Path) -> None:
    layer, missing = layer_of(tenant, str(root / "there.md"))
    assert (layer["status"], missing) == ("skipped", [])
    with override_settings(REFERENCE_ROOTS=[root]):
        layer, missing = layer_of(tenant, str(root / "there.md"), str(root / "gone.md"), "/etc/passwd")
        assert (layer["status"], missing) == ("passed", [str(root / "gone.md")])
        assert layer["why"] == "not checked: 1 file outside the allowed folders"
        layer, missing = layer_of(tenant, "/etc/passwd")
        assert (layer["status"], missing) == ("skipped", [])
