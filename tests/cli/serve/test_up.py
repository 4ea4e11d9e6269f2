import socket

import pytest

from handoffaudit.cli import Stop, up


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


def test_a_port_that_gets_free_in_time_is_taken(monkeypatch):
    monkeypatch.setattr(up, "PORT_PATIENCE_SECONDS", 0.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Stop, match="is taken by another program"):
            up.check_port("127.0.0.1", port)
    up.check_port("127.0.0.1", port)
