"""Tests of the map of agents: readable with few and many agents, stable, and described in words."""

from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.drawing.agent_map import MapAgent, MapEdge, draw_agent_map
from handoffaudit.drawing.agent_map.geometry import NODE_HEIGHT, Layout, Place, Ways, lay_out
from tests.pages import only, select
from tests.scale import examples

SVG = "{http://www.w3.org/2000/svg}"
NAMES = [f"agent-{number:02}" for number in range(16)]


def crew(number: int) -> dict[tuple[str, str], int]:
    """Return routes from each agent to the next, from the others to the first, and from the last agent to itself."""
    names = NAMES[:number]
    there = {pair: 10 + place for place, pair in enumerate(pairwise(names))}
    back = {(name, names[0]): 3 for name in names[1:]}
    return there | back | {(names[-1], names[-1]): 1}


def drawn(weights: dict[tuple[str, str], int], *, across: bool = True, width: int = 960) -> ElementTree.Element:
    names = sorted({name for pair in weights for name in pair})
    edges = [MapEdge(source, target, number, 0.9) for (source, target), number in weights.items()]
    return ElementTree.fromstring(  # noqa: S314 -- our own
        draw_agent_map([MapAgent(name, 1, f"/a/{name}") for name in names], edges, across=across, width=width).svg
    )


def apart(one: Place, other: Place) -> bool:
    return one.right <= other.x or other.right <= one.x or one.bottom <= other.y or other.bottom <= one.y


def stands_well(layout: Layout) -> bool:
    places = layout.places.values()
    inside = all(
        place.x >= 0 and place.right <= layout.width and place.y >= 0 and place.bottom <= layout.height
        for place in places
    )
    return inside and all(apart(*pair) for pair in combinations(places, 2))


PAIRS = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), st.integers(1, 10_000), min_size=1, max_size=40
)


@settings(max_examples=examples(50))
@given(PAIRS, st.booleans())
def test_no_box_stands_on_another_or_outside(weights: dict[tuple[str, str], int], across: bool) -> None:
    names = sorted({name for pair in weights for name in pair})
    layout = lay_out(names, weights, 960 if across else 340, across=across)
    assert set(layout.places) == set(names)
    assert stands_well(layout)
    assert all(place.height >= NODE_HEIGHT for place in layout.places.values())


@settings(max_examples=examples(50))
@given(PAIRS, st.booleans())
def test_no_line_runs_through_a_box_or_outside(weights: dict[tuple[str, str], int], across: bool) -> None:
    layout = lay_out(
        sorted({name for pair in weights for name in pair}), weights, 960 if across else 340, across=across
    )
    ways = Ways(layout, weights)
    for edge in weights:
        for curve in ways.of(edge, 2.0).curves:
            for x, y in (curve.at(step / 20) for step in range(1, 20)):
                assert 0 <= x <= layout.width
                assert 0 <= y <= layout.height
                for place in layout.places.values():
                    assert not (place.x + 1 < x < place.right - 1 and place.y + 1 < y < place.bottom - 1), edge


def test_a_line_past_a_box_has_room_of_its_own_there() -> None:
    weights = {("a", "b"): 9, ("b", "c"): 9, ("a", "c"): 5, ("c", "a"): 2}
    layout = lay_out(["a", "b", "c"], weights, 960, across=True)
    (there,), (back,) = layout.passes["a", "c"], layout.passes["c", "a"]
    rooms = [layout.places["b"], there, back]
    assert len({room.x for room in rooms}) == 1
    assert all(apart(*pair) for pair in combinations(rooms, 2))


def test_few_handoffs_go_with_the_work_as_well() -> None:
    weights = {("researcher", "writer"): 1000, ("planner", "researcher"): 1, ("writer", "editor"): 1}
    layout = lay_out(["editor", "planner", "researcher", "writer"], weights, 960, across=True)
    assert [layout.places[name].layer for name in ("planner", "researcher", "writer", "editor")] == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [2, 8, 15])
@pytest.mark.parametrize("across", [True, False])
def test_it_is_the_same_whatever_order_edges_come_in(number: int, across: bool) -> None:
    weights = crew(number)
    backwards = dict(reversed(weights.items()))
    assert lay_out(NAMES[:number], weights, 960, across=across) == lay_out(
        NAMES[:number], backwards, 960, across=across
    )


