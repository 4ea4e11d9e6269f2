"""Tests of the message folder: each reader gets whole messages, and each message is read once."""

import socket
import threading
import time
from pathlib import Path
from queue import Empty

import pytest
from kombu import Connection, Queue
from kombu.exceptions import OperationalError

from handoffaudit.celery import Transport, app
from handoffaudit.env import broker_options

MESSAGES = 400
READERS = 4


@pytest.fixture
def connected(tmp_path: Path) -> Connection:
    for name in ("messages", "control"):
        (tmp_path / name).mkdir()
    folders = {"data_folder_in": str(tmp_path / "messages"), "data_folder_out": str(tmp_path / "messages")}
    options = folders | {"control_folder": str(tmp_path / "control")}
    return Connection("filesystem://localhost", transport=Transport, transport_options=options)


def test_every_message_is_read_whole_and_once(connected: Connection, tmp_path: Path) -> None:
    seen: list[int] = []
    failed: list[Exception] = []
    text = "x" * 100_000

    def read() -> None:
        with connected.clone() as own:
            channel = own.channel()
            while len(seen) < MESSAGES and not failed:
                try:
                    message = channel._get("semantic")
                except Empty:
                    continue
                except Exception as error:  # noqa: BLE001 -- whatever it is, the test tells it
                    failed.append(error)
                else:
                    seen.append(message["number"])

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    with connected.clone() as own:
        channel = own.channel()
        for number in range(MESSAGES):
            channel._put("semantic", {"number": number, "text": text})
    for reader in readers:
        reader.join(120)
    assert not failed
    assert sorted(seen) == list(range(MESSAGES))
    assert not list((tmp_path / "messages").iterdir())


def test_a_queue_is_bound_while_another_process_writes_its_file(connected: Connection, tmp_path: Path) -> None:
    half = tmp_path / "control" / "semantic.exchange"
    half.write_text("")
    threading.Timer(0.05, half.write_text, ["[]"]).start()
    with connected as own:
        Queue("semantic", channel=own.channel(), routing_key="semantic").declare()
        own.channel()._queue_bind("semantic", "semantic", "", "semantic")
    assert "semantic" in half.read_text()


def test_a_message_does_not_wait_for_a_redis_that_is_silent(tmp_path: Path) -> None:
    """The test divides the timeouts by 20. Without them, the message would wait forever."""
    given = broker_options("redis://silent", tmp_path)
    assert given["socket_timeout"] + given["socket_connect_timeout"] <= 3
    options = given | {name: given[name] / 20 for name in ("socket_timeout", "socket_connect_timeout")}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        begun = time.monotonic()
        with Connection(url, transport_options=options) as connection, pytest.raises((OSError, OperationalError)):
            app.send_task("x", connection=connection, ignore_result=True, retry=False)
    assert time.monotonic() - begun < 60
