import errno
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from handoffaudit.cli import Stop, up
from handoffaudit.cli.serve.processes import end_on_signals, list_stop_signals, start_process


def test_the_names_follow_the_host():
    assert up.allowed_hosts("127.0.0.1") == ["localhost", "127.0.0.1", "[::1]"]
    assert up.allowed_hosts("audit.example.com")[-1] == "audit.example.com"
    assert up.allowed_hosts("192.0.2.7")[-1] == "192.0.2.7"
    assert up.allowed_hosts("2001:db8::7")[-1] == "[2001:db8::7]"
    everywhere = up.allowed_hosts("0.0.0.0")  # noqa: S104
    assert socket.gethostname() in everywhere
    assert "*" not in everywhere


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("::", "[::1]"),
        ("::1", "[::1]"),
        ("localhost", "localhost"),
    ],
)
def test_the_address_that_is_shown_can_be_opened(host, shown):
    assert up.browser_host(host) == shown


def test_only_one_start_has_the_folder(tmp_path):
    taken = pytest.raises(Stop, match=r"already runs on the data folder .* \(process \d+, http://127.0.0.1:8000\)")
    with up.hold_folder(tmp_path, "http://127.0.0.1:8000"), taken, up.hold_folder(tmp_path, "http://127.0.0.1:9000"):
        pass
    with up.hold_folder(tmp_path, "http://127.0.0.1:9000"):
        pass


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", fail)
    full = re.escape(f"The data folder can't be written (No space left on device: {tmp_path}): make room on its disk.")
    with pytest.raises(Stop, match=full), up.hold_folder(tmp_path, "http://127.0.0.1:8000"):
        pass


def test_a_port_that_gets_free_in_time_is_taken(monkeypatch):
    monkeypatch.setattr(up, "PORT_PATIENCE_SECONDS", 0.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Stop, match="is taken by another program"):
            up.check_port("127.0.0.1", port)
    up.check_port("127.0.0.1", port)


@pytest.mark.parametrize(("of_the_shell", "stops"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
def test_the_end_of_a_session_stops_it_only_without_nohup(of_the_shell, stops):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    supervisor = up.Supervisor([], tell=print)
    try:
        signal.signal(signal.SIGHUP, of_the_shell)
        up.obey_signals(supervisor)
        assert (signal.SIGHUP in list_stop_signals()) is stops
        os.kill(os.getpid(), signal.SIGHUP)
        assert supervisor.stopping is stops
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_child_does_not_lose_a_signal_that_comes_before_it_is_ready():
    def run() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        end_on_signals()

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    child = multiprocessing.get_context("fork").Process(target=run)
    try:
        start_process(child)
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.signal(signal.SIGTERM, before)
    child.join()
    assert child.exitcode == -signal.SIGTERM


def test_only_checkpoints_of_a_child_reach_the_standard_output():
    code = """
from django.conf import settings
from handoffaudit.cli.serve.processes import silence_output
from handoffaudit.trust.checkpoints import _write_to
silence_output()
print("noise", flush=True)
_write_to("-", b"{}\\n")
"""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "handoffaudit.settings"}
    setup = "import django; django.setup()\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "{}\n"
