"""The page about the client runs as it stands, and names what there is."""

import inspect
import re
from pathlib import Path

import pytest
from handoffaudit_client import Client
from handoffaudit_client.testing import FakeServer
from handoffaudit_client.verdict import OPEN, PASSES

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
README = (Path(__file__).parents[2] / "client" / "README.md").read_text()


@pytest.mark.parametrize("page", [PAGE, README], ids=["docs/client.md", "client/README.md"])
def test_the_snippets_run_one_after_the_other(
    page: str, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_URL", server.url)
    monkeypatch.setenv("HANDOFFAUDIT_KEY", server.key)
    monkeypatch.setenv("HANDOFFAUDIT_SPOOL", str(tmp_path / "spool"))
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert snippets
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, "client.md", "exec"), names)  # noqa: S102 (the page is ours)
    for name, value in list(names.items()):
        if name.startswith("test_") and callable(value):
            value(tmp_path / "of-a-test")
        if isinstance(value, Client):
            value.close()
    assert server.handoffs
    if page == PAGE:
        assert sorted(one["tool"] for results in server.tool_results.values() for one in results) == [
            *("fetch", "get_order", "search")
        ]
        assert names["stats"] == {
            "sent": names["stats"]["sent"],  # type: ignore[index]
            **dict.fromkeys(("waiting", "dropped", "refused", "failed", "adopted"), 0),
        }


def test_the_page_names_each_argument_state_and_figure() -> None:
    arguments = {*inspect.signature(Client.gate).parameters} - {"self", "source", "target"}
    words = set(re.findall(r"`([a-z_]+)[`(]", PAGE)) | set(re.findall(r"`Client\((\w+)=", PAGE))
    assert arguments - words == set()
    assert {*PASSES, *OPEN} - words == set()
    assert set(Client().stats()) - words == set()
    options = {*inspect.signature(Client).parameters} - {"url", "key", "timeout", "spool"}
    assert options - words == set()
