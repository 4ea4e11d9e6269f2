"""Trial of many machines: links are cut and processes are killed one after another, and no handoff is lost or doubled.

Two web nodes, three workers, a PgBouncer, a primary with a streaming replica and a Redis server each have a network
namespace. Senders submit through both web nodes, and repeat each handoff with the same id until it is acknowledged.
"""

import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import httpx
import psycopg
import pytest
import redis

from tests.endurance.load import submission
from tests.endurance.network import Network, Node, missing_network
from tests.endurance.servers import OwnPostgres, find_programs, run_bouncer
from tests.endurance.test_many_machines import ADD_PERSON, sign_in
from tests.resilience.processes import Installation, OwnRedis, eventually, kill
from tests.resilience.state import assert_all_are_judged_once

pytestmark = [pytest.mark.nightly, pytest.mark.services]

# Longer than the lease of a worker (2 s) and than every timeout of a connection.
CUT_SECONDS = 8.0
RECOVERY_SECONDS = 20.0
BATCH = 300
# docs/postgresql.md tells operators to set these.
OF_POSTGRESQL = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2 -c tcp_user_timeout=6000"
    " -c wal_keep_size=256MB"
)
OF_PGBOUNCER = (
    "tcp_keepidle = 5\ntcp_keepintvl = 2\ntcp_keepcnt = 2\ntcp_user_timeout = 6000\n"
    "query_wait_timeout = 4\nserver_connect_timeout = 3\nserver_login_retry = 1\nidle_transaction_timeout = 10\n"
)


class Senders:
    """Threads that submit handoffs through both web nodes, each until it is acknowledged."""

    def __init__(self, urls: list[str], key: str, number: int = 4) -> None:
        self._urls = urls
        # Each request opens a connection, as those of many senders do.
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(10, connect=2),
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(at,), daemon=True) for at in range(number)]
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.unexplained: list[str] = []
        self.slowest = 0.0

    def __enter__(self) -> "Senders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(100)
        self._client.close()

    def _send(self, turn: int) -> None:
        while not self._stopped.is_set():
            self._submit_until_acknowledged(turn, [submission(str(uuid.uuid4()))])
            time.sleep(0.1)

    def send_batch(self) -> None:
        """Submit many handoffs at once, so that each worker has some."""
        self._submit_until_acknowledged(0, [submission(str(uuid.uuid4())) for _ in range(BATCH)])

    def _submit_until_acknowledged(self, turn: int, documents: list[dict[str, object]]) -> None:
        ids = {str(one["document"]["handoff_id"]) for one in documents}  # type: ignore[index]
        end = time.monotonic() + 90
        while time.monotonic() < end:
            turn += 1
            if self._submit(self._urls[turn % len(self._urls)], documents):
                with self._lock:
                    self.acknowledged |= ids
                return
            time.sleep(0.2)
        self.unexplained.append(f"not acknowledged within 90 s: {len(ids)} handoffs")

    def _submit(self, url: str, documents: list[dict[str, object]]) -> bool:
        began = time.monotonic()
        path, body = ("handoffs", documents[0]) if len(documents) == 1 else ("handoffs/batch", documents)
        try:
            answer = self._client.post(f"{url}/api/v1/{path}", json=body)
        except httpx.TransportError as error:
            with self._lock:
                self.answers[type(error).__name__] += 1
            return False
        with self._lock:
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.answers[str(answer.status_code)] += 1
            if not answer.is_success and (answer.status_code == 500 or "retry-after" not in answer.headers):
                self.unexplained.append(f"{answer.status_code} {answer.text[:300]}")
        if len(documents) > 1 and answer.is_success:
            return set(answer.json()["totals"]) <= {"200", "202"}
        return answer.is_success


