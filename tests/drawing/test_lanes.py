"""Tests of a trace drawn in lanes: numbered arrows, marks, folds, and the same in words."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.drawing.lanes import FOLDED_PAST, Arrow, draw_lanes, needs_fold

SVG = "{http://www.w3.org/2000/svg}"


def arrows(number: int, agents: int = 3, **changes: object) -> list[Arrow]:
    return [
        Arrow(at + 1, f"agent-{at % agents}", f"agent-{(at + 1) % agents}", "accepted", href=f"/h/{at + 1}", **changes)
        for at in range(number)
    ]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own


def classes(svg: str, name: str) -> list[ElementTree.Element]:
    return [one for one in parsed(svg).iter() if name in (one.get("class") or "").split()]


def test_every_agent_has_a_lane_and_every_handoff_a_link_with_its_name() -> None:
    svg = draw_lanes(arrows(4)).svg
    assert len(classes(svg, "lane")) == 3
    links = list(parsed(svg).iter(f"{SVG}a"))
    assert [link.get("href") for link in links] == ["/h/1", "/h/2", "/h/3", "/h/4"]
    assert links[0].get("aria-label") == "1. agent-0 → agent-1: accepted"


def test_time_goes_to_the_right_and_each_arrow_ends_on_the_lane_of_its_target() -> None:
    svg = draw_lanes([Arrow(1, "a", "b", "accepted"), Arrow(2, "b", "a", "rejected")]).svg
    first, second = (one.get("d") or "" for one in classes(svg, "lane-arrow"))
    x = [float(re.match(r"M([\d.]+)", path)[1]) for path in (first, second)]
    assert x[0] < x[1]
    ends = [float(re.search(r"V([\d.]+)", path)[1]) for path in (first, second)]
    assert ends[0] > ends[1]


def test_states_differ_by_their_shapes() -> None:
    states = ["accepted", "approved", "held", "rejected", "declined", "superseded", "received"]
    svg = draw_lanes([Arrow(at, "a", "b", state) for at, state in enumerate(states, 1)]).svg
    shapes = {tuple(part.get("d") for part in one) for one in classes(svg, "lane-state") if one.get("transform")}
    assert len(shapes) == len(states)


def test_what_is_marked_is_drawn_and_told() -> None:
    plain = draw_lanes(arrows(3))
    assert not classes(plain.svg, "lane-origin")
    assert not classes(plain.svg, "lane-tainted")
    marked = draw_lanes(
        [
            Arrow(1, "a", "b", "accepted", is_origin=True),
            Arrow(2, "b", "c", "accepted", carries=True, note="2 findings"),
            Arrow(3, "c", "a", "rejected", loops=True),
            Arrow(4, "a", "d", "held", over=True),
        ]
    )
    assert classes(marked.svg, "is-origin")
    assert classes(marked.svg, "is-tainted")
    assert classes(marked.svg, "lane-loop")
    assert classes(marked.svg, "lane-long")
    assert marked.text[1:] == (
        "1. a → b: accepted, introduces an ungrounded value.",
        "2. b → c: accepted, 2 findings, inherits an ungrounded value.",
        "3. c → a: rejected, returns to an agent that had the work.",
        "4. a → d: held, past the approval length.",
    )


def test_the_middle_of_a_long_trace_is_folded_and_opened_by_a_link() -> None:
    many = arrows(FOLDED_PAST + 30)
    assert needs_fold(len(many))
    folded = draw_lanes(many, href="?lanes=full")
    assert [one.get("href") for one in classes(folded.svg, "lane-fold")] == ["?lanes=full"]
    assert len(classes(folded.svg, "lane-step")) == 24
    whole = draw_lanes(many, is_folded=False)
    assert len(classes(whole.svg, "lane-step")) == len(many)
    assert whole.text == folded.text


def test_marked_handoffs_stay_out_of_the_fold() -> None:
    many = [*arrows(20), Arrow(21, "agent-0", "agent-1", "accepted", is_origin=True), *arrows(40)]
    assert classes(draw_lanes(many).svg, "is-origin")


def test_many_lanes_keep_their_names_apart() -> None:
    names = classes(draw_lanes(arrows(25, agents=20)).svg, "lane-name")
    heights = [float(one.get("y") or 0) for one in names]
    assert len(heights) == 20
    assert min(after - before for before, after in pairwise(heights)) >= 20


def test_a_long_name_is_cut_and_whole_in_its_title() -> None:
    name = "a-very-long-agent-name-of-somebody-who-likes-names"
    svg = draw_lanes([Arrow(1, name, "b", "accepted")]).svg
    (label,) = [one for one in classes(svg, "lane-name") if "…" in (one.text or "")]
    assert len(label.text or "") <= 24
    assert name in {one.text for one in parsed(svg).iter(f"{SVG}title")}


def test_an_image_of_its_own_has_no_links() -> None:
    svg = draw_lanes(arrows(50), href="?lanes=full", standalone=True).svg
    assert not list(parsed(svg).iter(f"{SVG}a"))
    assert parsed(svg).get("role") == "img"


@pytest.mark.parametrize("width", [330, 1040])
@settings(max_examples=25)
@given(
    st.lists(
        st.builds(
            Arrow,
            st.integers(1, 300),
            st.text(max_size=40),
            st.text(max_size=40),
            st.sampled_from(["accepted", "held", "unheard-of"]),
            st.sampled_from(["", "/x", "javascript:alert(1)"]),
            is_origin=st.booleans(),
            carries=st.booleans(),
            loops=st.booleans(),
            over=st.booleans(),
        ),
        max_size=45,
    )
)
def test_whatever_names_there_are_the_drawing_is_well_formed_and_runs_nothing(width: int, drawn: list[Arrow]) -> None:
    made = draw_lanes(drawn, width=width)
    root = parsed(made.svg)
    assert len(made.text) == len(drawn) + 1
    assert float(root.get("width") or 0) >= width
    assert all((one.get("href") or "/").startswith(("/", "?", "#lanes-")) for one in root.iter())
    assert not any(name.lower().startswith(("on", "style")) for one in root.iter() for name in one.attrib)


def test_one_handoff_is_told_as_one() -> None:
    assert parsed(draw_lanes(arrows(1)).svg).find(f"{SVG}title").text == "1 handoff between 2 agents, over time"  # type: ignore[union-attr]
