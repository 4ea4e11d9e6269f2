"""Tests of files that a document refers to."""
# ruff: noqa: S108  (paths under /tmp are what is looked for)

import errno

import pytest

from handoffaudit.validation.layers.references import MOST_CHECKED

from ..support import codes, judge, universal


class Disk:
    """A disk that fails after its first answers."""

    def __init__(self, answers: list[bool | None]) -> None:
        self.answers = answers

    def exists(self, path: str) -> bool | None:
        if not self.answers:
            raise OSError(errno.EIO, "Input/output error")
        return self.answers.pop(0)


def naming(*paths: str) -> dict:
    return universal(payload={"references": {"files": [{"path": path} for path in paths]}}, meta={"token_count": 180})


@pytest.mark.parametrize(
    ("path", "temporary"),
    [
        ("/tmp/a", True),
        ("/tmp", True),
        ("/var/tmp/a", True),
        ("file:///tmp/a", True),
        ("file:/tmp/a", True),
        ("file://localhost/tmp/a", True),
        ("file:///C:/Temp/a", True),
        ("file://other/tmp/a", False),
        ("C:\\Temp\\a", True),
        ("%TEMP%\\a", True),
        ("$TMPDIR/a", True),
        ("C:\\Users\\Ana\\AppData\\Local\\Temp\\a", True),
        ("/tmpfiles/a", False),
        ("docs/tmp/a", False),
        ("", False),
    ],
)
def test_ephemeral(path: str, temporary: bool) -> None:
    assert codes(judge(naming(path))) == (["references.ephemeral"] if temporary else [])


def test_existence_is_checked_only_where_files_can_be_seen() -> None:
    unseen = judge(naming("a", "b"))
    assert codes(unseen) == []
    assert (unseen.layers[3].status, unseen.layers[3].why) == (
        "skipped",
        "the existence of the files was not checked: the server cannot see the sender's files",
    )
    verdict = judge(naming("a", "b"), files=Disk([True, False]))
    assert [issue.field_path for issue in verdict.issues] == ["handoff.payload.references.files[1].path"]


def test_a_name_no_file_can_have_is_missing() -> None:
    assert codes(judge(naming("a\0b"), files=Disk([]))) == ["references.missing_file"]


def test_an_empty_path_is_a_missing_file() -> None:
    verdict = judge(naming(""), files=Disk([]))
    assert [(issue.code, issue.message) for issue in verdict.issues] == [
        ("references.missing_file", "The path of the file is empty.")
    ]


def test_a_failing_disk_is_an_error_of_the_layer_and_no_pass() -> None:
    verdict = judge(naming("/tmp/a", "b", "c"), files=Disk([True, False]))
    layer = verdict.layers[3]
    assert (layer.status, layer.why) == ("error", "the files could not be looked up: Input/output error")
    assert "references.ephemeral" in codes(verdict)


def test_a_temporary_path_is_found_though_the_file_is_not_looked_for() -> None:
    verdict = judge(naming("/tmp/a"))
    assert (codes(verdict), verdict.layers[3].status) == (["references.ephemeral"], "skipped")


def test_files_that_may_not_be_looked_at_are_never_a_pass() -> None:
    nothing = judge(naming("a", "b"), files=Disk([None, None]))
    assert (nothing.layers[3].status, codes(nothing)) == ("skipped", [])
    assert nothing.layers[3].why.endswith(": all files are outside the allowed folders")
    many = judge(naming(*map(str, range(MOST_CHECKED + 1))), files=Disk([None] * MOST_CHECKED))
    assert many.layers[3].why.endswith(": the first 200 files are outside the allowed folders")
    some = judge(naming("a", "b"), files=Disk([True, None]))
    assert (some.layers[3].status, some.layers[3].why) == (
        "passed",
        "not checked: 1 file outside the allowed folders",
    )


def test_so_many_files_are_looked_for_and_no_more() -> None:
    disk = Disk([True] * MOST_CHECKED)
    layer = judge(naming(*(str(number) for number in range(MOST_CHECKED + 5))), files=disk).layers[3]
    assert (layer.status, layer.why) == ("passed", "not checked: 5 files beyond the first 200")