class Machines:
    """The nodes of the trial and what runs on them."""

    def __init__(self, folder: Path, programs: Path, resources: ExitStack) -> None:
        self.network = Network()
        resources.callback(self.network.remove)
        names = ("primary", "replica", "redis", "bouncer", "web1", "web2", "worker1", "worker2", "worker3")
        self.nodes: dict[str, Node] = {name: self.network.add(name) for name in names}
        at = self.nodes
        self.primary = OwnPostgres(programs, at["primary"].address, at["primary"].within, OF_POSTGRESQL)
        resources.callback(self.primary.remove)
        self.primary.start()
        self.replica = self.primary.replicate(at["replica"].address, at["replica"].within)
        resources.callback(self.replica.remove)
        self.redis = OwnRedis(at["redis"].address, at["redis"].within)
        resources.callback(self.redis.stop)
        self.redis.start()
        bouncer = at["bouncer"]
        bouncer_url = resources.enter_context(
            run_bouncer(self.primary, pool=20, address=bouncer.address, within=bouncer.within, options=OF_PGBOUNCER)
        )
        self.installation = Installation(folder / "data", {"DATABASE_URL": self.primary.url})
        self.installation.environment |= {
            "DATABASE_URL": bouncer_url,
            "DATABASE_REPLICA_URL": self.replica.url,
            "HANDOFFAUDIT_PGBOUNCER": "true",
            "REDIS_URL": f"redis://{self.redis.address}:{self.redis.port}/0",
            "HANDOFFAUDIT_ALLOWED_HOSTS": "*",
        }
        resources.callback(lambda: [kill(process) for process in self.installation.processes])
        self.installation.run(ADD_PERSON)
        self.urls: list[str] = []
        self.processes = {}
        for name in ("web1", "web2"):
            self.processes[name] = self.installation.web(at[name].address, at[name].within)
            self.urls.append(self.installation.url)
        for name in ("worker1", "worker2", "worker3"):
            self.processes[name] = self.installation.worker(at[name].within)

    def count(self, sql: str) -> int:
        with psycopg.connect(self.primary.url) as server:
            row = server.execute(sql).fetchone()  # type: ignore[call-overload]
        return int(row[0])

    def judged(self) -> int:
        return self.count("SELECT count(*) FROM handoffs_verdict")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if why := missing_network():
        if os.environ.get("HANDOFFAUDIT_TEST_SERVICES") == "required":
            pytest.fail(f"HANDOFFAUDIT_TEST_SERVICES=required, but {why}", pytrace=False)
        pytest.skip(why)
    programs = find_programs()
    if programs is None:
        pytest.fail("no PostgreSQL server is installed")
    with ExitStack() as resources:
        yield Machines(tmp_path, programs, resources)


