"""Tests of the states of a file at the expected path of a handoff file."""

import os
from pathlib import Path

import pytest

from handoffaudit.cli import file_lookup
from handoffaudit.cli.report_receivers import LONGEST_RESPONSE, cut_response
from handoffaudit.validation.formats.file_report import read_block

BLOCK = "---HANDOFF---\nSTATUS: complete\nARTIFACTS: a\nNEXT: none\nSUMMARY: s"


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(b"\xef\xbb\xbf{}\r\n")
    looked = file_lookup.look(file)
    assert looked.file == {"exists": True, "content": "\ufeff{}\r\n"}
    assert looked.changed_ns == file.stat().st_mtime_ns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{\n\xff}", "line 2 has the byte ff, which is not UTF-8"),
        (b"\xff\xfe{\0}\0", "it is UTF-16 and not UTF-8"),
        (b"\x7fELF\0\xff", "it is binary and not text"),
        (b"x" * (file_lookup.LONGEST_FILE + 1), "it has 524,289 bytes; the maximum is 524,288"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(content)
    assert file_lookup.look(file).file == {"exists": True, "error": said}


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    said = {name: file_lookup.look(tmp_path / name).file for name in ("", "link", "pipe", "none", "file/none")}
    assert said[""] == {"exists": False, "error": "it is a folder"}
    assert "a symbolic link to" in said["link"]["error"]
    assert said["pipe"] == {"exists": False, "error": "it is not a regular file"}
    assert said["none"] == {"exists": False}
    assert said["file/none"] == {"exists": False, "error": "it can't be looked up: not a directory"}


def test_a_link_that_vanishes_during_the_look_up_is_an_absent_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, read = tmp_path / "link", Path.readlink
    link.symlink_to(tmp_path / "nowhere")

    def vanish(path: Path) -> Path:
        path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "readlink", vanish)
    assert file_lookup.look(link).file == {"exists": False}
    assert not link.is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read_is_there(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.touch(mode=0)
    assert file_lookup.look(file).file == {"exists": True, "error": "permission denied"}


def test_files_of_that_name_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("b/c/handoff.json", "a/handoff.json", "expected/handoff.json", "node_modules/handoff.json", "x.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = file_lookup.find_elsewhere("handoff.json", Path(), Path("expected/handoff.json"))
    assert found == ["a/handoff.json", "b/c/handoff.json"]
    assert len(list(file_lookup.walk(tmp_path, most=2))) <= 2


@pytest.mark.parametrize(
    "text", ["x" * 10**6 + BLOCK, BLOCK + " " * 10**6, BLOCK, "---HANDOFF---" + "x" * 10**6 + BLOCK + "y" * 10**5]
)
def test_the_last_block_of_a_long_response_is_kept(text: str) -> None:
    kept = cut_response(text)
    assert len(kept) <= LONGEST_RESPONSE
    found, whole = read_block(kept), read_block(text)
    assert found is not None
    assert whole is not None
    assert found["status"] == whole["status"] == "complete"


def test_a_long_response_without_a_block_has_none() -> None:
    assert read_block(cut_response("x" * 10**6)) is None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Write a file beside the folder `run`; no path or link below `run` may reach the file."""
    (tmp_path / "run/plan").mkdir(parents=True)
    path = tmp_path / "secret.json"
    path.write_text("secret")
    return path


@pytest.mark.parametrize("target", ["{secret}", "../../secret.json", "inner/../../../secret.json", "away/secret.json"])
def test_a_link_out_of_the_folder_is_not_followed(secret: Path, target: str) -> None:
    run = secret.parent / "run"
    (run / "plan/inner").mkdir()
    (run / "plan/away").symlink_to(secret.parent)
    file = run / "plan/handoff.json"
    file.symlink_to(target.format(secret=secret))
    looked = file_lookup.look(file, run)
    assert looked.file == {"exists": True, "error": "the link leaves the folder, and is not followed"}
    assert looked.changed_ns
    with pytest.raises(OSError, match="leaves the folder"):
        file_lookup.read_bytes(file, run, 100)


def test_a_folder_that_is_a_link_out_of_the_folder_is_not_followed(secret: Path) -> None:
    run = secret.parent / "run"
    (run / "code").symlink_to(secret.parent)
    assert file_lookup.look(run / "code/secret.json", run).file["exists"]
    assert "content" not in file_lookup.look(run / "code/secret.json", run).file


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("run/../run/code/secret.json", "run"),
        ("run/plan/../code/secret.json", "run"),
        ("alias/code/secret.json", "run"),
        ("run/code/secret.json", "alias"),
        ("alias/../run/code/secret.json", "alias"),
    ],
)
def test_a_path_written_otherwise_leads_out_of_the_folder_no_more(secret: Path, path: str, folder: str) -> None:
    here = secret.parent
    (here / "run/code").symlink_to(here)
    (here / "run/plan/handoff.json").write_text("inside")
    (here / "alias").symlink_to(here / "run")
    looked = file_lookup.look(here / path, here / folder)
    assert looked.file == {"exists": True, "error": "the link leaves the folder, and is not followed"}
    with pytest.raises(OSError, match="leaves the folder"):
        file_lookup.read_bytes(here / path, here / folder, 100)
    inside = here / path.replace("code/secret.json", "plan/handoff.json")
    assert file_lookup.look(inside, here / folder).file == {"exists": True, "content": "inside"}


def test_links_within_the_folder_are_followed(secret: Path) -> None:
    run = secret.parent / "run"
    (run / "plan/v2.json").write_text("inside")
    (run / "newest").symlink_to("plan")
    (run / "relative.json").symlink_to("./newest/../plan/v2.json")
    (run / "absolute.json").symlink_to(run / "newest/v2.json")
    for name in ("relative.json", "absolute.json", "newest/v2.json"):
        assert file_lookup.look(run / name, run).file == {"exists": True, "content": "inside"}
    (run / "loop").symlink_to("loop")
    assert "symbolic links" in file_lookup.look(run / "loop", run).file["error"]


def test_of_a_file_elsewhere_its_own_folder_is_not_left(secret: Path) -> None:
    run = secret.parent / "run"
    (secret.parent / "link.json").symlink_to("secret.json")
    (run / "link.json").symlink_to("../secret.json")
    assert file_lookup.look(secret.parent / "link.json", run).file == {"exists": True, "content": "secret"}
    assert "content" not in file_lookup.look(run / "link.json").file


def test_what_is_swapped_after_it_was_looked_up_is_not_followed(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = secret.parent / "run/handoff.json"
    file.symlink_to(secret)
    status = secret.stat()
    monkeypatch.setattr(os, "stat", lambda *_, **__: status)
    assert "content" not in file_lookup.look(file).file
    monkeypatch.undo()
    file.unlink()
    os.mkfifo(file)
    monkeypatch.setattr(os, "stat", lambda *_, **__: status)
    assert file_lookup.look(file).file == {"exists": False, "error": "it is not a regular file"}


def linked_run(secret: Path) -> Path:
    """Return a run in which folders and files are links that an agent made."""
    run = secret.parent / "run"
    (secret.parent / "away").mkdir()
    (secret.parent / "away/handoff.json").write_text("secret")
    (run / "plan/linked").symlink_to(secret.parent / "away")
    (run / "linked").symlink_to(run.parent)
    (run / "plan/planner").mkdir()
    (run / "plan/planner/handoff.json").symlink_to(secret)
    (run / "plan/planner/near.json").symlink_to(".env")
    (run / "plan/planner/.env").write_text("secret")
    return run


@pytest.mark.parametrize("current", ["/", ".", "..", "../away"])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(
    "path",
    ["plan/linked/handoff.json", "linked/away/handoff.json", "plan/planner/handoff.json", "plan/planner/near.json"],
)
def test_without_a_folder_no_link_at_the_file_is_followed(
    secret: Path, path: str, current: str, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = linked_run(secret)
    monkeypatch.chdir(run / current)
    file = Path(os.path.relpath(run / path)) if relative else run / path
    looked = file_lookup.look(file)
    assert looked.changed_ns
    assert looked.file["exists"]
    assert "content" not in looked.file
    assert "link" in looked.file["error"]
    with pytest.raises(OSError, match="link"):
        file_lookup.read_bytes(file, None, 100)


def test_a_file_below_another_folder_than_the_root_is_read_through_no_linked_folder(secret: Path) -> None:
    run = linked_run(secret)
    looked = file_lookup.look(run / "plan/linked/handoff.json", run / "plan/planner")
    assert looked.file == {"exists": True, "error": "a link on the path is followed only below --root"}


@pytest.mark.parametrize(
    ("current", "path"),
    [
        ("/", "{here}/alias/plan/planner/v2.json"),
        ("run", "{here}/alias/plan/planner/v2.json"),
        ("run", "plan/planner/v2.json"),
        ("run/plan", "../plan/./planner/v2.json"),
        ("run/plan/planner", "v2.json"),
        ("", "runs/newest/plan/planner/v2.json"),
        ("alias/plan/planner", "{here}/alias/plan/planner/v2.json"),
        ("alias/plan", "{here}/alias/plan/v1.json"),
        ("alias", "{here}/alias/v0.json"),
    ],
)
def test_links_above_a_run_are_followed_without_a_folder(
    secret: Path, current: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = secret.parent
    run = linked_run(secret)
    for name in ("plan/planner/v2.json", "plan/v1.json", "v0.json"):
        (run / name).write_text("inside")
    (here / "alias").symlink_to(run)
    (here / "runs").mkdir()
    (here / "runs/newest").symlink_to("../run")
    monkeypatch.chdir(here / current)
    # A shell names the current folder as the user did.
    monkeypatch.setenv("PWD", str(here / current))
    assert file_lookup.look(Path(path.format(here=here))).file == {"exists": True, "content": "inside"}
    assert file_lookup.read_bytes(Path(path.format(here=here)), None, 100) == b"inside"
