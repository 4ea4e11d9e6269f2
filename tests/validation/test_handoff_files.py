"""Tests of handoffs written as files: their paths, and the protection of existing files."""

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from handoffaudit.validation.handoff_files import file_name, handoff_path, write_handoff

AT = datetime(2026, 2, 1, 8, 0, 5, 999_999, tzinfo=UTC)
NAME = "researcher-to-writer-20260201T080005Z.json"


def test_the_standard_name() -> None:
    assert handoff_path("sessions/17", "researcher", "writer", AT) == Path("sessions/17/handoffs") / NAME
    there = AT.astimezone(timezone(timedelta(hours=-5)))
    assert file_name("researcher", "writer", there) == NAME


@pytest.mark.parametrize(
    ("agent", "safe"),
    [
        ("../../x", "x"),
        ("..", "unknown"),
        ("", "unknown"),
        ("/etc/passwd", "etc-passwd"),
        ("a\\..\\b", "a-b"),
        ("a\0b\n", "a-b"),
        (".hidden", "hidden"),
        ("Zoë v1.2", "Zoë-v1.2"),
        ("\ud800", "unknown"),
        ("x" * 500, "x" * 100),
        ("東" * 500, "東" * 33),
    ],
)
def test_names_lead_nowhere(agent: str, safe: str) -> None:
    assert file_name(agent, "w", AT) == f"{safe}-to-w-20260201T080005Z.json"
    assert len(file_name(agent, agent, AT).encode()) < 255


def test_it_is_written_where_it_belongs(tmp_path: Path) -> None:
    written = write_handoff(b"{}", tmp_path / "new", "researcher", "writer", AT)
    assert (written.path, written.issue) == (tmp_path / "new" / "handoffs" / NAME, None)
    assert written.path.read_bytes() == b"{}"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    paths = [write_handoff(content, tmp_path, "researcher", "writer", AT).path for content in (b"1", b"2", b"2", b"1")]
    stem = NAME.removesuffix(".json")
    assert [path.name for path in paths] == [NAME, f"{stem}-2.json", f"{stem}-2.json", NAME]
    assert paths[0].read_bytes() == b"1"


def test_links_are_not_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "handoffs"
    folder.mkdir()
    victim = tmp_path / "victim"
    victim.write_bytes(b"{}")
    (folder / NAME).symlink_to(victim)
    written = write_handoff(b"{}", tmp_path, "researcher", "writer", AT)
    assert written.path.name != NAME
    assert victim.read_bytes() == b"{}"


def test_the_fallback_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    written = write_handoff(b"{}", tmp_path / "file", "researcher", "writer", AT, temporary=tmp_path / "temporary")
    assert written.path == tmp_path / "temporary" / NAME
    assert written.path.read_bytes() == b"{}"
    assert written.issue is not None
    assert (written.issue.code, written.issue.severity) == ("files.fallback_location", "warning")
    assert written.issue.message.startswith("Using fallback location.")
    assert str(written.path) in written.issue.message
    assert "Not a directory" in written.issue.message


@pytest.mark.parametrize("session", ["a\0b", "x" * 5000])
def test_session_paths_that_no_file_system_takes(session: str, tmp_path: Path) -> None:
    written = write_handoff(b"{}", session, "a", "b", AT, root=tmp_path, temporary=tmp_path / "t")
    assert written.path.parent == tmp_path / "t"


@pytest.mark.parametrize("session", ["../out", "/etc", "a/../../out", "link"])
def test_a_session_path_may_not_lead_out_of_the_root(session: str, tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    out.mkdir()
    (root / "link").symlink_to(out)
    written = write_handoff(b"{}", session, "a", "b", AT, root=root, temporary=tmp_path / "t")
    assert written.path.parent == tmp_path / "t"
    assert list(out.iterdir()) == []


def test_the_systems_temporary_folder_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert write_handoff(b"{}", os.devnull, "a", "b", AT).path.parent == tmp_path


def test_where_nothing_can_be_written_it_says_so() -> None:
    with pytest.raises(OSError, match="dev/null"):
        write_handoff(b"{}", os.devnull, "a", "b", AT, temporary=Path(os.devnull))
