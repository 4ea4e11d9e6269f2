"""Tests of the commands of docker-compose.yml, run without containers against PostgreSQL and Redis."""

import json
import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml

from tests import warm
from tests.running.conftest import clean_environment, free_port, run, wait_for

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def environment(
    postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Yield the environment of the containers, with a database of its own."""
    name = f"handoffaudit_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        folder = tmp_path_factory.mktemp("full")
        yield clean_environment(
            DATABASE_URL=urlsplit(postgres_url)._replace(path=f"/{name}").geturl(),
            REDIS_URL=redis_url,
            HANDOFFAUDIT_SECRET_KEY="a secret of the tests, long enough to be taken for one",
            HANDOFFAUDIT_DATA=str(folder),
            HANDOFFAUDIT_STATIC=str(folder / "static"),
            HANDOFFAUDIT_PUBLIC_URL="http://localhost:8000",
            HANDOFFAUDIT_ALLOWED_HOSTS="localhost,127.0.0.1",
            HANDOFFAUDIT_BEHIND_PROXY="true",
            HANDOFFAUDIT_CLAIM_SECONDS="3",
            HANDOFFAUDIT_SWEEP_SECONDS="1",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def command(service: str, **changed: str) -> list[str]:
    """Return the module of a service's command, and the arguments of the command."""
    words = [changed.get(word, word) for word in SERVICES[service]["command"]]
    return words[2:] if words[:2] == ["python", "-m"] else words


class Full:
    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.port = free_port()
        self.address = f"http://localhost:{self.port}"
        self.processes: list[warm.AnyProcess] = []

    def start(self, service: str, **changed: str) -> None:
        module, *arguments = command(service, **changed)
        with (Path(self.environment["HANDOFFAUDIT_DATA"]) / "processes.log").open("ab") as log:
            streams = {"stdout": log, "stderr": log}
            process = warm.start(module, *arguments, **streams, env=self.environment, new_group=True)
        self.processes.append(process)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise


@pytest.fixture(scope="module")
def full(environment: dict[str, str]) -> Iterator[Full]:
    module, *arguments = command("prepare")
    prepared = warm.run(*arguments, module=module, env=environment)
    assert prepared.returncode == 0, prepared.stderr
    assert "one-time link: http://localhost:8000/welcome/" in prepared.stdout
    full = Full(environment)
    try:
        full.start("web", **{"8000": str(full.port), "0.0.0.0": "127.0.0.1"})  # noqa: S104 -- replaced
        full.start("worker")
        wait_for(lambda: answers(f"http://127.0.0.1:{full.port}/readyz"))
        yield full
    finally:
        full.stop()


def answers(address: str) -> bool:
    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        return False


# By day, the tests of `resilience` kill a worker of an installation with PostgreSQL and Redis.
@pytest.mark.nightly
def test_an_import_over_http_is_judged_while_a_worker_is_killed(full: Full, tmp_path: Path) -> None:
    full.start("worker")
    key = run("key", "create", "tests", folder=tmp_path, **full.environment).stdout.strip()
    lines = tmp_path / "lines.jsonl"
    document = {
        "source_agent_id": "a",
        "target_agent_id": "b",
        "call_chain": ["a"],
        "handoff_type": "message",
        "data": {},
    }
    lines.write_text(
        "".join(json.dumps({"document": document | {"handoff_id": f"f-{at}"}}) + "\n" for at in range(2000))
    )
    sent = run("import", str(lines), "--json", "--url", f"http://127.0.0.1:{full.port}", "--key", key, folder=tmp_path)
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["taken"] == 2000
    victim = full.processes.pop()
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    again = run("import", str(lines), "--json", "--url", f"http://127.0.0.1:{full.port}", "--key", key, folder=tmp_path)
    assert json.loads(again.stdout)["already_there"] == 2000
    with psycopg.connect(full.environment["DATABASE_URL"], autocommit=True) as database:
        waiting = "SELECT count(*) FROM handoffs_handoff WHERE state IN ('received', 'validating')"
        wait_for(lambda: database.execute(waiting).fetchone() == (0,))
        assert database.execute("SELECT count(*), count(DISTINCT handoff_id) FROM handoffs_verdict").fetchone() == (
            2000,
            2000,
        )


def passes(service: str, words: list[str], full: Full) -> bool:
    """Run the health check as often as the service may fail it in a row before it counts as unhealthy."""
    return any(is_healthy(words, full) for _ in range(SERVICES[service]["healthcheck"]["retries"]))


def is_healthy(words: list[str], full: Full) -> bool:
    if words[0] == "celery":
        return warm.run(*words[1:], module="celery", env=full.environment).returncode == 0
    return subprocess.run(words, env=full.environment, check=False).returncode == 0


def test_the_health_checks_pass(full: Full) -> None:
    web = [
        word.replace("localhost:8000", f"127.0.0.1:{full.port}") for word in SERVICES["web"]["healthcheck"]["test"][1:]
    ]
    assert passes("web", [sys.executable, *web[1:]], full)
    host = subprocess.run(["hostname"], capture_output=True, text=True, check=True).stdout.strip()
    words = SERVICES["worker"]["healthcheck"]["test"][1].replace("$$HOSTNAME", host)
    assert passes("worker", shlex.split(words), full)


def test_secrets_have_no_default_and_every_service_is_checked() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert "${HANDOFFAUDIT_SECRET_KEY:?" in text
    assert "${POSTGRES_PASSWORD:?" in text
    assert [name for name, service in SERVICES.items() if "healthcheck" not in service] == ["prepare"]


def test_what_is_set_of_the_model_reaches_its_worker() -> None:
    asker = SERVICES["asker"]
    assert "${HANDOFFAUDIT_MODEL_CONCURRENCY:-32}" in asker["command"]
    # No value: compose takes it from where it is started, and leaves it out where it is not set there.
    given = [name for name, value in asker["environment"].items() if value is None]
    assert {"ANTHROPIC_BASE_URL", "HANDOFFAUDIT_MODEL_CONCURRENCY", "HANDOFFAUDIT_MODEL_DAILY_USD"} <= set(given)


def test_the_image_runs_as_nobody_special() -> None:
    last_stage = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert "\nUSER handoffaudit\n" in last_stage
    assert "\nHEALTHCHECK " in last_stage
