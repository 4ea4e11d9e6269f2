"""Tests of `handoffaudit report-file` and `handoffaudit watch` in processes of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from handoffaudit.cli import file_reports
from tests import warm
from tests.diagnostics.files.support import BLOCK, GOOD
from tests.running.conftest import Up, clean_environment, free_port, prepared
from tests.running.conftest import run as product_run

REPORT = ("report-file", "--agent", "planner", "--phase", "plan")
LINE = "agent=planner phase=plan source="
DEADLINE = 60


def called(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = clean_environment() | {"HANDOFFAUDIT_DATA": str(folder / "data")} | environment
    return warm.run(*arguments, cwd=folder, env=env)


def write(path: Path, content: object = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_exit_codes_say_how_the_phase_ended(tmp_path: Path) -> None:
    write(tmp_path / "handoff.json")
    write(tmp_path / "response.txt", BLOCK)
    used = called(tmp_path, *REPORT, "--path", "handoff.json", "--local")
    assert (used.returncode, used.stderr) == (0, "")
    assert used.stdout.startswith(f"{LINE}handoff_json timestamp=")
    missing = (*REPORT, "--path", "plan/handoff.json", "--local")
    failed = called(tmp_path, *missing)
    assert failed.returncode == 1
    assert failed.stdout.startswith(f"{LINE}text_fallback reason=file_missing timestamp=")
    assert 'A file of that name is at "handoff.json".' in failed.stderr
    fallback = called(tmp_path, *missing, "--response", "response.txt", "--run", "r 1", "--runtime", "claude")
    assert fallback.returncode == 0
    assert 'fallback=text_fallback_ok runtime=claude run="r 1"' in fallback.stdout
    strict = called(tmp_path, *missing, "--response", "response.txt", "--strict", "--json")
    assert (strict.returncode, json.loads(strict.stdout)["failed"]) == (1, True)


def test_no_link_is_followed_without_a_root(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret/handoff.json")
    write(tmp_path / "secret/response.txt", BLOCK)
    run = tmp_path / "run"
    (run / "plan").mkdir(parents=True)
    (run / "plan/planner").symlink_to(secret.parent)
    (run / "handoff.json").symlink_to(secret)
    report = (*REPORT, "--local", "--path")
    for folder in (tmp_path, Path("/")):
        for path in (run / "plan/planner/handoff.json", run / "handoff.json"):
            done = called(folder, *report, str(path), HANDOFFAUDIT_DATA=str(tmp_path / "data"))
            assert (done.returncode, "reason=json_parse_error" in done.stdout) == (1, True)
    response = called(tmp_path, *report, "none", "--response", "run/plan/planner/response.txt")
    assert (response.returncode, "a link on the path is followed only below --root" in response.stderr) == (2, True)
    inside = called(tmp_path, *report, str(run / "plan/planner/handoff.json"), "--root", str(tmp_path))
    assert (inside.returncode, "source=handoff_json" in inside.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--agent", "a", "--phase", "p", "--local"), "Missing option: --path."),
        (("--path", "x", "--local"), "Missing option: --agent, --phase."),
        (("--path", "x", "--agent", "a", "--phase", "p", "--local", "--response", "none"), "can't be read"),
        (("--path", "x", "--agent", "a", "--phase", "p", "--strict"), "--strict needs --local"),
        (("--path", "x", "--agent", "a" * 201, "--phase", "p", "--local"), "over the limit of 200"),
        (("--path", "x", "--agent", "a", "--phase", "p", "--url", "nonsense"), "is not the address of a server"),
        (("--flush",), "No server is named"),
    ],
)
def test_wrong_calls(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = called(tmp_path, "report-file", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_judging_here_loads_no_framework(tmp_path: Path) -> None:
    script = (
        "import sys; from handoffaudit.cli.main import command\n"
        f"sys.argv[1:] = {[*REPORT, '--path', 'x', '--local']!r}\n"
        "try: command.main(standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "print([name for name in ('django', 'celery', 'httpx', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]"


def test_into_the_local_database(tmp_path: Path) -> None:
    prepared(tmp_path / "data")
    write(tmp_path / "run-1/plan/planner/handoff.json")
    write(tmp_path / "run-1/code/coder/handoff.json", "{")
    watch = ("watch", "run-1", "--expect", "{phase}/{agent}/handoff.json", "--once", "--json")
    first, again = (called(tmp_path, *watch) for _ in range(2))
    assert (first.returncode, again.returncode) == (1, 1)
    assert "2 reported: 1 used, 0 fallback, 1 failed." in first.stderr
    ids = [sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) for done in (first, again)]
    assert ids[0] == ids[1]
    one = called(tmp_path, *REPORT, "--path", "none", "--json")
    assert json.loads(one.stdout)["policy"] == {"strict_handoff_files": False, "version": 0}


def test_nothing_is_lost_where_the_server_is_away(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    folder = prepared(tmp_path / "server")
    key = product_run("key", "create", "crew", "--scopes", "ingest,read", folder=folder).stdout.strip()
    away = {"HANDOFFAUDIT_URL": url, "HANDOFFAUDIT_KEY": key}
    write(tmp_path / "run-1/plan/planner/handoff.json")
    watch = ("watch", "run-1", "--once")
    kept = called(tmp_path, *REPORT, "--path", "none", "--run", "r1", **away)
    assert (kept.returncode, kept.stdout, kept.stderr.count("\n")) == (2, "", 1)
    assert "The report is kept in" in kept.stderr
    watched = called(tmp_path, *watch, **away)
    assert watched.stdout.startswith("agent=planner phase=plan source=handoff_json")
    assert "2 wait for the server" in watched.stderr
    assert watched.returncode == 2
    up = Up(folder, port=port).wait_ready()
    try:
        assert called(tmp_path, *watch, **away).returncode == 0
        flushed = called(tmp_path, "report-file", "--flush", **away)
        assert (flushed.returncode, flushed.stdout) == (0, "0 sent, 0 set aside, 0 waiting.\n")
        listed = httpx.get(
            f"{url}/api/v1/handoff-files", headers={"Authorization": f"Bearer {key}"}, timeout=60
        ).json()["items"]
    finally:
        up.stop()
    assert sorted((one["run_id"], one["reason"]) for one in listed) == [("r1", "file_missing"), ("run-1", None)]


def test_what_waits_with_another_key_is_sent_on_request(tmp_path: Path) -> None:
    port = free_port()
    old = {"HANDOFFAUDIT_URL": f"http://127.0.0.1:{port}", "HANDOFFAUDIT_KEY": "replaced"}
    kept = called(tmp_path, *REPORT, "--path", "none", "--run", "r1", **old)
    assert kept.returncode == 2
    flush = re.search(r"handoffaudit (report-file --flush --any-key --spool \S+) sends it", kept.stderr)
    assert flush
    folder = prepared(tmp_path / "server")
    key = product_run("key", "create", "crew", "--scopes", "ingest,read", folder=folder).stdout.strip()
    new = old | {"HANDOFFAUDIT_KEY": key}
    alone = called(tmp_path, "report-file", "--any-key", **new)
    assert (alone.returncode, "--any-key needs --flush" in alone.stderr) == (2, True)
    up = Up(folder, port=port).wait_ready()
    try:
        told = called(tmp_path, *REPORT, "--path", "none", "--run", "r2", **new).stderr
        assert f"Waiting reports made with another key: 1; handoffaudit {flush[1]} sends them." in told
        left = called(tmp_path, "report-file", "--flush", **new)
        assert "--any-key also sends the entries for this address that were kept with another key" in left.stderr
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        assert called(elsewhere, *flush[1].split(), **new).stdout == "1 sent, 0 set aside, 0 waiting.\n"
    finally:
        up.stop()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_watching_ends_with_a_summary(sign: int, tmp_path: Path) -> None:
    write(tmp_path / "run-1/plan/planner/handoff.json")
    watching = subprocess.Popen(
        [sys.executable, "-m", "handoffaudit", "watch", "run-1", "--local", "--every", "0.05"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("agent=planner phase=plan source=handoff_json")
        write(tmp_path / "run-1/plan/planner/handoff.json", "{")
        assert "reason=json_parse_error" in watching.stdout.readline()
        watching.send_signal(sign)
        _, said = watching.communicate(timeout=DEADLINE)
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 0
    assert said.endswith("2 reported: 1 used, 0 fallback, 1 failed.\n")
    assert "Traceback" not in said


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_watching_in_the_background_of_a_script_ends_with_the_same_signals(sign: int) -> None:
    looks = []

    def look(now: float) -> None:
        looks.append(now)
        assert len(looks) == 1
        signal.raise_signal(sign)

    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        file_reports._until_interrupted(SimpleNamespace(look=look), 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert looks


def test_a_response_beside_the_file_stands_in_for_it(tmp_path: Path) -> None:
    write(tmp_path / "run-1/plan/planner/handoff.json", "{")
    write(tmp_path / "run-1/plan/planner/response.txt", BLOCK)
    done = called(tmp_path, "watch", "run-1", "--once", "--local", "--response", "response.txt")
    assert (done.returncode, "fallback=text_fallback_ok" in done.stdout) == (0, True)
    os.utime(tmp_path / "run-1", (time.time(), time.time()))
    missing = called(tmp_path, "watch", "run-1", "--once", "--local", "--expected", "final.json")
    assert (missing.returncode, "reason=file_missing" in missing.stdout) == (1, True)
    assert called(tmp_path, "watch", "run-1", "--expect", "{who}/x").returncode == 2
    write(tmp_path / "run-2" / ("a" * 201) / "handoff.json")
    refused = called(tmp_path, "watch", "run-2", "--once", "--local")
    assert (refused.returncode, "0 failed; 1 refused.\n" in refused.stderr) == (2, True)
