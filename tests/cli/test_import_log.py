"""Tests of `handoffaudit import-log`: its inputs and its messages."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from handoffaudit.accounts.models import Tenant
from handoffaudit.cli import Stop, bootstrap, documents, import_log
from handoffaudit.cli.import_log import command
from handoffaudit.diagnostics.logs import index, store, upload
from handoffaudit.diagnostics.models import LogImport
from handoffaudit.validation.logs.blocks import LONGEST_BLOCK, Block
from tests.api.support import make_key
from tests.diagnostics.logs.support import counted, gate_lines, health_line


@pytest.fixture
def acme(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """Make the command use the database of the test."""
    monkeypatch.setattr(bootstrap, "start_with_database", lambda: None)
    return tenant


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["--tenant", "acme", *arguments], catch_exceptions=False)


def test_it_says_what_the_lines_are(acme: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(gate_lines(1, 3) + b"broken\n" + health_line(1))
    done = run(str(path))
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()[1:6]] == [
        ["known", "before", "0"],
        ["new", "5"],
        ["gate", "3"],
        ["health", "1"],
        ["bad", "1"],
    ]
    (bad,) = [line for line in done.stdout.splitlines() if "line 4: " in line]
    assert bad.endswith('found "broken".')
    assert LogImport.objects.get().source == str(path)


def test_what_stands_in_a_log_does_not_steer_the_terminal(acme: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x1b[2J\x1b]0;title\x07 broken\r\xc2\x9b1m\n")
    said = CliRunner().invoke(command, ["--tenant", "acme", str(path)], color=True).stdout
    assert "title" in said
    assert not [char for char in said if char != "\n" and not char.isprintable()]


def test_a_packed_log_is_the_same_log(acme: Tenant, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.log", tmp_path / "b.gz"
    plain.write_bytes(gate_lines(1, 100))
    packed.write_bytes(gzip.compress(gate_lines(1, 120)))
    done = run("--source", "app", str(plain), str(packed), "--json")
    told = json.loads(done.stdout)
    assert (told["lines"], told["known"]) == (220, 100)
    assert [(one["source"], one["kinds"], one["bad"]) for one in told["logs"]] == [
        ("app", {"gate": 100}, 0),
        ("app", {"gate": 20}, 0),
    ]
    assert counted(acme) == {"gate": 120}


def test_standard_input_needs_a_name(acme: Tenant) -> None:
    with pytest.raises(Stop, match="--source"):
        run("-")
    done = CliRunner().invoke(command, ["--tenant", "acme", "--source", "piped", "-"], input=gate_lines(1, 4))
    assert done.exit_code == 0
    assert counted(acme) == {"gate": 4}


def test_what_came_before_the_damage_is_counted(acme: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(gate_lines(1, 100_000))[:-2000])
    with pytest.raises(Stop, match="is damaged"):
        run(str(path))
    before = counted(acme)["gate"]
    path.write_bytes(gzip.compress(gate_lines(1, 100_000)))
    run(str(path))
    assert 0 < before < 100_000
    assert counted(acme) == {"gate": 100_000}


def test_a_file_that_is_not_there_stops_it(acme: Tenant, tmp_path: Path) -> None:
    with pytest.raises(Stop, match="can't be read") as stopped:
        run(str(tmp_path / "none.log"))
    assert stopped.value.code == 2
    assert not LogImport.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_server_gets_a_log_in_parts(
    tenant: Tenant, live_server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_log, "PART_BYTES", 200_000)
    key = make_key(tenant, "ingest")
    path = tmp_path / "a.log"
    for last, known in ((20_000, 0), (20_000, 20_000), (30_000, 20_000)):
        path.write_bytes(gate_lines(1, last) + b"broken\n" * (last == 30_000))
        done = run("--url", live_server.url, "--key", key, "--source", "app", str(path), "--json")
        told = json.loads(done.stdout)
        assert (told["lines"], told["known"]) == (last + (last == 30_000), known)
    assert len(told["logs"][0]["imports"]) > 2
    index.drain()
    assert counted(tenant) == {"gate": 30_000, "bad": 1}
    last_import = LogImport.objects.get(bad=1)
    assert [line.number for line in store.list_bad_lines(last_import).items] == [30_001]


def test_a_packed_file_that_grows_beyond_the_ratio_is_refused(acme: Tenant, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x" * (documents.FREE_BYTES * 2)))
    with pytest.raises(Stop, match="more than 100 times its size"):
        run(str(path))
    plain = tmp_path / "plain.log"
    plain.write_bytes(b"x" * (documents.FREE_BYTES * 2))
    assert run(str(plain)).exit_code == 0


def test_nor_is_it_sent_to_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def post(
        _: import_log.ServerLogReceiver, path: str, body: bytes, *kind: str, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        sent.append(body)
        return 202, {"id": "1", "lines": 1, "known": 0}

    monkeypatch.setattr(import_log.ServerLogReceiver, "post", post)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress((b"x" * 99 + b"\n") * (documents.FREE_BYTES // 50)))
    arguments = ("--url", "http://127.0.0.1:9", "--key", "k", str(path))
    with pytest.raises(Stop, match="more than 100 times its size"):
        run(*arguments)
    assert len(sent) <= 2
    monkeypatch.setenv("HANDOFFAUDIT_MAX_LOG_RATIO", "2000")
    assert run(*arguments).exit_code == 0
    monkeypatch.setenv("HANDOFFAUDIT_MAX_LOG_RATIO", "many")
    with pytest.raises(Stop, match="HANDOFFAUDIT_MAX_LOG_RATIO"):
        run(*arguments)


def test_a_part_for_a_server_is_not_refused_however_alike_its_lines_are() -> None:
    assert import_log.PART_BYTES + LONGEST_BLOCK <= upload.FREE_BYTES


def test_blocks_before_an_error_are_sent_as_a_part() -> None:
    one = Block(b"one\n", ended=True, first_line=1, lines=1)

    def broken() -> Iterator[Block]:
        yield one
        raise Stop("damaged")

    found = import_log._join_blocks(broken())
    assert next(found) == [one]
    with pytest.raises(Stop, match="damaged"):
        next(found)


def test_a_part_that_is_too_large_for_a_server_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes]] = []

    def post(_: import_log.ServerLogReceiver, path: str, body: bytes, *kind: str, **headers: str) -> tuple[int, Any]:
        text = gzip.decompress(body)
        if len(text) > most:
            return 413, {}
        sent.append((path, text))
        return 202, {"id": path, "lines": text.count(b"\n"), "known": 0}

    monkeypatch.setattr(import_log.ServerLogReceiver, "post", post)
    log, most = gate_lines(1, 20_000), LONGEST_BLOCK
    arguments = ("--url", "http://127.0.0.1:9", "--key", "k", "--source", "app", "-", "--json")
    done = CliRunner().invoke(command, arguments, input=log)
    (told,) = json.loads(done.stdout)["logs"]
    assert (told["lines"], len(told["imports"]) > 1) == (20_000, True)
    assert b"".join(text for _, text in sent) == log
    firsts = [1 + log[: log.index(text)].count(b"\n") for _, text in sent]
    assert [path for path, _ in sent] == [f"/logs?source=app&first_line={first}" for first in firsts]
    most = 1
    with pytest.raises(Stop, match=r"refused the log \(413\)"):
        CliRunner().invoke(command, arguments, input=log, catch_exceptions=False)
