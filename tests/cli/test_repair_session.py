"""Tests that `handoffaudit repair` writes a session that exceeds the budget to a file beside the document."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from handoffaudit.cli.repair import command
from tests.validation.support import universal

SESSION: dict[str, Any] = {"state": {"log": "The supplier was called. " * 600}}
NAME = "work/handoffs/session-context.json"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(universal(source={"session_path": "work"}, payload={"session": SESSION})))
    (tmp_path / "work").mkdir()
    return path


def repaired(document: Path, *options: str) -> Result:
    result = CliRunner().invoke(command, [str(document), *options])
    assert result.exit_code == 0, result.output
    return result


def said(result: Result) -> str:
    """Return what a terminal shows, without its line breaks."""
    return " ".join(result.stderr.split())


def why_dropped(result: Result) -> str:
    """Return the reason for the removed session, as the JSON answer gives it."""
    changes = [change for attempt in json.loads(result.stdout)["attempts"] for change in attempt["changes"]]
    return next(str(change["why"]) for change in changes if change["field_path"] == "handoff.payload.session")


def files_of(result: Result) -> list[str]:
    payload = json.loads(result.stdout)["handoff"]["payload"]
    assert "session" not in payload
    return [entry["path"] for entry in payload.get("references", {}).get("files", [])]


def test_the_session_is_written_to_its_folder_and_referred_to(document: Path, tmp_path: Path) -> None:
    result = repaired(document)
    assert files_of(result) == [NAME]
    assert json.loads((tmp_path / NAME).read_text()) == SESSION
    assert f"payload.session was written to {tmp_path / NAME}" in result.stderr
    assert "references.missing_file" not in result.stderr


def test_a_second_run_finds_the_same_file(document: Path, tmp_path: Path) -> None:
    assert files_of(repaired(document)) == files_of(repaired(document)) == [NAME]
    assert [path.name for path in (tmp_path / "work/handoffs").iterdir()] == ["session-context.json"]


def test_another_file_of_that_name_is_never_overwritten(document: Path, tmp_path: Path) -> None:
    (tmp_path / "work/handoffs").mkdir()
    (tmp_path / NAME).write_text("other")
    assert files_of(repaired(document)) == ["work/handoffs/session-context-2.json"]
    assert (tmp_path / NAME).read_text() == "other"


def test_a_link_is_not_written_through(document: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work/handoffs").symlink_to(tmp_path / "elsewhere")
    result = repaired(document)
    assert files_of(result) == []
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "is a link" in said(result)


def test_a_link_in_place_of_the_file_is_left_alone(document: Path, tmp_path: Path) -> None:
    (tmp_path / "work/handoffs").mkdir()
    (tmp_path / NAME).symlink_to(tmp_path / "secret")
    assert files_of(repaired(document)) == ["work/handoffs/session-context-2.json"]
    assert not (tmp_path / "secret").exists()


def test_without_its_folder_the_session_is_dropped_and_that_is_said(document: Path, tmp_path: Path) -> None:
    (tmp_path / "work").rmdir()
    result = repaired(document)
    assert files_of(result) == []
    assert not (tmp_path / "work").exists()
    assert "dropped to meet the token budget; it could not be stored: there is no folder" in said(result)


def test_a_session_path_that_leads_upwards_is_refused(document: Path, tmp_path: Path) -> None:
    (tmp_path.parent / "beside").mkdir()
    told = universal(source={"session_path": "../beside"}, payload={"session": SESSION})
    document.write_text(json.dumps(told))
    result = repaired(document)
    assert files_of(result) == []
    assert list((tmp_path.parent / "beside").iterdir()) == []
    assert "the part .. is not allowed in ../beside" in said(result)


def test_json_tells_the_path_and_the_content(document: Path) -> None:
    assert json.loads(repaired(document, "--json").stdout)["session_context"] == {"path": NAME, "content": SESSION}


def test_nothing_is_left_behind_where_no_candidate_is_offered(document: Path, tmp_path: Path) -> None:
    told = universal(source={"session_path": "work"}, target={"skill": "curator"}, payload={"session": SESSION})
    document.write_text(json.dumps(told))
    assert CliRunner().invoke(command, [str(document)]).exit_code == 1
    assert list((tmp_path / "work").iterdir()) == []


def test_json_says_why_the_session_was_dropped(document: Path, tmp_path: Path) -> None:
    (tmp_path / "work").rmdir()
    result = repaired(document, "--json")
    assert json.loads(result.stdout)["session_context"] is None
    assert why_dropped(result) == (
        f"dropped to meet the token budget; it could not be stored: there is no folder {tmp_path / 'work'}"
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"session_path": ""}, "the document names no session_path"),
        ({"session_path": "a\\..\\.."}, "the part .. is not allowed in a\\..\\.."),
        ({"session_path": "a\0b"}, "there is no folder"),
    ],
)
def test_every_reason_is_in_the_changes(tmp_path: Path, source: dict[str, Any], why: str) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(universal(source=source, payload={"session": SESSION})))
    result = CliRunner().invoke(command, [str(path), "--json"])
    assert why in why_dropped(result)
