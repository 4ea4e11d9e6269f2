"""Places in a document."""

from handoffaudit.validation.paths import at, dotted, last_name, pointer

DOCUMENT = {"files": [{"path": "a"}], "b.c": {"": 1}}


def test_as_people_and_machines_read_them() -> None:
    assert dotted(("files", 0, "path")) == "files[0].path"
    assert dotted(("b.c", 'q"')) == '["b.c"]["q\\""]'
    assert pointer(("a/b", "~", 2)) == "/a~1b/~0/2"
    assert last_name(("handoff", "files", 2)) == "files[2]"
    assert last_name(("handoff", "version")) == "version"
    assert last_name(()) == ""


def test_at_finds_the_value_or_the_default() -> None:
    assert at(DOCUMENT, ("files", 0, "path")) == "a"
    assert at(DOCUMENT, ("files", 1, "path"), "none") == "none"
    assert at(DOCUMENT, ("files", "path")) is None
    assert at(DOCUMENT, ("files", 0, "path", "deeper")) is None
    assert at(DOCUMENT, ("b.c", "")) == 1
    assert at(DOCUMENT, ()) is DOCUMENT
