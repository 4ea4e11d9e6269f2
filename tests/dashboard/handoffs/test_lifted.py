"""Tests of documents of an older version and of file reports: findings are marked in the judged document."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import State
from tests.dashboard.handoff_page import Page, address, opened, store, universal

TEMPORARY = "/tmp/plan.md"  # noqa: S108
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@pytest.fixture
def browser(client: Client, viewer: Person) -> Client:
    client.force_login(viewer)
    return client


def older(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads((EXAMPLES / "universal-2.0.json").read_bytes())
    document["handoff"] |= changes
    return document


def report(**content: Any) -> dict[str, Any]:
    whole: dict[str, Any] = orjson.loads((EXAMPLES / "handoff-file-report.json").read_bytes())
    handed = {"status": "complete", "artifacts": [], "next": "review", "summary": "Done.", **content}
    del whole["response_text"]
    return {**whole, "file": {"exists": True, "content": handed}}


def link_to(page: Page, place: str) -> None:
    """Check that the verdict links to the place, and that the tree contains it."""
    assert f"#at-/{place}" in page.links()
    assert f"at-/{place}" in page.ids


def test_an_older_version_is_shown_as_it_was_lifted(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, older(target={"skill": "researcher"}), adapt=True)
    page = opened(browser, handoff)
    assert "A document of an older version arrived. This is the converted document" in page.text("document")
    assert "schema_type" in page.text("document")
    link_to(page, "handoff/target/skill")
    assert "hands over to itself" in page.text("at-/handoff/target/skill")
    raw = opened(browser, handoff, "?view=raw")
    assert "schema_type" not in raw.text("document")
    assert "lifted" not in raw.text("document")


def test_one_that_breaks_the_rules_of_its_version_is_marked_as_it_arrived(browser: Client, tenant: Tenant) -> None:
    broken = older()
    del broken["handoff"]["source"]
    page = opened(browser, store(tenant, broken, adapt=True))
    assert "arrived. This is" not in page.text("document")
    assert page.text("at-/handoff/source").startswith("source missing source is missing.")


def test_one_that_breaks_the_rules_of_the_new_version_is_marked_as_it_was_lifted(
    browser: Client, tenant: Tenant
) -> None:
    broken = older()
    broken["handoff"]["context"]["summary"] = "word " * 200
    page = opened(browser, store(tenant, broken, adapt=True))
    assert "schema_type" in page.text("document")
    link_to(page, "handoff/context/summary")


def test_what_was_not_lifted_is_shown_as_it_arrived(browser: Client, tenant: Tenant) -> None:
    for document, beside in ((universal(), {}), (older(), {"adapt": False})):
        assert "arrived. This is" not in opened(browser, store(tenant, document, **beside)).text("document")


def test_of_a_report_the_object_of_the_file_is_shown(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, report(artifacts=[TEMPORARY], summary="word " * 3000))
    page = opened(browser, handoff)
    assert "A report of a handoff file arrived." in page.text("document")
    assert "expected_path" not in page.text("document")
    link_to(page, "artifacts/0")
    assert "expected_path" in opened(browser, handoff, "?view=raw").text("document")


def test_parts_are_those_of_what_is_shown(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, report(artifacts=[TEMPORARY], summary="word " * 3000))
    page = opened(browser, handoff)
    (more,) = [link for link in page.links() if "part/?" in link]
    position = re.search(r"path=([0-9.]+)", more)
    assert position is not None
    shown = browser.get(address(handoff, f"part/?of=&path={position[1]}"), headers={"HX-Request": "true"})
    assert shown.content.decode().startswith("word word")
    entries = browser.get(address(handoff, "part/?of=&path=1"), headers={"HX-Request": "true"}).content.decode()
    assert TEMPORARY in entries
    # A note marks nothing in the document.
    assert "is under a temporary folder" not in entries


def test_a_report_that_cannot_be_used_is_marked_itself(browser: Client, tenant: Tenant) -> None:
    broken = report()
    del broken["file"]["content"]["next"]
    page = opened(browser, store(tenant, broken))
    assert "arrived. This is" not in page.text("document")
    link_to(page, "file/content/next")


@pytest.mark.parametrize("file", [{"exists": False}, {"exists": True, "content": "{not json"}])
def test_a_report_without_an_object_has_a_page(browser: Client, tenant: Tenant, file: dict[str, Any]) -> None:
    page = opened(browser, store(tenant, {**report(), "file": file}))
    assert "Rejected" in page.text("verdict-title")
    assert "expected_path" in page.text("document")


def test_what_is_about_the_report_alone_is_told_without_a_place(browser: Client, tenant: Tenant) -> None:
    block = "---HANDOFF---\nSTATUS: complete\nARTIFACTS: plan.md\nNEXT: none\nSUMMARY: Done."
    handoff = store(tenant, {**report(), "file": {"exists": False}, "response_text": block})
    assert handoff.codes == ["files.text_fallback"]
    page = opened(browser, handoff)
    assert "A report of a handoff file arrived." in page.text("document")
    assert "file files.text_fallback" in page.text("issue-1")
    assert "#at-/file" not in page.links()
    assert "missing" not in page.text("document")


def test_a_reviewer_sees_what_was_judged(client: Client, reviewer: Person, tenant: Tenant) -> None:
    client.force_login(reviewer)
    skills = [f"agent-{number}" for number in range(7)]
    handoff = store(tenant, older(meta={"handoff_chain": [*skills, "researcher"]}), adapt=True)
    assert handoff.state == State.HELD, handoff.codes
    page = Page(client.get(f"/t/acme/review/{handoff.pk}/").content.decode())
    assert "A document of an older version arrived." in page.html
    assert f"{address(handoff)}?view=raw#document" in page.links()
    assert "schema_type" in page.html
