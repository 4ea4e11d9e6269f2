"""Tests of the pages and the API of a product that was started with one command."""

import socket

import httpx

from tests.pages import links
from tests.running.conftest import Up, run

PAYLOAD = {
    "handoff_id": "h-1",
    "source_agent_id": "researcher",
    "target_agent_id": "writer",
    "tenant_id": "default",
    "call_chain": ["researcher"],
    "handoff_type": "status_update",
    "data": {"summary": "Three suppliers deliver within a week."},
    "timestamp": "2026-02-15T00:15:00Z",
}


def test_the_start_page_leads_to_the_sign_in_page_with_its_styles(running: Up) -> None:
    with httpx.Client(base_url=running.address, follow_redirects=True, timeout=60) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        assert "/sign-in/" in str(page.url)
        style = browser.get(links(page, "link[rel=stylesheet]")[0])
        assert style.status_code == 200
        assert "immutable" in style.headers["cache-control"]


def test_the_one_time_link_opens(running: Up) -> None:
    assert running.link
    page = httpx.get(running.link, timeout=60)
    assert page.status_code == 200
    assert "password" in page.text


def test_a_submission_is_judged(client: httpx.Client) -> None:
    answer = client.post("/api/v1/handoffs", json=PAYLOAD, headers={"Prefer": "wait=10"})
    assert answer.status_code == 200
    assert answer.json()["state"] == "accepted"


def test_a_sender_of_a_body_that_is_too_large_reads_why(client: httpx.Client, running: Up) -> None:
    """The sender reads no answer before it has sent everything, as many do."""
    size = 20_000_000
    lines = [
        "POST /v1/traces HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {client.headers['Authorization']}",
        "Content-Type: application/x-protobuf",
        f"Content-Length: {size}",
    ]
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as sender:
        sender.sendall("\r\n".join([*lines, "", ""]).encode())
        for _ in range(size // 100_000):
            sender.sendall(bytes(100_000))
        assert sender.recv(100).startswith(b"HTTP/1.1 413 ")


def test_it_is_alive_and_ready(running: Up) -> None:
    assert httpx.get(f"{running.address}/healthz", timeout=60).status_code == 200
    assert httpx.get(f"{running.address}/readyz", timeout=60).json()["status"] == "ok"


def test_a_name_that_is_not_its_own_is_refused(running: Up) -> None:
    assert httpx.get(f"{running.address}/sign-in/", headers={"Host": "evil.example"}, timeout=60).status_code == 400


def test_an_import_beside_it_is_judged_by_its_worker(client: httpx.Client, running: Up) -> None:
    line = '{"document": {"handoff_id": "imported-1", "source_agent_id": "a", "target_agent_id": "a"}}'
    done = run("import", "-", folder=running.folder, text=line)
    assert done.returncode == 0, done.stderr
    shown = client.get("/api/v1/handoffs/imported-1", headers={"Prefer": "wait=10"}).json()
    assert shown["state"] == "rejected"


def test_a_second_start_on_the_same_folder_is_refused(running: Up) -> None:
    done = run("up", "--port", "1", folder=running.folder)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"already runs on the data folder {running.folder}" in done.stderr
    assert running.address in done.stderr
    assert "--data" in done.stderr


def test_a_taken_port_is_refused(running: Up, tmp_path_factory) -> None:
    done = run("up", "--port", str(running.port), folder=tmp_path_factory.mktemp("other"))
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: Port {running.port} on 127.0.0.1 is taken by another program:"
        " choose another with --port, or stop that program.\n"
    )
