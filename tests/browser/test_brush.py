"""Browser tests of ranges of the chart on Overview: dragged, and chosen by keys."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Product
from tests.browser.watching import violations

pytestmark = pytest.mark.browser


def test_a_range_of_the_chart_leads_to_its_handoffs(open_page: Callable[..., Page], product: Product) -> None:
    page = open_page("vik")
    address = f"{product.senders['default'].pages}?period=30d"
    page.goto(address)
    svg = page.locator("[data-brush] .chart--wide svg")
    expect(page.locator("[data-brush] .chart--wide a.chart-mark").first).to_be_visible()
    assert violations(page) == []
    # A live update can replace the chart between finding it and measuring it.
    box = next(filter(None, (svg.bounding_box() for _ in range(20))), None)
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 60, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, y, steps=4)
    expect(svg.locator("a.is-brushed").first).to_be_attached()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"/handoffs/\?since=.+&until="))
    page.goto(address)
    bar = svg.locator("a.column").last
    bar.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/handoffs/\?since=.+&until="))
