"""Tests of `handoffaudit mcp` with the SDK's own client over standard input and output, against the product itself."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from handoffaudit.cli.main import main
from handoffaudit.cli.mcp_api import Api, _explain
from handoffaudit.cli.mcp_tools import _judgement, create_server
from tests.client.conftest import NOWHERE
from tests.running.conftest import PRODUCT, Up, clean_environment, run

GOOD = {"summary": "Three suppliers deliver within a week."}
ARGUMENTS = {"source_agent": "researcher", "target_agent": "writer", "data": GOOD, "wait": 50}
BY_ITSELF = {**ARGUMENTS, "target_agent": "researcher"}
LONGEST_ANSWER = 16_000
DOCS = Path(__file__).parents[2] / "docs"

Work = Callable[[Client], Awaitable[None]]


@pytest.fixture(scope="module")
def key(running: Up) -> str:
    return run("key", "create", "mcp", folder=running.folder).stdout.strip()


def serve(url: str, key: str, work: Work) -> None:
    """Start the command as a host does, and give its client to `work`."""

    async def connect() -> None:
        environment = clean_environment(HANDOFFAUDIT_URL=url, HANDOFFAUDIT_KEY=key)
        host = StdioServerParameters(command=PRODUCT[0], args=[*PRODUCT[1:], "mcp"], env=environment)
        async with Client(stdio_client(host)) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(connect(), 240))


def serve_here(url: str, key: str, work: Work) -> None:
    """Give `work` a client of the same server in this process, because the command takes seconds to start."""

    apis: list[Api] = []

    def make_api(*given: str) -> Api:
        apis.append(Api(*given))
        return apis[-1]

    async def connect() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("handoffaudit.cli.mcp_tools.Api", make_api)
            server = create_server(url, key)
        async with Client(server) as client:
            await work(client)
        # The command leaves its connections to the end of the process.
        for api in apis:
            await api._http.aclose()

    asyncio.run(asyncio.wait_for(connect(), 240))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool, which is the same as text and as data."""
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    assert len(found.content[0].text) < LONGEST_ANSWER
    assert json.loads(found.content[0].text) == found.structured_content
    return dict(found.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Return the error of a tool, as the LLM reads it."""
    found = await client.call_tool(tool, arguments)
    assert found.is_error, found.content
    assert len(found.content[0].text) < LONGEST_ANSWER
    return str(found.content[0].text)


def test_a_handoff_is_checked_submitted_corrected_and_read(running: Up, key: str, client: httpx.Client) -> None:
    async def work(host: Client) -> None:
        tools = {tool.name: tool for tool in (await host.list_tools()).tools}
        assert list(tools) == ["submit_handoff", "check_handoff", "get_verdict", "list_blocked", "explain_code"]
        assert all(tool.description for tool in tools.values())
        assert "submit_handoff" in str(host.instructions)

        checked = await call(host, "check_handoff", **{name: BY_ITSELF[name] for name in BY_ITSELF if name != "wait"})
        assert (checked["state"], checked["may_start"]) == ("rejected", False)
        assert checked["findings"][0]["code"] == "chain.self_handoff"

        first = await call(host, "submit_handoff", **BY_ITSELF, handoff_id="mcp-1", trace_id="mcp-trace")
        assert (first["state"], first["may_start"], first["handoff_id"]) == ("rejected", False, "mcp-1")
        assert "retry_of" in first["why"]
        (listed,) = (await call(host, "list_blocked", trace_id="mcp-trace"))["items"]
        assert (listed["handoff_id"], listed["state"], listed["codes"]) == ("mcp-1", "rejected", ["chain.self_handoff"])
        assert listed["page"].startswith(running.address)
        explained = await call(host, "explain_code", code=listed["codes"][0])
        assert explained["title"] == "Self-handoff"
        assert explained["example_before"] != explained["example_after"]

        again = await call(host, "submit_handoff", **ARGUMENTS, retry_of="mcp-1", trace_id="mcp-trace")
        assert (again["state"], again["may_start"]) == ("accepted", True)
        assert (await call(host, "get_verdict", handoff_id=again["handoff_id"]))["may_start"]
        assert (await call(host, "get_verdict", handoff_id="mcp-1"))["state"] == "superseded"
        assert (await call(host, "list_blocked", trace_id="mcp-trace"))["items"] == []

    serve(running.address, key, work)
    stored = client.get("/api/v1/handoffs", params={"trace": "mcp-trace"}).json()["items"]
    assert [(one["target_agent_id"], one["attempt"]) for one in stored] == [("writer", 2), ("researcher", 1)]


def test_the_text_of_a_declined_handoff_advises_what_the_api_advises() -> None:
    why = _judgement({"state": "declined", "handoff_id": "h-1"}, "http://localhost").why
    assert "Do not submit the same again: correct it, and submit again with retry_of" in why


def test_a_refusal_shows_only_the_members_that_an_error_has() -> None:
    errors = [{"field": "limit", "message": "It is 0."}, {"message": None, "remedy": "Leave it out."}, {"value": 1}]
    told = _explain("http://localhost", 400, "", {"title": "A filter can't be read", "errors": errors})
    assert told.splitlines()[1:] == ["- limit: It is 0.", "- Leave it out."]
    assert "None" not in told


def test_a_held_handoff_waits_and_its_approval_is_used_once(running: Up, key: str, client: httpx.Client) -> None:
    trace, held_id = str(uuid4()), f"任务/{uuid4()}"

    def decide() -> None:
        # With a reason, the return to an agent of the declared chain is held.
        document = {"source_agent_id": "writer", "target_agent_id": "researcher", "handoff_type": "handoff"}
        document |= {"call_chain": ["researcher", "writer"], "handoff_reason": "A source is missing.", "data": GOOD}
        body = {"document": document, "trace_id": trace, "handoff_id": held_id}
        sent = client.post("/api/v1/handoffs", json=body, headers={"Prefer": "wait=50"}).json()
        assert sent["state"] == "held", sent
        stored.append(sent["id"])

    async def work(host: Client) -> None:
        await asyncio.to_thread(decide)
        (listed,) = (await call(host, "list_blocked", state="held", trace_id=trace))["items"]
        assert listed["handoff_id"] == held_id
        seen = await call(host, "get_verdict", handoff_id=held_id, start=True)
        assert (seen["state"], seen["may_start"]) == ("held", False)
        waiting = asyncio.create_task(call(host, "get_verdict", handoff_id=held_id, wait=50))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        address = f"/api/v1/handoffs/{stored[0]}/review"
        done = await asyncio.to_thread(client.post, address, json={"decision": "approve"})
        assert done.status_code == 200, done.text
        approved = await waiting
        assert (approved["state"], approved["may_start"], approved["approval"]) == ("approved", False, "valid")
        for _ in range(2):
            # A lost answer can be asked for again.
            used = await call(host, "get_verdict", handoff_id=held_id, start=True)
            assert (used["may_start"], used["approval"]) == (True, "used")
        other = await asyncio.to_thread(client.post, f"/api/v1/handoffs/{stored[0]}/use")
        assert other.status_code == 409

    stored: list[str] = []
    serve_here(running.address, key, work)


def test_wrong_arguments_are_refused_with_a_remedy(running: Up, key: str) -> None:
    async def work(host: Client) -> None:
        assert "no handoff" in (await refused(host, "get_verdict", handoff_id="nowhere/1")).lower()
        assert "404" not in await refused(host, "get_verdict", handoff_id="nowhere")
        for dots in ("..", "."):
            assert "There is no handoff" in await refused(host, "get_verdict", handoff_id=dots)
        assert "chain.self_handoff" in await refused(host, "explain_code", code="chain.selfhandoff")
        assert "held, rejected or declined" in await refused(host, "list_blocked", state="accepted")
        assert "cursor" in await refused(host, "list_blocked", cursor="wrong")
        assert "less than or equal to 50" in await refused(host, "get_verdict", handoff_id="a", wait=9_999)
        assert "at least 1 character" in await refused(host, "submit_handoff", **{**ARGUMENTS, "target_agent": ""})
        long = await refused(host, "submit_handoff", **{**ARGUMENTS, "target_agent": "x" * 201})
        assert "at most 200 characters" in long
        await call(host, "submit_handoff", **ARGUMENTS, handoff_id="mcp-same")
        other = await refused(host, "submit_handoff", **{**ARGUMENTS, "data": "Other."}, handoff_id="mcp-same")
        assert "mcp-same" in other
        large = await refused(host, "submit_handoff", **{**ARGUMENTS, "data": "x" * 2_000_000})
        assert "handoff_id of this call is" in large
        huge = await refused(host, "check_handoff", **{**ARGUMENTS, "data": "x" * 17_000_000})
        assert "send a summary" in huge

    serve_here(running.address, key, work)


def test_hostile_content_does_not_lengthen_answers(running: Up, key: str) -> None:
    deep: Any = "end"
    for _ in range(150):
        deep = [deep]
    hostile = [
        {"claims": [f"{number} suppliers deliver {number * 17} chairs" for number in range(3_000)]},
        {"a" * 9_000: {"b" * 9_000: None}},
        {"text": "\u0000 \u202e" * 500},
        deep,
        None,
        "",
    ]

    async def work(host: Client) -> None:
        for data in hostile:
            found = await call(host, "submit_handoff", **{**BY_ITSELF, "data": data})
            assert found["state"] == "rejected"
            assert len(found["findings"]) <= 10
        names = {"source_agent": "s" * 200, "target_agent": "t" * 200}
        await call(host, "submit_handoff", **ARGUMENTS | names | {"handoff_type": "y" * 200})
        await call(host, "list_blocked", limit=50)

    serve_here(running.address, key, work)


def test_a_key_that_may_not_submit_is_told_which_scope_is_missing(running: Up) -> None:
    reads = run("key", "create", "reader", "--scopes", "read", folder=running.folder).stdout.strip()
    sends = run("key", "create", "sender", "--scopes", "ingest", folder=running.folder).stdout.strip()

    async def read_only(host: Client) -> None:
        assert "ingest" in await refused(host, "submit_handoff", **ARGUMENTS)
        await call(host, "list_blocked")

    async def send_only(host: Client) -> None:
        await call(host, "submit_handoff", **ARGUMENTS)
        assert "read" in await refused(host, "list_blocked")

    async def unknown(host: Client) -> None:
        assert "handoffaudit key create" in await refused(host, "list_blocked")

    serve_here(running.address, reads, read_only)
    serve_here(running.address, sends, send_only)
    serve_here(running.address, "ha_unknown", unknown)


def test_another_tenant_sees_nothing(running: Up, key: str) -> None:
    async def submit(host: Client) -> None:
        await call(host, "submit_handoff", **BY_ITSELF, handoff_id="mcp-mine")

    async def look(host: Client) -> None:
        assert "mcp-mine" in await refused(host, "get_verdict", handoff_id="mcp-mine")
        assert (await call(host, "list_blocked"))["items"] == []

    code = "from handoffaudit.accounts.tenants import create; create(slug='other', name='Other', actor='tests')"
    made = run("manage", "shell", "-c", code, folder=running.folder)
    assert made.returncode == 0, made.stderr
    other = run("key", "create", "x", "--tenant", "other", folder=running.folder).stdout.strip()
    serve_here(running.address, key, submit)
    serve_here(running.address, other, look)


def test_without_a_server_each_tool_says_what_to_check() -> None:
    async def work(host: Client) -> None:
        for tool, arguments in (("submit_handoff", ARGUMENTS), ("list_blocked", {})):
            assert "Check HANDOFFAUDIT_URL, and that the server runs" in await refused(host, tool, **arguments)
        assert (await call(host, "explain_code", code="tokens.over_budget"))["severity"] == "error"
        assert "drop_table" in await refused(host, "drop_table")

    serve_here(NOWHERE, "ha_any", work)


def test_control_c_ends_the_command_while_the_host_is_silent() -> None:
    environment = clean_environment(HANDOFFAUDIT_URL=NOWHERE, HANDOFFAUDIT_KEY="ha_any")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*PRODUCT, "mcp"], env=environment, text=True, **pipes) as process:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "handoffaudit"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "HANDOFFAUDIT_URL"),
        ({"HANDOFFAUDIT_URL": "localhost", "HANDOFFAUDIT_KEY": "k"}, "is not the address of a server"),
        ({"HANDOFFAUDIT_URL": "http://localhost:8000"}, "HANDOFFAUDIT_KEY"),
    ],
)
def test_a_wrong_call_ends_with_one_line(environment: dict[str, str], said: str, tmp_path: Path) -> None:
    done = run("mcp", folder=tmp_path, text="", **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_the_configurations_of_the_page_start_the_command(running: Up, key: str, tmp_path: Path) -> None:
    page = (DOCS / "mcp.md").read_text()
    configurations = [json.loads(one) for one in re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)]
    assert len(configurations) == 3
    # The page Connect has the same.
    examples = DOCS / "examples" / "connect"
    configurations.append(json.loads((examples / "mcp.json").read_text()))
    command = (examples / "mcp.sh").read_text()
    line = re.search(r"^ *claude mcp add .* -- (.*)$", page, re.MULTILINE)
    assert line
    assert line[0].split() == command.replace("\\\n", " ").split()
    assert line[1] == "handoffaudit mcp"
    # What the page calls the full path is that of this environment.
    program = Path(sys.executable).parent / "handoffaudit"
    for configuration in configurations:
        host = configuration["mcpServers"]["handoffaudit"]
        assert (Path(host["command"]).name, host["args"]) == ("handoffaudit", ["mcp"])
        assert set(host["env"]) == {"HANDOFFAUDIT_URL", "HANDOFFAUDIT_KEY"}

    async def look() -> None:
        environment = {"HANDOFFAUDIT_URL": running.address, "HANDOFFAUDIT_KEY": key}
        host = StdioServerParameters(command=str(program), args=["mcp"], env=environment, cwd=tmp_path)
        async with Client(stdio_client(host)) as client:
            await call(client, "list_blocked")

    asyncio.run(asyncio.wait_for(look(), 120))


def test_without_the_sdk_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("handoffaudit.cli.mcp_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.setattr(sys, "argv", ["handoffaudit", "mcp", "--url", NOWHERE, "--key", "k"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "pip install 'handoffaudit[mcp]'" in capsys.readouterr().err
