"""What is found where a handoff file is expected."""

import os
from pathlib import Path

import pytest

from handoffaudit.cli.reporting import looking
from handoffaudit.cli.reporting.documents import LONGEST_RESPONSE, end_of
from handoffaudit.validation.handoff_block import read_block

BLOCK = "---HANDOFF---\nSTATUS: complete\nARTIFACTS: a\nNEXT: none\nSUMMARY: s"


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(b"\xef\xbb\xbf{}\r\n")
    looked = looking.look(file)
    assert looked.file == {"exists": True, "content": "\ufeff{}\r\n"}
    assert looked.changed_ns == file.stat().st_mtime_ns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{\n\xff}", "line 2 has the byte ff, which is no UTF-8"),
        (b"\xff\xfe{\0}\0", "it is UTF-16 and not UTF-8"),
        (b"\x7fELF\0\xff", "it is binary and no text"),
        (b"x" * (looking.LONGEST_FILE + 1), "it has 524,289 bytes, and 524,288 are the most"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.write_bytes(content)
    assert looking.look(file).file == {"exists": True, "error": said}


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    said = {name: looking.look(tmp_path / name).file for name in ("", "link", "pipe", "none", "file/none")}
    assert said[""] == {"exists": False, "error": "it is a folder"}
    assert "a symbolic link to" in said["link"]["error"]
    assert said["pipe"] == {"exists": False, "error": "it is no regular file"}
    assert said["none"] == {"exists": False}
    assert said["file/none"] == {"exists": False, "error": "it can't be looked up: not a directory"}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read_is_there(tmp_path: Path) -> None:
    file = tmp_path / "handoff.json"
    file.touch(mode=0)
    assert looking.look(file).file == {"exists": True, "error": "permission denied"}


def test_files_of_that_name_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("b/c/handoff.json", "a/handoff.json", "expected/handoff.json", "node_modules/handoff.json", "x.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = looking.elsewhere("handoff.json", Path(), Path("expected/handoff.json"))
    assert found == ["a/handoff.json", "b/c/handoff.json"]
    assert len(list(looking.walk(tmp_path, most=2))) <= 2


@pytest.mark.parametrize(
    "text", ["x" * 10**6 + BLOCK, BLOCK + " " * 10**6, BLOCK, "---HANDOFF---" + "x" * 10**6 + BLOCK + "y" * 10**5]
)
def test_the_last_block_of_a_long_response_is_kept(text: str) -> None:
    kept = end_of(text)
    assert len(kept) <= LONGEST_RESPONSE
    found, whole = read_block(kept), read_block(text)
    assert found is not None
    assert whole is not None
    assert found["status"] == whole["status"] == "complete"


def test_a_long_response_without_a_block_has_none() -> None:
    assert read_block(end_of("x" * 10**6)) is None
