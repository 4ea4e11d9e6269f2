"""Tests of the drawing of chains that are long, that loop, and that are hostile."""

from collections.abc import Callable
from functools import partial
from xml.etree import ElementTree as ET

import pytest

from handoffaudit.drawing.chain import Chain, draw_chain
from handoffaudit.drawing.svg import Drawing
from tests.elapsed import grows_linearly

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "&lt;b&gt;",
    "]]>",
    "nul\x00bell\x07escape\x1b",
    "lone\ud800surrogate",
    "not a character\ufffe\uffff",
    "\u202ereversed\u2066isolated",
    "שלום עולם",
    "👩‍👩‍👧‍👧 family",
    "e" + "\u0301" * 5000,
    "x" * 1_000_000,
    "",
]


def parsed(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg)  # noqa: S314 - our own


def with_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def agents(number: int) -> tuple[str, ...]:
    return tuple(f"agent_{position}" for position in range(number))


def test_agents_stand_in_order_and_the_target_apart() -> None:
    root = parsed(draw_chain(Chain(("planner", "researcher"), "writer")))
    names = [element.text for element in with_class(root, "chain-name")]
    assert names == ["planner", "researcher", "writer"]
    lefts = [float(rectangle.get("x", "")) for rectangle in root.iter(f"{SVG}rect")]
    assert lefts == sorted(lefts)
    assert lefts[2] - lefts[1] > lefts[1] - lefts[0]
    assert len(with_class(root, "chain-target")) == 1


def test_a_loop_is_an_arc_from_the_target_to_its_earlier_place() -> None:
    drawing = draw_chain(Chain(("planner", "researcher", "coder"), "researcher", loop=(1,)))
    root = parsed(drawing)
    assert len(with_class(root, "chain-loop")) == 1
    marked = [
        element.find(f"{SVG}title").text
        for element in with_class(root, "chain-node")
        if "is-loop" in element.get("class", "")
    ]  # type: ignore[union-attr]
    assert marked == ["2. researcher, the target"]
    assert "The target is already in the chain, at position 2." in drawing.text


def test_a_loop_over_several_rows_is_drawn_too() -> None:
    narrow = draw_chain(Chain(agents(8), "agent_1", loop=(1,)), width=340)
    assert len(with_class(parsed(narrow), "chain-loop")) == 1


def test_without_a_loop_there_is_no_arc() -> None:
    assert not with_class(parsed(draw_chain(Chain(("a", "b"), "c"))), "chain-loop")


def test_the_part_past_the_approval_length_is_marked() -> None:
    drawing = draw_chain(Chain(agents(7), "writer", over_from=5))
    root = parsed(drawing)
    over = [element for element in with_class(root, "chain-node") if "is-over" in element.get("class", "")]
    assert len(over) == 2
    assert "limit 5" in texts(root)
    assert "From position 6 on, the chain is past the approval length." in drawing.text


def test_ten_agents_are_not_folded_and_eleven_are() -> None:
    assert not with_class(parsed(draw_chain(Chain(agents(10), "writer"))), "chain-fold")
    folds = with_class(parsed(draw_chain(Chain(agents(11), "writer"))), "chain-fold")
    assert len(folds) == 1


def test_a_fold_opens_by_a_link_and_without_it_all_are_drawn() -> None:
    folded = parsed(draw_chain(Chain(agents(40), "writer"), href="?chain=full#chain"))
    (link,) = folded.iter(f"{SVG}a")
    assert link.get("href") == "?chain=full#chain"
    assert link.get("aria-label") == "Show 32 more agents"
    # Links inside an image can't be reached by those who don't see it.
    assert folded.get("role") == "group"
    whole = parsed(draw_chain(Chain(agents(40), "writer"), is_folded=False))
    assert len(with_class(whole, "chain-node")) == 40
    assert whole.get("role") == "img"


def test_what_broke_a_rule_is_never_folded_away() -> None:
    root = parsed(draw_chain(Chain(agents(60), "agent_30", loop=(30,), over_from=20)))
    titles = [element.text for element in root.iter(f"{SVG}title")]
    assert "31. agent_30, the target, past the approval length" in titles
    assert any(title and title.startswith("21. agent_20") for title in titles)
    assert len(with_class(root, "chain-loop")) == 1


def test_a_target_that_is_everywhere_is_bounded() -> None:
    root = parsed(draw_chain(Chain(("a",) * 200, "a", loop=tuple(range(200)))))
    assert len(with_class(root, "chain-node")) < 15
    assert len(with_class(root, "chain-loop")) <= 3


def test_both_chains_are_drawn_where_they_differ() -> None:
    facts = {
        "declared": ["other", "coder"],
        "derived": ["planner", "coder"],
        "derived_complete": True,
        "shown": ["other", "coder"],
        "target": "tester",
        "loop": [],
        "over_from": None,
        "repeats": 0,
    }
    drawing = draw_chain(Chain.of_verdict(facts))
    root = parsed(drawing)
    assert "Declared by the sender" in texts(root)
    assert "Derived by the server" in texts(root)
    assert len([element for element in with_class(root, "chain-node") if "is-differs" in element.get("class", "")]) == 1
    assert drawing.text == (
        "Declared by the sender: 1. other 2. coder → target tester.",
        "Derived by the server: 1. planner 2. coder → target tester.",
    )