def test_work_goes_from_left_to_right() -> None:
    weights = {("planner", "writer"): 9, ("writer", "editor"): 9, ("editor", "writer"): 2}
    layout = lay_out(["editor", "planner", "writer"], weights, 960, across=True)
    assert layout.places["planner"].x < layout.places["writer"].x < layout.places["editor"].x


def test_a_hub_has_room_for_all_its_lines() -> None:
    weights = {("hub", f"tool-{number}"): 1 for number in range(14)}
    layout = lay_out(sorted({name for pair in weights for name in pair}), weights, 960, across=True)
    assert layout.places["hub"].height > 14 * 8
    assert layout.places["tool-1"].height == NODE_HEIGHT


@pytest.mark.parametrize("across", [True, False])
def test_every_agent_and_every_edge_is_there_and_is_a_link(across: bool) -> None:
    weights = crew(9)
    svg = drawn(weights, across=across, width=960 if across else 340)
    links = svg.findall(f"{SVG}a[@class='map-agent']")
    assert {link.get("href") for link in links} == {f"/a/{name}" for name in NAMES[:9]}
    edges = [group for group in svg.iter(f"{SVG}g") if group.get("class") == "map-edge"]
    assert len(edges) == len(weights)


def test_a_line_is_wider_the_more_handoffs_there_are() -> None:
    svg = drawn({("a", "b"): 1, ("b", "c"): 100})
    widths = {}
    for group in svg.iter(f"{SVG}g"):
        if group.get("class") == "map-edge":
            line = group.find(f"{SVG}path[@class='map-line']")
            assert line is not None
            widths[group.findtext(f"{SVG}title")] = float(line.get("stroke-width", "0"))
    few, many = (width for _, width in sorted(widths.items()))
    assert few < many / 2


@pytest.mark.parametrize(
    ("share", "told"), [(None, "none judged"), (0, "0.0 %"), (0.0001, "0.1 %"), (0.9999, "99.9 %"), (1, "100.0 %")]
)
def test_a_share_is_all_or_nothing_only_where_it_is(share: float | None, told: str) -> None:
    assert MapEdge("a", "b", 1, share).share_text == told


def test_few_accepted_is_marked_without_colour() -> None:
    edges = [MapEdge("a", "b", 5, 0.5, "3 s", "/x"), MapEdge("b", "a", 5, 0.8), MapEdge("a", "a", 1, None)]
    drawing = draw_agent_map([MapAgent("a", 11), MapAgent("b", 10)], edges)
    low = only(drawing.svg, "a.map-edge.is-low")
    assert select(low, "[stroke-dasharray]")
    assert select(low, ".map-mark")
    assert drawing.svg.count("map-mark") == 1
    assert "Dashed, with a cross: 1 route with less than 80 % accepted." in drawing.text[0]
    assert drawing.rows == (
        ("a", "b", "5", "50.0 %", "3 s"),
        ("b", "a", "5", "80.0 %", "unknown"),
        ("a", "a", "1", "none judged", "unknown"),
    )


def test_names_are_escaped_and_cut() -> None:
    name = "<script>" + "x" * 300
    drawing = draw_agent_map([MapAgent(name, 1), MapAgent("b", 1)], [MapEdge(name, "b", 1, 1.0)])
    assert "<script>" not in drawing.svg
    assert ElementTree.fromstring(drawing.svg) is not None  # noqa: S314 -- our own


def test_handoffs_among_the_others_are_told_and_not_drawn_as_a_loop() -> None:
    agents = [MapAgent("a", 4), MapAgent("2 others", 3, folded=True)]
    edges = [MapEdge("a", "2 others", 2, 1.0), MapEdge("2 others", "2 others", 1, 0.0), MapEdge("a", "a", 2, 1.0)]
    drawing = draw_agent_map(agents, edges)
    lines = ElementTree.fromstring(drawing.svg).findall(f".//{SVG}path[@class='map-line']")  # noqa: S314 -- our own
    # To the others, and the one of the agent that hands to itself.
    assert len(lines) == 2
    assert "cross" not in drawing.text[0]
    assert drawing.text[0].startswith("1 agent and a box of others, 3 lines, 5 handoffs.")
    assert "Not drawn: 1 handoff between agents in the same box." in drawing.text[0]
    assert len(drawing.rows) == 3


def test_one_handoff_is_told_as_one() -> None:
    svg = draw_agent_map([MapAgent("a", 1, "/a"), MapAgent("b", 2, "/b")], [MapEdge("a", "b", 1, 1.0)]).svg
    assert "a: 1 handoff sent and received" in svg
    assert "b: 2 handoffs sent and received" in svg
