import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person
from handoffaudit.dashboard import gallery
from handoffaudit.dashboard.templatetags.ui import STROKED
from handoffaudit.handoffs.models import State
from tests.pages import select

SignIn = Callable[[Person], Client]
ROOT = Path(__file__).parents[2]
COMPONENTS = sorted(path.name for path in (ROOT / "templates" / "components").glob("*.html"))
DRAWINGS = ("charts.py", "chain.py", "lanes.py", "agent_map/")


@pytest.fixture
def page(sign_in: SignIn, viewer: Person) -> str:
    answer = sign_in(viewer).get("/t/acme/gallery/")
    assert answer.status_code == 200
    return answer.text


def test_each_component_stands_in_the_gallery(page: str) -> None:
    assert len(COMPONENTS) > 15
    assert [name for name in COMPONENTS if f"components/{name}" not in page] == []


def test_each_drawing_stands_in_the_gallery_with_its_words(page: str) -> None:
    assert [name for name in DRAWINGS if f"drawing/{name}" not in page] == []
    assert page.count("<summary>In words</summary>") + page.count("<summary>As a table</summary>") >= len(DRAWINGS)


def test_each_state_icon_and_token_is_shown(page: str) -> None:
    names = re.findall(r"^\s+(--[a-z0-9-]+):", gallery.sheet(), flags=re.MULTILINE)
    # Shadows and the veil behind dialogs are neither a colour to read on nor a size.
    unshown = {name for name in names if f"<code>{name}</code>" not in page}
    assert unshown <= {"--shadow", "--shadow-high", "--backdrop", "--edge"}
    assert all(f"<span>{state}</span>" in page for state in State)
    assert all(f"<span>{name}</span>" in page for name in STROKED)


def test_what_would_act_on_rows_does_nothing_here(page: str) -> None:
    disabled = {form.mem_id for form in select(page, "fieldset[disabled] form")}
    posting = [
        form for form in select(page, "form[method=post]:not(.switch, #command-form)") if form.mem_id not in disabled
    ]
    assert len(posting) == 1
    assert "sign-out" in (posting[0].attributes["action"] or "")


@pytest.mark.parametrize("colour", gallery.colours(), ids=lambda colour: colour.name)
def test_a_colour_can_be_read_on_its_grounds_in_both_themes(colour: gallery.Colour) -> None:
    assert colour.is_enough, f"{colour.name}: {colour.contrast} on {colour.on}"


@pytest.mark.parametrize(("one", "other", "told"), [("#000000", "#ffffff", 21), ("#777777", "#ffffff", 4.48)])
def test_contrast_is_that_of_wcag(one: str, other: str, told: float) -> None:
    assert gallery.ratio(one, other) == pytest.approx(told, abs=0.01)
    assert gallery.ratio(other, one) == gallery.ratio(one, other)


def test_compact_is_told_beside_comfortable() -> None:
    compact = {token.name: token.compact for token in gallery.sizes() if token.compact}
    assert compact["s4"] == "0.75rem"
    assert "s1" not in compact