@pytest.mark.parametrize("derived", [None, ["planner", "coder"]])
def test_one_chain_is_drawn_where_they_agree(derived: list[str] | None) -> None:
    facts = {
        "declared": ["planner", "coder"],
        "derived": derived,
        "derived_complete": True,
        "shown": ["planner", "coder"],
        "target": "tester",
        "loop": [],
        "over_from": None,
    }
    assert Chain.of_verdict(facts).other is None


def test_a_known_end_of_the_declared_chain_is_no_difference() -> None:
    facts = {
        "declared": ["planner", "coder", "critic"],
        "derived": ["coder", "critic"],
        "derived_complete": False,
        "shown": ["planner", "coder", "critic"],
        "target": "tester",
        "loop": [],
        "over_from": None,
    }
    assert Chain.of_verdict(facts).other is None


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:20]))
@pytest.mark.parametrize("standalone", [True, False])
def test_hostile_names_stay_text(name: str, standalone: bool) -> None:
    drawing = draw_chain(Chain((name, "coder"), name, loop=(0,)), standalone=standalone, href="/x")
    root = parsed(drawing)
    elements = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert elements <= {"svg", "title", "desc", "g", "rect", "text", "path", "a"}
    attributes = {attribute for element in root.iter() for attribute in element.attrib}
    assert not any(attribute.startswith("on") or attribute == "style" for attribute in attributes)
    assert len(drawing.svg) < 20_000
    assert all(len(sentence) < 2000 for sentence in drawing.text)
    assert not set(drawing.svg) & {"\x00", "\x07", "\x1b", "\u202e", "\u2066", "\ufffe", "\uffff"}
    drawing.svg.encode()
    "".join(drawing.text).encode()


def test_the_whole_name_stands_in_the_tooltip_of_a_shortened_one() -> None:
    name = "researcher_of_the_very_long_name_of_team_seven"
    root = parsed(draw_chain(Chain((name,), "writer")))
    assert f"1. {name}" in [element.text for element in root.iter(f"{SVG}title")]
    shown = with_class(root, "chain-name")[0].text or ""
    assert "…" in shown
    assert shown.startswith("researcher")
    assert shown.endswith("seven")


def test_an_address_of_another_kind_is_no_link() -> None:
    root = parsed(draw_chain(Chain(agents(20), "writer"), href="javascript:alert(1)"))
    assert not list(root.iter(f"{SVG}a"))


def test_an_image_of_its_own_has_its_name_and_no_link() -> None:
    root = parsed(draw_chain(Chain(agents(20), "writer"), href="?chain=full", standalone=True))
    assert root.get("role") == "img"
    assert not list(root.iter(f"{SVG}a"))
    assert root.find(f"{SVG}title").text == "Chain of 20 agents, with the target writer"  # type: ignore[union-attr]
    assert "1. agent_0 2. agent_1" in (root.find(f"{SVG}desc").text or "")  # type: ignore[union-attr]
    assert root.get("width") == "960"


def test_ids_begin_with_the_prefix_and_are_unique() -> None:
    root = parsed(draw_chain(Chain(("a", "b", "a"), "a", loop=(0, 2)), prefix="left"))
    ids = [element.get("id", "") for element in root.iter() if element.get("id")]
    assert all(identifier.startswith("left-") for identifier in ids)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("shown", [Chain((), "writer"), Chain((), ""), Chain(("coder",), "coder", loop=(0,))])
def test_small_chains_are_drawn(shown: Chain) -> None:
    root = parsed(draw_chain(shown))
    assert len(with_class(root, "chain-target")) == 1
    assert float(root.get("height", "0")) > 0


@pytest.mark.parametrize("width", [200, 340, 800])
def test_everything_stands_inside_the_drawing(width: int) -> None:
    root = parsed(draw_chain(Chain(tuple("x" * 30 for _ in range(9)), "y" * 30, over_from=5), width=width))
    for rectangle in root.iter(f"{SVG}rect"):
        assert float(rectangle.get("x", "")) >= 0
        assert float(rectangle.get("x", "")) + float(rectangle.get("width", "")) <= width
        assert float(rectangle.get("y", "")) + float(rectangle.get("height", "")) <= float(root.get("height", ""))


def test_the_same_chain_gives_the_same_drawing() -> None:
    shown = Chain(agents(30), "agent_3", loop=(3,), over_from=5)
    assert draw_chain(shown) == draw_chain(shown)


def test_hundreds_of_agents_are_drawn_in_time_in_proportion() -> None:
    def drawing(count: int) -> Callable[[], object]:
        return partial(draw_chain, Chain(agents(count), "agent_3", loop=(3,), over_from=5), is_folded=False)

    assert grows_linearly(drawing, 50)