class Trial:
    """The accidents, one after another, with what must go on during and after each of them."""

    def __init__(self, machines: Machines, senders: Senders, browsers: list[httpx.Client]) -> None:
        self.machines, self.senders, self.browsers = machines, senders, browsers
        self.seconds: dict[str, float] = {}

    def cut(self, name: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        with self.machines.network.cut(self.machines.nodes[name]):
            began = time.monotonic()
            meanwhile()
            time.sleep(max(0.0, CUT_SECONDS - (time.monotonic() - began)))
        self.recover(name)

    def recover(self, name: str) -> None:
        """Wait until handoffs are acknowledged and judged and both web nodes show pages again."""
        began = time.monotonic()
        acknowledged, judged = len(self.senders.acknowledged), self.machines.judged()
        log = self.machines.installation.log
        eventually(lambda: len(self.senders.acknowledged) > acknowledged + 20, RECOVERY_SECONDS, f"{name}: {log()}")
        eventually(lambda: self.machines.judged() > judged + 20, RECOVERY_SECONDS, f"{name}: {log()}")
        eventually(lambda: all(map(shows_pages, self.browsers)), RECOVERY_SECONDS, f"pages after {name}: {log()}")
        self.seconds[name] = round(time.monotonic() - began, 1)

    def go_on(self) -> None:
        """Handoffs are acknowledged and judged during an accident that leaves a way to the database."""
        acknowledged, judged = len(self.senders.acknowledged), self.machines.judged()
        eventually(lambda: len(self.senders.acknowledged) > acknowledged + 20, CUT_SECONDS, str(self.senders.answers))
        eventually(lambda: self.machines.judged() > judged + 20, CUT_SECONDS, self.machines.installation.log())

    def show_pages(self) -> None:
        self.go_on()
        eventually(lambda: all(map(shows_pages, self.browsers)), CUT_SECONDS, self.machines.installation.log())

    def hold_leases(self) -> None:
        """Have more handoffs wait than a worker judges in a moment, so that each worker holds leases."""
        self.senders.send_batch()
        leased = "SELECT coalesce(sum(cardinality(handoffs)), 0) FROM handoffs_judgelease WHERE expires_at > now()"
        eventually(lambda: self.machines.count(leased) > 20)

    def kill(self, name: str) -> None:
        kill(self.machines.processes[name])
        self.machines.installation.processes.remove(self.machines.processes[name])
        self.go_on()


def shows_pages(browser: httpx.Client) -> bool:
    try:
        return all(browser.get(path).status_code == 200 for path in ("/t/acme/", "/t/acme/handoffs/"))
    except httpx.TransportError:
        return False


def test_cut_links_and_killed_nodes_lose_and_double_nothing(
    machines: Machines, record_property: Callable[[str, object], None]
) -> None:
    with ExitStack() as opened:
        browsers = [
            opened.enter_context(httpx.Client(base_url=url, follow_redirects=True, timeout=10)) for url in machines.urls
        ]
        for browser in browsers:
            sign_in(browser)
        with Senders(machines.urls, machines.installation.key) as senders:
            trial = Trial(machines, senders, browsers)
            trial.recover("start")
            has_netem = run_accidents(trial)
        assert senders.unexplained == []
        stored = {str(row[0]) for row in machines.installation.query("SELECT handoff_id FROM handoffs_handoff")}
        assert stored == senders.acknowledged
        eventually(lambda: machines.installation.waiting() == 0, 60, machines.installation.log())
        assert_all_are_judged_once(machines.installation, len(stored))
        with redis.Redis(machines.redis.address, machines.redis.port) as broker:
            eventually(lambda: broker.llen("structural") == 0, 60)
        assert all(map(shows_pages, browsers))
        # A transaction that stays open would stop the replica from replaying what removes rows it might still read.
        with psycopg.connect(machines.replica.url, autocommit=True) as server:
            counted = "SELECT count(*) FROM handoffs_handoff"
            eventually(lambda: server.execute(counted).fetchone() == (len(stored),), 30)
    for name, value in (
        ("handoffs", len(stored)),
        ("answers", dict(senders.answers)),
        ("slowest answer in seconds", round(senders.slowest, 1)),
        ("seconds until all went on", trial.seconds),
        ("netem", has_netem),
    ):
        record_property(name, value)


def run_accidents(trial: Trial) -> bool:
    """Cut and kill one after another. Return whether the kernel could also delay and lose packets."""
    machines = trial.machines
    installation, nodes = machines.installation, machines.nodes
    trial.cut("web1", trial.go_on)
    trial.hold_leases()
    trial.cut("worker1", trial.go_on)
    trial.cut("redis", trial.go_on)
    trial.cut("replica", trial.show_pages)
    trial.cut("primary")
    trial.cut("bouncer")
    trial.hold_leases()
    trial.kill("worker2")
    machines.processes["worker2"] = installation.worker(nodes["worker2"].within)
    trial.kill("web2")
    machines.processes["web2"] = installation.web(
        nodes["web2"].address, nodes["web2"].within, port=int(machines.urls[1].rpartition(":")[2])
    )
    trial.recover("killed processes")
    machines.primary.stop()
    machines.primary.start()
    trial.recover("restart of the primary")
    with machines.network.disturbed(list(nodes.values()), "delay", "40ms", "20ms", "loss", "3%") as has_netem:
        if has_netem:
            trial.go_on()
    return has_netem
