"""Tests that the requests shown in the documentation work as they are written."""

import gc
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.file_stats import GIVEN
from handoffaudit.diagnostics.group_members import MOST_WAITING
from tests.api.support import make_key, submitted
from tests.handoffs.hooks.support import worker

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


def test_what_the_page_on_submitting_shows_is_accepted_without_a_doubt(api: httpx.Client) -> None:
    [body] = sent_in("submit.md")
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


class Guide:
    """The lines for Python of the guide, in their order; what they define stays."""

    def __init__(self) -> None:
        text = (DOCS / "guide-developer.md").read_text()
        self._blocks = iter(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
        self.names: dict[str, Any] = {}

    def run(self) -> Any:
        """Run the next lines, and return the verdict."""
        exec(next(self._blocks), self.names)  # noqa: S102 -- our own
        return self.names.get("verdict")

    def found(self) -> list[str]:
        return [finding.code for finding in self.names["verdict"].findings if finding.code != "semantic.unavailable"]

    def is_over(self) -> bool:
        return next(self._blocks, None) is None


def approve_held(key: str, address: str) -> None:
    """Approve the first held handoff, as soon as it is there."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{address}/api/v1", headers=headers) as api:
        while not (items := api.get("/handoffs", params={"state": "held"}).json()["items"]):
            time.sleep(0.02)
        answer = api.post(f"/handoffs/{items[0]['id']}/review", json={"decision": "approve"})
        assert answer.status_code == 200, answer.text


# A thread of asyncio that asked the server ends without closing its connection.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.django_db(transaction=True)
def test_the_lines_of_the_guide_run(
    tenant: Tenant,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_URL", live_server.url)
    monkeypatch.setenv("HANDOFFAUDIT_KEY", make_key(tenant, "ingest", "observe", "read"))
    monkeypatch.setenv("HANDOFFAUDIT_SPOOL", str(tmp_path / "spool"))
    guide = Guide()
    with worker():
        assert guide.run().state == "accepted"
        assert guide.found() == []
        guide.run()
        assert capsys.readouterr().out.splitlines() == ["The writer may start.", "The writer starts."]
        assert guide.run().state == "accepted"
        assert guide.found() == []
        assert guide.run().state == "accepted"
        assert guide.found() == ["structure.empty_data"]
        reviewer = make_key(tenant, "read", "review", name="reviewer")
        person = threading.Thread(target=approve_held, args=(reviewer, live_server.url))
        person.start()
        waited = guide.run()
        person.join(60)
        assert waited.state == "approved"
        assert "A person decides:" in capsys.readouterr().out
        assert guide.run().state == "accepted"
        assert guide.found() == []
        assert (guide.run().state, guide.found()) == ("held", ["chain.circular_with_reason"])
        assert guide.run().state == "accepted"
        assert guide.found() == []
    guide.run()
    guide.names["test_a_rejected_handoff_stops_the_writer"](tmp_path / "tests")
    guide.names["audit"].close()
    monkeypatch.setenv("HANDOFFAUDIT_URL", "http://127.0.0.1:9")
    assert guide.run().state == "unreachable"
    assert "Try again later" in capsys.readouterr().out
    guide.names["careful"].close()
    assert guide.is_over()
    gc.collect()


def test_the_first_lines_of_the_guide_are_those_of_the_page_connect() -> None:
    text = (DOCS / "guide-developer.md").read_text()
    assert f"```python\n{(DOCS / 'examples' / 'connect' / 'python.py').read_text()}```" in text


def test_the_page_on_claude_code_has_the_settings_of_the_examples() -> None:
    settings = (DOCS / "examples" / "hooks" / "settings-command.json").read_text()
    assert f"```json\n{settings}```" in (DOCS / "connect-claude-code.md").read_text()


@pytest.mark.parametrize(
    ("schema", "field", "said"),
    [
        ("AgentsOut", "edges", "Routes with"),
        ("AgentsOut", "agents", "Agents with"),
        ("FilesOut", "by_phase_and_agent", "sorted by phase and agent"),
        ("GroupOut", "more_wait", f"the newest {MOST_WAITING:,} handoffs"),
        ("GroupOut", "regressed_at", "acknowledged"),
        ("HandoffsOut", "items", "in the order of `sort`"),
        ("ModelLineOut", "tokens_in", "without those"),
        ("NoiseOut", "codes", "overturned most often"),
        ("PreviewOut", "links", "replace `{code}`"),
        ("ReasonOut", "reason", ", ".join(GIVEN[:-1])),
        ("SuspectOut", "values", "introduced"),
    ],
)
def test_a_description_says_what_the_field_has(schema: str, field: str, said: str) -> None:
    described = json.loads((DOCS / "openapi.json").read_text())["components"]["schemas"][schema]["properties"][field]
    assert said in described["description"]
