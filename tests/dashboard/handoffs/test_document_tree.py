"""Tests of a document as a tree: bounded, with each finding at its place."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from handoffaudit.dashboard.handoffs.document_tree import (
    ENTRIES_SHOWN,
    FIELDS_SHOWN,
    TEXT_PIECE,
    TEXT_SHOWN,
    Bounds,
    Gap,
    Missing,
    Node,
    PartNotFoundError,
    place_of,
    steps,
    text_piece,
    tree,
)
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, anchor, parts_of, spots_of
from tests.elapsed import grows_linearly


def issue(pointer: str, message: str = "wrong") -> Finding:
    return Finding(
        issue_id="issue-1",
        layer="structure",
        severity="error",
        code="structure.missing_field",
        title="Missing field",
        message=message,
        hint="Add it.",
        field_path=pointer,
        pointer=pointer,
        expected="",
        actual="",
        metadata={},
    )


def nodes(root: Node) -> list[Node]:
    return [step.of for step in steps(root) if step.kind in ("open", "leaf") and isinstance(step.of, Node)]


def labelled(root: Node, label: str) -> Node:
    return next(node for node in nodes(root) if node.label == label)


def test_fields_keep_their_order_and_kinds() -> None:
    root = tree({"b": "text", "a": 1.5, "n": None, "t": True, "l": [], "o": {}})
    assert [(node.label, node.kind, node.text) for node in nodes(root)] == [
        ("b", "string", "text"),
        ("a", "number", "1.5"),
        ("n", "constant", "null"),
        ("t", "constant", "true"),
        ("l", "list", ""),
        ("o", "object", ""),
    ]


def test_an_issue_stands_at_its_place_and_its_way_is_open() -> None:
    root = tree({"a": {"b": [{"c": {"d": 1}}]}}, spots_of([issue("/a/b/0/c/d")]))
    assert [found.message for found in labelled(root, "d").issues] == ["wrong"]
    assert all(labelled(root, label).is_open for label in ("a", "b", "0", "c"))
    assert labelled(root, "d").anchor == "at-/a/b/0/c/d"


def test_without_an_issue_deep_parts_are_folded() -> None:
    root = tree({"a": {"b": {"c": {"d": 1}}}})
    assert [labelled(root, label).is_open for label in "abc"] == [True, True, False]


def test_the_place_that_is_asked_for_is_marked_and_its_way_is_open() -> None:
    value = {"rows": [{"deep": {"deeper": {"x": number}}} for number in range(500)]}
    root = tree(value, spots_of([], "/rows/300/deep/deeper"), bounds=Bounds(nodes=5, fills_folded=False))
    wanted = [node for node in nodes(root) if node.is_wanted]
    assert [node.anchor for node in wanted] == ["at-/rows/300/deep/deeper"]
    assert all(node.is_open for node in nodes(root) if node.label in ("rows", "300", "deep", "deeper"))
    assert [child.label for child in wanted[0].children if isinstance(child, Node)] == ["x"]


def test_a_place_that_is_not_there_is_no_missing_field() -> None:
    root = tree({"a": {"b": 1}}, spots_of([issue("/a/c")], "/a/nothing/there"))
    assert [step.of.label for step in steps(root) if isinstance(step.of, Missing)] == ["c"]


def test_what_is_folded_is_sent_later() -> None:
    value = {"a": {"b": {"c": {"d": 1}, "e": 2}}}
    root = tree(value, bounds=Bounds(fills_folded=False))
    assert [node.label for node in nodes(root)] == ["a", "b", "c", "e"]
    assert labelled(root, "c").children == [Gap("0.0.0", 0, 1, is_folded=True)]


def test_what_the_bounds_leave_nothing_of_is_folded() -> None:
    root = tree({"a": list(range(5)), "b": list(range(5))}, bounds=Bounds(nodes=8))
    assert [labelled(root, label).is_open for label in "ab"] == [True, False]
    assert labelled(root, "b").children == [Gap("1", 0, 5, is_folded=True)]


def test_only_what_leads_to_issues_can_be_shown() -> None:
    value = {"a": {"x": 1, "b": {"y": 2, "c": 3}}, "d": 4}
    root = tree(value, spots_of([issue("/a/b/c")]), bounds=Bounds(only_found=True))
    assert [node.label for node in nodes(root)] == ["a", "b", "c"]
    assert [step.of for step in steps(root) if isinstance(step.of, Gap)] == [
        Gap("0", 0, 1),
        Gap("0.1", 0, 1),
        Gap("", 1, 1),
    ]


def test_everything_can_stand_open() -> None:
    root = tree({"a": {"b": {"c": {"d": {"e": 1}}}}}, bounds=Bounds(unfolded=64))
    assert all(labelled(root, label).is_open for label in "abcd")


def test_issues_that_other_pages_list_are_counted_and_fill_nothing() -> None:
    value = {"data": {"rows": [{"a": 1, "b": 2}] * 40}, "other": {"deep": {"deeper": {"deepest": 1}}}}
    every = [issue(f"/data/rows/{row}/a") for row in range(40)] + [issue("/other/deep/deeper/deepest")]
    root = tree(value, spots_of(every[:2]), counted=spots_of(every))
    alone = tree(value, spots_of(every[:2]))
    assert labelled(root, "data").found_below == 40
    assert labelled(alone, "data").found_below == 2
    assert labelled(root, "other").found_below == 1
    assert [(node.label, node.is_open) for node in nodes(root)] == [(node.label, node.is_open) for node in nodes(alone)]
    marks = [(len(node.issues), node.found_unmarked) for node in nodes(root) if node.label == "a"]
    assert marks[:4] == [(1, 0), (1, 0), (0, 1), (0, 1)]


def test_an_issue_of_the_whole_document_stands_at_the_root() -> None:
    assert len(tree({"a": 1}, spots_of([issue("")])).issues) == 1


def test_a_missing_field_stands_in_its_parent() -> None:
    root = tree({"handoff": {"meta": {"x": 1}}}, spots_of([issue("/handoff/meta/token_count")]))
    last = labelled(root, "meta").children[-1]
    assert isinstance(last, Missing)
    assert (last.label, last.anchor) == ("token_count", "at-/handoff/meta/token_count")


def test_what_is_missing_with_its_parent_stands_in_the_nearest_one_there_is() -> None:
    root = tree({"handoff": {}}, spots_of([issue("/handoff/meta/token_count")]))
    (missing,) = labelled(root, "handoff").children
    assert isinstance(missing, Missing)
    assert missing.label == "meta"
    assert [found.pointer for found in missing.issues] == ["/handoff/meta/token_count"]


@pytest.mark.parametrize("value", ["text", 5, None, [], {}])
def test_an_issue_below_a_value_that_has_no_fields_is_shown_there(value: Any) -> None:
    root = tree({"handoff": value}, spots_of([issue("/handoff/meta")]))
    steps_shown = [step.of for step in steps(root)]
    assert any(isinstance(each, Missing) and each.label == "meta" for each in steps_shown)


def test_keys_with_slashes_and_tildes_are_found() -> None:
    assert parts_of("/a~1b/c~0d") == ["a/b", "c~d"]
    root = tree({"a/b": {"c~d": 1}}, spots_of([issue("/a~1b/c~0d")]))
    assert len(labelled(root, "c~d").issues) == 1


def test_a_key_that_the_verdict_had_to_clean_is_found() -> None:
    root = tree({"n\0ul": 1, "k" * 500: 2}, spots_of([issue("/n\ufffdul"), issue("/" + "k" * 199 + "…")]))
    assert [len(node.issues) for node in nodes(root)] == [1, 1]


def test_long_lists_and_objects_are_cut_and_the_rest_has_an_address() -> None:
    root = tree({"list": list(range(500)), "object": {f"k{number}": 1 for number in range(500)}})
    listed, held = labelled(root, "list"), labelled(root, "object")
    assert listed.children[-1] == Gap("0", ENTRIES_SHOWN, 500 - ENTRIES_SHOWN)
    assert held.children[-1] == Gap("1", FIELDS_SHOWN, 500 - FIELDS_SHOWN)


def test_an_issue_far_down_a_list_is_shown_between_two_gaps() -> None:
    root = tree({"list": list(range(500))}, spots_of([issue("/list/300")]))
    gaps = [child for child in labelled(root, "list").children if isinstance(child, Gap)]
    assert gaps == [Gap("0", ENTRIES_SHOWN, 300 - ENTRIES_SHOWN), Gap("0", 301, 199)]


def test_every_entry_can_be_reached_by_the_addresses_of_gaps() -> None:
    value = {"list": list(range(157))}
    seen: list[str] = []
    part = labelled(tree(value), "list")
    while True:
        seen += [child.text for child in part.children if isinstance(child, Node)]
        gaps = [child for child in part.children if isinstance(child, Gap)]
        if not gaps:
            break
        part = tree(value, path=gaps[0].path, start=gaps[0].start, end=gaps[0].end)
    assert seen == [str(number) for number in range(157)]


def test_a_gap_leads_to_what_it_left_out_and_to_nothing_else() -> None:
    value = list(range(50))
    gap = tree(value, spots_of([issue("/30")])).children[ENTRIES_SHOWN]
    assert isinstance(gap, Gap)
    filled = tree(value, path=gap.path, start=gap.start, end=gap.end)
    assert [node.text for node in nodes(filled)] == [str(number) for number in range(ENTRIES_SHOWN, 30)]


def test_the_bounds_hold_whatever_the_shape() -> None:
    wide = {f"k{number}": {f"j{other}": list(range(50)) for other in range(50)} for number in range(50)}
    root = tree(wide, bounds=Bounds(nodes=100))
    assert len(nodes(root)) <= 100
    texts = tree([["x" * 10_000] * 30] * 10, bounds=Bounds(nodes=200, weight=2_000))
    assert sum(len(node.text) for node in nodes(texts)) < 10_000


def test_a_long_text_is_cut_and_read_on_in_pieces() -> None:
    value = {"text": "x" * (TEXT_PIECE + 10)}
    node = labelled(tree(value), "text")
    assert (len(node.text), node.cut) == (TEXT_SHOWN + 1, TEXT_PIECE + 10 - TEXT_SHOWN)
    piece, following, length = text_piece(value, "0", 0)
    assert (len(piece), following, length) == (TEXT_PIECE, TEXT_PIECE, TEXT_PIECE + 10)
    assert text_piece(value, "0", following) == ("x" * 10, 0, TEXT_PIECE + 10)


def test_documents_at_the_nesting_limit_are_walked() -> None:
    value: Any = "end"
    for _ in range(64):
        value = {"a": [value]} if isinstance(value, dict) else {"a": value}
    assert list(steps(tree(value)))


@pytest.mark.parametrize("path", ["9", "0.0.0", "x", "-1", "0..1", "\u0661", "99999999999", "0.5"])
def test_an_address_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(PartNotFoundError):
        tree({"a": [1, 2]}, path=path)


def test_the_text_of_what_is_no_text_is_refused() -> None:
    with pytest.raises(PartNotFoundError):
        text_piece({"a": 1}, "0", 0)


def test_a_part_is_named_as_people_read_it() -> None:
    assert place_of({"data": [{"x y": 1}]}, "0.0.0") == 'data[0]["x y"]'


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("nul\0", "nul⟨U+0000⟩"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("lone\ud800", "lone⟨U+D800⟩"),
        ("bell\x07", "bell⟨U+0007⟩"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("👩‍👩‍👧 שלום", "👩‍👩‍👧 שלום"),
    ],
)
def test_what_would_hide_or_turn_text_is_shown(sent: str, shown: str) -> None:
    assert labelled(tree({"a": sent}), "a").text == shown


def test_an_anchor_has_no_white_space_and_is_never_long() -> None:
    assert anchor("/a b/\n") == "at-/a%20b/%0A"
    assert anchor("/" + "k" * 1000) == ""


def test_a_document_of_a_megabyte_takes_time_in_proportion() -> None:
    def document(rows: int) -> dict[str, object]:
        return {
            "rows": [{"id": number, "text": "x" * 60} for number in range(rows)],
            "k": {str(n): n for n in range(2 * rows)},
        }

    def showing(rows: int) -> Callable[[], object]:
        value = document(rows)
        found = spots_of([issue(f"/rows/{number}/text") for number in range(0, rows, rows // 30)])
        return lambda: list(steps(tree(value, found)))

    assert len(json.dumps(document(10_000))) > 1_000_000
    assert grows_linearly(showing, 625)
