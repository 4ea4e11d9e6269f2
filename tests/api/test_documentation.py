"""Tests that the requests shown in the documentation work as they are written."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from tests.api.support import make_key, submitted
from tests.handoffs.hooks.support import worker
from tests.handoffs.support import NOT_JSON, circular, held, payload

pytestmark = pytest.mark.django_db
DOCS = Path(__file__).parents[2] / "docs"
NEEDS_ADAPT = "universal-2.0"
EXAMPLES = sorted(path.stem for path in (DOCS / "examples").glob("*.json"))


def of_the_tests(text: str) -> Any:
    """Return the JSON body with the tenant of the tests in place of the documented tenant."""
    return json.loads(text.replace('"tenant_id": "default"', '"tenant_id": "acme"'))


def sent_in(page: str) -> list[Any]:
    """Return the bodies of a page's commands and the indented submissions on the page."""
    text = (DOCS / page).read_text()
    bodies = re.findall(r"-d '(\{.*?\})'", text, re.DOTALL)
    bodies += re.findall(r"^    (\{\n.*?^    \})$", text, re.DOTALL | re.MULTILINE)
    return [of_the_tests(body) for body in bodies]


@pytest.mark.parametrize(("page", "number"), [("guide-developer.md", 2), ("submit.md", 1)])
def test_what_a_page_shows_is_accepted_without_a_doubt(page: str, number: int, api: httpx.Client) -> None:
    bodies = sent_in(page)
    assert len(bodies) == number
    for body in bodies:
        answer = api.post("/validate", json=body).json()
        found = [issue["code"] for issue in answer["issues"] if issue["code"] != "semantic.unavailable"]
        assert (answer["outcome"], found) == ("accepted", [])


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_can_be_sent_as_it_is(name: str, api: httpx.Client) -> None:
    document = of_the_tests((DOCS / "examples" / f"{name}.json").read_text())
    shown = api.get(f"/handoffs/{submitted(api, document)}").json()
    assert shown["state"] == ("rejected" if name == NEEDS_ADAPT else "accepted")
    if name == NEEDS_ADAPT:
        assert api.post("/validate", json={"document": document, "adapt": True}).json()["outcome"] == "accepted"


@pytest.mark.django_db(transaction=True)
def test_the_guides_python_hears_of_whatever_is_answered(tenant: Tenant, live_server: Any) -> None:
    text = (DOCS / "guide-developer.md").read_text()
    names: dict[str, Any] = {}
    code = re.search(r"^    import json\n.*?(?=^\S)", text, re.DOTALL | re.MULTILINE)[0]
    exec(textwrap.dedent(code), names)  # noqa: S102 -- our own
    key = make_key(tenant, "ingest")

    def hand_over(document: Any, **beside: Any) -> Any:
        return names["hand_over"](document, key, live_server.url, **beside)

    with worker():
        accepted, waits = hand_over(payload(handoff_id="h"), trace_id="run-7"), hand_over(held())
        rejected, unreadable = hand_over(circular()), hand_over(NOT_JSON.decode())
    assert [one["state"] for one in (accepted, waits, rejected, unreadable)] == [
        *("accepted", "held", "rejected", "rejected"),
    ]
    assert waits["verdict"]["valid"]
    for answer, code in ((rejected, "chain.circular"), (unreadable, "structure.wrong_type")):
        assert code in [issue["code"] for issue in names["issues_of"](answer)]
    with pytest.raises(RuntimeError, match="The id is taken"):
        hand_over(payload(handoff_id="h", data={"summary": "Other."}))
    with pytest.raises(RuntimeError, match="Another tenant"):
        hand_over(payload(tenant_id="globex"))
