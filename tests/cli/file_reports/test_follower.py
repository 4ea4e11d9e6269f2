"""Tests of the choice of files to report from a folder, with a fake clock."""

import os
from pathlib import Path

import pytest

from handoffaudit.cli import file_lookup
from handoffaudit.cli.folder_follower import Due, Follower, Pattern

PATTERN = "{phase}/{agent}/handoff.json"


class Run:
    """A run's folder and its follower; each look is a second after the last look."""

    def __init__(self, root: Path, pattern: str = PATTERN, **how: object) -> None:
        self.root, self.now = root, 0.0
        self.follower = Follower(root, Pattern.of(pattern), settle=1.0, **how)  # type: ignore[arg-type]

    def write(self, path: str, text: str = "{}", at: int = 1) -> Path:
        """Write a file with the modification time `at`, so that each write shows, however fast it is."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, ns=(at * 10**9, at * 10**9))
        return file

    def look(self, seconds: float = 1.0) -> list[tuple[str, int]]:
        """Return the path and the iteration of each due file, and mark these files as reported."""
        return [(due.path, due.iteration) for due in self.dues(seconds)]

    def dues(self, seconds: float = 1.0) -> list[Due]:
        self.now += seconds
        found = []
        for due in self.follower.due(self.now):
            self.follower.mark_reported(due)
            found.append(due)
        return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_file_is_reported_once_it_was_the_same_for_a_while(run: Run) -> None:
    run.write("plan/planner/handoff.json", "{", at=1)
    assert run.look() == []
    run.write("plan/planner/handoff.json", "{}", at=2)
    assert run.look() == []
    assert run.look(0.5) == []
    assert run.look(0.5) == [("plan/planner/handoff.json", 1)]
    assert run.look() == []


def test_what_is_written_again_is_the_next_iteration(run: Run) -> None:
    run.write("plan/planner/handoff.json", at=1)
    run.look()
    assert run.look() == [("plan/planner/handoff.json", 1)]
    new = run.write("plan/planner/tmp", '{"a": 1}', at=1)
    new.rename(run.root / "plan/planner/handoff.json")
    run.look()
    assert run.look() == [("plan/planner/handoff.json", 2)]
    (run.root / "plan/planner/handoff.json").unlink()
    assert run.look() == []
    run.write("plan/planner/handoff.json", at=3)
    run.look()
    assert run.look() == [("plan/planner/handoff.json", 3)]


def test_only_what_fits_the_pattern_is_reported(run: Run) -> None:
    for path in ("handoff.json", "a/handoff.json", "a/b/c/handoff.json", "a/b/handoff.json.tmp", ".git/b/handoff.json"):
        run.write(path)
    run.look()
    assert run.look() == []


def test_a_file_that_was_moved_is_not_reported_again(run: Run) -> None:
    run.write("plan/planner/handoff.json")
    run.look()
    run.look()
    (run.root / "plan").rename(run.root / "archive")
    run.look()
    assert run.look() == []
    run.write("archive/planner/handoff.json", '{"a": 1}', at=9)
    run.look()
    assert run.look() == [("archive/planner/handoff.json", 1)]


def test_a_copy_is_a_file_of_its_own(run: Run) -> None:
    run.write("plan/planner/handoff.json")
    run.look()
    run.look()
    run.write("plan/other/handoff.json")
    run.look()
    assert run.look() == [("plan/other/handoff.json", 1)]


def test_an_iteration_that_is_known_from_before_goes_on(run: Run) -> None:
    run.write("plan/planner/handoff.json", at=1)
    run.look()
    run.now += 1
    for due in run.follower.due(run.now):
        run.follower.mark_reported(due, 4)
    run.write("plan/planner/handoff.json", at=2)
    run.look()
    assert run.look() == [("plan/planner/handoff.json", 5)]


def test_a_file_that_never_comes(tmp_path: Path) -> None:
    run = Run(tmp_path, expected=("final/handoff.json",), timeout=10)
    run.write("plan/planner/handoff.json")
    run.write("handoff.json")
    (tmp_path / "code/coder").mkdir(parents=True)
    run.look()
    assert [path for path, _ in run.look()] == ["plan/planner/handoff.json"]
    assert run.look(7) == []
    missing = run.dues(3)
    assert [(one.path, one.missing) for one in missing] == [
        ("code/coder/handoff.json", True),
        ("final/handoff.json", True),
    ]
    assert missing[0].names == {"phase": "code", "agent": "coder"}
    # not that of the planner, which is where it belongs
    assert {one.candidates for one in missing} == {("handoff.json",)}
    assert run.look(60) == []
    run.write("final/handoff.json", at=3)
    run.look()
    assert run.look() == [("final/handoff.json", 1)]


def test_work_in_its_folder_puts_off_that_a_file_is_missing(tmp_path: Path) -> None:
    run = Run(tmp_path, timeout=10)
    (tmp_path / "code/coder").mkdir(parents=True)
    run.look(6)
    (tmp_path / "code/coder/notes.md").touch()
    os.utime(tmp_path / "code/coder", ns=(10**9, 10**9))
    assert run.look(6) == []
    assert run.look(6) == []
    assert run.look(6) == [("code/coder/handoff.json", 1)]


def test_all_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, expected=("final.json",))
    run.write("plan/planner/handoff.json")
    due = list(run.follower.due(0, all_now=True))
    assert [(one.path, one.missing) for one in due] == [("plan/planner/handoff.json", False), ("final.json", True)]


def test_links_lead_nowhere_else(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Run(tmp_path_factory.mktemp("other"))
    other.write("planner/handoff.json")
    (run.root / "plan").symlink_to(other.root)
    (run.root / "loop").symlink_to(run.root)
    run.write("code/coder/note")
    (run.root / "code/coder/handoff.json").symlink_to(other.root / "planner/handoff.json")
    run.look()
    assert run.look() == [("code/coder/handoff.json", 1)]


def test_a_folder_of_too_much_is_looked_at_in_part(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lookup, "MOST_SCANNED_ENTRIES", 3)
    run.write("plan/planner/handoff.json")
    for number in range(5):
        run.write(f"plan/{number}")
    assert not file_lookup.scan_folder(run.root).complete
    assert run.look() == []


def test_a_folder_that_is_gone_raises(run: Run) -> None:
    run.root.rmdir()
    with pytest.raises(OSError, match="No such file"):
        run.look()
