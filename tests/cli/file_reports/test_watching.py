"""Tests of the loop of `handoffaudit watch`: reported, stored, rejected and counted files."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.cli.file_lookup import LookedUpFile, look
from handoffaudit.cli.folder_follower import RETRY_SECONDS, Follower, Pattern, Watcher
from handoffaudit.cli.report_receivers import Kept, LocalReceiver, Refused

GOOD = '{"status": "complete", "artifacts": [], "next": null, "summary": "x"}'


class Server:
    """A server that accepts reports while it is up."""

    def __init__(self) -> None:
        self.is_there, self.taken, self.kept = True, list[dict[str, Any]](), list[dict[str, Any]]()

    def report(self, document: dict[str, Any]) -> dict[str, Any]:
        if not self.is_there:
            self.kept.append(document)
            raise Kept("The server is away.")
        self.taken.append(document)
        return LocalReceiver().report(document) | {"iteration": "7"}

    def retry(self) -> int:
        if self.is_there:
            self.taken += self.kept
            self.kept.clear()
        return len(self.kept)

    def close(self) -> None: ...


def watching(root: Path, server: Any) -> Watcher:
    return Watcher(Follower(root, Pattern.of("**/handoff.json"), settle=0), server)


def write(root: Path, agent: str, content: str = GOOD) -> None:
    (root / agent).mkdir(exist_ok=True)
    (root / agent / "handoff.json").write_text(content)


def test_what_the_server_could_not_take_is_sent_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    server.is_there = False
    watch = watching(tmp_path, server)
    write(tmp_path, "planner")
    write(tmp_path, "coder", "{")
    watch.look(0)
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["agent=coder", "agent=planner"]
    assert said.err.count("The server is away.") == 1
    assert watch.summary() == "2 reported: 1 used, 0 fallback, 1 failed; 2 wait for the server."
    server.is_there = True
    watch.look(RETRY_SECONDS)
    assert watch.summary() == "2 reported: 1 used, 0 fallback, 1 failed."
    assert sorted(one["agent"] for one in server.taken) == ["coder", "planner"]


def test_the_iteration_that_the_server_knows_goes_on(tmp_path: Path) -> None:
    server = Server()
    watch = watching(tmp_path, server)
    write(tmp_path, "planner")
    watch.look(0)
    write(tmp_path, "planner", "{")
    watch.look(1)
    assert [one["iteration"] for one in server.taken] == [1, 8]


def test_the_time_is_that_of_the_file(tmp_path: Path) -> None:
    server = Server()
    write(tmp_path, "planner")
    os.utime(tmp_path / "planner/handoff.json", (1_771_114_500, 1_771_114_500))
    watching(tmp_path, server).look(0)
    [sent] = server.taken
    assert sent["timestamp"] == "2026-02-15T00:15:00Z"
    assert (sent["run_id"], sent["phase"], sent["expected_path"]) == (tmp_path.name, "planner", "planner/handoff.json")


@pytest.mark.parametrize("changed_ns", [10**12 * 10**9, -(10**12) * 10**9])
def test_a_file_with_a_time_in_no_calendar_stops_nothing(
    changed_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_at(path: Path, folder: Path | None = None) -> LookedUpFile:
        found = look(path, folder)
        return replace(found, changed_ns=changed_ns) if path.parent.name == "coder" else found

    monkeypatch.setattr("handoffaudit.cli.folder_follower.look", look_at)
    server = Server()
    write(tmp_path, "coder")
    write(tmp_path, "planner")
    watching(tmp_path, server).look(0)
    assert [one["agent"] for one in server.taken] == ["coder", "planner"]


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_refused_stops_nothing(is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    server.is_there = is_there
    write(tmp_path, "a" * 201)
    write(tmp_path, "planner")
    watching(tmp_path, server).look(0)
    said = capsys.readouterr()
    assert "was not reported: " in said.err
    assert "over the limit of 200" in said.err
    assert said.out.startswith("agent=planner ")


def test_names_that_are_no_text_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, os.fsdecode(b"pl\xffnner"))
    server = Server()
    watching(tmp_path, server).look(0)
    assert [one["agent"] for one in server.taken] == ["pl?nner"]
    assert capsys.readouterr().out.startswith("agent=pl?nner ")


def test_a_folder_that_is_gone_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "run"
    root.mkdir()
    watch = watching(root, Server())
    root.rmdir()
    for now in range(3):
        watch.look(now)
    assert capsys.readouterr().err.count("can't be read") == 1
    root.mkdir()
    write(root, "planner")
    watch.look(9)
    assert capsys.readouterr().out.startswith("agent=planner ")


def test_a_server_that_refuses_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Refusing(Server):
        def report(self, document: dict[str, Any]) -> dict[str, Any]:
            raise Refused("422: no")

    write(tmp_path, "planner")
    watch = watching(tmp_path, Refusing())
    watch.look(0)
    watch.look(1)
    assert capsys.readouterr().err == "Warning: planner/handoff.json was not reported: 422: no\n"
    assert watch.summary() == "0 reported: 0 used, 0 fallback, 0 failed; 1 refused."


def test_a_full_disk_does_not_end_the_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Full(Server):
        def retry(self) -> int:
            raise OSError(28, "No space left on device")

    server = Full()
    server.is_there = False
    write(tmp_path, "planner")
    watch = watching(tmp_path, server)
    watch.look(0)
    watch.look(RETRY_SECONDS)
    assert "were not sent: [Errno 28] No space left on device" in capsys.readouterr().err
    assert watch.counts["kept"] == 1


def test_a_link_out_of_the_folder_is_reported_once_and_never_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "run"
    for agent in ("one", "two", "three"):
        (root / agent).mkdir(parents=True)
    (root / "one/handoff.json").symlink_to("../../secret")
    (root / "two/handoff.json").write_text("no json")
    (root / "two/response.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "three/handoff.json")
    os.mkfifo(root / "three/response.txt")
    server = Server()
    watch = watching(root, server)
    watch.response = "response.txt"
    watch.look(0)
    watch.look(1)
    made = {one["agent"]: one for one in server.taken}
    assert len(server.taken) == 3
    assert made["one"]["file"] == {"exists": True, "error": "the link leaves the folder, and is not followed"}
    assert "response_text" not in made["two"]
    assert made["three"]["file"] == {"exists": False, "error": "it is not a regular file"}
    assert "secret" not in str(server.taken)
